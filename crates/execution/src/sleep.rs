//! `pg_sleep`. It suspends its statement without blocking a thread; a cancel ends it at once.

use std::sync::Arc;
use std::time::Duration;

use arrow::array::{AsArray, StringViewArray};
use arrow::datatypes::{DataType, Float64Type};
use async_trait::async_trait;
use datafusion::common::internal_err;
use datafusion::error::Result;
use datafusion::logical_expr::async_udf::{AsyncScalarUDF, AsyncScalarUDFImpl};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

/// The function `pg_sleep(seconds)`.
#[must_use]
pub fn function() -> Arc<ScalarUDF> {
    let signature = Signature::exact(vec![DataType::Float64], Volatility::Volatile);
    Arc::new(AsyncScalarUDF::new(Arc::new(Sleep { signature })).into_scalar_udf())
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Sleep {
    signature: Signature,
}

impl ScalarUDFImpl for Sleep {
    fn name(&self) -> &str {
        "pg_sleep"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    /// PostgreSQL's `void`, which is shown as an empty text.
    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8View)
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        internal_err!("pg_sleep can only be awaited")
    }
}

#[async_trait]
impl AsyncScalarUDFImpl for Sleep {
    async fn invoke_async_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let times = args.args[0].to_array(args.number_rows)?;
        let times: Vec<Option<f64>> = times.as_primitive::<Float64Type>().iter().collect();
        for seconds in times.iter().flatten() {
            // Negative values and NaN do not wait.
            if let Ok(time) = Duration::try_from_secs_f64(*seconds) {
                thalweg_runtime::sleep(time).await;
            }
        }
        let done = times.iter().map(|time| time.map(|_| ""));
        Ok(ColumnarValue::Array(Arc::new(done.collect::<StringViewArray>())))
    }
}
