//! Bulk loads: rows go to their workers before the statement ends.
//!
//! Workers buffer them as parts of an unfinished write, which [`writing`] ends. Until then each of
//! them gets a heartbeat a few times a minute. Workers drop their parts if the heartbeats stop,
//! because the load failed or its client or this gateway is gone.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use arrow::record_batch::RecordBatch;
use futures::FutureExt as _;
use futures::future::{BoxFuture, join_all};
use thalweg_env::channel;
use thalweg_protocol::cluster as wire;
use thalweg_protocol::cluster::work::Kind;
use thalweg_protocol::cluster::write::Stage;
use thalweg_query::{Durability, Load, RowChanges, Write, fingerprint};
use thalweg_runtime::interval;
use thalweg_types::{Error, Result, SqlState, TableSchema};
use tokio::sync::Mutex;
use tokio_util::task::AbortOnDropHandle;

use super::Shared;
use super::row_changes::{self, Parts, Unfinished};

/// Interval of heartbeats. Workers drop a load after a minute without one.
const BEAT_EVERY: Duration = Duration::from_secs(20);

/// Number of messages of a load that a worker has received. A sender holds the lock while it sends.
type Sent = Arc<Mutex<u32>>;

/// One statement's load.
pub(super) struct BulkLoad {
    shared: Arc<Shared>,
    table: Arc<TableSchema>,
    fingerprint: u64,
    /// Dropped first, so that heartbeats end before the workers are told to forget.
    worker_loads: BTreeMap<usize, WorkerLoad>,
    unfinished: Unfinished,
    /// False while rows are being sent, and after that has failed.
    is_whole: bool,
}

/// A worker that buffers parts.
struct WorkerLoad {
    sent: Sent,
    _beating: AbortOnDropHandle<()>,
}

impl WorkerLoad {
    fn new(shared: &Arc<Shared>, worker_index: usize, number: u64) -> WorkerLoad {
        let sent = Sent::default();
        let beating = send_keep_alive(Arc::clone(shared), worker_index, number, Arc::clone(&sent));
        WorkerLoad { sent, _beating: shared.spawn(beating) }
    }
}

impl BulkLoad {
    pub(super) fn new(shared: &Arc<Shared>, table: Arc<TableSchema>) -> BulkLoad {
        BulkLoad {
            unfinished: Unfinished::new(shared),
            shared: Arc::clone(shared),
            fingerprint: fingerprint(&table),
            table,
            worker_loads: BTreeMap::new(),
            is_whole: true,
        }
    }

    fn sent_to(&mut self, worker_index: usize) -> Sent {
        let BulkLoad { shared, worker_loads, unfinished, .. } = self;
        let known = worker_loads.entry(worker_index).or_insert_with(|| {
            unfinished.workers.push(worker_index);
            WorkerLoad::new(shared, worker_index, unfinished.number)
        });
        Arc::clone(&known.sent)
    }

    /// Splits rows on this thread, which may block, and sends them on the threads of the links.
    fn send_all(&mut self, append: Vec<RecordBatch>) -> Result<()> {
        let table = Arc::clone(&self.table);
        let changes = RowChanges {
            table: table.id,
            fingerprint: self.fingerprint,
            truncate: false,
            kill: Vec::new(),
            append,
        };
        let mut to: BTreeMap<usize, Parts> = BTreeMap::new();
        row_changes::route(&self.shared, Write { table, changes }, &mut to)?;
        let to: Vec<(usize, Sent, Parts)> = to
            .into_iter()
            .map(|(worker_index, parts)| (worker_index, self.sent_to(worker_index), parts))
            .collect();
        let (shared, number) = (Arc::clone(&self.shared), self.unfinished.number);
        let (done_sender, done) = channel();
        let sending = self.shared.spawn(async move {
            let kept = to.into_iter().map(|(worker_index, sent, parts)| {
                let shared = Arc::clone(&shared);
                async move { keep_all(&shared, worker_index, number, &sent, parts).await }
            });
            let all: Result<Vec<()>> = join_all(kept).await.into_iter().collect();
            // The thread that loads waits for this.
            let _ = done_sender.send(all.map(drop));
        });
        let done = done.recv();
        drop(sending);
        done.unwrap_or_else(|_| Err(Error::internal("rows that were to go ahead did not")))
    }

    async fn end(self, writes: Vec<Write>, durability: Durability) -> Result<()> {
        let BulkLoad { shared, worker_loads, unfinished, is_whole, .. } = self;
        if !is_whole {
            return Err(Error::internal("a load went on after it had failed"));
        }
        let mut to: BTreeMap<usize, (u32, Parts)> = BTreeMap::new();
        // The locks keep heartbeats from sending messages from here on.
        let mut held = Vec::with_capacity(worker_loads.len());
        for (worker_index, known) in &worker_loads {
            let sent = Arc::clone(&known.sent).lock_owned().await;
            to.insert(*worker_index, (*sent, Parts::new()));
            held.push(sent);
        }
        let mut rest: BTreeMap<usize, Parts> = BTreeMap::new();
        for write in writes {
            row_changes::route(&shared, write, &mut rest)?;
        }
        for (worker_index, parts) in rest {
            to.entry(worker_index).or_default().1 = parts;
        }
        row_changes::send(&shared, unfinished, to, durability).await
    }
}

impl Load for BulkLoad {
    fn send(&mut self, rows: Vec<RecordBatch>) -> Result<()> {
        self.is_whole = false;
        self.send_all(rows)?;
        self.is_whole = true;
        Ok(())
    }

    fn finish(
        self: Box<Self>,
        writes: Vec<Write>,
        durability: Durability,
    ) -> BoxFuture<'static, Result<()>> {
        let shared = Arc::clone(&self.shared);
        let running = shared.spawn((*self).end(writes, durability));
        async move { running.await.map_err(|died| Error::internal(died.to_string()))? }.boxed()
    }
}

/// Sends heartbeats of a load to a worker.
async fn send_keep_alive(shared: Arc<Shared>, worker_index: usize, number: u64, sent: Sent) {
    let mut ticks = interval(BEAT_EVERY);
    // The first tick completes at once.
    ticks.tick().await;
    loop {
        ticks.tick().await;
        let mut sent = sent.lock().await;
        if *sent > 0 {
            // An error is ignored: a worker that lost its parts rejects the next ones.
            let _ = keep(&shared, worker_index, number, &mut sent, Parts::new()).await;
        }
    }
}

/// Has a worker buffer parts.
async fn keep_all(
    shared: &Shared,
    worker_index: usize,
    number: u64,
    sent: &Mutex<u32>,
    parts: Parts,
) -> Result<()> {
    let mut sent = sent.lock().await;
    for some in row_changes::in_messages(parts) {
        keep(shared, worker_index, number, &mut sent, some).await?;
    }
    Ok(())
}

async fn keep(
    shared: &Shared,
    worker_index: usize,
    number: u64,
    sent: &mut u32,
    tables: Parts,
) -> Result<()> {
    let stage = Stage::Keep as i32;
    let write =
        wire::Write { number, stage, tables, before: *sent, load: true, ..wire::Write::default() };
    shared
        .ask_once::<wire::Done>(worker_index, Kind::Write(write))
        .await
        .map_err(nothing_written)?;
    *sent += 1;
    Ok(())
}

/// Buffered parts are not written, so after a lost connection the outcome is known: nothing was
/// written.
fn nothing_written(error: Error) -> Error {
    match error.state() {
        SqlState::CONNECTION_FAILURE => Error::new(error.state(), error.message())
            .with_hint("Nothing of the statement was written. Run it again once it is back."),
        _ => error,
    }
}
