//! The seam between an aggregate and the threads or nodes that compute it.

use std::fmt;
use std::future::poll_fn;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use arrow::array::RecordBatch;
use datafusion::error::Result;
use futures::FutureExt;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use thalweg_scan::{Aggregation, LocalScheduler, Mode, ReadStatistics, Shape};
use thalweg_store::ChunkView;
use thalweg_values::errors::external;

use super::merge_partials::partitions;
use super::partial_state::{PartialState, Shared};
use super::spilled::{Spilled, Spills};

/// Location of a scheduler's workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SchedulerKind {
    /// Threads of this process.
    Local,
    /// Other processes, which receive serialized questions.
    Remote,
}

impl fmt::Display for SchedulerKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SchedulerKind::Local => "local",
            SchedulerKind::Remote => "remote",
        })
    }
}

/// Distributes the work of an aggregate and collects the results. Callers need not know if the
/// workers are threads or machines.
pub trait QueryScheduler: Send + Sync + fmt::Debug {
    fn kind(&self) -> SchedulerKind;

    fn workers(&self) -> usize;

    /// Division of the work. In a serial mode the caller does all of it, and the scheduler is not
    /// used.
    fn mode(&self, shape: &Shape) -> Mode;

    /// Lets the workers process the units of a question, each unit once, and collects their groups.
    fn scatter(&self, question: Scattered) -> BoxFuture<'static, Result<Vec<Found>>>;

    /// Runs pieces of work on this process's threads: calls `work` once with each number below
    /// `pieces`.
    fn run(
        &self,
        pieces: usize,
        work: Box<dyn Fn(usize) + Send + Sync>,
    ) -> BoxFuture<'static, Result<()>>;
}

/// An aggregate that several workers compute.
pub struct Scattered {
    /// The keys and measures to compute.
    pub aggregation: Arc<Aggregation>,
    /// The chunks to read.
    pub chunks: Arc<Vec<ChunkView>>,
    /// Ranges of indexes into `chunks`; a worker takes one range at a time.
    pub units: Vec<Range<usize>>,
    /// The check to call between chunks.
    pub watch: Watch,
    /// The place on disk of groups that do not fit into memory.
    pub spills: Spills,
}

/// Groups of one worker, or some of them: in one partition if they are few, and else in the number
/// of partitions that all workers use.
pub struct Found {
    /// The groups in memory, one batch for each partition.
    pub batches: Vec<RecordBatch>,
    /// The groups on disk in place of `batches`, if the worker ran out of memory.
    pub spilled: Option<Spilled>,
    /// The chunks and rows that the worker read.
    pub statistics: ReadStatistics,
}

impl Found {
    /// Groups in memory, one batch for each partition.
    #[must_use]
    pub fn in_memory(batches: Vec<RecordBatch>, statistics: ReadStatistics) -> Found {
        Found { batches, spilled: None, statistics }
    }

    pub(super) fn partitions(&self) -> usize {
        self.spilled.as_ref().map_or(self.batches.len(), Spilled::partitions)
    }
}

/// Slot for a worker's result.
type Place = Mutex<Option<Result<Vec<Found>>>>;

/// Check that work calls between chunks: is its result still wanted, and may it use its memory? The
/// function's arguments are a worker's number and its bytes.
#[derive(Clone)]
pub struct Watch(pub(super) Arc<dyn Fn(usize, usize) -> Result<()> + Send + Sync>);

impl Watch {
    /// Reports the memory that a worker uses now, in bytes.
    ///
    /// # Errors
    /// If the work must end: it was stopped, or memory is refused.
    pub fn look(&self, worker: usize, bytes: usize) -> Result<()> {
        (self.0)(worker, bytes)
    }
}

/// The threads of this process.
pub struct LocalQueryScheduler {
    threads: LocalScheduler,
    /// Aggregates over fewer rows run on the calling thread.
    serial_rows: usize,
}

impl LocalQueryScheduler {
    /// Schedules on `threads`; aggregates over fewer than `serial_rows` rows stay on the caller.
    pub fn new(threads: LocalScheduler, serial_rows: usize) -> LocalQueryScheduler {
        LocalQueryScheduler { threads, serial_rows }
    }
}

impl fmt::Debug for LocalQueryScheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LocalQueryScheduler({} threads)", self.workers())
    }
}

impl QueryScheduler for LocalQueryScheduler {
    fn kind(&self) -> SchedulerKind {
        SchedulerKind::Local
    }

    fn workers(&self) -> usize {
        self.threads.threads()
    }

    fn mode(&self, shape: &Shape) -> Mode {
        shape.mode(self.serial_rows)
    }

    fn scatter(&self, question: Scattered) -> BoxFuture<'static, Result<Vec<Found>>> {
        let workers = self.workers().min(question.units.len());
        let Scattered { aggregation, watch, spills, .. } = &question;
        let shared = Shared::new(aggregation, partitions(self.workers()), watch, spills);
        let found: Arc<Vec<Place>> = Arc::new((0..workers).map(|_| Mutex::new(None)).collect());
        let places = Arc::clone(&found);
        let queue =
            Queue { question, next: AtomicUsize::new(0), failed: AtomicBool::new(false), shared };
        let done = self.run(
            workers,
            Box::new(move |worker| {
                let found = queue.work(worker);
                if found.is_err() {
                    queue.failed.store(true, Ordering::Relaxed);
                }
                *places[worker].lock() = Some(found);
            }),
        );
        async move {
            done.await?;
            let found = found.iter().map(|found| found.lock().take());
            let found: Result<Vec<Vec<Found>>> =
                found.map(|found| found.expect("every worker has ended")).collect();
            Ok(found?.into_iter().flatten().collect())
        }
        .boxed()
    }

    fn run(
        &self,
        pieces: usize,
        work: Box<dyn Fn(usize) + Send + Sync>,
    ) -> BoxFuture<'static, Result<()>> {
        let round = self.threads.scatter(pieces, work);
        poll_fn(move |context| round.poll(context)).map(|done| done.map_err(external)).boxed()
    }
}

/// The units of a question, handed out to workers one after the other.
struct Queue {
    question: Scattered,
    next: AtomicUsize,
    /// True once a worker has failed, so that the others stop.
    failed: AtomicBool,
    shared: Shared,
}

impl Queue {
    fn work(&self, worker: usize) -> Result<Vec<Found>> {
        let Scattered { chunks, units, .. } = &self.question;
        let mut finding = PartialState::new(&self.shared, worker);
        while let Some(unit) = units.get(self.next.fetch_add(1, Ordering::Relaxed)) {
            for chunk in &chunks[unit.clone()] {
                if self.failed.load(Ordering::Relaxed) {
                    break;
                }
                finding.add(|partial| partial.add_chunk(chunk))?;
            }
        }
        finding.end()
    }
}
