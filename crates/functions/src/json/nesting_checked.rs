//! Functions of `datafusion-functions-json` for values that they can walk.
//!
//! They give NULL where a value nests deeper than their reader goes
//! ([its limit](https://docs.rs/jiter) is 200 levels). Such values are refused here instead.

use std::sync::Arc;

use arrow::array::{Array, AsArray};
use arrow::datatypes::DataType as ArrowType;
use datafusion::common::Result as PlanResult;
use datafusion::logical_expr::{
    ColumnarValue, ExpressionPlacement, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};
use thalweg_formats::text::json_depth;
use thalweg_types::Result;
use thalweg_values::errors::external;

use super::too_deep;

/// Maximum nesting of values, a little below what the functions can take.
const DEPTH_MAX: usize = 190;

/// Minimum size of a level: its opening and its closing mark.
const LEVEL_BYTES_MIN: usize = 2;

/// Wraps a function so that it refuses values that nest too deeply.
pub(super) fn of(function: ScalarUDF) -> Arc<ScalarUDF> {
    Arc::new(ScalarUDF::from(NestingChecked { function }))
}

/// Checks a function's first argument.
///
/// # Errors
/// `54001` where a value is too deep.
pub(super) fn check(args: &ScalarFunctionArgs) -> PlanResult<()> {
    let checked = match args.args.first() {
        Some(ColumnarValue::Scalar(value)) => {
            value.try_as_str().flatten().map_or(Ok(()), check_text)
        }
        Some(ColumnarValue::Array(column)) => match column.data_type() {
            ArrowType::Utf8View => check_all(column.as_string_view().iter()),
            ArrowType::Utf8 => check_all(column.as_string::<i32>().iter()),
            ArrowType::LargeUtf8 => check_all(column.as_string::<i64>().iter()),
            _ => Ok(()),
        },
        None => Ok(()),
    };
    checked.map_err(external)
}

fn check_all<'t>(texts: impl Iterator<Item = Option<&'t str>>) -> Result<()> {
    texts.flatten().try_for_each(check_text)
}

fn check_text(text: &str) -> Result<()> {
    // A short text cannot nest too deeply, so it is not scanned twice.
    match text.len() > DEPTH_MAX * LEVEL_BYTES_MIN && json_depth(text) > DEPTH_MAX {
        true => Err(too_deep(DEPTH_MAX)),
        false => Ok(()),
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct NestingChecked {
    function: ScalarUDF,
}

impl ScalarUDFImpl for NestingChecked {
    fn name(&self) -> &str {
        self.function.name()
    }

    fn aliases(&self) -> &[String] {
        self.function.aliases()
    }

    fn signature(&self) -> &Signature {
        self.function.signature()
    }

    fn return_type(&self, arg_types: &[ArrowType]) -> PlanResult<ArrowType> {
        self.function.return_type(arg_types)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> PlanResult<ColumnarValue> {
        check(&args)?;
        self.function.inner().invoke_with_args(args)
    }

    fn placement(&self, args: &[ExpressionPlacement]) -> ExpressionPlacement {
        self.function.placement(args)
    }
}
