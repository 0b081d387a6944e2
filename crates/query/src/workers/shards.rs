//! The functions that a worker's database provides to gateways.
//!
//! [`Shards`] scans rows, checks and makes changes, and follows definitions, for one database. Rows
//! are identified by row handles, which are valid for one run of the worker. The transport is in
//! `thalweg-distributed`.

mod cached_plans;
mod keyed;
mod row_handles;
mod shard_statistics;
#[cfg(test)]
mod tests;
mod write_checks;

pub use cached_plans::ShardPlan;
pub use keyed::PackedRows;
pub use shard_statistics::ShardStatistics;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use arrow::array::{Array as _, ArrayRef};
use arrow::compute::BatchCoalescer;
use arrow::datatypes::{DataType, SchemaRef};
use arrow::record_batch::RecordBatch;
use datafusion::common::ScalarValue;
use datafusion::error::Result as PlanResult;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::session_state::{SessionState, SessionStateBuilder};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, Column, lit};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::prelude::SessionConfig;
use futures::Stream;
use thalweg_execution::executor::Executor;
use thalweg_execution::fused::{self, FusedAggregate};
use thalweg_execution::memory;
use thalweg_execution::scan::{
    Purpose, ROW_ID, ScanRequest, ShardScan, States, scan_schema, with_thresholds,
};
use thalweg_execution::task::without_functions;
use thalweg_runtime::spawn_blocking;
use thalweg_store::{ClosedChunk, TableState, arrow_schema};
use thalweg_txn::{
    CatalogChange, Durability, NewRows, RowChanges, Snapshot, TableChanges, Transaction, WriteSet,
    fingerprint, no_table,
};
use thalweg_types::{ColumnId, Error, Result, RowId, SqlState, TableId, TableSchema};
use thalweg_values::errors::external;
use thalweg_values::statement_control::StatementControl;

use self::row_handles::RowHandles;
use super::{Definition, Holders, journal};
use crate::database::Database;
use crate::plan_cache::is_short;
use crate::planner::Planner;

/// Batches of at least this many rows become chunks of their own, with dictionaries. With thousands
/// of workers, the part of one is hardly larger.
const CHUNK_ROWS_MIN: usize = 8_192;

/// The shards of tables that one database holds.
#[derive(Clone)]
pub struct Shards {
    database: Database,
    /// Other databases whose rows are read together with these.
    others: Arc<[Database]>,
    /// Tables with rows that were written by key.
    written: Arc<keyed::WrittenTables>,
    /// Translates between row ids and row handles of gateways.
    row_handles: RowHandles,
}

/// The rows and columns of a shard that a gateway asks for.
pub struct ShardRows {
    pub table: TableId,
    /// In the requested order. `None` stands for the row handle.
    pub columns: Vec<Option<ColumnId>>,
    /// The table's columns as the gateway knows them. The filter refers to these.
    pub table_columns: Vec<ColumnId>,
    /// The part of row handles that identifies the node.
    pub place_base: u64,
    /// A filter that operators above apply, over the table's columns followed by the row handle.
    /// Chunks may be left out by it.
    pub filter: Option<Arc<dyn PhysicalExpr>>,
    pub limit: Option<usize>,
    /// Row handles of rows that a transaction of the gateway deleted. They are left out.
    pub hidden: Vec<RowId>,
    /// True if the plan will be kept for other runs.
    pub is_cached: bool,
}

impl Database {
    /// The functions of the database as a worker. This begins a new run: row handles from before
    /// refer to no rows in it.
    #[must_use]
    pub fn shards(&self) -> Shards {
        Shards {
            database: self.clone(),
            others: Arc::new([]),
            written: Arc::default(),
            row_handles: RowHandles::of_run(self.env().random.next_u64()),
        }
    }
}

impl Shards {
    /// A copy whose scans also read the rows of `others`. All else concerns this database only.
    #[must_use]
    pub fn together(&self, others: Vec<Shards>) -> Shards {
        let others = others.into_iter().map(|other| other.database).collect();
        Shards { others, ..self.clone() }
    }

    /// Follows the definitions that another database has followed and this one has not.
    ///
    /// # Errors
    /// As [`define`](Self::define), and if the other's journal cannot be read.
    pub async fn follow(&self, ahead: &Shards) -> Result<()> {
        for definition in ahead.database.definitions_after(self.last_definition()).await? {
            self.define(&definition).await?;
        }
        Ok(())
    }

    /// A table's current rows in this database and the others.
    ///
    /// # Errors
    /// If there is no such table, a hidden row was changed meanwhile, or the databases have not
    /// followed the same definitions.
    fn states(&self, snapshot: &Snapshot, id: TableId, hidden: &[RowId]) -> Result<States> {
        let hidden = self.row_handles.rows(hidden);
        let first = without(snapshot.table(id).ok_or_else(dropped)?, &hidden)?;
        let others = self.others.iter().map(|other| {
            let other = other.shared.engine.snapshot().table(id).cloned();
            other.filter(|other| other.schema() == first.schema()).ok_or_else(altered_meanwhile)
        });
        let others = others.collect::<Result<Vec<_>>>()?;
        Ok(States::together(first, others))
    }

    /// The number of the last definition that this database followed.
    #[must_use]
    pub fn last_definition(&self) -> u64 {
        self.database.last_definition()
    }

    /// Checks that a definition can be followed.
    ///
    /// # Errors
    /// The reason why not.
    pub fn can_define(&self, definition: &Definition) -> Result<()> {
        let mut transaction = self.defining(definition)?;
        for change in definition.changes()? {
            if let CatalogChange::AlterTable { schema, .. } = change {
                // A later change of the same definition may drop it.
                let Some(entry) = transaction.catalog().table(schema.id) else { continue };
                let schema = Arc::clone(&entry.schema);
                no_nulls(&schema, transaction.state(schema.id)?.as_ref())?;
            }
        }
        Ok(())
    }

    fn defining(&self, definition: &Definition) -> Result<Transaction> {
        if definition.number != self.last_definition() + 1 {
            let message = format!(
                "definition {} does not follow on {}",
                definition.number,
                self.last_definition()
            );
            return Err(Error::new(SqlState::STALE_DEFINITIONS, message));
        }
        let mut transaction = Transaction::new(self.database.shared.engine.snapshot());
        for change in definition.changes()? {
            transaction.change_catalog(change)?;
        }
        Ok(transaction)
    }

    /// Follows a definition; does nothing if it was followed before.
    ///
    /// # Errors
    /// If it cannot be followed, or is not the next one.
    pub async fn define(&self, definition: &Definition) -> Result<()> {
        let shared = &self.database.shared;
        let turn = Arc::clone(&shared.defining).lock_owned().await;
        if definition.number <= self.last_definition() {
            return Ok(());
        }
        let mut transaction = self.defining(definition)?;
        journal::append(&mut transaction, definition)?;
        // Runs to its end even if the caller is gone, so that the journal and the counter agree.
        let (number, following) = (definition.number, Arc::clone(shared));
        let followed = async move {
            let _turn = turn;
            following.commit_here(transaction, following.durability).await?;
            following.definitions.store(number, Ordering::Release);
            Ok::<_, Error>(())
        };
        shared.planners.executor().to_its_end(followed).await
    }

    /// A table's columns, followed by the row handle.
    ///
    /// # Errors
    /// If there is no such table.
    pub fn schema(&self, id: TableId) -> Result<SchemaRef> {
        let snapshot = self.database.shared.engine.snapshot();
        let table = table(&snapshot, id)?;
        Ok(scan_schema(&arrow_schema(&table), true))
    }

    /// An operator that reads the current rows.
    ///
    /// # Errors
    /// If there is no such table, it lacks one of these columns, or a hidden row was changed
    /// meanwhile.
    pub fn scan(&self, rows: &ShardRows) -> PlanResult<Arc<dyn ExecutionPlan>> {
        let snapshot = self.database.shared.engine.snapshot();
        let schema = table(&snapshot, rows.table).map_err(external)?;
        let states = self.states(&snapshot, rows.table, &rows.hidden).map_err(external)?;
        let columns = rows.columns.iter().map(|column| match column {
            None => Ok(schema.columns.len()),
            Some(id) => schema.position(*id).ok_or_else(|| external(altered(&schema))),
        });
        let projection = columns.collect::<PlanResult<Vec<usize>>>()?;
        let table_schema = scan_schema(&arrow_schema(&schema), true);
        let known = schema.columns.iter().map(|column| column.id);
        let filter = rows.filter.as_ref().filter(|_| known.eq(rows.table_columns.iter().copied()));
        let request = ScanRequest {
            table: &schema.name,
            schema: &table_schema,
            projection,
            filter,
            limit: rows.limit,
            threads: self.database.shared.threads,
            purpose: if rows.is_cached { Purpose::Parts } else { Purpose::Part },
        };
        let scan: Arc<dyn ExecutionPlan> = Arc::new(ShardScan::new(&states, request)?);
        match rows.columns.contains(&None) {
            true => as_places(scan, self.row_handles.mask(rows.place_base)),
            false => Ok(scan),
        }
    }

    /// A fused aggregate with the same result; `None` if only DataFusion's operators can compute it
    /// correctly.
    ///
    /// # Errors
    /// Planning errors.
    pub fn fused(
        &self,
        aggregate: Arc<dyn ExecutionPlan>,
    ) -> PlanResult<Option<Arc<dyn ExecutionPlan>>> {
        let plan = fused::fuse(aggregate, self.database.shared.planners.scheduler())?;
        Ok(plan.downcast_ref::<FusedAggregate>().is_some().then_some(plan))
    }

    /// Runs a plan, with a memory limit if it has one. Its rows are produced on demand, and
    /// dropping them ends the plan.
    ///
    /// # Errors
    /// If its environment cannot be created.
    pub fn run(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        memory: Option<usize>,
    ) -> PlanResult<impl Stream<Item = PlanResult<RecordBatch>> + Send + use<>> {
        let plan = with_thresholds(plan)?;
        let planners = &self.database.shared.planners;
        let planner: Planner = planners.take().map_err(external)?;
        let rows = {
            // Borrowed: copies of all functions would cost more than a few thousand rows.
            let state = planner.context.state_ref();
            let state = state.read();
            let room = memory::room(state.runtime_env(), memory);
            room.and_then(|room| {
                let executor = Executor::of(state.config());
                let session = state.session_id().to_owned();
                let context = without_functions(session, state.config(), room);
                Ok(match is_short(&plan)? {
                    true => executor.begin_here(plan, context),
                    false => executor.run_in(plan, context),
                })
            })
        };
        planners.give_back(planner);
        rows
    }

    /// Reads a stream of rows on the query threads, for work with its own cancellation. Dropping
    /// the result ends the reading.
    pub fn take<M>(
        &self,
        work: &Arc<StatementControl>,
        making: M,
    ) -> impl Stream<Item = PlanResult<RecordBatch>> + Send + use<M>
    where
        M: Future<Output = PlanResult<SendableRecordBatchStream>> + Send + 'static,
    {
        self.database.shared.planners.executor().take(work, making)
    }

    /// The state for work on behalf of other nodes: this database's functions and memory, a
    /// configuration of its own, a memory limit if it has one, and a flag that stops it.
    ///
    /// # Errors
    /// If its environment cannot be created.
    pub fn state_for(
        &self,
        mut config: SessionConfig,
        memory: Option<usize>,
        work: &Arc<StatementControl>,
    ) -> PlanResult<SessionState> {
        config.set_extension(Arc::clone(work));
        self.with_state(|state| {
            config.options_mut().execution = state.config_options().execution.clone();
            let config = config.with_create_default_catalog_and_schema(false);
            let room = memory::room(state.runtime_env(), memory)?;
            let builder = SessionStateBuilder::new_from_existing(state.clone());
            Ok(builder.with_config(config).with_runtime_env(room).build())
        })
    }

    /// Calls `work` with the state that has this database's functions.
    fn with_state<T>(&self, work: impl FnOnce(&SessionState) -> PlanResult<T>) -> PlanResult<T> {
        let planners = &self.database.shared.planners;
        let planner: Planner = planners.take().map_err(external)?;
        let state = planner.context.state();
        let done = work(&state);
        planners.give_back(planner);
        done
    }

    /// Records that rows of this size are held in memory, to be written later.
    ///
    /// # Errors
    /// If the process has no memory for them.
    pub fn make_room(&self, bytes: usize) -> Result<()> {
        self.database.shared.engine.make_room(bytes)
    }

    /// Changes rows of tables, all or none.
    ///
    /// # Errors
    /// If a key is taken, a row was changed meanwhile, a table was altered, or the log failed.
    pub async fn write(&self, changes: Vec<RowChanges>, durability: Durability) -> Result<()> {
        let write_set = run_on_thread(self, changes, |shards, changes| {
            let snapshot = shards.database.shared.engine.snapshot();
            let mut write_set = WriteSet { snapshot: snapshot.lsn(), ..WriteSet::default() };
            for changes in changes {
                write_set.tables.push(of_rows(&snapshot, shards.row_handles, changes)?);
            }
            Ok(write_set)
        });
        self.database.shared.commit_write_set(write_set.await?, durability).await
    }

    /// Returns the changes if [`write`](Self::write) would succeed now.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub async fn check(&self, changes: Vec<RowChanges>) -> Result<Vec<RowChanges>> {
        run_on_thread(self, changes, |shards, changes| shards.can_write(&changes).map(|()| changes))
            .await
    }

    /// The rows that have these values in a key's columns, except those that a transaction of the
    /// gateway deleted.
    ///
    /// # Errors
    /// If there is no such table or key, or a hidden row was changed meanwhile.
    pub fn find(
        &self,
        id: TableId,
        key: &str,
        values: &[ArrayRef],
        columns: Option<&[usize]>,
        base: u64,
        hidden: &[RowId],
    ) -> Result<Holders> {
        let snapshot = self.database.shared.engine.snapshot();
        let schema = table(&snapshot, id)?;
        let hidden = self.row_handles.rows(hidden);
        let state = without(snapshot.table(id).ok_or_else(dropped)?, &hidden)?;
        let key = schema.keys().find(|known| known.name == key);
        let key = key.ok_or_else(|| no_table("with this key"))?;
        let rows = state.probe(key, values);
        let found: Vec<RowId> = rows.iter().flatten().copied().collect();
        let mut values = match found.is_empty() {
            true => RecordBatch::new_empty(arrow_schema(&schema)),
            false => state.rows_at(&found)?,
        };
        if let Some(columns) = columns {
            values = values.project(columns).map_err(|_| altered(&schema))?;
        }
        let mask = self.row_handles.mask(base);
        let rows = rows.into_iter().map(|row| row.map(|row| RowId(row.0 ^ mask))).collect();
        Ok(Holders { rows, values, failures: Vec::new() })
    }
}

/// Runs work on many rows on a thread of its own: the calling thread also answers liveness checks
/// of this worker.
async fn run_on_thread<T: Send + 'static>(
    shards: &Shards,
    changes: Vec<RowChanges>,
    work: impl FnOnce(&Shards, Vec<RowChanges>) -> Result<T> + Send + 'static,
) -> Result<T> {
    let added = changes.iter().flat_map(|changes| &changes.append).map(RecordBatch::num_rows);
    let killed = changes.iter().map(|changes| changes.kill.len());
    if added.chain(killed).sum::<usize>() < CHUNK_ROWS_MIN {
        return work(shards, changes);
    }
    let shards = shards.clone();
    let done = spawn_blocking(move || work(&shards, changes)).await;
    done.unwrap_or_else(|_| Err(Error::internal("a thread that writes rows died")))
}

fn table(snapshot: &Snapshot, id: TableId) -> Result<Arc<TableSchema>> {
    let entry = snapshot.catalog().table(id).ok_or_else(dropped)?;
    Ok(Arc::clone(&entry.schema))
}

/// A table without rows that a transaction elsewhere deleted.
///
/// # Errors
/// If one of them was changed meanwhile.
fn without(state: &Arc<TableState>, hidden: &[RowId]) -> Result<Arc<TableState>> {
    let mut left = Arc::clone(state);
    if !hidden.is_empty() {
        Arc::make_mut(&mut left).hide(hidden)?;
    }
    Ok(left)
}

/// Checks that no NOT NULL column has a NULL.
fn no_nulls(table: &TableSchema, state: &TableState) -> Result<()> {
    let columns = table.columns.iter().enumerate().filter(|(_, column)| !column.nullable);
    let (places, columns): (Vec<usize>, Vec<_>) = columns.unzip();
    for chunk in state.chunks() {
        let live = chunk.live_mask();
        for (values, column) in chunk.columns(&places).iter().zip(&columns) {
            let is_live = |row: usize| live.as_ref().is_none_or(|live| live.value(row));
            let is_null = |row: usize| values.is_null(row) && is_live(row);
            if values.null_count() > 0 && (0..values.len()).any(is_null) {
                let (name, table_name) = (&column.name, &table.name);
                let message =
                    format!("column \"{name}\" of relation \"{table_name}\" contains null values");
                return Err(
                    Error::new(SqlState::NOT_NULL_VIOLATION, message).with_column(table, name)
                );
            }
        }
    }
    Ok(())
}

fn dropped() -> Error {
    let message = "a table of this statement was dropped meanwhile";
    Error::new(SqlState::SERIALIZATION_FAILURE, message).with_hint("Run the statement again.")
}

fn altered_meanwhile() -> Error {
    let message = "a table of this statement was altered meanwhile";
    Error::new(SqlState::SERIALIZATION_FAILURE, message).with_hint("Run the statement again.")
}

fn altered(table: &TableSchema) -> Error {
    let message = format!("table \"{}\" has other columns on its workers", table.name);
    Error::new(SqlState::FEATURE_NOT_SUPPORTED, message)
        .with_hint("In a cluster, what looks at a new column goes into a statement of its own.")
}

/// Turns row ids into row handles.
fn as_places(scan: Arc<dyn ExecutionPlan>, mask: u64) -> PlanResult<Arc<dyn ExecutionPlan>> {
    let schema = scan.schema();
    let columns = schema.fields().iter().enumerate().map(|(place, field)| {
        let column: Arc<dyn PhysicalExpr> = Arc::new(Column::new(field.name(), place));
        let is_id = field.name() == ROW_ID && field.data_type() == &DataType::UInt64;
        let column = match is_id {
            true => {
                let mask = lit(ScalarValue::UInt64(Some(mask)));
                Arc::new(BinaryExpr::new(column, Operator::BitwiseXor, mask))
            }
            false => column,
        };
        (column, field.name().clone())
    });
    Ok(Arc::new(ProjectionExec::try_new(columns.collect::<Vec<_>>(), scan)?))
}

/// Changes of rows in the engine's form.
fn of_rows(
    snapshot: &Snapshot,
    row_handles: RowHandles,
    changes: RowChanges,
) -> Result<TableChanges> {
    let entry = snapshot.catalog().table(changes.table).ok_or_else(dropped)?;
    is_current(&entry.schema, &changes)?;
    let schema = arrow_schema(&entry.schema);
    let mut made = TableChanges::new(changes.table, Some(entry.version));
    made.truncate = changes.truncate;
    made.kill = row_handles.rows(&changes.kill);
    for rows in in_chunks(&schema, changes.append)? {
        made.append.push(match rows.num_rows() < CHUNK_ROWS_MIN {
            true => NewRows::batch(rows),
            false => NewRows::chunk(Arc::new(ClosedChunk::build(&entry.schema, &rows))),
        });
    }
    Ok(made)
}

/// # Errors
/// If rows were made for another schema than the table's.
fn is_current(table: &TableSchema, changes: &RowChanges) -> Result<()> {
    match fingerprint(table) == changes.fingerprint {
        true => Ok(()),
        false => Err(altered_meanwhile()),
    }
}

/// Combines small batches, and splits large ones, so that each result fits one chunk.
fn in_chunks(schema: &SchemaRef, mut batches: Vec<RecordBatch>) -> Result<Vec<RecordBatch>> {
    batches.retain(|rows| rows.num_rows() > 0);
    let is_small = |rows: &RecordBatch| rows.num_rows() <= RowId::CHUNK_ROWS;
    if batches.is_empty() || (batches.len() == 1 && batches.iter().all(is_small)) {
        return Ok(batches);
    }
    let unjoined = |error| Error::internal("rows cannot be joined").with_source(error);
    let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
    let mut joined = BatchCoalescer::new(Arc::clone(schema), RowId::CHUNK_ROWS.min(rows));
    for batch in batches {
        joined.push_batch(batch).map_err(unjoined)?;
    }
    joined.finish_buffered_batch().map_err(unjoined)?;
    Ok(std::iter::from_fn(|| joined.next_completed_batch()).collect())
}
