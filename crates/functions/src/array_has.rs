//! `array_has`, into which `x = ANY (array)` is rewritten, for numerics of several precisions and
//! scales: DataFusion's own one refuses them.

use std::sync::Arc;

use arrow::datatypes::{DataType as ArrowType, Field};
use datafusion::common::Result as PlanResult;
use datafusion::functions_nested::array_has::array_has_udf;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::type_coercion::functions::fields_with_udf;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use thalweg_values::common_type;

pub(super) fn functions() -> Vec<Arc<ScalarUDF>> {
    let signature = Signature::user_defined(Volatility::Immutable);
    vec![Arc::new(ScalarUDF::from(ArrayHas { inner: array_has_udf(), signature }))]
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct ArrayHas {
    inner: Arc<ScalarUDF>,
    signature: Signature,
}

impl ScalarUDFImpl for ArrayHas {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arg_types: &[ArrowType]) -> PlanResult<ArrowType> {
        self.inner.return_type(arg_types)
    }

    fn coerce_types(&self, arg_types: &[ArrowType]) -> PlanResult<Vec<ArrowType>> {
        if let [ArrowType::List(item), wanted] = arg_types
            && item.data_type() != wanted
            && let Some(common) =
                common_type::of_compared(&[item.data_type().clone(), wanted.clone()])
        {
            let item = Arc::new(item.as_ref().clone().with_data_type(common.clone()));
            return Ok(vec![ArrowType::List(item), common]);
        }
        let fields = arg_types.iter().map(|given| Arc::new(Field::new("", given.clone(), true)));
        let fields = fields_with_udf(&fields.collect::<Vec<_>>(), self.inner.as_ref())?;
        Ok(fields.iter().map(|field| field.data_type().clone()).collect())
    }

    fn simplify(
        &self,
        args: Vec<Expr>,
        context: &SimplifyContext,
    ) -> PlanResult<ExprSimplifyResult> {
        self.inner.simplify(args, context)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> PlanResult<ColumnarValue> {
        self.inner.invoke_with_args(args)
    }
}
