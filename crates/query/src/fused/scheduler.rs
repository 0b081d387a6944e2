//! The seam between an aggregate and whoever works on it.

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
use thalweg_dialect::errors::external;
use thalweg_scan::{Aggregation, LocalScheduler, Mode, ReadStatistics, Shape};
use thalweg_store::ChunkView;

use super::finding::{Finding, Shared};
use super::gather::partitions;
use super::spilled::{Spilled, Spills};

/// Where the workers are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SchedulerKind {
    /// Threads of this process.
    Local,
    /// Others, who are sent questions as bytes.
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

/// Has fragments of a question worked on, and gathers what they find. Threads and machines are
/// behind it; who asks changes in nothing.
pub trait QueryScheduler: Send + Sync + fmt::Debug {
    fn kind(&self) -> SchedulerKind;

    fn workers(&self) -> usize;

    /// How a question is shared out. Nobody is asked where whoever asks does all the work.
    fn mode(&self, shape: &Shape) -> Mode;

    /// Has the workers take the units of a question, each once, and gathers what each has found.
    fn scatter(&self, question: Scattered) -> BoxFuture<'static, Result<Vec<Found>>>;

    /// Has threads on this side do pieces of work: `work` is called once with each number below
    /// `pieces`.
    fn run(
        &self,
        pieces: usize,
        work: Box<dyn Fn(usize) + Send + Sync>,
    ) -> BoxFuture<'static, Result<()>>;
}

/// A question that several work on.
pub struct Scattered {
    pub aggregation: Arc<Aggregation>,
    pub chunks: Arc<Vec<ChunkView>>,
    /// Chunks that one worker takes together, by their places.
    pub units: Vec<Range<usize>>,
    pub watch: Watch,
    pub spills: Spills,
}

/// What one worker has found, or a part of it: all in one partition, or in as many as all have, if
/// it is much.
pub struct Found {
    pub batches: Vec<RecordBatch>,
    /// What it has found instead, where it had no memory for it.
    pub spilled: Option<Spilled>,
    pub statistics: ReadStatistics,
}

impl Found {
    #[must_use]
    pub fn in_memory(batches: Vec<RecordBatch>, statistics: ReadStatistics) -> Found {
        Found { batches, spilled: None, statistics }
    }

    pub(super) fn partitions(&self) -> usize {
        self.spilled.as_ref().map_or(self.batches.len(), Spilled::partitions)
    }
}

/// Where a worker puts what it has found.
type Place = Mutex<Option<Result<Vec<Found>>>>;

/// Looks after work that goes on, between chunks: whether it is still wanted, and may have the
/// memory that it takes. The second argument of what it calls is a worker's number.
#[derive(Clone)]
pub struct Watch(pub(super) Arc<dyn Fn(usize, usize) -> Result<()> + Send + Sync>);

impl Watch {
    /// Tells how much memory a worker has taken.
    ///
    /// # Errors
    /// Where the work shall end.
    pub fn look(&self, worker: usize, bytes: usize) -> Result<()> {
        (self.0)(worker, bytes)
    }
}

/// The threads of this process.
pub(crate) struct LocalQueryScheduler {
    threads: LocalScheduler,
    /// Fewer rows are left to whoever asks.
    serial_rows: usize,
}

impl LocalQueryScheduler {
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

/// The units of a question that no worker has taken yet.
struct Queue {
    question: Scattered,
    next: AtomicUsize,
    /// Whether some worker has failed, so that the others need not go on.
    failed: AtomicBool,
    shared: Shared,
}

impl Queue {
    fn work(&self, worker: usize) -> Result<Vec<Found>> {
        let Scattered { chunks, units, .. } = &self.question;
        let mut finding = Finding::new(&self.shared, worker);
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
