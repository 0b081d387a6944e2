//! The optimizer pass that folds operators into the scans that workers run.
//!
//! Bottom-up, an operator over nothing but the rows of one table becomes a step of the table's
//! fragment: filters, projections, the partial halves of aggregates, sorts and limits. Operators
//! that merge the workers' answers (the final half of an aggregate, the order-preserving merge, the
//! global limit) stay at the gateway. If only one worker is asked, there is nothing to merge, so
//! whole aggregates run on it, too.
//!
//! If only the scan is left of a plan, perhaps with a limit, its rows can be relayed without
//! decoding them. Other plans run here or in stages. In joins that run here, scans wait for
//! semi-join filters ([`with_semi_join_filters`]).
//!
//! A group whose key contains the shard key lies on one worker. So that worker runs the whole
//! aggregate, and the steps over its groups.
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
use datafusion::physical_expr::expressions::{Column, Literal};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::limit::{GlobalLimitExec, LocalLimitExec};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::{ExecutionPlan, Partitioning};
use thalweg_execution::executor::with_window_memory;
use thalweg_execution::fused::MergedGroups;
use thalweg_execution::operator::RECOMPUTED;
use thalweg_execution::semi_join_filters::with_semi_join_filters;
use thalweg_protocol::cluster as wire;
use thalweg_protocol::cluster::step::Kind;

use crate::codec::{Writer, is_known_aggregate};
use crate::lanes::in_lanes;
use crate::merge_groups::merged;
use crate::relayed::only_scan;
use crate::scan::{REMOTE, RemoteScan};
use crate::stages::RunAsStages;

/// The rule that DataFusion runs after its own physical rules.
#[derive(Debug)]
pub(crate) struct FoldIntoScans {
    /// Plans stages for plans of which more than a scan is left.
    stages: RunAsStages,
}

impl FoldIntoScans {
    pub(crate) fn new(stages: RunAsStages) -> FoldIntoScans {
        FoldIntoScans { stages }
    }
}

impl PhysicalOptimizerRule for FoldIntoScans {
    fn name(&self) -> &'static str {
        "fold_into_remote_scans"
    }

    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let folded = plan.transform_up(|plan| {
            let passes = [merge_of_one, fold, whole_groups, below_exchange, without_exchange];
            for pass in passes {
                if let Some(folded) = pass(&plan)? {
                    return Ok(Transformed::yes(folded));
                }
            }
            Ok(Transformed::no(plan))
        })?;
        // The consumer of a whole plan does not rely on the hash partitioning of its rows.
        let plan = match undealt(&folded.data)? {
            Some(plan) => plan,
            None => folded.data,
        };
        let plan = below_limit(&plan)?.unwrap_or(plan);
        match relayed(&plan)? {
            Some(plan) => Ok(plan),
            None => {
                let with_semi_join_filters =
                    with_semi_join_filters(&self.stages.planned(plan, config)?, REMOTE)?;
                let lanes = config.execution.target_partitions;
                merged(in_lanes(with_window_memory(with_semi_join_filters)?, lanes)?)
            }
        }
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Moves a projection above a limit below it, so that workers send fewer columns. Only columns and
/// literals move: an expression that can fail for a row stays above the limit.
fn below_limit(plan: &Arc<dyn ExecutionPlan>) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let Some(projection) = plan.downcast_ref::<ProjectionExec>() else { return Ok(None) };
    let mut columns = projection.expr().iter().map(|column| &column.expr);
    match columns.all(|column| column.is::<Column>() || column.is::<Literal>()) {
        true => moved_below(plan, projection.input()),
        false => Ok(None),
    }
}

/// Moves a projection below the limits over a scan. Returns `None` if anything else is in between.
fn moved_below(
    projection: &Arc<dyn ExecutionPlan>,
    input: &Arc<dyn ExecutionPlan>,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    if input.is::<RemoteScan>() {
        return fold(
            &Arc::clone(projection).replace_children(vec![Arc::clone(input)], RECOMPUTED)?,
        );
    }
    if !input.is::<GlobalLimitExec>() && !input.is::<CoalescePartitionsExec>() {
        return Ok(None);
    }
    let Some(below) = moved_below(projection, input.children()[0])? else { return Ok(None) };
    Ok(Some(Arc::clone(input).replace_children(vec![below], RECOMPUTED)?))
}

/// A plan whose rows are forwarded as the workers encode them. Returns `None` if the rows have to
/// be decoded. Limits stay in the plan, since rows are counted here.
fn relayed(plan: &Arc<dyn ExecutionPlan>) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let Some((scan, window)) = only_scan(plan).filter(|(scan, window)| scan.may_relay(window))
    else {
        return Ok(None);
    };
    if window.is_all() {
        return Ok(Some(Arc::new(scan.relayed())));
    }
    let relayed = Arc::clone(plan).transform_up(|plan| {
        Ok(match plan.downcast_ref::<RemoteScan>() {
            Some(scan) => Transformed::yes(Arc::new(scan.relayed()) as Arc<dyn ExecutionPlan>),
            None => Transformed::no(plan),
        })
    })?;
    Ok(Some(relayed.data))
}

/// The replacement of an operator over a scan; `None` if the operator stays.
fn fold(plan: &Arc<dyn ExecutionPlan>) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let children = plan.children();
    let [child] = children.as_slice() else { return Ok(None) };
    // A lane has the rows of several workers, in any order.
    let scan = child.downcast_ref::<RemoteScan>().filter(|scan| !scan.has_lanes());
    let Some(scan) = scan else { return Ok(None) };
    if let Some(merge) = plan.downcast_ref::<CoalescePartitionsExec>() {
        // A limit over all workers also limits the rows of each worker.
        let Some(fetch) = merge.fetch().filter(|_| !scan.is_limited()) else { return Ok(None) };
        let limited = Arc::new(scan.limited(fetch)) as Arc<dyn ExecutionPlan>;
        let merged = CoalescePartitionsExec::new(limited).with_fetch(Some(fetch));
        return Ok(Some(Arc::new(merged)));
    }
    let mut writer = scan.work.writer.clone();
    let one = scan.streams().len() == 1;
    let Some((step, step_text)) = step(plan, &child.schema(), one, &mut writer) else {
        return Ok(None);
    };
    Ok(Some(Arc::new(scan.with_step(step, step_text, writer, plan))))
}

/// Removes a merge over one stream, whose rows arrive in the merge's order anyway.
fn merge_of_one(plan: &Arc<dyn ExecutionPlan>) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    if !plan.is::<CoalescePartitionsExec>() && !plan.is::<SortPreservingMergeExec>() {
        return Ok(None);
    }
    let scan = plan.children()[0].downcast_ref::<RemoteScan>();
    let Some(scan) = scan.filter(|scan| scan.streams().len() == 1) else { return Ok(None) };
    Ok(Some(match plan.fetch() {
        Some(fetch) => Arc::new(scan.limited(fetch)),
        None => Arc::new(scan.clone()),
    }))
}

/// Replaces the final half of an aggregate by an exchange of whole groups, if each group lies on
/// one worker.
fn whole_groups(plan: &Arc<dyn ExecutionPlan>) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let Some(aggregate) = plan.downcast_ref::<AggregateExec>() else { return Ok(None) };
    let is_plain = aggregate.limit_options().is_none();
    let equal = &plan.properties().eq_properties;
    let is_unordered = plan.properties().output_ordering().is_none();
    match aggregate.mode() {
        AggregateMode::FinalPartitioned
            if is_plain && is_unordered && aggregate.group_expr().is_single() =>
        {
            let Some(scan) = scan_below_exchange(aggregate.input()) else { return Ok(None) };
            let Some(scan) = scan.of_whole_groups(equal) else { return Ok(None) };
            let dealt = plan.properties().partitioning.clone();
            Ok(Some(Arc::new(RepartitionExec::try_new(Arc::new(scan), dealt)?)))
        }
        // If one worker is asked, the merge below a final aggregate was removed already.
        AggregateMode::Final if is_plain => {
            let Some(scan) = aggregate.input().downcast_ref::<RemoteScan>() else {
                return Ok(None);
            };
            Ok(scan.of_whole_groups(equal).map(|scan| Arc::new(scan) as _))
        }
        _ => Ok(None),
    }
}

/// Moves a filter or projection over hash-partitioned rows of a scan below the exchange.
fn below_exchange(plan: &Arc<dyn ExecutionPlan>) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let is_known = match plan.downcast_ref::<FilterExec>() {
        Some(filter) => filter.fetch().is_none(),
        None => plan.is::<ProjectionExec>(),
    };
    let dealt = plan.properties().partitioning.clone();
    let is_left = match &dealt {
        // The partitioning is lost if a projection drops one of its columns.
        Partitioning::Hash(columns, _) => columns.iter().all(|column| column.is::<Column>()),
        _ => false,
    };
    if !is_known || !is_left {
        return Ok(None);
    }
    let child = Arc::clone(plan.children()[0]);
    if scan_below_exchange(&child).is_none() {
        return Ok(None);
    }
    let scan = Arc::clone(child.children()[0]);
    let below = Arc::clone(plan).replace_children(vec![scan], RECOMPUTED)?;
    let Some(scan) = fold(&below)? else { return Ok(None) };
    Ok(Some(Arc::new(RepartitionExec::try_new(scan, dealt)?)))
}

/// Removes the exchange below a merge of all partitions, which does not rely on partitioning.
pub(crate) fn without_exchange(
    plan: &Arc<dyn ExecutionPlan>,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    if !plan.is::<CoalescePartitionsExec>() && !plan.is::<SortPreservingMergeExec>() {
        return Ok(None);
    }
    let Some(below) = undealt(plan.children()[0])? else { return Ok(None) };
    let merged = Arc::clone(plan).replace_children(vec![below], RECOMPUTED)?;
    let folded = match merge_of_one(&merged)? {
        Some(rows) => Some(rows),
        None => fold(&merged)?,
    };
    Ok(Some(folded.unwrap_or(merged)))
}

/// The plan without the exchange of a scan's rows or of groups below it; `None` if there is no such
/// exchange.
pub(crate) fn undealt(plan: &Arc<dyn ExecutionPlan>) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    if rows_below_exchange(plan)
        .is_some_and(|rows| rows.is::<RemoteScan>() || rows.is::<MergedGroups>())
    {
        return Ok(Some(Arc::clone(plan.children()[0])));
    }
    let passes_on = plan.is::<FilterExec>()
        || plan.is::<ProjectionExec>()
        || plan.is::<LocalLimitExec>()
        || plan.downcast_ref::<SortExec>().is_some_and(SortExec::preserve_partitioning);
    if !passes_on {
        return Ok(None);
    }
    let Some(below) = undealt(plan.children()[0])? else { return Ok(None) };
    let rows = Arc::clone(plan).replace_children(vec![below], RECOMPUTED)?;
    Ok(Some(fold(&rows)?.unwrap_or(rows)))
}

/// The scan below an operator that does nothing but hash-partition its rows.
fn scan_below_exchange(plan: &Arc<dyn ExecutionPlan>) -> Option<&RemoteScan> {
    rows_below_exchange(plan)?.downcast_ref::<RemoteScan>()
}

/// The input of an operator that does nothing but hash-partition it.
fn rows_below_exchange(plan: &Arc<dyn ExecutionPlan>) -> Option<&Arc<dyn ExecutionPlan>> {
    let dealt = plan.downcast_ref::<RepartitionExec>()?;
    let is_plain = matches!(dealt.partitioning(), Partitioning::Hash(..))
        && plan.properties().output_ordering().is_none();
    is_plain.then(|| dealt.input())
}

/// Translates an operator into a step over rows of this schema, and a description for EXPLAIN.
/// `one` says that one stream is read. Returns `None` if the operator has no form as a step.
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
            columns: column_positions(columns)?,
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
    let step_text = fetch.map_or("all".to_owned(), |fetch| fetch.to_string());
    let step = wire::Limit { skip: limit.skip() as u64, fetch };
    Some((Kind::Limit(step), format!("limit {step_text} offset {}", limit.skip())))
}

fn column_positions(columns: &[usize]) -> Option<Vec<u32>> {
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
    let step_text = format!("{half}aggregate [{}] by [{}]", names.join(", "), told_keys.join(", "));
    Some((Kind::Aggregate(wire::Aggregate { partial, keys, calls }), step_text))
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
    let step_text = match fetch {
        None => format!("sort {}", sort.expr()),
        Some(fetch) => format!("top {fetch} by {}", sort.expr()),
    };
    Some((Kind::Sort(wire::Sort { keys, fetch }), step_text))
}
