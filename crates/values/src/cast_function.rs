//! `CAST` as a function of plans, for the casts whose results differ from Arrow's.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, new_empty_array};
use arrow::compute::cast;
use arrow::datatypes::{DataType as ArrowType, Field, FieldRef};
use datafusion::common::{Result as PlanResult, ScalarValue, exec_err};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};
use thalweg_types::{DataType, Error, SqlState};

use crate::cast::{Manner, convert};
use crate::errors::external;
use crate::types::{self, arrow_field};

/// One conversion: the function holds the type that it converts to.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct CastFunction {
    to: DataType,
    /// The type that the plan asks for: it may be another Arrow string type than columns have, or a
    /// type that only the catalog has.
    target: FieldRef,
    signature: Signature,
}

impl CastFunction {
    /// A cast to the type, with a result in the field's type.
    pub fn new(to: DataType, target: FieldRef) -> CastFunction {
        CastFunction { to, target, signature: Signature::any(1, Volatility::Immutable) }
    }

    /// The Arrow type of the result.
    pub fn target(&self) -> &ArrowType {
        self.target.data_type()
    }
}

impl ScalarUDFImpl for CastFunction {
    fn name(&self) -> &str {
        "postgres_cast"
    }

    fn schema_name(&self, args: &[Expr]) -> PlanResult<String> {
        match args {
            [value] => Ok(format!("CAST({} AS {})", value.schema_name(), self.to)),
            _ => exec_err!("a cast takes one value"),
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arg_types: &[ArrowType]) -> PlanResult<ArrowType> {
        Ok(self.target.data_type().clone())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> PlanResult<FieldRef> {
        let from = &args.arg_fields[0];
        // No value converts to itself: the types alone decide whether there is such a cast.
        let nothing = new_empty_array(from.data_type());
        if matches!(convert(&nothing, from, &self.to, Manner::Explicit), Ok(None)) {
            return Err(external(self.impossible(from)));
        }
        let nullable = from.is_nullable();
        let field = match self.target.metadata().is_empty() {
            true => arrow_field(self.name(), &self.to, nullable),
            false => self.target.as_ref().clone().with_name(self.name()).with_nullable(nullable),
        };
        Ok(Arc::new(field.with_data_type(self.target.data_type().clone())))
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> PlanResult<ColumnarValue> {
        let from: &Field = &args.arg_fields[0];
        let values = match &args.args[0] {
            ColumnarValue::Array(array) => array.clone(),
            ColumnarValue::Scalar(scalar) => scalar.to_array()?,
        };
        let converted = convert(&values, from, &self.to, Manner::Explicit)
            .transpose()
            .unwrap_or_else(|| Err(self.impossible(from)))
            .map_err(external)?;
        let target = self.target.data_type();
        let converted = match converted.data_type() == target {
            true => converted,
            false => cast(&converted, target)?,
        };
        match &args.args[0] {
            ColumnarValue::Array(_) => Ok(ColumnarValue::Array(converted)),
            ColumnarValue::Scalar(_) => Ok(ColumnarValue::Scalar(scalar(&converted)?)),
        }
    }
}

/// The one value of an array. DataFusion's own function loses the metadata of a list's item field.
fn scalar(array: &ArrayRef) -> PlanResult<ScalarValue> {
    match array.as_list_opt::<i32>() {
        Some(list) => Ok(ScalarValue::List(Arc::new(list.clone()))),
        None => ScalarValue::try_from_array(array, 0),
    }
}

impl CastFunction {
    fn impossible(&self, from: &Field) -> Error {
        Error::new(
            SqlState::CANNOT_COERCE,
            format!("cannot cast type {} to {}", types::display_name(from), self.to),
        )
    }
}
