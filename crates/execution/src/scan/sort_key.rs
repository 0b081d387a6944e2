//! The column of a sort key.

use std::sync::Arc;

use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, Column, Literal};
use datafusion::scalar::ScalarValue;

/// The position of the column by which a key sorts: the key is the column itself, or its sum with
/// zero, which sorts use for floating-point numbers so that -0 equals 0.
pub(super) fn column_of_key(key: &Arc<dyn PhysicalExpr>) -> Option<usize> {
    let column = match key.downcast_ref::<BinaryExpr>() {
        Some(sum) if *sum.op() == Operator::Plus && is_zero(sum.right()) => sum.left(),
        Some(_) => return None,
        None => key,
    };
    Some(column.downcast_ref::<Column>()?.index())
}

fn is_zero(value: &Arc<dyn PhysicalExpr>) -> bool {
    match value.downcast_ref::<Literal>().map(Literal::value) {
        Some(ScalarValue::Float64(Some(value))) => *value == 0.0,
        Some(ScalarValue::Float32(Some(value))) => *value == 0.0,
        _ => false,
    }
}
