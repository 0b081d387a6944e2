//! Recognizes windows of which only the first rows of each group are wanted.

use std::sync::Arc;

use arrow::row::{RowConverter, SortField};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{BinaryExpr, Column, Literal};
use datafusion::physical_expr::window::{StandardWindowExpr, WindowExpr};
use datafusion::physical_expr::{LexOrdering, PhysicalExpr, split_conjunction};
use datafusion::physical_expr_common::physical_expr::is_volatile;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec, WindowUDFExpr};

use super::operator::{Question, TopNPerGroup};
use crate::operator::RECOMPUTED;

/// Greatest number of rows kept of a group. If more are wanted, all rows are sorted.
const ROWS_MAX: usize = 1000;

/// A filter's input reduced to the first rows of each group; `None` if other rows could pass the
/// filter.
pub(super) fn input(filter: &FilterExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    // Any condition that bounds a row number will do, since the filter stays and applies the
    // others.
    for condition in split_conjunction(filter.predicate()) {
        let Some((column, rows)) = bound(condition) else { continue };
        if let Some(input) = first_rows(filter.input(), column, rows)? {
            return Ok(Some(input));
        }
    }
    Ok(None)
}

/// A column, and the upper bound of its numbers.
fn bound(condition: &Arc<dyn PhysicalExpr>) -> Option<(usize, usize)> {
    let condition = condition.downcast_ref::<BinaryExpr>()?;
    let column = |side: &Arc<dyn PhysicalExpr>| Some(side.downcast_ref::<Column>()?.index());
    let number = |side: &Arc<dyn PhysicalExpr>| whole(side.downcast_ref::<Literal>()?.value());
    let (left, right) = (condition.left(), condition.right());
    let (column, operator, number) = match (column(left), number(right)) {
        (Some(column), Some(number)) => (column, *condition.op(), number),
        _ => (column(right)?, condition.op().swap()?, number(left)?),
    };
    let rows = match operator {
        Operator::LtEq | Operator::Eq => number,
        Operator::Lt => number.checked_sub(1)?,
        _ => return None,
    };
    (1..=ROWS_MAX).contains(&rows).then_some((column, rows))
}

fn whole(value: &ScalarValue) -> Option<usize> {
    match *value {
        ScalarValue::Int64(Some(number)) => usize::try_from(number).ok(),
        ScalarValue::UInt64(Some(number)) => usize::try_from(number).ok(),
        _ => None,
    }
}

/// The plan reduced to the first rows of each group, if the column is a window's row number.
fn first_rows(
    plan: &Arc<dyn ExecutionPlan>,
    column: usize,
    rows: usize,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        let Some(below) = projection.expr()[column].expr.downcast_ref::<Column>() else {
            return Ok(None);
        };
        let input = first_rows(projection.input(), below.index(), rows)?;
        return input.map(|input| over(Arc::clone(plan), input)).transpose();
    }
    let Some((input, question)) = question(plan, column, rows) else { return Ok(None) };
    let question = Arc::new(question);
    let input = match input.properties().output_partitioning().partition_count() {
        1 => input,
        // A partial step in each thread leaves fewer rows to repartition.
        _ => Arc::new(TopNPerGroup::partial(input, Arc::clone(&question))),
    };
    Ok(Some(Arc::new(TopNPerGroup::of_all(input, question))))
}

/// A window's input, and the recognized question.
fn question(
    plan: &Arc<dyn ExecutionPlan>,
    column: usize,
    rows: usize,
) -> Option<(Arc<dyn ExecutionPlan>, Question)> {
    let (windows, input) = if let Some(window) = plan.downcast_ref::<BoundedWindowAggExec>() {
        (window.window_expr(), window.input())
    } else {
        let window = plan.downcast_ref::<WindowAggExec>()?;
        (window.window_expr(), window.input())
    };
    let columns = input.schema().fields().len();
    let [window] = windows else { return None };
    if columns == 0 || column != columns || !is_row_number(window.as_ref()) {
        return None;
    }
    let keys = window.partition_by().to_vec();
    let order = LexOrdering::new(window.order_by().to_vec())?;
    if keys.iter().chain(order.iter().map(|by| &by.expr)).any(is_volatile) {
        return None;
    }
    let schema = input.schema();
    let key_types = keys.iter().map(|key| key.data_type(&schema));
    let order_types = order.iter().map(|by| by.expr.data_type(&schema));
    let types = key_types.chain(order_types).collect::<Result<Vec<_>>>().ok()?;
    let fields: Vec<SortField> = types.into_iter().map(SortField::new).collect();
    if !RowConverter::supports_fields(&fields) {
        return None;
    }
    Some((Arc::clone(input), Question { window: Arc::clone(plan), keys, order, rows }))
}

fn is_row_number(window: &dyn WindowExpr) -> bool {
    let standard = window.as_any().downcast_ref::<StandardWindowExpr>();
    let function = standard.map(StandardWindowExpr::get_standard_func_expr);
    let function = function.and_then(|function| function.as_any().downcast_ref::<WindowUDFExpr>());
    function.is_some_and(|function| function.fun().name() == "row_number")
}

/// An operator over another input.
pub(super) fn over(
    operator: Arc<dyn ExecutionPlan>,
    input: Arc<dyn ExecutionPlan>,
) -> Result<Arc<dyn ExecutionPlan>> {
    operator.replace_children(vec![input], RECOMPUTED)
}
