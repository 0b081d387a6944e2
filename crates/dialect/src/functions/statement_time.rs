//! `now()` and its sisters: all of them the time at which the statement began, in microseconds as
//! columns have it.

use std::sync::Arc;

use arrow::datatypes::{DataType as ArrowType, TimeUnit};
use datafusion::common::{Result as PlanResult, ScalarValue, exec_err};
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};

/// Becomes a literal when the statement is planned.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct StatementTime {
    signature: Signature,
    aliases: Vec<String>,
}

impl Default for StatementTime {
    fn default() -> StatementTime {
        StatementTime {
            signature: Signature::nullary(Volatility::Stable),
            aliases: ALIASES.map(str::to_string).to_vec(),
        }
    }
}

const ALIASES: [&str; 4] = ["now", "current_timestamp", "transaction_timestamp", "clock_timestamp"];

fn timestamptz() -> ArrowType {
    ArrowType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()))
}

impl ScalarUDFImpl for StatementTime {
    fn name(&self) -> &str {
        "statement_timestamp"
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arg_types: &[ArrowType]) -> PlanResult<ArrowType> {
        Ok(timestamptz())
    }

    fn simplify(&self, _args: Vec<Expr>, info: &SimplifyContext) -> PlanResult<ExprSimplifyResult> {
        let micros = info.query_execution_start_time().map(|began| began.timestamp_micros());
        let value = ScalarValue::TimestampMicrosecond(micros, Some(Arc::from("UTC")));
        Ok(ExprSimplifyResult::Simplified(Expr::Literal(value, None)))
    }

    fn invoke_with_args(&self, _args: ScalarFunctionArgs) -> PlanResult<ColumnarValue> {
        exec_err!("statement_timestamp is known when the statement is planned")
    }
}
