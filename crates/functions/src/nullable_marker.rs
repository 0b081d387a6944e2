//! A value that may be missing, although its source is never NULL.

use std::sync::{Arc, LazyLock};

use arrow::datatypes::{DataType as ArrowType, FieldRef};
use datafusion::common::Result as PlanResult;
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};

/// Returns its argument, with a field that may be NULL.
pub static MAY_BE_MISSING: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
    let signature = Signature::any(1, Volatility::Immutable);
    Arc::new(ScalarUDF::from(NullableMarker { signature }))
});

pub(super) fn functions() -> Vec<Arc<ScalarUDF>> {
    vec![Arc::clone(&MAY_BE_MISSING)]
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct NullableMarker {
    signature: Signature,
}

impl ScalarUDFImpl for NullableMarker {
    fn name(&self) -> &str {
        "may_be_missing"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[ArrowType]) -> PlanResult<ArrowType> {
        Ok(types[0].clone())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> PlanResult<FieldRef> {
        Ok(Arc::new(args.arg_fields[0].as_ref().clone().with_nullable(true)))
    }

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> PlanResult<ColumnarValue> {
        Ok(args.args.swap_remove(0))
    }
}
