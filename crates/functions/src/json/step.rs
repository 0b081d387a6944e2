//! `->` and `->>`: the member of a key, or the item at a place.
//!
//! The functions of `datafusion-functions-json` follow paths. There a text is the place of an item
//! if the document is an array, as in `#>`. A key of these operators finds nothing in an array
//! (its `jiter_json_find`; no upstream issue found). For `jsonb`, a scalar value is the only item
//! of an array.

use std::borrow::Cow;
use std::sync::Arc;

use arrow::array::{Array, AsArray, StringViewArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType as ArrowType, FieldRef};
use datafusion::common::{Result as PlanResult, ScalarValue};
use datafusion::logical_expr::{
    ColumnarValue, ExpressionPlacement, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility,
};
use datafusion_functions_json::udfs;

use super::{json_field, nesting_checked};

pub(super) fn functions() -> Vec<Arc<ScalarUDF>> {
    vec![of_document(false), of_document(true), as_text(false), as_text(true)]
}

/// `->` of `json` or of `jsonb`.
pub(super) fn of_document(is_binary: bool) -> Arc<ScalarUDF> {
    define(if is_binary { "jsonb_step" } else { "json_step" }, is_binary, false)
}

/// `->>` of `json` or of `jsonb`.
pub(super) fn as_text(is_binary: bool) -> Arc<ScalarUDF> {
    define(if is_binary { "jsonb_step_text" } else { "json_step_text" }, is_binary, true)
}

fn define(name: &'static str, is_binary: bool, is_text: bool) -> Arc<ScalarUDF> {
    let signature = Signature::any(2, Volatility::Immutable);
    Arc::new(ScalarUDF::from(Step { name, is_binary, is_text, signature }))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Step {
    name: &'static str,
    is_binary: bool,
    is_text: bool,
    signature: Signature,
}

impl Step {
    /// The function that follows a path.
    fn path(&self) -> Arc<ScalarUDF> {
        if self.is_text { udfs::json_as_text_udf() } else { udfs::json_get_json_udf() }
    }

    /// The document in which a path finds the step.
    fn document<'t>(&self, text: &'t str, is_key: bool) -> Option<Cow<'t, str>> {
        let first = text.trim_start().bytes().next();
        match first {
            Some(b'[') if is_key => None,
            Some(b'[' | b'{') => Some(Cow::Borrowed(text)),
            _ if is_key || !self.is_binary => Some(Cow::Borrowed(text)),
            _ => Some(Cow::Owned(format!("[{text}]"))),
        }
    }

    fn documents(&self, documents: &ColumnarValue, is_key: bool) -> PlanResult<ColumnarValue> {
        let is_same = |text: &str| match self.document(text, is_key) {
            Some(document) => matches!(document, Cow::Borrowed(_)),
            None => false,
        };
        match documents {
            ColumnarValue::Scalar(value) => {
                let Some(Some(text)) = value.try_as_str() else { return Ok(documents.clone()) };
                let document = self.document(text, is_key).map(Cow::into_owned);
                Ok(ColumnarValue::Scalar(ScalarValue::Utf8View(document)))
            }
            ColumnarValue::Array(column) if *column.data_type() == ArrowType::Null => {
                Ok(documents.clone())
            }
            ColumnarValue::Array(column) => {
                let column = cast(column, &ArrowType::Utf8View)?;
                let texts = column.as_string_view();
                if texts.iter().flatten().all(is_same) {
                    return Ok(ColumnarValue::Array(column));
                }
                let changed = texts.iter().map(|text| self.document(text?, is_key));
                Ok(ColumnarValue::Array(Arc::new(changed.collect::<StringViewArray>())))
            }
        }
    }
}

impl ScalarUDFImpl for Step {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arg_types: &[ArrowType]) -> PlanResult<ArrowType> {
        // This function checks the argument types.
        self.path().return_type(arg_types)?;
        Ok(ArrowType::Utf8View)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> PlanResult<FieldRef> {
        let types: Vec<ArrowType> =
            args.arg_fields.iter().map(|field| field.data_type().clone()).collect();
        let found = self.return_type(&types)?;
        Ok(Arc::new(match self.is_text {
            true => arrow::datatypes::Field::new(self.name, found, true),
            false => json_field(self.name),
        }))
    }

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> PlanResult<ColumnarValue> {
        nesting_checked::check(&args)?;
        let is_key = !args.args[1].data_type().is_integer();
        args.args[0] = self.documents(&args.args[0], is_key)?;
        let found = self.path().inner().invoke_with_args(args)?;
        found.cast_to(&ArrowType::Utf8View, None)
    }

    fn placement(&self, args: &[ExpressionPlacement]) -> ExpressionPlacement {
        self.path().placement(args)
    }
}
