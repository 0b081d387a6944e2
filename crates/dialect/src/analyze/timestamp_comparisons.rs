//! Comparisons of days and moments in microseconds, as columns have them.
//!
//! DataFusion compares values of two such types in nanoseconds, which end in the year 2262.

use arrow::datatypes::{DataType as ArrowType, TimeUnit};
use datafusion::common::DFSchema;
use datafusion::logical_expr::expr::{Between, InList};
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, cast};

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
    match outer.expr.get_type(schema).ok()? {
        ArrowType::Date32 | ArrowType::Timestamp(TimeUnit::Microsecond, _) => {
            let micros = ArrowType::Timestamp(TimeUnit::Microsecond, zone.clone());
            Some(cast(outer.expr.as_ref().clone(), micros))
        }
        _ => None,
    }
}
