//! Tests of functions with columns of NULLs that have no type.
//!
//! DataFusion's planner evaluates conditions with such a column in the place of others, to find out
//! whether a join may become an inner join. It converts the arguments of functions with fixed types
//! only.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use arrow::array::{ArrayRef, NullArray};
use arrow::datatypes::{DataType as ArrowType, Field};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, TypeSignature,
};

/// True for functions whose arguments are not converted.
fn takes_any(signature: &TypeSignature, count: usize) -> bool {
    match signature {
        TypeSignature::Any(arguments) => *arguments == count,
        TypeSignature::VariadicAny => true,
        TypeSignature::OneOf(several) => several.iter().any(|one| takes_any(one, count)),
        _ => false,
    }
}

/// The text of the panic of a call, if there is one.
fn panic_of(function: &ScalarUDF, count: usize) -> Option<String> {
    let field = Arc::new(Field::new("", ArrowType::Null, true));
    let fields: Vec<_> = std::iter::repeat_n(field, count).collect();
    let constants: Vec<Option<&ScalarValue>> = vec![None; count];
    let call = || {
        let arguments = ReturnFieldArgs { arg_fields: &fields, scalar_arguments: &constants };
        let Ok(return_field) = function.return_field_from_args(arguments) else { return };
        let nulls: ArrayRef = Arc::new(NullArray::new(1));
        let arguments = ScalarFunctionArgs {
            args: vec![ColumnarValue::Array(nulls); count],
            arg_fields: fields.clone(),
            number_rows: 1,
            return_field,
            config_options: Arc::default(),
        };
        // An error tells the planner that it cannot know.
        drop(function.invoke_with_args(arguments));
    };
    let panic = catch_unwind(AssertUnwindSafe(call)).err()?;
    let text = panic.downcast_ref::<String>().cloned();
    Some(text.unwrap_or_else(|| "a panic".to_owned()))
}

#[test]
fn no_function_panics() {
    let functions = super::scalar().into_iter().chain(thalweg_values::arithmetic::functions());
    let mut panics = Vec::new();
    let mut calls = 0;
    for function in functions {
        for count in 1..=4 {
            if takes_any(&function.signature().type_signature, count) {
                calls += 1;
                let panic = panic_of(&function, count);
                panics.extend(panic.map(|text| format!("{} of {count}: {text}", function.name())));
            }
        }
    }
    assert!(calls > 50, "{calls} calls");
    assert!(panics.is_empty(), "{}", panics.join("\n"));
}
