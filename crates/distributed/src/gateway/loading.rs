//! Bulk loads: rows go to their workers before the statement ends.
//!
//! Workers buffer them as parts of an unfinished write, which [`writing`] ends. Until then each of
//! them gets a heartbeat a few times a minute. Workers drop their parts if the heartbeats stop,
//! because the load failed or its client or this gateway is gone.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use arrow::record_batch::RecordBatch;
use futures::FutureExt as _;
use futures::future::{BoxFuture, join_all};
use thalweg_protocol::cluster as wire;
use thalweg_protocol::cluster::work::Kind;
use thalweg_protocol::cluster::write::Stage;
use thalweg_query::{Durability, Load, RowChanges, Write, fingerprint};
use thalweg_types::{Error, Result, SqlState, TableSchema};
use tokio::sync::Mutex;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::task::AbortOnDropHandle;

use super::Shared;
use super::writing::{self, Parts, Unfinished};

/// Interval of heartbeats. Workers drop a load after a minute without one.
const BEAT_EVERY: Duration = Duration::from_secs(20);

/// Number of messages of a load that a worker has received. A sender holds the lock while it sends.
type Sent = Arc<Mutex<u32>>;

/// One statement's load.
pub(super) struct Loading {
    shared: Arc<Shared>,
    table: Arc<TableSchema>,
    fingerprint: u64,
    /// Dropped first, so that heartbeats end before the workers are told to forget.
    places: BTreeMap<usize, Place>,
    unfinished: Unfinished,
    /// False while rows are being sent, and after that has failed.
    is_whole: bool,
}

/// A worker that buffers parts.
struct Place {
    sent: Sent,
    _beating: AbortOnDropHandle<()>,
}

impl Place {
    fn new(shared: &Arc<Shared>, place: usize, number: u64) -> Place {
        let sent = Sent::default();
        let beating = beat(Arc::clone(shared), place, number, Arc::clone(&sent));
        Place { sent, _beating: shared.spawn(beating) }
    }
}

impl Loading {
    pub(super) fn new(shared: &Arc<Shared>, table: Arc<TableSchema>) -> Loading {
        Loading {
            unfinished: Unfinished::new(shared),
            shared: Arc::clone(shared),
            fingerprint: fingerprint(&table),
            table,
            places: BTreeMap::new(),
            is_whole: true,
        }
    }

    fn sent_to(&mut self, place: usize) -> Sent {
        let Loading { shared, places, unfinished, .. } = self;
        let known = places.entry(place).or_insert_with(|| {
            unfinished.places.push(place);
            Place::new(shared, place, unfinished.number)
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
        writing::route(&self.shared, Write { table, changes }, &mut to)?;
        let to: Vec<(usize, Sent, Parts)> =
            to.into_iter().map(|(place, parts)| (place, self.sent_to(place), parts)).collect();
        let (shared, number) = (Arc::clone(&self.shared), self.unfinished.number);
        let (told, done) = sync_channel(1);
        let sending = self.shared.spawn(async move {
            let kept = to.into_iter().map(|(place, sent, parts)| {
                let shared = Arc::clone(&shared);
                async move { keep_all(&shared, place, number, &sent, parts).await }
            });
            let all: Result<Vec<()>> = join_all(kept).await.into_iter().collect();
            // The thread that loads waits for this.
            let _ = told.send(all.map(drop));
        });
        let done = done.recv();
        drop(sending);
        done.unwrap_or_else(|_| Err(Error::internal("rows that were to go ahead did not")))
    }

    async fn end(self, writes: Vec<Write>, durability: Durability) -> Result<()> {
        let Loading { shared, places, unfinished, is_whole, .. } = self;
        if !is_whole {
            return Err(Error::internal("a load went on after it had failed"));
        }
        let mut to: BTreeMap<usize, (u32, Parts)> = BTreeMap::new();
        // The locks keep heartbeats from sending messages from here on.
        let mut held = Vec::with_capacity(places.len());
        for (place, known) in &places {
            let sent = Arc::clone(&known.sent).lock_owned().await;
            to.insert(*place, (*sent, Parts::new()));
            held.push(sent);
        }
        let mut rest: BTreeMap<usize, Parts> = BTreeMap::new();
        for write in writes {
            writing::route(&shared, write, &mut rest)?;
        }
        for (place, parts) in rest {
            to.entry(place).or_default().1 = parts;
        }
        writing::send(&shared, unfinished, to, durability).await
    }
}

impl Load for Loading {
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
async fn beat(shared: Arc<Shared>, place: usize, number: u64, sent: Sent) {
    let mut ticks = interval(BEAT_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // The first tick completes at once.
    ticks.tick().await;
    loop {
        ticks.tick().await;
        let mut sent = sent.lock().await;
        if *sent > 0 {
            // An error is ignored: a worker that lost its parts rejects the next ones.
            let _ = keep(&shared, place, number, &mut sent, Parts::new()).await;
        }
    }
}

/// Has a worker buffer parts.
async fn keep_all(
    shared: &Shared,
    place: usize,
    number: u64,
    sent: &Mutex<u32>,
    parts: Parts,
) -> Result<()> {
    let mut sent = sent.lock().await;
    for some in writing::in_messages(parts) {
        keep(shared, place, number, &mut sent, some).await?;
    }
    Ok(())
}

async fn keep(
    shared: &Shared,
    place: usize,
    number: u64,
    sent: &mut u32,
    tables: Parts,
) -> Result<()> {
    let stage = Stage::Keep as i32;
    let write =
        wire::Write { number, stage, tables, before: *sent, load: true, ..wire::Write::default() };
    shared.ask_once::<wire::Done>(place, Kind::Write(write)).await.map_err(nothing_written)?;
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
