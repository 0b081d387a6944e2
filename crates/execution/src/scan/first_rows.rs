//! A pass of the planner for queries that need only the first rows of an order. The scan below the
//! sort gets the order and the number of rows, and may find these rows in an index.
//!
//! ```text
//!   Sort (fetch)                     Sort (fetch)
//!     Projection of columns            Projection of columns
//!       Filter           ── same ──►     Filter
//!         ShardScan                        ShardScan, which knows order, number and filter
//! ```
//!
//! The scan only leaves out rows that cannot be among the first, so the rest of the plan is
//! unchanged.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use thalweg_types::ValueOrder;

use super::ShardScan;
use super::index::FirstRows;
use super::sort_key::column_of_key;
use crate::operator::RECOMPUTED;

/// The pass that looks for the first rows of an order in an index.
#[derive(Debug)]
pub struct FindFirstRows;

impl PhysicalOptimizerRule for FindFirstRows {
    fn name(&self) -> &'static str {
        "find_first_rows"
    }

    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let rewritten = plan.transform_up(|plan| {
            let Some(sort) = plan.downcast_ref::<SortExec>() else {
                return Ok(Transformed::no(plan));
            };
            let Some(rows) = sort.fetch() else { return Ok(Transformed::no(plan)) };
            let order = sort.expr().iter();
            let order = order.map(|by| {
                let column = column_of_key(&by.expr)?;
                let (descending, nulls_first) = (by.options.descending, by.options.nulls_first);
                Some((column, ValueOrder { descending, nulls_first }))
            });
            let Some(order) = order.collect::<Option<Vec<_>>>() else {
                return Ok(Transformed::no(plan));
            };
            match with_scan_order(sort.input(), order, rows)? {
                Some(input) => Ok(Transformed::yes(over(plan, input)?)),
                None => Ok(Transformed::no(plan)),
            }
        });
        rewritten.map(|rewritten| rewritten.data)
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The input with a scan that knows the wanted order and number of rows. `None` if operators other
/// than projections of columns and one filter are between. `order` has positions in the input's
/// columns.
fn with_scan_order(
    input: &Arc<dyn ExecutionPlan>,
    order: Vec<(usize, ValueOrder)>,
    rows: usize,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    if let Some(projection) = input.downcast_ref::<ProjectionExec>() {
        let below = order.into_iter().map(|(place, order)| {
            let column = projection.expr()[place].expr.downcast_ref::<Column>()?;
            Some((column.index(), order))
        });
        let Some(order) = below.collect::<Option<Vec<_>>>() else { return Ok(None) };
        return above(input, with_scan_order(projection.input(), order, rows)?);
    }
    if let Some(filter) = input.downcast_ref::<FilterExec>() {
        let scan = filter.input().downcast_ref::<ShardScan>();
        let Some(scan) = scan.filter(|_| filter.fetch().is_none()) else { return Ok(None) };
        let order = match filter.projection() {
            Some(unpruned) => {
                order.into_iter().map(|(place, order)| (unpruned[place], order)).collect()
            }
            None => order,
        };
        let rewritten = scan_for(scan, order, rows, Some(filter.predicate()))?;
        return above(input, rewritten);
    }
    match input.downcast_ref::<ShardScan>() {
        Some(scan) => scan_for(scan, order, rows, None),
        None => Ok(None),
    }
}

fn over(
    operator: Arc<dyn ExecutionPlan>,
    input: Arc<dyn ExecutionPlan>,
) -> Result<Arc<dyn ExecutionPlan>> {
    operator.replace_children(vec![input], RECOMPUTED)
}

/// The operator over another input, if there is one.
fn above(
    operator: &Arc<dyn ExecutionPlan>,
    input: Option<Arc<dyn ExecutionPlan>>,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    input.map(|input| over(Arc::clone(operator), input)).transpose()
}

fn scan_for(
    scan: &ShardScan,
    order: Vec<(usize, ValueOrder)>,
    rows: usize,
    filter: Option<&Arc<dyn PhysicalExpr>>,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    if scan.reads_row_ids() || scan.fetch().is_some() || !scan.has_indexes() {
        return Ok(None);
    }
    let order = order.into_iter().map(|(place, order)| (scan.projection()[place], order));
    let first = FirstRows { order: order.collect(), rows, filter: filter.cloned() };
    Ok(Some(Arc::new(scan.for_first(first)?)))
}
