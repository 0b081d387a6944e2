//! Queries that run between workers: joins that are not on the shard key, and groupings and windows
//! with many groups.
//!
//! A gateway's plan has operators over [`RemoteScan`]s, whose rows all come to the gateway. If that
//! moves more bytes to one node than necessary ([`choice`]), the plan is cut into *stages* instead.
//! A stage has a task on each worker. The tasks of the lowest stages read the worker's own rows.
//! The tasks above read the rows that all tasks below partition by hash or broadcast. The gateway
//! reads the last stage.
//!
//! Cutting plans and running tasks is left to `datafusion-distributed`, which no other module uses.
//! Messages of stages between nodes are requests like all others ([`Exchange`]): over equally
//! secured connections, with the version of the map and the number of definitions.
//!
//! Invariants: a plan stays at the gateway if a part of it cannot be serialized, or would have
//! another meaning in many tasks; its answer is the same. A task that fails, or whose worker is
//! gone, fails the query with an error that names the worker. No task outlives the reader of its
//! query.

mod channel;
mod choice;
mod colocated;
mod leaf;
mod peers;
mod planning;
mod portability;
mod staged;
mod worker_tasks;

use std::fmt;
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::analyze::AnalyzeExec;
use thalweg_cluster::link::NodeName;
use thalweg_execution::operator::RECOMPUTED;
use thalweg_protocol::cluster::work::Kind;
use thalweg_query::Stages;

use self::choice::Choice;
use self::colocated::colocated;
use self::planning::OnDistributed;
use crate::gateway::Shared;
use crate::scan::{Opening, RemoteScan};

pub(crate) use peers::Peers;
pub(crate) use worker_tasks::Tasks;

type Plan = Arc<dyn ExecutionPlan>;

/// Transport of requests for stages between nodes.
pub(crate) trait Exchange: Send + Sync + 'static {
    /// Sends a request to a worker. Dropping the returned task cancels the request.
    fn ask(&self, worker: NodeName, kind: Kind) -> Opening;
}

/// Cuts plans into stages.
trait Distributor: Send + Sync {
    /// Number of workers on which tasks run.
    fn workers(&self) -> usize;

    /// The plan in stages, with `why` for EXPLAIN; or the reason why it cannot be cut.
    fn distribute(
        &self,
        plan: &Plan,
        why: &str,
        partitions: usize,
    ) -> std::result::Result<Plan, String>;
}

/// The planner step that cuts plans into stages, after operators were folded into their scans.
pub(crate) struct RunAsStages {
    distributor: Box<dyn Distributor>,
}

impl RunAsStages {
    pub(crate) fn new(shared: &Arc<Shared>) -> RunAsStages {
        RunAsStages { distributor: Box::new(OnDistributed::new(shared)) }
    }

    fn decided(&self, plan: Plan, partitions: usize) -> Result<Plan> {
        let Some(stages_setting) = stages_setting(&plan)? else { return Ok(plan) };
        if stages_setting == Stages::Off {
            return Ok(plan);
        }
        let placed = colocated(&plan)?;
        let choice =
            match (stages_setting, choice::choice(&plan, &placed, self.distributor.workers())?) {
                (_, None) => return Ok(plan),
                (Stages::On, Some(Choice::Gather(_))) => Choice::Stages("they are on".to_owned()),
                (_, Some(choice)) => choice,
            };
        let why_not = match choice {
            Choice::Gather(why) => why,
            Choice::Stages(why) => match self.distributor.distribute(&placed, &why, partitions) {
                Ok(staged) => return Ok(staged),
                Err(why_not) => why_not,
            },
        };
        with_reasons(plan, &why_not.into())
    }
}

impl fmt::Debug for RunAsStages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RunAsStages")
    }
}

impl RunAsStages {
    /// Decides on a plan whose scans contain all operators that workers can run alone.
    pub(crate) fn planned(&self, plan: Plan, config: &ConfigOptions) -> Result<Plan> {
        let partitions = config.execution.target_partitions;
        let Some(analyze) = plan.downcast_ref::<AnalyzeExec>() else {
            return self.decided(plan, partitions);
        };
        let analyzed = self.decided(Arc::clone(analyze.input()), partitions)?;
        plan.replace_children(vec![analyzed], RECOMPUTED)
    }
}

/// The session's setting for stages; `None` if the plan asks no worker.
fn stages_setting(plan: &Plan) -> Result<Option<Stages>> {
    let mut stages_setting = None;
    plan.apply(|node| {
        let Some(scan) = node.downcast_ref::<RemoteScan>() else {
            return Ok(TreeNodeRecursion::Continue);
        };
        stages_setting = Some(scan.stages());
        Ok(TreeNodeRecursion::Stop)
    })?;
    Ok(stages_setting)
}

/// Stores in the scans why they are gathered, for EXPLAIN.
fn with_reasons(plan: Plan, why: &Arc<str>) -> Result<Plan> {
    let annotated = plan.transform_up(|node| match node.downcast_ref::<RemoteScan>() {
        Some(scan) => Ok(Transformed::yes(Arc::new(scan.gathered(why)) as Plan)),
        None => Ok(Transformed::no(node)),
    });
    annotated.map(|annotated| annotated.data)
}
