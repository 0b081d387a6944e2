//! Cutting plans into stages, with `datafusion-distributed`.
//!
//! All stages have a task on each worker: task *n* runs on the *n*th worker of the map, so that the
//! tasks of a scan are where the rows are. Operators that run in one partition at the gateway have
//! to run in one task. The planner ensures this wherever partitions are merged. A scan of one
//! worker has only one partition, so it gets a merge for this purpose.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use datafusion::execution::context::QueryPlanner;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::prelude::SessionConfig;
use datafusion_distributed::{
    DesiredTaskCountEvent, DesiredTaskCountEventResponse, DistributedExec, DistributedExt as _,
    DistributedLeafExec, MaybeEncoded, NetworkBoundaryExt as _, RouteTasksEvent,
    RouteTasksEventResponse, ScaleUpLeafNodeEvent, ScaleUpLeafNodeEventResponse,
    SessionStateBuilderExt as _, WorkerResolver,
};
use futures::FutureExt as _;
use thalweg_execution::staged::Staged;
use thalweg_query::Gathering;
use thalweg_types::Error;
use thalweg_values::errors::external;
use tokio::sync::mpsc;
use url::Url;

use super::channel::Channels;
use super::leaf::{LeafCodec, leaves};
use super::staged::Runner;
use super::{Distributor, Plan, choice, peers, portability};
use crate::gateway::Shared;
use crate::scan::RemoteScan;

/// The only [`Distributor`].
pub(super) struct OnDistributed {
    shared: Arc<Shared>,
}

impl OnDistributed {
    pub(super) fn new(shared: &Arc<Shared>) -> OnDistributed {
        OnDistributed { shared: Arc::clone(shared) }
    }
}

impl Distributor for OnDistributed {
    fn workers(&self) -> usize {
        self.shared.map().current().workers().len()
    }

    fn distribute(
        &self,
        plan: &Plan,
        why: &str,
        partitions: usize,
    ) -> std::result::Result<Plan, String> {
        if let Some(why) = choice::no_stages(self.workers()) {
            return Err(why);
        }
        let reason = |error: DataFusionError| first_line(&error.strip_backtrace());
        if let Some(why) = portability::reason_to_gather(plan).map_err(reason)? {
            return Err(why);
        }
        let stages = in_stages(plan, &self.shared, partitions).map_err(reason)?;
        if !stages.is::<DistributedExec>() {
            return Err("there is one task".to_owned());
        }
        can_be_sent(&stages).map_err(reason)?;
        let runner = Runner::new(&self.shared, plan, Arc::clone(&stages), partitions, why);
        Ok(Arc::new(Staged::new(stages, Arc::new(runner))))
    }
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_owned()
}

/// Cuts a plan into stages; returns it unchanged if no stage has more than one task. Each call
/// makes new numbers, so that tasks of two runs do not meet.
pub(super) fn in_stages(plan: &Plan, shared: &Arc<Shared>, partitions: usize) -> Result<Plan> {
    let mut config = SessionConfig::new().with_target_partitions(partitions);
    configure(&mut config, shared, None)?;
    let state = SessionStateBuilder::new()
        .with_config(config)
        .with_query_planner(Arc::new(PlannedAlready(merged(plan)?)))
        .with_distributed_planner()
        .build();
    let planner = Arc::clone(state.query_planner());
    let nothing = LogicalPlan::default();
    // The future never waits: all of its callbacks answer at once.
    let planned = planner.create_physical_plan(&nothing, &state).now_or_never();
    planned.unwrap_or_else(|| Ok(Arc::clone(plan)))
}

/// Puts a merge above scans of one partition.
fn merged(plan: &Plan) -> Result<Plan> {
    let merged = Arc::clone(plan).transform_up(|node| {
        let is_one = node.properties().partitioning.partition_count() == 1;
        if !is_one || !node.is::<RemoteScan>() {
            return Ok(Transformed::no(node));
        }
        let merged: Plan = match node.properties().output_ordering().cloned() {
            Some(order) => Arc::new(SortPreservingMergeExec::new(order, node)),
            None => Arc::new(CoalescePartitionsExec::new(node)),
        };
        Ok(Transformed::yes(merged))
    });
    merged.map(|merged| merged.data)
}

/// Configures how stages are made and run. Errors of tasks are sent to `failures`.
pub(super) fn configure(
    config: &mut SessionConfig,
    shared: &Arc<Shared>,
    failures: Option<mpsc::UnboundedSender<Error>>,
) -> Result<()> {
    let map = shared.map().current();
    let urls = map.workers().iter().map(peers::url).collect::<thalweg_types::Result<Vec<Url>>>();
    let owners = Arc::new(Owners(urls.map_err(external)?));
    config.set_extension(Arc::clone(&owners));
    config.set_distributed_worker_resolver(Known(owners));
    config.set_distributed_user_codec(LeafCodec::writing());
    let exchange = Arc::new(Arc::clone(shared));
    let memory = config.get_extension::<Gathering>().and_then(|gathering| gathering.memory);
    config.set_distributed_channel_resolver(Channels { exchange, failures, memory });
    config.set_distributed_desired_task_count_handler(tasks_of_scan);
    config.set_distributed_scale_up_leaf_node_handler(parts_of_scan);
    config.set_distributed_route_tasks_handler(to_owners);
    config.set_distributed_metrics_collection(false)?;
    // Each task of a union runs a part of every input.
    config.set_distributed_children_isolator_unions(false)
}

/// A planner that returns a finished plan.
#[derive(Debug)]
struct PlannedAlready(Plan);

#[async_trait]
impl QueryPlanner for PlannedAlready {
    async fn create_physical_plan(&self, _: &LogicalPlan, _: &dyn Session) -> Result<Plan> {
        Ok(Arc::clone(&self.0))
    }
}

/// All workers, in the order of the map.
struct Owners(Vec<Url>);

struct Known(Arc<Owners>);

impl WorkerResolver for Known {
    fn get_urls(&self) -> Result<Vec<Url>> {
        Ok(self.0.0.clone())
    }
}

fn tasks_of_scan(
    event: DesiredTaskCountEvent<'_>,
) -> Option<Result<DesiredTaskCountEventResponse>> {
    event.plan.downcast_ref::<RemoteScan>()?;
    let owners = event.session_config.get_extension::<Owners>()?;
    Some(Ok(DesiredTaskCountEventResponse::desired(owners.0.len())))
}

fn parts_of_scan(event: ScaleUpLeafNodeEvent<'_>) -> Option<Result<ScaleUpLeafNodeEventResponse>> {
    let scan = event.plan.downcast_ref::<RemoteScan>()?;
    let owners = event.session_config.get_extension::<Owners>()?;
    if event.task_count != owners.0.len() {
        let why = "a scan would have to run in one task".to_owned();
        return Some(Err(DataFusionError::Plan(why)));
    }
    let parts = leaves(scan, owners.0.len())
        .and_then(|leaves| DistributedLeafExec::try_new(Arc::clone(event.plan), leaves));
    Some(parts.map(|parts| ScaleUpLeafNodeEventResponse::new(Arc::new(parts))))
}

fn to_owners(event: RouteTasksEvent<'_>) -> Option<Result<RouteTasksEventResponse>> {
    let owners = event.task_ctx.session_config().get_extension::<Owners>()?;
    let urls = owners.0.iter().cycle().take(event.task_count).cloned().collect();
    Some(Ok(RouteTasksEventResponse::new(urls)))
}

/// Checks that all stages can be serialized.
fn can_be_sent(stages: &Plan) -> Result<()> {
    let mut config = SessionConfig::new();
    config.set_distributed_user_codec(LeafCodec::writing());
    let context = Arc::new(TaskContext::default().with_session_config(config));
    stages.apply(|node| {
        let Some(boundary) = node.as_network_boundary() else {
            return Ok(TreeNodeRecursion::Continue);
        };
        if let Some(stage) = boundary.input_stage().local_plan() {
            let sent = Arc::clone(stage).transform_down(|node| {
                let part = node.downcast_ref::<DistributedLeafExec>();
                match part.and_then(|leaf| leaf.variants().first()) {
                    Some(part) => Ok(Transformed::yes(Arc::clone(part))),
                    None => Ok(Transformed::no(node)),
                }
            })?;
            MaybeEncoded::Decoded(sent.data).encode(&context)?;
        }
        // Encoding a stage includes the nodes below it.
        Ok(TreeNodeRecursion::Jump)
    })?;
    Ok(())
}
