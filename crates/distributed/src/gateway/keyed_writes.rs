//! Writes by primary key, on their way to the workers that own the rows.
//!
//! A client sends a stream of groups. Each group is split by the owners of its rows. The parts of
//! one worker go in messages that it runs one after the other. Parts that arrive while a message is
//! under way form the next one, so messages grow with the load of a worker. A second message goes
//! out early only if it is long: then the worker has work when the first one is done. Short
//! messages would cost both sides more than they bring.
//!
//! Invariants: groups are acknowledged in order, once all owners have answered. An acknowledged row
//! is as durable at its owner as was requested. A worker that does not answer fails only its own
//! rows.

mod acknowledgements;
mod message;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures::future::BoxFuture;
use futures::stream::FuturesOrdered;
use futures::{FutureExt as _, StreamExt as _};
use parking_lot::Mutex;
use thalweg_protocol::cluster as wire;
use thalweg_protocol::cluster::work::Kind;
use thalweg_query::{
    AcknowledgeRows, Durability, Failing, KeyedChange, KeyedRows, KeyedWriter, RowFailure,
    RowGroup, fingerprint,
};
use thalweg_types::{Error, Result, SqlState, TableId, TableSchema};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::Shared;
use crate::{keyed, sharding};
use acknowledgements::Acknowledgements;
use message::{Asked, Part, Run, Share};

/// A message of this size, in bytes, takes no further groups.
const MESSAGE_BYTES: usize = 4 << 20;
/// A message of this size, in bytes, goes out while another one is under way.
const LONG_BYTES: usize = 64 << 10;
/// Unanswered messages of a stream to one worker: it syncs one while the next one is on its way.
const UNDER_WAY: usize = 2;

/// The write stream of one client.
pub(super) struct KeyedStream {
    shared: Arc<Shared>,
    /// Number of this stream, unique at the gateway.
    number: u64,
    acknowledgements: Arc<Acknowledgements>,
    sending: Mutex<Sending>,
}

/// State for splitting and sending groups.
#[derive(Default)]
struct Sending {
    /// Queues of the parts of each worker, by its index in the map.
    workers: HashMap<usize, UnboundedSender<Part>>,
    fingerprints: HashMap<TableId, (Arc<TableSchema>, u64)>,
}

impl KeyedStream {
    pub(super) fn new(shared: &Arc<Shared>) -> KeyedStream {
        KeyedStream {
            shared: Arc::clone(shared),
            number: shared.next.fetch_add(1, Ordering::Relaxed),
            acknowledgements: Arc::default(),
            sending: Mutex::default(),
        }
    }

    /// The parts of a group by owner, and the rows that fail before any worker is asked.
    fn parts(
        &self,
        sending: &mut Sending,
        tables: &[Arc<TableSchema>],
        group: RowGroup,
        durability: Durability,
    ) -> Result<(BTreeMap<usize, Part>, Vec<RowFailure>)> {
        let whole = matches!(group.failing, Failing::Undo(_));
        if self.acknowledgements.has_stopped() || whole && group.has_failed {
            return Ok((BTreeMap::new(), Vec::new()));
        }
        let mut parts: BTreeMap<usize, Part> = BTreeMap::new();
        let mut places = Vec::new();
        for (table, rows) in tables.iter().zip(group.rows) {
            if whole {
                places.extend_from_slice(&rows.places);
            }
            let owners = self.owners(table, &rows)?;
            let run = Arc::new(Run { rows, fingerprint: sending.fingerprint(table) });
            for (owner, which) in owners {
                let part = parts.entry(owner).or_insert_with(|| Part {
                    number: 0,
                    failing: keyed::failing_to_wire(&group.failing),
                    durability: keyed::durability_to_wire(durability),
                    shares: Vec::new(),
                });
                part.shares.push(Share { run: Arc::clone(&run), which });
            }
        }
        if whole && parts.len() > 1 {
            let error = on_several(parts.len());
            let failure = |place| RowFailure { place, error: error.clone() };
            return Ok((BTreeMap::new(), places.into_iter().map(failure).collect()));
        }
        Ok((parts, Vec::new()))
    }

    /// The rows that each worker owns; `None` for all.
    fn owners(
        &self,
        table: &TableSchema,
        rows: &KeyedRows,
    ) -> Result<Vec<(usize, Option<Vec<u32>>)>> {
        let map = self.shared.map().current();
        let key = rows.rows.column(shard_key(table, &rows.change)?);
        let mut which: Vec<Vec<u32>> = vec![Vec::new(); map.workers().len()];
        for (row, bucket) in (0_u32..).zip(sharding::buckets(key)?) {
            which[map.owner(bucket)?].push(row);
        }
        let all = rows.rows.num_rows();
        let owners = which.into_iter().enumerate().filter(|(_, which)| !which.is_empty());
        Ok(owners.map(|(owner, which)| (owner, (which.len() < all).then_some(which))).collect())
    }

    fn send(&self, sending: &mut Sending, owner: usize, part: Part) {
        let worker = sending.workers.entry(owner).or_insert_with(|| {
            let (worker, parts) = unbounded_channel();
            let (shared, acknowledgements) =
                (Arc::clone(&self.shared), Arc::clone(&self.acknowledgements));
            let sender = Sender::new(shared, acknowledgements, owner, self.number);
            // The task goes on if the client leaves: parts that were handed over are written.
            drop(self.shared.spawn(sender.run(parts)).detach());
            worker
        });
        // The receiver lives as long as this sender.
        let _ = worker.send(part);
    }
}

impl KeyedWriter for KeyedStream {
    fn write(
        &self,
        tables: Vec<Arc<TableSchema>>,
        group: RowGroup,
        durability: Durability,
        acknowledge: AcknowledgeRows,
    ) {
        let stops = !matches!(group.failing, Failing::LeaveOut | Failing::Undo(None));
        let single = matches!(group.failing, Failing::Stop(_));
        let has_failed = group.has_failed;
        let mut sending = self.sending.lock();
        let dealt = self.parts(&mut sending, &tables, group, durability);
        let (parts, early) = match dealt {
            Ok((parts, failures)) => (parts, Ok(failures)),
            Err(error) => (BTreeMap::new(), Err(error)),
        };
        let waiting = acknowledgements::Group::new(parts.len(), early, acknowledge);
        let waiting = if stops { waiting.stopping(single) } else { waiting };
        let number = self.acknowledgements.begin(waiting, has_failed);
        for (owner, part) in parts {
            self.send(&mut sending, owner, Part { number, ..part });
        }
    }
}

impl Sending {
    fn fingerprint(&mut self, table: &Arc<TableSchema>) -> u64 {
        match self.fingerprints.get(&table.id) {
            Some((known, fingerprint)) if Arc::ptr_eq(known, table) => *fingerprint,
            _ => {
                let made = fingerprint(table);
                self.fingerprints.insert(table.id, (Arc::clone(table), made));
                made
            }
        }
    }
}

/// Index of the shard key among the columns of a change. Every key of a cluster's table contains
/// it.
fn shard_key(table: &TableSchema, change: &KeyedChange) -> Result<usize> {
    let place = table.shard_key.and_then(|column| {
        let position = table.position(column)?;
        match change {
            KeyedChange::Put(_) | KeyedChange::Merge(_) => Some(position),
            KeyedChange::Patch(patch) => patch.columns.iter().position(|at| *at == position),
            KeyedChange::Remove => {
                let key = table.primary_key.as_ref()?;
                table.key_positions(key).iter().position(|at| *at == position)
            }
        }
    });
    place.ok_or_else(|| Error::internal("a primary key of a cluster has the shard key"))
}

fn on_several(workers: usize) -> Error {
    let message = format!(
        "the rows of this atomic message lie on {workers} workers, which cannot write them as one \
         yet"
    );
    Error::new(SqlState::FEATURE_NOT_SUPPORTED, message)
        .with_hint("Send rows of one shard key only, or without asking that they be atomic.")
}

/// Sends the parts of one stream to one worker.
struct Sender {
    shared: Arc<Shared>,
    acknowledgements: Arc<Acknowledgements>,
    owner: usize,
    stream: u64,
    /// Number of the last message.
    turn: u64,
    /// Parts for the next message.
    next: VecDeque<Part>,
    next_bytes: usize,
    /// Contents of the messages under way, oldest first.
    asked: VecDeque<Vec<Asked>>,
    answers: FuturesOrdered<BoxFuture<'static, Result<wire::RowsWritten>>>,
}

impl Sender {
    fn new(
        shared: Arc<Shared>,
        acknowledgements: Arc<Acknowledgements>,
        owner: usize,
        stream: u64,
    ) -> Sender {
        Sender {
            shared,
            acknowledgements,
            owner,
            stream,
            turn: 0,
            next: VecDeque::new(),
            next_bytes: 0,
            asked: VecDeque::new(),
            answers: FuturesOrdered::new(),
        }
    }

    async fn run(mut self, mut parts: UnboundedReceiver<Part>) {
        let mut ended = false;
        while !ended || !self.asked.is_empty() {
            tokio::select! {
                biased;
                Some(answer) = self.answers.next() => self.take(answer),
                part = parts.recv(), if !ended && self.next_bytes < MESSAGE_BYTES => match part {
                    Some(part) => self.gather(part, &mut parts),
                    None => ended = true,
                },
            }
            while self.may_ask() {
                self.ask();
            }
        }
    }

    /// Queues a part, and all that wait behind it.
    fn gather(&mut self, first: Part, parts: &mut UnboundedReceiver<Part>) {
        let mut next = Some(first);
        while let Some(part) = next {
            self.next_bytes += part.bytes();
            self.next.push_back(part);
            next = parts.try_recv().ok();
        }
    }

    fn may_ask(&self) -> bool {
        let is_long = self.next_bytes >= LONG_BYTES;
        !self.next.is_empty() && (self.asked.is_empty() || is_long && self.asked.len() < UNDER_WAY)
    }

    /// Sends the queued parts, as many as fit into one message.
    fn ask(&mut self) {
        let (mut together, mut bytes) = (Vec::new(), 0);
        while bytes < MESSAGE_BYTES
            && let Some(part) = self.next.pop_front()
        {
            bytes += part.bytes();
            match self.acknowledgements.is_left_out(part.number) {
                true => self.acknowledgements.part(part.number, 0, Vec::new()),
                false => together.push(part),
            }
        }
        self.next_bytes -= bytes;
        let (mut groups, mut asked) = (Vec::new(), Vec::new());
        for (group, of) in message::groups(&together) {
            match group {
                Ok(group) => {
                    groups.push(group);
                    asked.push(of);
                }
                Err(error) => self.tell(of, Err(error)),
            }
        }
        if asked.is_empty() {
            return;
        }
        self.turn += 1;
        // Answered messages are done. A restarted worker knows nothing of them, so they are not
        // named.
        let behind = if self.asked.is_empty() { 0 } else { self.turn - 1 };
        let write = wire::WriteRows { groups, stream: self.stream, turn: self.turn, behind };
        let (shared, owner) = (Arc::clone(&self.shared), self.owner);
        let answer = async move {
            let written: wire::RowsWritten = shared.ask_once(owner, Kind::WriteRows(write)).await?;
            shared.note_position(owner, written.position);
            Ok(written)
        };
        self.answers.push_back(answer.boxed());
        self.asked.push_back(asked);
    }

    /// Handles the answer to the oldest message under way.
    fn take(&mut self, answer: Result<wire::RowsWritten>) {
        match answer {
            Ok(written) => {
                let mut groups = written.groups.into_iter();
                for asked in self.asked.pop_front().unwrap_or_default() {
                    let written = groups.next().ok_or_else(unreported).and_then(keyed::written);
                    self.tell(asked, written);
                }
            }
            Err(error) => {
                // Messages behind the failed one may wait for it at the worker, so they fail, too.
                self.answers = FuturesOrdered::new();
                for asked in std::mem::take(&mut self.asked).into_iter().flatten() {
                    self.tell(asked, Err(error.clone()));
                }
            }
        }
    }

    fn tell(&self, asked: Asked, written: Result<(u64, Vec<RowFailure>)>) {
        for (number, rows, failures) in asked.outcomes(written) {
            self.acknowledgements.part(number, rows, failures);
        }
    }
}

fn unreported() -> Error {
    let message = "a worker did not tell what became of all rows";
    Error::new(SqlState::PROTOCOL_VIOLATION, message)
}
