//! Comparisons of days and moments in microseconds, as columns have them.
//!
//! DataFusion compares values of two such types in nanoseconds, which end in the year 2262.

use std::sync::Arc;

use arrow::datatypes::{DataType as ArrowType, TimeUnit};
use datafusion::common::DFSchema;
use datafusion::logical_expr::expr::{Between, InList};
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, ScalarUDF, cast};
use thalweg_types::DataType;
use thalweg_values::cast_function::CastFunction;
use thalweg_values::types::arrow_field;
use thalweg_values::zone::is_utc;

/// The comparison in microseconds, if both sides were cast to nanoseconds.
pub(super) fn in_micros(expr: &Expr, schema: &DFSchema) -> Option<Expr> {
    let one = |expr: &Expr| in_micros_of(expr, schema);
    let boxed = |expr: &Expr| one(expr).map(Box::new);
    Some(match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if op.supports_propagation() => {
            Expr::BinaryExpr(BinaryExpr::new(boxed(left)?, *op, boxed(right)?))
        }
        Expr::Between(Between { expr, negated, low, high }) => {
            Expr::Between(Between::new(boxed(expr)?, *negated, boxed(low)?, boxed(high)?))
        }
        Expr::InList(InList { expr, list, negated }) => {
            let list = list.iter().map(one).collect::<Option<Vec<Expr>>>()?;
            Expr::InList(InList::new(boxed(expr)?, list, *negated))
        }
        _ => return None,
    })
}

/// The value under a cast to nanoseconds, if the value has no more than microseconds.
fn in_micros_of(expr: &Expr, schema: &DFSchema) -> Option<Expr> {
    let Expr::Cast(outer) = expr else { return None };
    let ArrowType::Timestamp(TimeUnit::Nanosecond, zone) = outer.field.data_type() else {
        return None;
    };
    let micros = ArrowType::Timestamp(TimeUnit::Microsecond, zone.clone());
    let is_local = match outer.expr.get_type(schema).ok()? {
        ArrowType::Date32 => true,
        ArrowType::Timestamp(TimeUnit::Microsecond, zone) => zone.is_none(),
        _ => return None,
    };
    let inner = outer.expr.as_ref().clone();
    if is_local == zone.is_none() || is_utc() {
        return Some(cast(inner, micros));
    }
    // Between a moment and a time of the session's zone.
    let to = if is_local { DataType::Timestamptz } else { DataType::Timestamp };
    let field = Arc::new(arrow_field(outer.field.name(), &to, true));
    Some(Arc::new(ScalarUDF::from(CastFunction::new(to, field))).call(vec![inner]))
}
