//! Row changes on their way to the workers that own the rows.
//!
//! A write to one worker is sent at once. In a write to several, all workers check their parts
//! before any of them commits, so that a duplicate key is found before anything happens. An error
//! after the check leaves the write done on some workers and not on others, and its message says
//! so.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use arrow::record_batch::RecordBatch;
use futures::future::{BoxFuture, join_all};
use thalweg_protocol::cluster as wire;
use thalweg_protocol::cluster::work::Kind;
use thalweg_protocol::cluster::write::Stage;
use thalweg_query::{AtomicScope, Durability, KeyedWriter, Load, RemoteWrites, RowChanges, Write};
use thalweg_types::{Error, Result, RowId, SqlState, TableSchema};

use super::{Gateway, Shared, bulk_load, keyed_writes};
use crate::keyed::durability_to_wire;
use crate::rows::{self, Cuts};
use crate::sharding;

/// Limit of the rows in one message, in bytes of memory.
const MESSAGE_BYTES: usize = 16 << 20;
/// Number of rows without a shard key that go to one worker before it is the next one's turn.
const TURN_ROWS: usize = 8_192;

/// The parts of one write for one worker.
pub(super) type Parts = Vec<wire::TableWrite>;

impl RemoteWrites for Gateway {
    fn write(
        &self,
        writes: Vec<Write>,
        atomic_scope: AtomicScope,
        durability: Durability,
    ) -> BoxFuture<'_, Result<()>> {
        let shared = Arc::clone(&self.shared);
        self.on_links(async move { write(&shared, writes, atomic_scope, durability).await })
    }

    fn load(&self, table: Arc<TableSchema>) -> Option<Box<dyn Load>> {
        Some(Box::new(bulk_load::BulkLoad::new(&self.shared, table)))
    }

    fn keyed_writer(&self) -> Option<Box<dyn KeyedWriter>> {
        Some(Box::new(keyed_writes::KeyedStream::new(&self.shared)))
    }
}

async fn write(
    shared: &Arc<Shared>,
    writes: Vec<Write>,
    atomic_scope: AtomicScope,
    durability: Durability,
) -> Result<()> {
    let mut to: BTreeMap<usize, Parts> = BTreeMap::new();
    for write in writes {
        route(shared, write, &mut to)?;
    }
    if atomic_scope == AtomicScope::Whole && to.len() > 1 {
        let message = format!(
            "this transaction changed rows on {} workers, which cannot be committed as one yet",
            to.len()
        );
        return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message).with_hint(
            "Run the statements without a transaction block, or change rows of one shard key only.",
        ));
    }
    let to = to.into_iter().map(|(worker_index, parts)| (worker_index, (0, parts))).collect();
    send(shared, Unfinished::new(shared), to, durability).await
}

/// Sends workers the last parts of a write and commits it. `to` has the number of messages that
/// each worker received before.
pub(super) async fn send(
    shared: &Arc<Shared>,
    mut unfinished: Unfinished,
    to: BTreeMap<usize, (u32, Parts)>,
    durability: Durability,
) -> Result<()> {
    let (number, durability) = (unfinished.number, durability_to_wire(durability));
    let message = |stage: Stage, before: u32, tables: Parts| {
        let (stage, durability) = (stage as i32, durability as i32);
        let write = wire::Write { number, stage, durability, tables, before, load: false };
        Kind::Write(write)
    };
    let several = to.len() > 1;
    unfinished.workers = to.keys().copied().collect();
    let prepared = to.into_iter().map(|(worker_index, (mut sent, parts))| async move {
        let mut messages = in_messages(parts);
        let mut rest = messages.pop().unwrap_or_default();
        for some in messages {
            shared.ask_once::<wire::Done>(worker_index, message(Stage::Keep, sent, some)).await?;
            sent += 1;
        }
        if several {
            let all = std::mem::take(&mut rest);
            shared.ask_once::<wire::Done>(worker_index, message(Stage::Check, sent, all)).await?;
            sent += 1;
        }
        Ok::<_, Error>((worker_index, sent, rest))
    });
    let prepared: Result<Vec<_>> = join_all(prepared).await.into_iter().collect();
    let prepared = prepared?;
    unfinished.workers.clear();
    let commit = prepared.into_iter().map(|(worker_index, sent, rest)| async move {
        let done =
            shared.ask_once::<wire::Done>(worker_index, message(Stage::Commit, sent, rest)).await;
        if let Ok(wire::Done { position }) = &done {
            shared.note_position(worker_index, *position);
        }
        (worker_index, done)
    });
    let answers = join_all(commit).await;
    // A worker that failed still buffers its part, so it is told to forget it.
    let failed = answers.iter().filter(|(_, answer)| answer.is_err());
    unfinished.workers = failed.map(|(worker_index, _)| *worker_index).collect();
    whole(answers.into_iter().map(|(_, answer)| answer).collect())
}

/// A write of which workers buffer parts that are not committed. Dropping it, because a worker
/// rejects its part or the client is gone, tells the workers to forget them.
pub(super) struct Unfinished {
    shared: Arc<Shared>,
    pub(super) number: u64,
    pub(super) workers: Vec<usize>,
}

impl Unfinished {
    /// A write of which no worker has parts yet.
    pub(super) fn new(shared: &Arc<Shared>) -> Unfinished {
        let number = shared.next.fetch_add(1, Ordering::Relaxed);
        Unfinished { shared: Arc::clone(shared), number, workers: Vec::new() }
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        let workers = std::mem::take(&mut self.workers);
        if workers.is_empty() {
            return;
        }
        let (shared, number) = (Arc::clone(&self.shared), self.number);
        let forgetting = self.shared.spawn(async move {
            let stage = Stage::Forget as i32;
            let forget = |worker_index| {
                let write = wire::Write { number, stage, ..wire::Write::default() };
                shared.ask_once::<wire::Done>(worker_index, Kind::Write(write))
            };
            join_all(workers.into_iter().map(forget)).await;
        });
        // The task runs detached: nothing depends on its result.
        forgetting.detach();
    }
}

/// Combines the answers of all workers into one.
fn whole(answers: Vec<Result<wire::Done>>) -> Result<()> {
    let (all, mut failed) = (answers.len(), Vec::new());
    for answer in answers {
        failed.extend(answer.err());
    }
    let count = failed.len();
    // An unknown outcome is the most important error, so it is reported before others.
    let is_unknown = |error: &Error| error.state() == SqlState::CONNECTION_FAILURE;
    let unknown = failed.iter().position(is_unknown).unwrap_or_default();
    let Some(failure) = failed.into_iter().nth(unknown) else { return Ok(()) };
    if count == all {
        return Err(failure);
    }
    // A client that retries must know that some of the changes exist.
    let message = format!(
        "the statement was done on {} of the {all} workers that it concerns: {}",
        all - count,
        failure.message()
    );
    let state = match failure.state() {
        SqlState::SERIALIZATION_FAILURE | SqlState::UNIQUE_VIOLATION => {
            SqlState::CONNECTION_FAILURE
        }
        other => other,
    };
    Err(Error::new(state, message).with_hint("Look at the rows before running it again."))
}

/// Splits parts into messages of limited size.
pub(super) fn in_messages(parts: Parts) -> Vec<Parts> {
    let mut messages: Vec<Parts> = vec![Parts::new()];
    let mut bytes = 0;
    for part in parts {
        bytes += part.append.len();
        if bytes > MESSAGE_BYTES && messages.last().is_some_and(|last| !last.is_empty()) {
            messages.push(Parts::new());
            bytes = part.append.len();
        }
        messages.last_mut().expect("there is one").push(part);
    }
    messages
}

/// Splits the changes of one table by worker. Each batch is dropped once it is encoded, so a load
/// is held either as rows or as encoded parts.
pub(super) fn route(shared: &Shared, write: Write, to: &mut BTreeMap<usize, Parts>) -> Result<()> {
    let Write { table: schema, changes } = write;
    let RowChanges { table, fingerprint, truncate, kill, append } = changes;
    let map = shared.map().current();
    let mut first: BTreeMap<usize, wire::TableWrite> = BTreeMap::new();
    let empty = || wire::TableWrite { table: table.0, fingerprint, ..wire::TableWrite::default() };
    if truncate {
        for (worker_index, buckets) in map.shares().iter().enumerate() {
            if *buckets > 0 {
                first.entry(worker_index).or_insert_with(empty).truncate = true;
            }
        }
    }
    for row in kill {
        let (worker_index, row) = row
            .elsewhere()
            .ok_or_else(|| Error::internal("a gateway has no rows that could go"))?;
        first.entry(worker_index).or_insert_with(empty).kill.push(row.0);
    }
    for (worker_index, part) in first {
        to.entry(worker_index).or_default().push(part);
    }
    let mut added = 0;
    for rows in append {
        added += rows.num_rows();
        for (worker_index, rows) in by_owner(shared, &schema, &rows)? {
            let parts = to.entry(worker_index).or_default();
            let step = rows_in_a_message(&rows);
            for start in (0..rows.num_rows()).step_by(step) {
                let some = rows.slice(start, step.min(rows.num_rows() - start));
                // Some rows may be much longer than the average.
                for some in Cuts::of(some, MESSAGE_BYTES) {
                    let append = rows::encode(some.schema_ref(), std::slice::from_ref(&some))?;
                    parts.push(wire::TableWrite { append, ..empty() });
                }
            }
        }
    }
    *shared.row_counts.write().entry(table).or_default() += added;
    Ok(())
}

fn rows_in_a_message(rows: &RecordBatch) -> usize {
    let bytes = rows.get_array_memory_size() / rows.num_rows().max(1);
    (MESSAGE_BYTES / 2 / bytes.max(1)).clamp(1, RowId::CHUNK_ROWS)
}

fn by_owner(
    shared: &Shared,
    table: &TableSchema,
    rows: &RecordBatch,
) -> Result<Vec<(usize, RecordBatch)>> {
    let map = shared.map().current();
    let Some(key) = table.shard_key.and_then(|column| table.position(column)) else {
        // Tables without a shard key are never looked up by key, so workers take rows in turns.
        let owners = map.all_owners()?;
        let turns = (0..rows.num_rows()).step_by(TURN_ROWS).map(|start| {
            let turn = shared.next.fetch_add(1, Ordering::Relaxed);
            let worker_index = owners[usize::try_from(turn).unwrap_or_default() % owners.len()];
            (worker_index, rows.slice(start, TURN_ROWS.min(rows.num_rows() - start)))
        });
        return Ok(turns.collect());
    };
    let dealt = sharding::dealt(rows, key, &map)?.into_iter();
    Ok(dealt.map(|dealt| (dealt.owner, dealt.rows)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(state: SqlState) -> Result<wire::Done> {
        Err(Error::new(state, state.0))
    }

    #[test]
    fn what_nobody_knows_is_told_before_what_is_known() {
        let done = || Ok(wire::Done::default());
        let (lost, unknown) = (SqlState::SERIALIZATION_FAILURE, SqlState::CONNECTION_FAILURE);
        whole(vec![done(), done()]).unwrap();
        let state = |answers| whole(answers).unwrap_err().state();
        assert_eq!(state(vec![failed(lost), failed(lost)]), lost);
        assert_eq!(state(vec![failed(lost), failed(unknown)]), unknown);
        let some = whole(vec![failed(lost), done(), failed(unknown)]).unwrap_err();
        assert_eq!(some.state(), unknown);
        assert!(some.message().contains("done on 1 of the 3 workers"), "{}", some.message());
    }
}
