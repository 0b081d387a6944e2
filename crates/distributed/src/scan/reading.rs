//! Reading the workers' streams, in the mode that the session has chosen ([`FanIn`]).
//!
//! Each partition of a scan is one worker's. In *hybrid* mode, all are asked at once, and each
//! partition reads its own worker. In *sync* mode, a worker is asked after the previous one has
//! begun to answer, and read after the previous one has ended. In *async* mode, all rows go through
//! one queue, from which any free partition takes them. Ordered rows stay with their worker.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use bytes::Bytes;
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricBuilder, Time};
use parking_lot::Mutex;
use thalweg_cluster::chunks::{Cutter, MESSAGE_BYTES_MAX};
use thalweg_cluster::link::{Answer, damaged};
use thalweg_cluster::times::Stopwatch;
use thalweg_env::Clock;
use thalweg_execution::operator_metrics::OperatorMetrics;
use thalweg_protocol::cluster as wire;
use thalweg_query::FanIn;
use thalweg_types::{Error, Result, SqlState};
use tokio::sync::{OwnedMutexGuard, mpsc, oneshot};
use tokio_util::task::AbortOnDropHandle;

use super::keys::with_keys;
use super::{Opening, RemoteScan};
use crate::rows::RowReader;

/// One run of a scan: the state that its partitions share.
pub(super) struct Run {
    fan_in: FanIn,
    asked: wire::Fragment,
    /// In sync mode, `asking` is held while a worker is asked, and `reading` while one is read.
    asking: Arc<tokio::sync::Mutex<()>>,
    reading: Arc<tokio::sync::Mutex<()>>,
    queue: Option<Queue>,
    watch: Arc<Stopwatch>,
    /// Number of partitions that have not begun, and of those that have not ended.
    to_begin: AtomicUsize,
    to_end: AtomicUsize,
    open_time: Time,
    first_row_time: Time,
    read_time: Time,
}

impl Run {
    /// Begins a run. In async mode it asks all workers at once.
    ///
    /// # Errors
    /// If the request cannot be encoded.
    pub(super) fn begin(
        scan: &RemoteScan,
        fan_in: FanIn,
        metrics: &ExecutionPlanMetricsSet,
        clock: &Arc<dyn Clock>,
    ) -> Result<Run> {
        let partitions = scan.streams().len();
        let watch = Arc::new(Stopwatch::start(Arc::clone(clock)));
        // Ordered rows have to stay in the partition of their worker.
        let is_ordered = scan.properties.output_ordering().is_some();
        let fan_in = match fan_in {
            FanIn::Sync | FanIn::Async if is_ordered => FanIn::Hybrid,
            fan_in => fan_in,
        };
        let asked = scan.asked(None)?;
        let queue = match fan_in {
            FanIn::Async => Some(Queue::begin(scan, &asked, &watch)?),
            FanIn::Sync | FanIn::Hybrid => None,
        };
        // These times concern the whole run, and are reported for its first partition.
        let time = |name| MetricBuilder::new(metrics).subset_time(name, 0);
        Ok(Run {
            fan_in,
            asked,
            asking: Arc::default(),
            reading: Arc::default(),
            queue,
            watch,
            to_begin: AtomicUsize::new(partitions),
            to_end: AtomicUsize::new(partitions),
            open_time: time("open_time"),
            first_row_time: time("first_row_time"),
            read_time: time("read_time"),
        })
    }

    /// Registers the begin of a partition. Returns true for the last one.
    pub(super) fn begins(&self) -> bool {
        self.to_begin.fetch_sub(1, Ordering::Relaxed) == 1
    }

    /// Registers the end of a partition. The last one records the times.
    fn ends(&self) {
        if self.to_end.fetch_sub(1, Ordering::AcqRel) == 1 {
            let times = self.watch.stop();
            self.open_time.add_duration(times.opened);
            self.first_row_time.add_duration(times.first.unwrap_or_default());
            self.read_time.add_duration(times.read());
        }
    }
}

/// The rows of a partition, read on demand.
pub(super) struct Reading {
    run: Arc<Run>,
    source: Source,
    ready: VecDeque<RecordBatch>,
    operator_metrics: OperatorMetrics,
    has_ended: bool,
}

enum Source {
    Own(Box<Own>),
    Queue,
}

/// One worker's stream.
struct Own {
    opening: Option<Opening>,
    answer: Option<Answer>,
    decoder: Decoder,
    /// Held while it is this worker's turn, in sync mode.
    turn: Option<OwnedMutexGuard<()>>,
}

impl Reading {
    /// Begins to read a partition. Except in async mode it asks the partition's worker.
    ///
    /// # Errors
    /// If the request cannot be encoded.
    pub(super) fn begin(
        run: Arc<Run>,
        scan: &RemoteScan,
        partition: usize,
        operator_metrics: OperatorMetrics,
    ) -> Result<Reading> {
        let source = match run.queue {
            Some(_) => Source::Queue,
            None => Source::Own(Box::new(Own {
                opening: Some(own_opening(&run, scan, partition)?),
                answer: None,
                decoder: Decoder::new(Some(scan.properties.eq_properties.schema())),
                turn: None,
            })),
        };
        Ok(Reading { run, source, ready: VecDeque::new(), operator_metrics, has_ended: false })
    }

    pub(super) async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if let Some(rows) = self.ready.pop_front() {
                self.run.watch.message();
                self.operator_metrics.count(&rows);
                return Ok(Some(rows));
            }
            let ready = &mut self.ready;
            let is_more = match (&mut self.source, &self.run.queue) {
                (Source::Own(own), _) => own.fill(&self.run, ready).await?,
                (Source::Queue, Some(queue)) => queue.fill(ready).await?,
                (Source::Queue, None) => false,
            };
            if !is_more {
                self.end();
                return Ok(None);
            }
        }
    }

    fn end(&mut self) {
        if !std::mem::replace(&mut self.has_ended, true) {
            self.run.ends();
        }
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        self.end();
    }
}

/// Asks a partition's own worker, in its turn.
fn own_opening(run: &Run, scan: &RemoteScan, partition: usize) -> Result<Opening> {
    let stream = scan.streams()[partition].clone();
    let question = scan.question(&run.asked, &stream)?;
    let turns = (run.fan_in == FanIn::Sync).then(|| Arc::clone(&run.asking));
    let (shared, watch) = (Arc::clone(&scan.shared), Arc::clone(&run.watch));
    let among = scan.work.among.clone();
    Ok(scan.shared.spawn(async move {
        let question = with_keys(question, &among, &stream, &shared).await?;
        let _turn = match turns {
            Some(turns) => Some(turns.lock_owned().await),
            None => None,
        };
        let answer = shared.ask_rows(stream.first(), question).await;
        watch.opened();
        answer
    }))
}

impl Own {
    /// Reads the next piece. Returns false at the end.
    async fn fill(&mut self, run: &Run, ready: &mut VecDeque<RecordBatch>) -> Result<bool> {
        if let Some(opening) = self.opening.take() {
            self.answer = Some(opening.await.map_err(|died| Error::internal(died.to_string()))??);
            if run.fan_in == FanIn::Sync {
                self.turn = Some(Arc::clone(&run.reading).lock_owned().await);
            }
        }
        let Some(answer) = &mut self.answer else { return Ok(false) };
        match answer.piece().await? {
            Some(piece) => {
                let fed = self.decoder.feed(&piece, ready);
                fed.map(|()| true).map_err(|error| damaged(error, answer.from()))
            }
            None => {
                self.decoder.check_end(answer)?;
                (self.answer, self.turn) = (None, None);
                Ok(false)
            }
        }
    }
}

/// Decodes pieces of an answer into rows.
pub(crate) struct Decoder {
    cutter: Cutter,
    reader: RowReader,
}

impl Decoder {
    /// A decoder for rows of a schema; `None` accepts any.
    pub(crate) fn new(schema: Option<&SchemaRef>) -> Decoder {
        Decoder {
            cutter: Cutter::new(MESSAGE_BYTES_MAX),
            reader: RowReader::new(schema.map(Arc::clone)),
        }
    }

    pub(crate) fn feed(&mut self, piece: &Bytes, ready: &mut VecDeque<RecordBatch>) -> Result<()> {
        let reader = &mut self.reader;
        self.cutter.feed(piece, |message| {
            ready.extend(reader.read(message.to_bytes())?);
            Ok(())
        })
    }

    /// Checks that the answer ended between messages.
    ///
    /// # Errors
    /// If the last message is incomplete.
    pub(crate) fn check_end(&self, answer: &Answer) -> Result<()> {
        match self.cutter.is_between_messages() {
            true => Ok(()),
            false => {
                let message = format!("the answer of {} is cut off", answer.from());
                Err(Error::new(SqlState::PROTOCOL_VIOLATION, message))
            }
        }
    }
}

/// Pieces of all workers, in order of arrival.
struct Queue {
    events: tokio::sync::Mutex<mpsc::Receiver<Event>>,
    decoders: Vec<Mutex<Decoder>>,
    /// The tasks that fill the queue; empty after a complete end.
    pumps: tokio::sync::Mutex<Vec<AbortOnDropHandle<()>>>,
}

/// A piece of one worker, which sends the next one after this is taken.
struct Event {
    worker: usize,
    piece: Result<Bytes>,
    taken: oneshot::Sender<()>,
}

impl Queue {
    fn begin(scan: &RemoteScan, asked: &wire::Fragment, watch: &Arc<Stopwatch>) -> Result<Queue> {
        let streams = scan.streams();
        let (sender, events) = mpsc::channel(streams.len().max(1));
        let schema = scan.properties.eq_properties.schema();
        let decoders = streams.iter().map(|_| Mutex::new(Decoder::new(Some(schema)))).collect();
        let mut pumps = Vec::with_capacity(streams.len());
        for (worker, stream) in streams.iter().cloned().enumerate() {
            let question = scan.question(asked, &stream)?;
            let (shared, watch, sender) =
                (Arc::clone(&scan.shared), Arc::clone(watch), sender.clone());
            let among = scan.work.among.clone();
            pumps.push(scan.shared.spawn(async move {
                let answer = match with_keys(question, &among, &stream, &shared).await {
                    Ok(question) => shared.ask_rows(stream.first(), question).await,
                    Err(error) => Err(error),
                };
                watch.opened();
                pump(worker, answer, &sender).await;
            }));
        }
        let (events, pumps) = (tokio::sync::Mutex::new(events), tokio::sync::Mutex::new(pumps));
        Ok(Queue { events, decoders, pumps })
    }

    /// Reads the next piece. Returns false at the end.
    async fn fill(&self, ready: &mut VecDeque<RecordBatch>) -> Result<bool> {
        let next = self.events.lock().await.recv().await;
        let Some(Event { worker, piece, taken }) = next else {
            return self.end().await.map(|()| false);
        };
        self.decoders[worker].lock().feed(&piece?, ready)?;
        // A pump that has ended does not listen.
        let _ = taken.send(());
        Ok(true)
    }

    /// Checks that all answers are complete.
    ///
    /// # Errors
    /// If rows of a worker are missing.
    async fn end(&self) -> Result<()> {
        // If a pump panicked, its rows are missing, so this is not the end.
        let mut pumps = self.pumps.lock().await;
        while let Some(pump) = pumps.pop() {
            pump.await.map_err(|died| Error::internal(died.to_string()))?;
        }
        let is_whole = |decoder: &Mutex<Decoder>| decoder.lock().cutter.is_between_messages();
        match self.decoders.iter().all(is_whole) {
            true => Ok(()),
            false => Err(Error::internal("an answer is cut off")),
        }
    }
}

/// Puts one worker's pieces into the queue, one at a time.
async fn pump(worker: usize, answer: Result<Answer>, queue: &mpsc::Sender<Event>) {
    let mut answer = match answer {
        Ok(answer) => answer,
        Err(error) => return put(worker, Err(error), queue).await,
    };
    loop {
        match answer.piece().await {
            Ok(Some(piece)) => {
                let (taken, was_taken) = oneshot::channel();
                let event = Event { worker, piece: Ok(piece), taken };
                if queue.send(event).await.is_err() || was_taken.await.is_err() {
                    return;
                }
            }
            Ok(None) => return,
            Err(error) => return put(worker, Err(error), queue).await,
        }
    }
}

async fn put(worker: usize, piece: Result<Bytes>, queue: &mpsc::Sender<Event>) {
    let (taken, _) = oneshot::channel();
    // If the receiver is gone, the query is over.
    let _ = queue.send(Event { worker, piece, taken }).await;
}
