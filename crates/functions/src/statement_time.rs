//! `now()` and its sisters, in microseconds as columns have them.
//!
//! `now()`, `CURRENT_TIMESTAMP` and `transaction_timestamp()` are the time at which the transaction
//! began, which is what DataFusion takes for the time at which the query began.
//! `statement_timestamp()` is the time at which the statement began, and so is `clock_timestamp()`.

use std::any::Any;
use std::sync::Arc;

use arrow::datatypes::{DataType as ArrowType, TimeUnit};
use chrono::DateTime;
use datafusion::common::config::{ConfigEntry, ConfigExtension, ExtensionOptions};
use datafusion::common::{Result as PlanResult, ScalarValue, exec_err, plan_err};
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

/// Plans the statements of a state as those of a transaction that began before them. Times are
/// microseconds since 1970.
pub fn begin_statement(state: &mut SessionState, transaction: i64, statement: i64) {
    let Some(began) = DateTime::from_timestamp_micros(transaction) else { return };
    state.execution_props_mut().query_execution_start_time = Some(began);
    state.config_mut().options_mut().extensions.insert(StatementBegan(statement));
}

/// The beginning of a statement in a transaction block. If the session's options do not hold it,
/// the statement is the transaction.
#[derive(Clone, Copy, Debug)]
struct StatementBegan(i64);

impl ConfigExtension for StatementBegan {
    const PREFIX: &'static str = "statement_began";
}

impl ExtensionOptions for StatementBegan {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }

    fn cloned(&self) -> Box<dyn ExtensionOptions> {
        Box::new(*self)
    }

    fn set(&mut self, key: &str, _value: &str) -> PlanResult<()> {
        plan_err!("there is no option {key}")
    }

    fn entries(&self) -> Vec<ConfigEntry> {
        Vec::new()
    }
}

/// The functions of this module.
pub(super) fn functions() -> Vec<Arc<ScalarUDF>> {
    let transaction = StartTime {
        name: "now",
        aliases: vec!["current_timestamp".to_owned(), "transaction_timestamp".to_owned()],
        signature: Signature::nullary(Volatility::Stable),
    };
    let statement = StartTime {
        name: "statement_timestamp",
        aliases: vec!["clock_timestamp".to_owned()],
        signature: Signature::nullary(Volatility::Stable),
    };
    [transaction, statement].into_iter().map(|time| Arc::new(ScalarUDF::from(time))).collect()
}

/// Becomes a literal when the statement is planned.
#[derive(Debug, PartialEq, Eq, Hash)]
struct StartTime {
    name: &'static str,
    signature: Signature,
    aliases: Vec<String>,
}

fn timestamptz() -> ArrowType {
    ArrowType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()))
}

impl ScalarUDFImpl for StartTime {
    fn name(&self) -> &str {
        self.name
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
        let transaction = info.query_execution_start_time().map(|began| began.timestamp_micros());
        let micros = match self.name {
            "now" => transaction,
            _ => info
                .config_options()
                .extensions
                .get::<StatementBegan>()
                .map_or(transaction, |began| Some(began.0)),
        };
        let value = ScalarValue::TimestampMicrosecond(micros, Some(Arc::from("UTC")));
        Ok(ExprSimplifyResult::Simplified(Expr::Literal(value, None)))
    }

    fn invoke_with_args(&self, _args: ScalarFunctionArgs) -> PlanResult<ColumnarValue> {
        exec_err!("{} is known when the statement is planned", self.name)
    }
}
