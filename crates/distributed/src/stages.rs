//! Queries that run between workers: joins that are not on the shard key, groupings and windows
//! with many groups.
//!
//! A plan of a gateway is operators over [`RemoteScan`]s, whose rows all come to the gateway. Where
//! fewer bytes come to one node by it ([`choice`]), the plan is cut into *stages* instead. A stage
//! has a task on each worker; the tasks of the lowest ones read the worker's own rows, and those
//! above read what all tasks below dealt out to them by a hash, or sent to each of them. The
//! gateway reads the last stage.
//!
//! Where to cut, and running a task, is `datafusion-distributed`'s; nothing outside of this module
//! knows of it. What nodes say to each other are questions as all others ([`Exchange`]): over
//! connections that are secured alike, with the version of the map and the number of definitions.
//!
//! Promises: a plan of which a part could not travel, or would mean something else in many tasks,
//! stays at the gateway; its answer is the same. A task that fails, or whose worker is gone, fails
//! the query with an error that says where. Nothing is left of a query that nobody reads any more.

mod channel;
mod choice;
mod colocated;
mod leaf;
mod peers;
mod planning;
mod serving;
mod staged;
mod travel;

use std::fmt;
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::analyze::AnalyzeExec;
use thalweg_cluster::link::NodeName;
use thalweg_protocol::cluster::work::Kind;
use thalweg_query::{RECOMPUTED, Stages};

use self::choice::Choice;
use self::colocated::colocated;
use self::planning::OnDistributed;
use crate::gateway::Shared;
use crate::scan::{Opening, RemoteScan};

pub(crate) use peers::Peers;
pub(crate) use serving::Tasks;

type Plan = Arc<dyn ExecutionPlan>;

/// What carries the questions of stages between nodes.
pub(crate) trait Exchange: Send + Sync + 'static {
    /// Asks a worker. Dropping what this gives ends the question.
    fn ask(&self, worker: NodeName, kind: Kind) -> Opening;
}

/// What makes stages of plans.
trait Distributor: Send + Sync {
    /// Says where its tasks run.
    fn workers(&self) -> usize;

    /// The same plan in stages, which tells why it is; or why it cannot be.
    fn distribute(
        &self,
        plan: &Plan,
        why: &str,
        partitions: usize,
    ) -> std::result::Result<Plan, String>;
}

/// Makes stages of plans, behind the pass that folds work into their scans.
pub(crate) struct RunAsStages {
    distributor: Box<dyn Distributor>,
}

impl RunAsStages {
    pub(crate) fn new(shared: &Arc<Shared>) -> RunAsStages {
        RunAsStages { distributor: Box::new(OnDistributed::new(shared)) }
    }

    fn decided(&self, plan: Plan, partitions: usize) -> Result<Plan> {
        let Some(wish) = wish(&plan)? else { return Ok(plan) };
        if wish == Stages::Off {
            return Ok(plan);
        }
        let placed = colocated(&plan)?;
        let choice = match (wish, choice::choice(&plan, &placed, self.distributor.workers())?) {
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
        told(plan, &why_not.into())
    }
}

impl fmt::Debug for RunAsStages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RunAsStages")
    }
}

impl RunAsStages {
    /// What becomes of a plan into whose scans everything is folded that workers do alone.
    pub(crate) fn planned(&self, plan: Plan, config: &ConfigOptions) -> Result<Plan> {
        let partitions = config.execution.target_partitions;
        let Some(analyze) = plan.downcast_ref::<AnalyzeExec>() else {
            return self.decided(plan, partitions);
        };
        let analyzed = self.decided(Arc::clone(analyze.input()), partitions)?;
        plan.replace_children(vec![analyzed], RECOMPUTED)
    }
}

/// What the session wants; `None` where no worker is asked.
fn wish(plan: &Plan) -> Result<Option<Stages>> {
    let mut wish = None;
    plan.apply(|node| {
        let Some(scan) = node.downcast_ref::<RemoteScan>() else {
            return Ok(TreeNodeRecursion::Continue);
        };
        wish = Some(scan.stages());
        Ok(TreeNodeRecursion::Stop)
    })?;
    Ok(wish)
}

/// Lets the scans tell why they are gathered.
fn told(plan: Plan, why: &Arc<str>) -> Result<Plan> {
    let told = plan.transform_up(|node| match node.downcast_ref::<RemoteScan>() {
        Some(scan) => Ok(Transformed::yes(Arc::new(scan.gathered(why)) as Plan)),
        None => Ok(Transformed::no(node)),
    });
    told.map(|told| told.data)
}
