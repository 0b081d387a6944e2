//! DataFusion's functions of texts, with a check of the size of their results.

use std::sync::Arc;

use arrow::datatypes::{DataType as ArrowType, FieldRef};
use datafusion::common::Result as PlanResult;
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};

use super::bounded_output::allow_all;
use crate::errors::external;

/// The functions, each with the maximum growth of its result over its arguments.
pub(super) fn functions() -> Vec<Arc<ScalarUDF>> {
    use datafusion::functions::{string, unicode};
    [
        (string::upper(), 3),
        (string::lower(), 3),
        (unicode::initcap(), 3),
        (unicode::reverse(), 1),
        (unicode::translate(), 4),
    ]
    .into_iter()
    .map(|(inner, times)| guarded(inner, times))
    .collect()
}

/// `overlay` of text.
pub(super) fn overlay() -> Arc<ScalarUDF> {
    guarded(datafusion::functions::core::overlay(), 2)
}

fn guarded(inner: Arc<ScalarUDF>, times: usize) -> Arc<ScalarUDF> {
    Arc::new(ScalarUDF::from(SizeChecked { inner, times }))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct SizeChecked {
    inner: Arc<ScalarUDF>,
    times: usize,
}

impl ScalarUDFImpl for SizeChecked {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, arg_types: &[ArrowType]) -> PlanResult<ArrowType> {
        self.inner.return_type(arg_types)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> PlanResult<FieldRef> {
        self.inner.return_field_from_args(args)
    }

    fn coerce_types(&self, arg_types: &[ArrowType]) -> PlanResult<Vec<ArrowType>> {
        self.inner.coerce_types(arg_types)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> PlanResult<ColumnarValue> {
        for argument in &args.args {
            if let ColumnarValue::Array(column) = argument {
                allow_all(column, self.times).map_err(external)?;
            }
        }
        self.inner.invoke_with_args(args)
    }
}
