//! `'today'`, `'now'` and their like: literals of days and times that depend on the clock.
//!
//! They become values when their statement is planned, as `now()` does, and do not change while it
//! runs. Only literals have this meaning, not other texts.

use std::sync::Arc;

use arrow::datatypes::{DataType as ArrowType, FieldRef};
use datafusion::common::{Result as PlanResult, ScalarValue, exec_err};
use datafusion::logical_expr::expr::Cast;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};
use thalweg_types::DataType;
use thalweg_values::calendar::{ClockWord, Moment, Refusal};
use thalweg_values::cast::is_text;
use thalweg_values::errors::external;
use thalweg_values::types::{self, arrow_field, arrow_type};

/// True if a literal of a date or timestamp with this text depends on the clock, as `today` does.
#[must_use]
pub fn depends_on_clock(text: &str) -> bool {
    ClockWord::of(text).is_some()
}

/// The value of a cast of such a literal; `None` for other casts.
pub(crate) fn of_cast(cast: &Cast) -> Option<Expr> {
    of_literal(&cast.expr, cast.field.data_type())
}

/// The literal as a value of a type; `None` for other literals.
pub(crate) fn of_literal(literal: &Expr, target: &ArrowType) -> Option<Expr> {
    let to = types::from_arrow(target).ok().filter(|to| arrow_type(to) == *target)?;
    let text = text_of(literal)?;
    match (ClockWord::of(text)?, &to) {
        (_, DataType::Date | DataType::Timestamp | DataType::Timestamptz)
        | (ClockWord::Now, DataType::Time) => {}
        _ => return None,
    }
    let function = ClockLiteral {
        text: text.to_owned(),
        field: Arc::new(arrow_field(NAME, &to, false)),
        to,
        signature: Signature::nullary(Volatility::Stable),
    };
    Some(ScalarUDF::from(function).call(Vec::new()))
}

/// True if an expression is such a value.
pub(crate) fn is_one(expr: &Expr) -> bool {
    matches!(expr, Expr::ScalarFunction(call) if call.func.name() == NAME)
}

/// The text of a literal, also of one that is cast to `text`.
fn text_of(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Literal(value, _) => value.try_as_str()?,
        Expr::Cast(cast) if is_text(cast.field.data_type()) && cast.field.metadata().is_empty() => {
            text_of(&cast.expr)
        }
        _ => None,
    }
}

const NAME: &str = "clock_literal";

/// One literal: the function holds its text and the type that it is of.
#[derive(Debug, PartialEq, Eq, Hash)]
struct ClockLiteral {
    text: String,
    to: DataType,
    field: FieldRef,
    signature: Signature,
}

impl ClockLiteral {
    /// The value at a moment in microseconds since 1970.
    fn at(&self, now: i64) -> Result<ScalarValue, Refusal> {
        let word = ClockWord::of(&self.text).ok_or(Refusal::Syntax)?;
        let moment = word.at(now)?;
        let micros = |micros: Option<i64>| micros.ok_or(Refusal::Field).map(Some);
        Ok(match &self.to {
            DataType::Date => {
                let days = moment.days.and_then(|days| i32::try_from(days).ok());
                ScalarValue::Date32(Some(days.ok_or(Refusal::Field)?))
            }
            DataType::Time => ScalarValue::Time64Microsecond(Some(moment.micros)),
            DataType::Timestamp => {
                ScalarValue::TimestampMicrosecond(micros(Moment::local_micros(moment))?, None)
            }
            _ => {
                let utc = Some(Arc::from("UTC"));
                ScalarValue::TimestampMicrosecond(micros(Moment::utc_micros(moment))?, utc)
            }
        })
    }

    /// The type's name in errors.
    fn type_name(&self) -> &str {
        match &self.to {
            DataType::Date => "date",
            DataType::Time => "time",
            DataType::Timestamp => "timestamp",
            _ => "timestamp with time zone",
        }
    }
}

impl ScalarUDFImpl for ClockLiteral {
    fn name(&self) -> &str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arg_types: &[ArrowType]) -> PlanResult<ArrowType> {
        Ok(self.field.data_type().clone())
    }

    fn return_field_from_args(&self, _args: ReturnFieldArgs) -> PlanResult<FieldRef> {
        Ok(Arc::clone(&self.field))
    }

    fn simplify(&self, args: Vec<Expr>, info: &SimplifyContext) -> PlanResult<ExprSimplifyResult> {
        let Some(began) = info.query_execution_start_time() else {
            return Ok(ExprSimplifyResult::Original(args));
        };
        let value = self.at(began.timestamp_micros());
        let value =
            value.map_err(|refusal| external(refusal.into_error(self.type_name(), &self.text)))?;
        Ok(ExprSimplifyResult::Simplified(Expr::Literal(value, None)))
    }

    fn invoke_with_args(&self, _args: ScalarFunctionArgs) -> PlanResult<ColumnarValue> {
        exec_err!("what the clock says is known when the statement is planned")
    }
}
