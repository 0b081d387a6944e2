//! The guard of scalar subqueries: several rows are an error.

use std::sync::{Arc, LazyLock};

use arrow::compute::max;
use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::Result;
use datafusion::common::cast::as_int64_array;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};
use thalweg_types::{Error, SqlState};
use thalweg_values::errors::external;

/// `value`, or error 21000 on the first row whose `rows` is greater than 1.
///
/// The error is raised where the value is used, so that a `CASE` which never asks for the
/// subquery's value never fails on it.
pub(super) fn single_row(value: Expr, rows: Expr) -> Expr {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> =
        LazyLock::new(|| Arc::new(ScalarUDF::from(SingleRow::new())));
    FUNCTION.call(vec![value, rows])
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct SingleRow {
    signature: Signature,
}

impl SingleRow {
    fn new() -> SingleRow {
        SingleRow { signature: Signature::any(2, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for SingleRow {
    fn name(&self) -> &str {
        "single_row"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        Ok(arguments[0].clone())
    }

    // The result keeps the metadata of the value's field, such as that its texts are JSON.
    fn return_field_from_args(&self, arguments: ReturnFieldArgs) -> Result<FieldRef> {
        let value = arguments.arg_fields[0].as_ref().clone();
        Ok(Arc::new(value.with_name(self.name()).with_nullable(true)))
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [value, rows] = <[ColumnarValue; 2]>::try_from(arguments.args)
            .expect("the signature takes two arguments");
        let rows = rows.into_array(arguments.number_rows)?;
        let most: Option<i64> = max(as_int64_array(&rows)?);
        if most.is_some_and(|rows| rows > 1) {
            return Err(external(Error::new(
                SqlState::CARDINALITY_VIOLATION,
                "more than one row returned by a subquery used as an expression",
            )));
        }
        Ok(value)
    }
}
