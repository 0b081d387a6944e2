//! Functions that return one of their arguments: `coalesce`, `greatest`, `least` and `nullif`.

use std::hash::Hash;
use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::compute::{cast, kernels::cmp, nullif};
use arrow::datatypes::{DataType as ArrowType, FieldRef};
use datafusion::common::{Result as PlanResult, exec_err};
use datafusion::functions::core::coalesce::CoalesceFunc;
use datafusion::functions::core::greatest::GreatestFunc;
use datafusion::functions::core::least::LeastFunc;
use datafusion::functions::core::nullif::NullIfFunc;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::type_coercion::binary::{comparison_coercion, type_union_resolution};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};
use thalweg_types::DataType;
use thalweg_values::common_type::{self, type_beside};
use thalweg_values::types::from_field;

pub(super) fn functions() -> Vec<Arc<ScalarUDF>> {
    vec![
        Arc::new(ScalarUDF::from(Alternatives::<CoalesceFunc>::default())),
        Arc::new(ScalarUDF::from(Alternatives::<GreatestFunc>::default())),
        Arc::new(ScalarUDF::from(Alternatives::<LeastFunc>::default())),
        Arc::new(ScalarUDF::from(NullIf::default())),
    ]
}

/// DataFusion's own function with more argument types: literals among values of another type, as in
/// `coalesce(tags, '{}')` and `coalesce(day, 'today')`, numbers among floating point numbers, and
/// days among moments.
#[derive(Debug, Default, PartialEq, Eq, Hash)]
struct Alternatives<F> {
    inner: F,
}

impl<F: ScalarUDFImpl + Eq + Hash> ScalarUDFImpl for Alternatives<F> {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, arg_types: &[ArrowType]) -> PlanResult<ArrowType> {
        self.inner.return_type(arg_types)
    }

    /// JSON is text to DataFusion. If one of the arguments is JSON, the result is, too.
    fn return_field_from_args(&self, args: ReturnFieldArgs) -> PlanResult<FieldRef> {
        let is_json =
            |field: &&FieldRef| matches!(from_field(field), Ok(DataType::Json | DataType::Jsonb));
        let json = args.arg_fields.iter().find(is_json).cloned();
        let field = self.inner.return_field_from_args(args)?;
        let json = json.filter(|json| json.data_type() == field.data_type());
        Ok(match json {
            Some(json) => Arc::new(field.as_ref().clone().with_metadata(json.metadata().clone())),
            None => field,
        })
    }

    fn simplify(&self, args: Vec<Expr>, info: &SimplifyContext) -> PlanResult<ExprSimplifyResult> {
        self.inner.simplify(args, info)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> PlanResult<ColumnarValue> {
        self.inner.invoke_with_args(args)
    }

    fn conditional_arguments<'a>(
        &self,
        args: &'a [Expr],
    ) -> Option<(Vec<&'a Expr>, Vec<&'a Expr>)> {
        self.inner.conditional_arguments(args)
    }

    fn short_circuits(&self) -> bool {
        self.inner.short_circuits()
    }

    /// Converts literals, which are `Utf8` unlike text columns, to the type of the other arguments.
    fn coerce_types(&self, arg_types: &[ArrowType]) -> PlanResult<Vec<ArrowType>> {
        let known: Vec<ArrowType> =
            arg_types.iter().filter(|given| **given != ArrowType::Utf8).cloned().collect();
        let common = common_type::chosen(&known).or_else(|| common_type::of_moments(&known));
        if let Some(common) = common {
            return Ok(vec![common; arg_types.len()]);
        }
        let list = arg_types.iter().find(|given| matches!(given, ArrowType::List(_)));
        if let Some(list) = list {
            let fits = |given: &ArrowType| {
                given == list || matches!(given, ArrowType::Utf8 | ArrowType::Null)
            };
            if arg_types.iter().all(fits) {
                return Ok(vec![list.clone(); arg_types.len()]);
            }
        }
        if known.len() < arg_types.len()
            && let Some(common) = type_beside(&known)
        {
            return Ok(vec![common; arg_types.len()]);
        }
        self.inner.coerce_types(arg_types)
    }
}

/// `nullif`: returns its first argument, converted if the comparison needs a common number type.
#[derive(Debug, PartialEq, Eq, Hash)]
struct NullIf {
    signature: Signature,
    same: NullIfFunc,
}

impl Default for NullIf {
    fn default() -> NullIf {
        let signature = Signature::user_defined(Volatility::Immutable);
        NullIf { signature, same: NullIfFunc::default() }
    }
}

impl ScalarUDFImpl for NullIf {
    fn name(&self) -> &str {
        "nullif"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arg_types: &[ArrowType]) -> PlanResult<ArrowType> {
        match arg_types {
            [first, _] => Ok(first.clone()),
            _ => exec_err!("nullif takes two arguments"),
        }
    }

    /// The result keeps the metadata of the first argument's field, such as that its texts are
    /// JSON.
    fn return_field_from_args(&self, args: ReturnFieldArgs) -> PlanResult<FieldRef> {
        match args.arg_fields {
            [first, _] => {
                Ok(Arc::new(first.as_ref().clone().with_name(self.name()).with_nullable(true)))
            }
            _ => exec_err!("nullif takes two arguments"),
        }
    }

    fn coerce_types(&self, arg_types: &[ArrowType]) -> PlanResult<Vec<ArrowType>> {
        let [first, second] = arg_types else { return exec_err!("nullif takes two arguments") };
        if first.is_numeric() && second.is_numeric() {
            return Ok(vec![type_kept(first, second), second.clone()]);
        }
        match comparison_coercion(first, second) {
            Some(common) => Ok(vec![common.clone(), common]),
            None => exec_err!("nullif cannot compare {first} and {second}"),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> PlanResult<ColumnarValue> {
        let types: Vec<ArrowType> = args.args.iter().map(ColumnarValue::data_type).collect();
        let [first, second] = types.as_slice() else {
            return exec_err!("nullif takes two arguments");
        };
        if first == second {
            return self.same.invoke_with_args(args);
        }
        let common = common_type::of_numbers(&types);
        let Some(common) = common.map(|chosen| common_type::compared(&types).unwrap_or(chosen))
        else {
            return exec_err!("nullif cannot compare {first} and {second}");
        };
        let columns = args
            .args
            .into_iter()
            .map(|argument| argument.into_array(args.number_rows))
            .collect::<PlanResult<Vec<ArrayRef>>>()?;
        let equal = cmp::eq(&cast(&columns[0], &common)?, &cast(&columns[1], &common)?)?;
        Ok(ColumnarValue::Array(nullif(&columns[0], &equal)?))
    }
}

/// The type that the first of two numbers has once the operator for both of them is found.
fn type_kept(first: &ArrowType, second: &ArrowType) -> ArrowType {
    let (is_float, wins) = (first.is_floating(), second.is_floating());
    match (first, second) {
        _ if is_float => first.clone(),
        _ if wins => ArrowType::Float64,
        (integer, decimal) if integer.is_integer() && decimal.is_decimal() => {
            type_union_resolution(&[first.clone(), second.clone()]).unwrap_or(first.clone())
        }
        _ => first.clone(),
    }
}
