//! Parts of documents at the end of a path, of the document's type.

use std::sync::Arc;

use arrow::datatypes::{DataType as ArrowType, FieldRef};
use datafusion::common::Result as PlanResult;
use datafusion::logical_expr::{
    ColumnarValue, ExpressionPlacement, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility,
};
use datafusion_functions_json::udfs;

use super::{json_field, nesting_checked};

pub(super) fn functions() -> Vec<Arc<ScalarUDF>> {
    vec![of_document(false), of_document(true)]
}

/// The function for documents of `json`, or of `jsonb`.
pub(super) fn of_document(is_binary: bool) -> Arc<ScalarUDF> {
    let (name, alias) = match is_binary {
        true => ("jsonb_get_json", "jsonb_extract_path"),
        false => ("json_get_json", "json_extract_path"),
    };
    let signature = Signature::variadic_any(Volatility::Immutable);
    let part = Part { name, aliases: [alias.to_owned()], signature };
    Arc::new(ScalarUDF::from(part))
}

/// A function of `datafusion-functions-json` whose result field says which JSON type it is.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Part {
    name: &'static str,
    aliases: [String; 1],
    signature: Signature,
}

impl ScalarUDFImpl for Part {
    fn name(&self) -> &str {
        self.name
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arg_types: &[ArrowType]) -> PlanResult<ArrowType> {
        // This function checks the argument types.
        udfs::json_get_json_udf().return_type(arg_types)?;
        Ok(ArrowType::Utf8View)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> PlanResult<FieldRef> {
        let types: Vec<ArrowType> =
            args.arg_fields.iter().map(|field| field.data_type().clone()).collect();
        self.return_type(&types)?;
        Ok(Arc::new(json_field(self.name)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> PlanResult<ColumnarValue> {
        nesting_checked::check(&args)?;
        let found = udfs::json_get_json_udf().inner().invoke_with_args(args)?;
        found.cast_to(&ArrowType::Utf8View, None)
    }

    fn placement(&self, args: &[ExpressionPlacement]) -> ExpressionPlacement {
        udfs::json_get_json_udf().placement(args)
    }
}
