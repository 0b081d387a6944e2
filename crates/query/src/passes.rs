//! The table of all passes over plans.
//!
//! The rows of [`thalweg_dialect::passes::PASSES`] come first, then those of [`PASSES`]. The pass
//! of gateways comes from
//! [`RemoteScans::physical_rule`](crate::workers::RemoteScans::physical_rule). [`assembled`] puts
//! them among the passes of DataFusion, and fails if DataFusion lacks one that a row refers to.
//! `docs/internals/planning.md` shows the table.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use thalweg_dialect::passes::{
    self, Kind, MisplacedPasses, Nodes, Pass, Passes, Position, Rule, Upstream,
};
use thalweg_execution::equivalence_barriers::InsertEquivalenceBarriers;
use thalweg_execution::executor::YieldingOperators;
use thalweg_execution::filter_pushdown;
use thalweg_execution::fused::{FuseAggregates, QueryScheduler};
use thalweg_execution::scan::{FindFirstRows, PushDownThresholds};
use thalweg_execution::semi_join_filters::{self, ApplySemiJoinFilters};
use thalweg_execution::semi_join_pushdown::PushDownSemiJoins;
use thalweg_execution::sorted_groups::SortedGroups;
use thalweg_execution::sorted_unions::SortedUnions;
use thalweg_execution::top_n_per_group::PlanTopNPerGroup;

use crate::catalog::SessionCatalog;
use crate::workers::Cluster;

/// The parts of a planner that passes are made from.
pub(crate) struct PassContext {
    pub(crate) names: Arc<SessionCatalog>,
    pub(crate) scheduler: Arc<dyn QueryScheduler>,
    /// The cluster behind a gateway, or its absence.
    pub(crate) cluster: Arc<Cluster>,
}

/// All passes of a planner, with only those of ours whose names `keep` accepts.
///
/// # Errors
/// If passes have positions that do not exist.
pub(crate) fn assembled(
    context: &PassContext,
    keep: impl Fn(&str) -> bool,
) -> Result<Passes, MisplacedPasses> {
    let is_gateway = context.cluster.is_present();
    let of_dialect = passes::PASSES.iter().filter_map(|pass| pass.placed(&(), is_gateway));
    let of_query = PASSES.iter().filter_map(|pass| pass.placed(context, is_gateway));
    Passes::assemble(of_dialect.chain(of_query).filter(|pass| keep(pass.name)))
}

/// The passes of this crate, and the one of gateways, in the order in which they run.
static PASSES: [Pass<PassContext>; 13] = [
    Pass {
        name: "registered_names",
        kind: Kind::Analyzer,
        position: Position::Last,
        nodes: Nodes::All,
        reason: "Casts of regclass and its relatives to text return names, and the types of \
                 columns are known by then.",
        upstream: Upstream::NoneFound,
        rule: |context| Some(Rule::Analyzer(context.names.analyzer_rule())),
    },
    Pass {
        name: "push_down_semi_joins",
        kind: Kind::Logical,
        position: Position::Before("optimize_projections"),
        nodes: Nodes::All,
        reason: "IN and EXISTS with a condition filter the one table that they are about before \
                 that table is joined.",
        upstream: Upstream::NoneFound,
        rule: |_| Some(Rule::Logical(Arc::new(PushDownSemiJoins))),
    },
    Pass {
        name: "top_n_per_group",
        kind: Kind::Physical,
        position: Position::After("LimitedDistinctAggregation"),
        nodes: Nodes::Local,
        reason: "row_number() with an upper limit keeps the first rows of each group instead of \
                 sorting all rows; sorts and repartitioning are added later.",
        upstream: Upstream::Links(&["https://github.com/apache/datafusion/issues/6899"]),
        rule: |_| Some(Rule::Physical(Arc::new(PlanTopNPerGroup))),
    },
    Pass {
        name: "find_first_rows",
        kind: Kind::Physical,
        position: Position::After("LimitedDistinctAggregation"),
        nodes: Nodes::All,
        reason: "A scan below ORDER BY … LIMIT may find its rows in an index, as long as no \
                 operator repartitions them.",
        upstream: Upstream::NoneFound,
        rule: |_| Some(Rule::Physical(Arc::new(FindFirstRows))),
    },
    Pass {
        name: "fuse_aggregates",
        kind: Kind::Physical,
        position: Position::After("LimitedDistinctAggregation"),
        nodes: Nodes::All,
        reason: "Aggregates over one table run on its chunks; joins are ordered by then, and \
                 later passes would repartition the replaced operators.",
        upstream: Upstream::NoneFound,
        rule: |context| {
            let scheduler = Arc::clone(&context.scheduler);
            Some(Rule::Physical(Arc::new(FuseAggregates { scheduler })))
        },
    },
    Pass {
        name: "filter_pushdown",
        kind: Kind::Physical,
        position: Position::Around("FilterPushdown"),
        nodes: Nodes::All,
        reason: "The guarded pass confuses columns of one name above projections and moves \
                 filters to the wrong side of a join.",
        upstream: Upstream::Links(&["https://github.com/apache/datafusion/issues/21246"]),
        rule: |_| Some(Rule::PhysicalGuard(filter_pushdown::guarded)),
    },
    Pass {
        name: "equivalence_barriers",
        kind: Kind::Physical,
        position: Position::Before("EnsureRequirements"),
        nodes: Nodes::All,
        reason: "Constants, equalities and orders of an input are hidden where they do not hold \
                 above an operator, before sorts are left out because of them.",
        upstream: Upstream::Links(&[
            "https://github.com/apache/datafusion/pull/24958",
            "https://github.com/apache/datafusion/pull/25408",
            "https://github.com/apache/datafusion/pull/23528",
        ]),
        rule: |_| Some(Rule::Physical(Arc::new(InsertEquivalenceBarriers))),
    },
    Pass {
        name: "sorted_unions",
        kind: Kind::Physical,
        position: Position::After("EnsureRequirements"),
        nodes: Nodes::All,
        reason: "A union is sorted as a whole if DataFusion would reject its own merge of sorted \
                 parts.",
        upstream: Upstream::Links(&["https://github.com/apache/datafusion/issues/16171"]),
        rule: |_| Some(Rule::Physical(Arc::new(SortedUnions))),
    },
    Pass {
        name: "sorted_groups",
        kind: Kind::Physical,
        position: Position::After("LimitAggregation"),
        nodes: Nodes::All,
        reason: "A grouping over sorted rows gets no limit, with which it would lose groups or \
                 fail.",
        upstream: Upstream::Links(&["https://github.com/apache/datafusion/pull/25349"]),
        rule: |_| Some(Rule::Physical(Arc::new(SortedGroups))),
    },
    Pass {
        name: "yielding_operators",
        kind: Kind::Physical,
        position: Position::Last,
        nodes: Nodes::All,
        reason: "Joins and series that make many rows of few yield meanwhile; DataFusion's own \
                 pass for this skips everything below an operator that yields.",
        upstream: Upstream::Links(&["https://github.com/apache/datafusion/issues/19358"]),
        rule: |context| {
            Some(Rule::Physical(Arc::new(YieldingOperators {
                alone: !context.cluster.is_present(),
            })))
        },
    },
    Pass {
        name: "push_down_thresholds",
        kind: Kind::Physical,
        position: Position::Last,
        nodes: Nodes::All,
        reason: "Scans below ORDER BY … LIMIT skip chunks by the sort's threshold, followed by \
                 positions since names are ambiguous; sorts have their places by then.",
        upstream: Upstream::Links(&["https://github.com/apache/datafusion/issues/25296"]),
        rule: |_| Some(Rule::Physical(Arc::new(PushDownThresholds))),
    },
    Pass {
        name: semi_join_filters::PASS,
        kind: Kind::Physical,
        position: Position::Last,
        nodes: Nodes::Local,
        reason: "Scans wait for the keys of a join's filtered first side and leave out other \
                 rows.",
        upstream: Upstream::NoneFound,
        rule: |_| Some(Rule::Physical(Arc::new(ApplySemiJoinFilters))),
    },
    Pass {
        name: "fold_into_remote_scans",
        kind: Kind::Physical,
        position: Position::Last,
        nodes: Nodes::Gateway,
        reason: "Operators over the rows of one table run on the workers that hold them, and \
                 large joins and groupings in stages between workers.",
        upstream: Upstream::NoneFound,
        rule: |context| Some(Rule::Physical(context.cluster.scans.physical_rule())),
    },
];
