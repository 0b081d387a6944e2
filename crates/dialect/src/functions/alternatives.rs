//! `coalesce`, which takes a literal beside arrays: `coalesce(tags, '{}')`.

use std::sync::Arc;

use arrow::datatypes::{DataType as ArrowType, FieldRef};
use datafusion::common::Result as PlanResult;
use datafusion::functions::core::coalesce::CoalesceFunc;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl, Signature,
};
use thalweg_types::DataType;

use crate::types::from_field;

/// DataFusion's own in everything but the types that it takes.
#[derive(Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Coalesce {
    inner: CoalesceFunc,
}

impl ScalarUDFImpl for Coalesce {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, arg_types: &[ArrowType]) -> PlanResult<ArrowType> {
        self.inner.return_type(arg_types)
    }

    /// JSON is text to DataFusion, which is told otherwise by one of the arguments.
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

    /// Literals, which are `Utf8` where columns of text are not, become arrays like the others.
    fn coerce_types(&self, arg_types: &[ArrowType]) -> PlanResult<Vec<ArrowType>> {
        let list = arg_types.iter().find(|given| matches!(given, ArrowType::List(_)));
        if let Some(list) = list {
            let fits = |given: &ArrowType| {
                given == list || matches!(given, ArrowType::Utf8 | ArrowType::Null)
            };
            if arg_types.iter().all(fits) {
                return Ok(vec![list.clone(); arg_types.len()]);
            }
        }
        self.inner.coerce_types(arg_types)
    }
}
