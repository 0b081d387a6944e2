//! The identity function, which hides from the optimizer that a domain's keys are unique.
//!
//! They are unique, but no longer once the domain is joined to other rows. DataFusion propagates
//! uniqueness through joins, and then takes groups by a key and another column for groups by the
//! key alone: it drops a DISTINCT or a GROUP BY column that is needed. It assumes nothing about a
//! function's value.

use std::sync::{Arc, LazyLock};

use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::Result;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};

/// `value` as a function call, of which DataFusion knows only the type and the nullability.
pub(super) fn binding(value: Expr) -> Expr {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> =
        LazyLock::new(|| Arc::new(ScalarUDF::from(Binding::new())));
    FUNCTION.call(vec![value])
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Binding {
    signature: Signature,
}

impl Binding {
    fn new() -> Binding {
        Binding { signature: Signature::any(1, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for Binding {
    fn name(&self) -> &str {
        "binding"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        Ok(arguments[0].clone())
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs) -> Result<FieldRef> {
        Ok(Arc::clone(&arguments.arg_fields[0]))
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [value] =
            <[ColumnarValue; 1]>::try_from(arguments.args).expect("the signature takes one");
        Ok(value)
    }
}
