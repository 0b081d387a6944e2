//! Planners: a DataFusion session state, bound to the names of one statement at a time.
//!
//! A state has some hundreds of functions and rules, too much memory for every idle connection.
//! Sessions borrow a planner for one statement; idle planners are pooled.

use std::collections::HashSet;
use std::sync::{Arc, OnceLock};

use datafusion::execution::memory_pool::MemoryPool;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};
use parking_lot::Mutex;
use thalweg_env::Threads;
use thalweg_execution::cancellable_rules::with_cancellation_checks;
use thalweg_execution::executor::Executor;
use thalweg_execution::fused::{QueryScheduler, Scheduling};
use thalweg_execution::planning::PlanningThreads;
use thalweg_execution::sleep;
use thalweg_types::{Error, Result, TableId};
use thalweg_values::statement_control::StatementsMemory;

use crate::catalog::{Catalogs, DATABASE, SessionCatalog, UNQUALIFIED};
use crate::locks;
use crate::passes::{self, PassContext};
use crate::workers::{Cluster, NumberedElsewhere};
use crate::{ctes, privileges, sequences};

/// Maximum number of idle planners in the pool.
const IDLE_MAX: usize = 64;

/// A larger build side of a join is hash-partitioned. DataFusion partitions builds of more than 128
/// Ki rows if the size is unknown; for common row sizes this is about as many.
const COLLECTED_BYTES_MAX: usize = 4 << 20;

pub(crate) struct Planner {
    pub(crate) context: SessionContext,
    pub(crate) names: Arc<SessionCatalog>,
}

impl Planner {
    fn new(shared: &Planners) -> Result<Planner> {
        Planner::with_passes(shared, |_| true)
    }

    /// A planner with only those passes of ours whose names `keep` accepts.
    fn with_passes(shared: &Planners, keep: impl Fn(&str) -> bool) -> Result<Planner> {
        let names = SessionCatalog::new(Arc::clone(shared.cluster_or_absent()));
        let passes = passes::assembled(&shared.context_of_passes(&names), keep)?;
        let builder = SessionStateBuilder::new()
            .with_config(shared.config())
            .with_runtime_env(Arc::clone(&shared.runtime))
            .with_catalog_list(Arc::new(Catalogs(Arc::clone(&names))));
        let mut builder = passes.install(thalweg_dialect::configure(builder));
        with_cancellation_checks(&mut builder);
        let functions = builder.scalar_functions().get_or_insert_default();
        functions.extend(names.functions());
        functions.extend(locks::functions());
        functions.extend(sequences::functions(&names));
        functions.push(sleep::function());
        let mut state = builder.build();
        ctes::register(&mut state).map_err(|error| {
            Error::internal("the session takes no planners of relations").with_source(error)
        })?;
        let context = SessionContext::new_with_state(state);
        names.bind(Arc::downgrade(&context.state_ref()));
        privileges::functions(&names).into_iter().for_each(|who| context.register_udf(who));
        Ok(Planner { context, names })
    }

    /// A planner that lacks one pass of ours.
    #[cfg(test)]
    pub(crate) fn without_pass(shared: &Planners, pass: &str) -> Result<Planner> {
        Planner::with_passes(shared, |name| name != pass)
    }
}

/// The idle planners.
pub(crate) struct Planners {
    runtime: Arc<RuntimeEnv>,
    executor: Arc<Executor>,
    planning: Arc<PlanningThreads>,
    scheduler: Arc<dyn QueryScheduler>,
    threads: usize,
    idle: Mutex<Vec<Planner>>,
    cluster: OnceLock<Arc<Cluster>>,
    /// Tables of a gateway whose counters were raised above the numbers of their rows.
    counted: Mutex<HashSet<TableId>>,
}

impl Planners {
    /// # Errors
    /// If the system refuses threads; if a pass has no position among those of DataFusion.
    pub(crate) fn new(
        runtime: Arc<RuntimeEnv>,
        threads: usize,
        scheduler: Arc<dyn QueryScheduler>,
        starter: Arc<dyn Threads>,
        memory: StatementsMemory,
    ) -> Result<Planners> {
        let executor = Arc::new(Executor::start(threads, memory)?);
        let planning = PlanningThreads::new(threads, starter, executor.handle());
        let planners = Planners {
            runtime,
            executor,
            planning: Arc::new(planning),
            scheduler,
            threads,
            idle: Mutex::default(),
            cluster: OnceLock::new(),
            counted: Mutex::default(),
        };
        // A pass without a position is reported when the database is opened.
        let context =
            planners.context_of_passes(&SessionCatalog::new(Arc::clone(Cluster::absent())));
        passes::assembled(&context, |_| true)?;
        Ok(planners)
    }

    fn context_of_passes(&self, names: &Arc<SessionCatalog>) -> PassContext {
        PassContext {
            names: Arc::clone(names),
            scheduler: Arc::clone(&self.scheduler),
            cluster: Arc::clone(self.cluster_or_absent()),
        }
    }

    /// The configuration of a new planner.
    fn config(&self) -> SessionConfig {
        let cluster = self.cluster_or_absent();
        let partitions = self.threads.max(cluster.scans.partitions_min());
        let mut config = SessionConfig::new()
            .with_extension(Arc::clone(&self.executor))
            .with_extension(Arc::new(Scheduling(Arc::clone(&self.scheduler))))
            .with_target_partitions(partitions)
            // Round-robin distribution loses the order of a series or a sorted subquery, which
            // users expect to see kept. Scans split tables and files into parts themselves.
            .with_round_robin_repartition(false)
            .with_information_schema(false)
            .with_create_default_catalog_and_schema(false)
            .with_default_catalog_and_schema(DATABASE, UNQUALIFIED);
        if let Err(refusal) = cluster.definitions.may_number() {
            config = config.with_extension(Arc::new(NumberedElsewhere(refusal)));
        }
        let optimizer = &mut config.options_mut().optimizer;
        optimizer.hash_join_single_partition_threshold = COLLECTED_BYTES_MAX;
        // Its bounds distinguish the two zeros, which joins treat as equal. Scans get the keys of
        // joins in another way (`semi_join_filters`).
        optimizer.enable_join_dynamic_filter_pushdown = false;
        config
    }

    /// The planners of another database, which share this one's threads and memory.
    pub(crate) fn beside(&self) -> Planners {
        Planners {
            runtime: Arc::clone(&self.runtime),
            executor: Arc::clone(&self.executor),
            planning: Arc::clone(&self.planning),
            scheduler: Arc::clone(&self.scheduler),
            threads: self.threads,
            idle: Mutex::default(),
            cluster: OnceLock::new(),
            counted: Mutex::default(),
        }
    }

    /// From now on, planners read rows from the cluster's workers.
    pub(crate) fn attach(&self, cluster: Arc<Cluster>) {
        // A second call has no effect.
        let _ = self.cluster.set(cluster);
        self.idle.lock().clear();
    }

    fn cluster_or_absent(&self) -> &Arc<Cluster> {
        self.cluster.get().unwrap_or_else(|| Cluster::absent())
    }

    /// True if the counters of a gateway's table must still be raised.
    pub(crate) fn counts_anew(&self, table: TableId) -> bool {
        !self.counted.lock().contains(&table)
    }

    pub(crate) fn counted(&self, table: TableId) {
        self.counted.lock().insert(table);
    }

    /// The threads that queries run on.
    pub(crate) fn executor(&self) -> &Arc<Executor> {
        &self.executor
    }

    /// The pool of memory of all statements.
    pub(crate) fn memory_pool(&self) -> &Arc<dyn MemoryPool> {
        &self.runtime.memory_pool
    }

    /// The threads that statements are planned on.
    pub(crate) fn planning(&self) -> &PlanningThreads {
        &self.planning
    }

    /// The scheduler of fused aggregates.
    pub(crate) fn scheduler(&self) -> &Arc<dyn QueryScheduler> {
        &self.scheduler
    }

    /// The memory and the disk that queries share.
    pub(crate) fn runtime(&self) -> &RuntimeEnv {
        &self.runtime
    }

    /// An idle planner, or a new one.
    ///
    /// # Errors
    /// If a new one cannot be made.
    pub(crate) fn take(&self) -> Result<Planner> {
        let idle = self.idle.lock().pop();
        idle.map_or_else(|| Planner::new(self), Ok)
    }

    /// Takes back a planner whose settings are still the initial ones.
    pub(crate) fn give_back(&self, planner: Planner) {
        planner.names.forget();
        let mut idle = self.idle.lock();
        if idle.len() < IDLE_MAX {
            idle.push(planner);
        }
    }
}

#[cfg(test)]
mod tests {
    use datafusion::logical_expr::Volatility;
    use thalweg_dialect::rewrite::{is_aggregate, is_volatile};

    use crate::Database;

    #[test]
    fn rewrites_know_every_volatile_function() {
        let database = Database::builder().open().unwrap();
        let planner = database.shared.planners.take().unwrap();
        let state = planner.context.state();
        let functions = state.scalar_functions();
        let is_unknown = |name: &&String| {
            functions[*name].signature().volatility == Volatility::Volatile && !is_volatile(name)
        };
        let mut unknown: Vec<&String> = functions.keys().filter(is_unknown).collect();
        unknown.sort();
        assert_eq!(unknown, Vec::<&String>::new());
    }

    #[test]
    fn rewrites_know_every_aggregate() {
        let database = Database::builder().open().unwrap();
        let planner = database.shared.planners.take().unwrap();
        let state = planner.context.state();
        let mut unknown: Vec<&String> =
            state.aggregate_functions().keys().filter(|name| !is_aggregate(name)).collect();
        unknown.sort();
        assert_eq!(unknown, Vec::<&String>::new());
    }
}
