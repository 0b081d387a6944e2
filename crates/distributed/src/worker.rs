//! A worker: it answers gateways from one database.
//!
//! [`WorkerService`] dispatches requests: fragments and cached fragments, parts of stages, row
//! changes in one or two steps, keyed writes in order, look-ups, definitions and status. Workers of
//! one process share a [`WorkerProcess`], through which one of them answers for the others.

mod encoding_cache;
mod fragment_cache;
mod prepared_writes;
mod process;
mod responses;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use datafusion::error::DataFusionError;
use datafusion::physical_plan::ExecutionPlan;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use hyper::Response;
use prost::Message as _;
use thalweg_cluster::chunks::Pool;
use thalweg_cluster::node::{Chunks, chunks};
use thalweg_cluster::worker::Holdings;
use thalweg_execution::scan::whole_chunks;
use thalweg_protocol::cluster as wire;
use thalweg_protocol::cluster::work::Kind;
use thalweg_protocol::cluster::write::Stage;
use thalweg_query::{Database, Definition, RowChanges, Shards, StorageFault, StorageHealth};
use thalweg_runtime::{interval, spawn};
use thalweg_types::{Error, Result, RowId, SqlState, TableId};
use thalweg_values::errors::from_datafusion;
use tokio::sync::oneshot;
use tonic::body::Body;

use self::encoding_cache::{EncodingCache, WholeChunks};
use self::fragment_cache::{CachedFragment, FragmentCache};
use self::prepared_writes::PreparedWrites;
pub(crate) use self::process::Member;
pub use self::process::WorkerProcess;
pub(crate) use self::responses::OneMessage;
use self::responses::{Rows, RowsSource, begun};
use crate::encoding::Encoding;
use crate::gateway::{definitions, in_one_message};
use crate::hidden_rows;
use crate::keyed;
use crate::message_order::MessageOrder;
use crate::rows;
use crate::stages::{Peers, Tasks};

/// Number of buffers pooled for the next answers.
const BUFFERS_FREE_MAX: usize = 64;
/// Interval of checks for loads whose gateways have gone silent.
const LISTEN_EVERY: Duration = Duration::from_secs(10);

type Plan = Arc<dyn ExecutionPlan>;

/// Answers requests of gateways. Clones share the worker.
#[derive(Clone)]
pub struct WorkerService {
    database: Database,
    shards: Shards,
    member: Arc<Member>,
    pool: Pool,
    streams: Arc<AtomicU64>,
    fragments: Arc<FragmentCache>,
    prepared_writes: Arc<PreparedWrites>,
    turns: Arc<MessageOrder>,
    tasks: Tasks,
}

impl WorkerService {
    /// Makes a worker of a database, in a process. Its tasks read what other workers send through
    /// `peers`.
    ///
    /// # Errors
    /// If its journal cannot be kept.
    pub(crate) async fn new(
        database: Database,
        id: u64,
        process: &WorkerProcess,
        peers: Arc<Peers>,
    ) -> Result<WorkerService> {
        database.keep_journal().await?;
        let shards = database.shards();
        let streams = Arc::default();
        let member = Arc::new(process.join(id, &shards, &streams));
        let encodings: Weak<EncodingCache> = Arc::downgrade(member.encodings());
        database.register_reclaimable(encodings);
        let prepared_writes = Arc::new(PreparedWrites::new(&database.env().clock));
        let listened_to = Arc::downgrade(&prepared_writes);
        // The task ends with the worker.
        spawn(async move {
            let mut ticks = interval(LISTEN_EVERY);
            loop {
                ticks.tick().await;
                let Some(prepared_writes) = listened_to.upgrade() else { return };
                prepared_writes.forget_silent();
            }
        });
        Ok(WorkerService {
            tasks: Tasks::new(&member, peers),
            shards,
            member,
            prepared_writes,
            database,
            pool: Pool::new(BUFFERS_FREE_MAX),
            streams,
            fragments: Arc::default(),
            turns: Arc::default(),
        })
    }

    /// Number by which gateways know its process.
    pub(crate) fn process(&self) -> u64 {
        self.member.number()
    }

    /// Current size of its tables, and the number of its streams.
    #[must_use]
    pub fn holdings(&self) -> Holdings {
        Holdings {
            rows: self.shards.rows(),
            bytes: self.shards.bytes(),
            streams: self.streams.load(Ordering::Relaxed),
            storage: storage_to_wire(self.database.storage()),
            durable: self.durable(),
        }
    }

    async fn answer(&self, question: Bytes) -> Result<Response<Body>> {
        let work = wire::Work::decode(question).map_err(|error| malformed(&error))?;
        let kind = work.kind.ok_or_else(|| malformed(&"nothing is asked"))?;
        if concerns_others(&kind) {
            self.member.agree().await?;
        }
        self.agrees(work.definitions, &kind)?;
        match kind {
            Kind::Fragment(mut fragment) => {
                let (base, values) = (fragment.place_base, std::mem::take(&mut fragment.values));
                let shards = self.member.together(&std::mem::take(&mut fragment.together))?;
                self.run(&self.fragments.take_in(fragment)?, base, &values, &shards).await
            }
            Kind::Kept(prepared_writes) => {
                let shards = self.member.together(&prepared_writes.together)?;
                let known = self.fragments.find(prepared_writes.number)?;
                self.run(&known, prepared_writes.place_base, &prepared_writes.values, &shards).await
            }
            Kind::Write(write) => {
                self.write(write).await?;
                Ok(self.one(&self.done()))
            }
            Kind::WriteRows(write) => {
                self.write_rows(write).await.map(|outcome_sender| self.one(&outcome_sender))
            }
            Kind::Find(find) => self.find(&find).map(|found| self.one(&found)),
            Kind::Define(wanted) => {
                for definition in wanted.definitions {
                    self.shards.define(&known(definition)).await?;
                }
                Ok(self.one(&self.done()))
            }
            Kind::CanDefine(wanted) => {
                for definition in wanted.definitions {
                    self.shards.can_define(&known(definition))?;
                }
                Ok(self.one(&self.done()))
            }
            Kind::Look(look) => Ok(self.one(&self.member.shard_statistics(&look.together))),
            Kind::Recall(wire::Recall { after }) => {
                let all = self.database.definitions_after(after).await?;
                Ok(self.one(&definitions(in_one_message(&all))))
            }
            Kind::BeginTask(task) => {
                let counted = Counted::new(&self.streams);
                Ok(chunks(&self.pool, self.tasks.begin(task, counted).await?))
            }
            Kind::TaskRows(wanted) => {
                let rows = Box::pin(self.tasks.rows(wanted)?);
                let counted = Counted::new(&self.streams);
                Ok(chunks(&self.pool, RowsSource::new(None, rows, counted)))
            }
        }
    }

    /// Checks that a caller with this number of definitions may send this request.
    ///
    /// # Errors
    /// If this worker or the caller is behind.
    fn agrees(&self, definitions: u64, kind: &Kind) -> Result<()> {
        let known = self.shards.last_definition();
        if matches!(kind, Kind::Define(_) | Kind::Look(_) | Kind::Recall(_)) || definitions == known
        {
            return Ok(());
        }
        let message = || format!("definition {known} is the last one here, not {definitions}");
        if definitions > known {
            return Err(Error::new(SqlState::STALE_DEFINITIONS, message()));
        }
        match kind {
            // Rows of tasks are also read by other workers, which do not send their number of
            // definitions: the task was checked when it began. `CanDefine` checks itself that its
            // definition is the next one.
            Kind::TaskRows(_) | Kind::CanDefine(_) => Ok(()),
            Kind::BeginTask(_) if definitions == 0 => Ok(()),
            Kind::Write(write) if write.stage() == Stage::Forget => Ok(()),
            _ => Err(Error::new(SqlState::STALE_GATEWAY, message())),
        }
    }

    /// The id of the database, and its last durable group.
    pub(crate) fn durable(&self) -> (u64, u64) {
        self.database.durable_position().map_or((0, 0), |it| (it.database_id, it.lsn.0))
    }

    fn done(&self) -> wire::Done {
        wire::Done { position: self.durable().1 }
    }

    fn one(&self, message: &impl prost::Message) -> Response<Body> {
        chunks(&self.pool, OneMessage::of(message))
    }

    /// Runs a fragment and streams its rows.
    async fn run(
        &self,
        known: &Arc<CachedFragment>,
        place_base: u64,
        values: &[u8],
        shards: &Shards,
    ) -> Result<Response<Body>> {
        let counted = Counted::new(&self.streams);
        let fragment = &known.fragment;
        let (plan, lent) = known.plan(place_base, values, shards).map_err(translate_error)?;
        let encoding = Encoding::new(plan.schema(), fragment.form.as_ref())?;
        let (plan, whole) = match &fragment.form {
            Some(form) if encoding.is_made_of_values() => self.split(plan, form)?,
            _ => (plan, None),
        };
        let memory = fragment.memory_limit.map(limit_of);
        let mut rows: Rows = Box::pin(self.shards.run(plan, memory).map_err(translate_error)?);
        if fragment.begins_with_rows {
            rows = begun(rows).await;
        }
        let source = RowsSource::new(Some(encoding), rows, counted);
        Ok(chunks(&self.pool, source.of(lent).behind(whole)))
    }

    /// Splits off the chunks of a plan whose encodings are cached.
    fn split(&self, plan: Plan, form: &wire::RowForm) -> Result<(Plan, Option<WholeChunks>)> {
        let (whole, others) = whole_chunks(plan).map_err(translate_error)?;
        let whole = match whole.is_empty() {
            true => None,
            false => Some(WholeChunks::new(whole, form, self.member.encodings(), &self.pool)),
        };
        Ok((others, whole))
    }

    async fn write(&self, write: wire::Write) -> Result<()> {
        let durability = keyed::durability(write.durability());
        let (number, stage, before) = (write.number, write.stage(), write.before);
        let is_load = write.load;
        if stage == Stage::Forget {
            self.prepared_writes.forget(number);
            return Ok(());
        }
        let mut changes = self.prepared_writes.take(number, before)?;
        if stage != Stage::Commit {
            self.shards.make_room(write.tables.iter().map(|table| table.append.len()).sum())?;
        }
        for table in write.tables {
            changes.push(row_changes(&table)?);
        }
        let mut changes = merged(changes);
        match stage {
            Stage::Keep | Stage::Forget => {}
            Stage::Check => changes = self.shards.check(changes).await?,
            Stage::Commit => return self.shards.write(changes, durability).await,
        }
        self.prepared_writes.keep(number, before + 1, is_load, changes)
    }

    /// Writes groups of rows. All groups are handed to the database before the first one is
    /// awaited.
    async fn write_rows(&self, write: wire::WriteRows) -> Result<wire::RowsWritten> {
        let stopped = Arc::default();
        let mut groups = Vec::with_capacity(write.groups.len());
        for group in write.groups {
            let failing = keyed::failing(group.failing(), &stopped);
            let durability = keyed::durability(group.durability());
            let rows = group.rows.into_iter().map(keyed::keyed_rows).collect::<Result<Vec<_>>>()?;
            groups.push((rows, failing, durability));
        }
        let mut waiting = Vec::with_capacity(groups.len());
        let turn = (write.behind, write.turn);
        let hand_over = || {
            for (rows, failing, durability) in groups {
                let (outcome_sender, written) = oneshot::channel();
                // If the gateway is gone, there is no receiver.
                let acknowledge = Box::new(move |written| drop(outcome_sender.send(written)));
                self.shards.write_rows(rows, failing, durability, acknowledge);
                waiting.push(written);
            }
        };
        self.turns.take(write.stream, turn, hand_over).await?;
        let mut groups = Vec::with_capacity(waiting.len());
        for written in waiting {
            let untold = |_| Err(Error::internal("a group was not told of"));
            groups.push(keyed::written_to_wire(written.await.unwrap_or_else(untold)));
        }
        Ok(wire::RowsWritten { groups, position: self.durable().1 })
    }

    fn find(&self, find: &wire::Find) -> Result<wire::Found> {
        let (_, batches) = rows::decode(&find.values)?;
        let [keys] = batches.as_slice() else { return Err(malformed(&"keys are one batch")) };
        let (table, base, hidden) = (find.table, find.place_base, hidden_rows::rows(&find.hidden)?);
        let columns = find.columns.as_ref().map(|columns| &columns.places);
        let columns: Option<Vec<usize>> =
            columns.map(|places| places.iter().map(|place| *place as usize).collect());
        let (key, wanted) = (find.key.as_str(), columns.as_deref());
        let found = self.shards.find(TableId(table), key, keys.columns(), wanted, base, &hidden)?;
        let schema = found.values.schema();
        Ok(wire::Found {
            places: found.rows.iter().map(|row| row.map_or(0, |row| row.0)).collect(),
            rows: rows::encode(&schema, &[found.values])?,
        })
    }
}

impl Chunks for WorkerService {
    fn fetch(&self, question: Bytes) -> BoxFuture<'_, Result<Response<Body>>> {
        self.answer(question).boxed()
    }
}

/// The wire form of the faults of a node's storage.
pub(crate) fn storage_to_wire(storage: &StorageHealth) -> Vec<wire::StorageFault> {
    let faults = storage.faults().into_iter();
    let faults = faults.map(|StorageFault { reason, message, .. }| wire::StorageFault {
        reason: reason.name().to_owned(),
        message,
        refuses_writes: reason.refuses_writes(),
    });
    faults.collect()
}

/// True if a request also reads rows of other workers of the process.
fn concerns_others(kind: &Kind) -> bool {
    match kind {
        Kind::Fragment(fragment) => !fragment.together.is_empty(),
        Kind::Kept(prepared_writes) => !prepared_writes.together.is_empty(),
        // Only its scans tell, which are not decoded yet.
        Kind::BeginTask(_) => true,
        _ => false,
    }
}

fn malformed(why: &impl std::fmt::Display) -> Error {
    Error::new(SqlState::PROTOCOL_VIOLATION, format!("this asks a worker for nothing: {why}"))
}

/// Converts a received definition.
pub(crate) fn known(definition: wire::Definition) -> Definition {
    Definition { number: definition.number, changes: definition.changes.into() }
}

/// Converts a memory limit in bytes.
pub(crate) fn limit_of(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

fn row_changes(write: &wire::TableWrite) -> Result<RowChanges> {
    let append = match write.append.is_empty() {
        true => Vec::new(),
        false => rows::decode(&write.append)?.1,
    };
    Ok(RowChanges {
        table: TableId(write.table),
        fingerprint: write.fingerprint,
        truncate: write.truncate,
        kill: write.kill.iter().copied().map(RowId).collect(),
        append,
    })
}

/// Merges the changes that arrived in several parts, by table.
fn merged(parts: Vec<RowChanges>) -> Vec<RowChanges> {
    let mut tables: Vec<RowChanges> = Vec::new();
    for mut part in parts {
        let of_one =
            |table: &RowChanges| (table.table, table.fingerprint) == (part.table, part.fingerprint);
        match tables.iter_mut().find(|table| of_one(table)) {
            None => tables.push(part),
            Some(table) => {
                table.truncate |= part.truncate;
                table.kill.append(&mut part.kill);
                table.append.append(&mut part.append);
            }
        }
    }
    tables
}

/// Counts a stream while it exists.
pub(crate) struct Counted(Arc<AtomicU64>);

impl Counted {
    fn new(streams: &Arc<AtomicU64>) -> Counted {
        streams.fetch_add(1, Ordering::Relaxed);
        Counted(Arc::clone(streams))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn translate_error(error: DataFusionError) -> Error {
    from_datafusion(error, "")
}
