//! Moments without a zone in defaults and checks.
//!
//! PostgreSQL reads such a literal once, in the zone of the session that defines the table. Here
//! the text is stored and read again, always in UTC and in ISO order, so that all writers agree.

use std::ops::ControlFlow;

use datafusion::common::Result as PlanResult;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::logical_expr::{Expr as PlanExpr, Literal as _};
use datafusion::scalar::ScalarValue;
use datafusion::sql::sqlparser::ast::{DataType as TypeName, Expr, TimezoneInfo, Value};
use thalweg_dialect::walk;
use thalweg_formats::text::style::within;
use thalweg_formats::text::{parse, style};
use thalweg_types::{DataType, Error, Result};
use thalweg_values::types::arrow_type;

use super::ast_tools;

/// The stored default of a column as an expression that has the same value in every session.
///
/// # Errors
/// If the text is no expression.
pub(super) fn default_expression(text: &str, column: &DataType) -> Result<Expr> {
    let mut value = ast_tools::expression(text)?;
    if *column == DataType::Timestamptz
        && let Expr::Value(literal) = &mut value
    {
        add_zone(&mut literal.value);
    }
    let _ = walk::visit_expressions_mut(&mut value, |part| {
        match part {
            Expr::TypedString(typed) if is_moment(&typed.data_type) => {
                add_zone(&mut typed.value.value);
            }
            Expr::Cast { expr, data_type, .. } if is_moment(data_type) => {
                if let Expr::Value(literal) = expr.as_mut() {
                    add_zone(&mut literal.value);
                }
            }
            _ => {}
        }
        ControlFlow::<()>::Continue(())
    });
    Ok(value)
}

fn is_moment(written: &TypeName) -> bool {
    let has_zone = TimezoneInfo::WithTimeZone;
    matches!(written, TypeName::Timestamp(_, zone) if [has_zone, TimezoneInfo::Tz].contains(zone))
}

/// Adds its zone to the text of a moment, which is read as stored texts are; other literals stay.
fn add_zone(literal: &mut Value) {
    let Value::SingleQuotedString(text) = literal else { return };
    within(None, || {
        let Ok(micros) = parse::timestamptz(text) else { return };
        text.clear();
        style::push_timestamptz(&style::SessionStyle::default(), micros, text);
    });
}

/// The expression with values in place of literals that are cast to moments. They are read in UTC.
pub(super) fn read(expression: PlanExpr) -> PlanResult<PlanExpr> {
    let moment = arrow_type(&DataType::Timestamptz);
    let read = expression.transform_up(|expression| {
        let PlanExpr::Cast(cast) = &expression else { return Ok(Transformed::no(expression)) };
        let PlanExpr::Literal(value, _) = cast.expr.as_ref() else {
            return Ok(Transformed::no(expression));
        };
        let text = value.try_as_str().flatten().filter(|_| *cast.field.data_type() == moment);
        match text.and_then(|text| within(None, || parse::timestamptz(text).ok())) {
            Some(micros) => {
                let utc = Some("UTC".into());
                Ok(Transformed::yes(ScalarValue::TimestampMicrosecond(Some(micros), utc).lit()))
            }
            None => Ok(Transformed::no(expression)),
        }
    });
    read.map(|transformed| transformed.data)
}

/// Refuses a definition whose literals the session reads differently from later writers.
///
/// # Errors
/// 0A000 if a literal is a moment without a zone and the session is not in UTC.
pub(super) fn check_definition(expression: &Expr) -> Result<()> {
    if style::current().is_none() {
        return Ok(());
    }
    let differs = |text: &str| {
        let here = parse::timestamptz(text).ok();
        here.is_some() && here != within(None, || parse::timestamptz(text).ok())
    };
    let found = walk::visit_expressions(expression, |part| match part {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) if differs(text) => ControlFlow::Break(text.clone()),
            _ => ControlFlow::Continue(()),
        },
        Expr::TypedString(typed) => match &typed.value.value {
            Value::SingleQuotedString(text) if differs(text) => ControlFlow::Break(text.clone()),
            _ => ControlFlow::Continue(()),
        },
        _ => ControlFlow::Continue(()),
    });
    match found {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(text) => {
            let what = format!("the moment '{text}' without a zone in a default or a check");
            Err(Error::unsupported(what).with_hint("Write its zone, such as +00, or SET timezone."))
        }
    }
}
