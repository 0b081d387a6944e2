//! The function around casts whose target types are distinct in SQL and equal in Arrow. The rewrite
//! that inserts it is `rewrite/casts.rs` of `thalweg-dialect`.

use std::sync::Arc;

use arrow::datatypes::{DataType as ArrowType, FieldRef};
use datafusion::common::Result as PlanResult;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};

pub(super) fn function() -> Arc<ScalarUDF> {
    let signature = Signature::any(2, Volatility::Immutable);
    Arc::new(ScalarUDF::from(CastMarker { signature }))
}

/// Returns its first argument; the second one names the target type of the cast inside.
#[derive(Debug, PartialEq, Eq, Hash)]
struct CastMarker {
    signature: Signature,
}

impl ScalarUDFImpl for CastMarker {
    fn name(&self) -> &str {
        "cast_as_told"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arg_types: &[ArrowType]) -> PlanResult<ArrowType> {
        Ok(arg_types[0].clone())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> PlanResult<FieldRef> {
        Ok(Arc::clone(&args.arg_fields[0]))
    }

    fn simplify(
        &self,
        mut args: Vec<Expr>,
        _info: &SimplifyContext,
    ) -> PlanResult<ExprSimplifyResult> {
        Ok(ExprSimplifyResult::Simplified(args.swap_remove(0)))
    }

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> PlanResult<ColumnarValue> {
        Ok(args.args.swap_remove(0))
    }
}
