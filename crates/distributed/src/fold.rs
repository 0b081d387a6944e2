//! The pass that gives the workers what they can do alone.
//!
//! From the scans upwards, an operator over nothing but the rows of one table becomes a step of its
//! fragment: filters, projections, the lower halves of aggregates, sorts and limits. What merges
//! the workers' answers (the upper half of an aggregate, the merge that keeps an order, the limit
//! over all) stays. Where only one worker is asked, there is nothing to merge: then whole
//! aggregates are its own, too. A plan of which only the scan is left can be relayed unopened.
//!
//! ```text
//!   Aggregate(final)                      Aggregate(final)
//!     Repartition                           Repartition
//!       Aggregate(partial)  ── folded ──►     RemoteScan [filter; aggregate]
//!         Filter
//!           RemoteScan
//! ```

use std::sync::Arc;

use arrow::datatypes::Schema;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::limit::{GlobalLimitExec, LocalLimitExec};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use thalweg_protocol::cluster as wire;
use thalweg_protocol::cluster::step::Kind;

use crate::codec::{Writer, is_known_aggregate};
use crate::relayed::only_scan;
use crate::scan::RemoteScan;

#[derive(Debug)]
pub(crate) struct FoldIntoScans;

impl PhysicalOptimizerRule for FoldIntoScans {
    fn name(&self) -> &'static str {
        "fold_into_remote_scans"
    }

    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let folded = plan.transform_up(|plan| match fold(&plan)? {
            Some(folded) => Ok(Transformed::yes(folded)),
            None => Ok(Transformed::no(plan)),
        })?;
        let plan = folded.data;
        Ok(match only_scan(&plan) {
            Some(scan) if scan.may_relay() => Arc::new(scan.relayed()),
            _ => plan,
        })
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// What takes the place of an operator over a scan; `None` where it stays.
fn fold(plan: &Arc<dyn ExecutionPlan>) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let children = plan.children();
    let [child] = children.as_slice() else { return Ok(None) };
    let Some(scan) = child.downcast_ref::<RemoteScan>() else { return Ok(None) };
    if let Some(merge) = plan.downcast_ref::<CoalescePartitionsExec>() {
        // Nobody needs more rows of one worker than of all.
        let Some(fetch) = merge.fetch().filter(|_| !scan.is_limited()) else { return Ok(None) };
        let limited = Arc::new(scan.limited(fetch)) as Arc<dyn ExecutionPlan>;
        let merged = CoalescePartitionsExec::new(limited).with_fetch(Some(fetch));
        return Ok(Some(Arc::new(merged)));
    }
    let mut writer = scan.writer.clone();
    let one = scan.targets.places.len() == 1;
    let Some((step, told)) = step(plan, &child.schema(), one, &mut writer) else {
        return Ok(None);
    };
    Ok(Some(Arc::new(scan.with_step(step, told, writer, plan))))
}

/// An operator as a step over rows of this schema.
fn step(
    plan: &Arc<dyn ExecutionPlan>,
    over: &Schema,
    one: bool,
    writer: &mut Writer,
) -> Option<(Kind, String)> {
    if let Some(filter) = plan.downcast_ref::<FilterExec>() {
        let predicate = filter.predicate();
        let columns = filter.projection().as_deref().unwrap_or_default();
        let step = wire::Filter {
            predicate: Some(writer.expression(predicate, over)?),
            projects: filter.projection().is_some(),
            columns: places(columns)?,
            fetch: filter.fetch().map(|fetch| fetch as u64),
        };
        return Some((Kind::Filter(step), format!("filter {predicate}")));
    }
    if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        let columns = projection.expr().iter();
        let columns = columns.map(|column| named(&column.expr, &column.alias, over, writer));
        let columns = columns.collect::<Option<Vec<_>>>()?;
        let names: Vec<String> =
            projection.expr().iter().map(|column| column.expr.to_string()).collect();
        return Some((
            Kind::Project(wire::Project { columns }),
            format!("project {}", names.join(", ")),
        ));
    }
    if let Some(aggregate) = plan.downcast_ref::<AggregateExec>() {
        return aggregated(aggregate, over, one, writer);
    }
    if let Some(sort) = plan.downcast_ref::<SortExec>() {
        return sorted(sort, over, one, writer);
    }
    if let Some(limit) = plan.downcast_ref::<LocalLimitExec>() {
        let fetch = limit.fetch();
        let step = wire::Limit { skip: 0, fetch: Some(fetch as u64) };
        return Some((Kind::Limit(step), format!("limit {fetch}")));
    }
    let limit = plan.downcast_ref::<GlobalLimitExec>().filter(|_| one)?;
    let fetch = limit.fetch().map(|fetch| fetch as u64);
    let told = fetch.map_or("all".to_owned(), |fetch| fetch.to_string());
    let step = wire::Limit { skip: limit.skip() as u64, fetch };
    Some((Kind::Limit(step), format!("limit {told} offset {}", limit.skip())))
}

fn places(columns: &[usize]) -> Option<Vec<u32>> {
    columns.iter().map(|column| u32::try_from(*column).ok()).collect()
}

fn named(
    expression: &Arc<dyn PhysicalExpr>,
    name: &str,
    over: &Schema,
    writer: &mut Writer,
) -> Option<wire::Named> {
    let expression = Some(writer.expression(expression, over)?);
    Some(wire::Named { expression, name: name.to_owned() })
}

fn aggregated(
    aggregate: &AggregateExec,
    over: &Schema,
    one: bool,
    writer: &mut Writer,
) -> Option<(Kind, String)> {
    let partial = match aggregate.mode() {
        AggregateMode::Partial => true,
        AggregateMode::Single | AggregateMode::SinglePartitioned if one => false,
        _ => return None,
    };
    let keys = aggregate.group_expr();
    if !keys.is_single() && !keys.is_true_no_grouping() {
        return None;
    }
    let told_keys: Vec<String> = keys.expr().iter().map(|(key, _)| key.to_string()).collect();
    let keys = keys.expr().iter().map(|(key, name)| named(key, name, over, writer));
    let keys = keys.collect::<Option<Vec<_>>>()?;
    let mut calls = Vec::with_capacity(aggregate.aggr_expr().len());
    for (call, filter) in aggregate.aggr_expr().iter().zip(aggregate.filter_expr()) {
        let is_plain = call.order_bys().is_empty() && !call.is_reversed();
        if !is_plain || !is_known_aggregate(call.fun()) {
            return None;
        }
        calls.push(wire::AggregateCall {
            function: call.fun().name().to_owned(),
            arguments: writer.expressions(&call.expressions(), over)?,
            name: call.name().to_owned(),
            distinct: call.is_distinct(),
            ignore_nulls: call.ignore_nulls(),
            filter: match filter {
                Some(filter) => Some(writer.expression(filter, over)?),
                None => None,
            },
        });
    }
    let names: Vec<&str> = aggregate.aggr_expr().iter().map(|call| call.name()).collect();
    let half = if partial { "partial " } else { "" };
    let told = format!("{half}aggregate [{}] by [{}]", names.join(", "), told_keys.join(", "));
    Some((Kind::Aggregate(wire::Aggregate { partial, keys, calls }), told))
}

fn sorted(
    sort: &SortExec,
    over: &Schema,
    one: bool,
    writer: &mut Writer,
) -> Option<(Kind, String)> {
    if !sort.preserve_partitioning() && !one {
        return None;
    }
    let mut keys = Vec::new();
    for key in sort.expr() {
        keys.push(wire::SortKey {
            expression: Some(writer.expression(&key.expr, over)?),
            descending: key.options.descending,
            nulls_first: key.options.nulls_first,
        });
    }
    let fetch = sort.fetch().map(|fetch| fetch as u64);
    let told = match fetch {
        None => format!("sort {}", sort.expr()),
        Some(fetch) => format!("top {fetch} by {}", sort.expr()),
    };
    Some((Kind::Sort(wire::Sort { keys, fetch }), told))
}
