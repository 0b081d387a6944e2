//! Executors that could be anywhere: their partial results travel as bytes, and each executor does
//! its part with the code of one thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow::array::RecordBatch;
use arrow::ipc::reader::StreamReader;
use arrow::ipc::writer::StreamWriter;
use datafusion::error::{DataFusionError, Result};
use futures::FutureExt;
use futures::future::{BoxFuture, ready};
use thalweg_execution::fused::{Found, QueryScheduler, Scattered, SchedulerKind, Watch};
use thalweg_scan::{Aggregation, Mode, Partial, ReadStatistics, Shape};
use thalweg_store::ChunkView;

const EXECUTORS: usize = 3;

/// Groups that are more than these are handed on in partitions.
const TOGETHER_MAX: usize = 4;
const PARTITIONS: usize = 5;

/// Questions that have been asked in this process.
pub static ASKED: AtomicUsize = AtomicUsize::new(0);

/// Shares every question out, however few rows it is about.
#[derive(Debug)]
pub struct Remote;

impl QueryScheduler for Remote {
    fn kind(&self) -> SchedulerKind {
        SchedulerKind::Remote
    }

    fn workers(&self) -> usize {
        EXECUTORS
    }

    fn mode(&self, _: &Shape) -> Mode {
        Mode::Chunked
    }

    fn scatter(&self, question: Scattered) -> BoxFuture<'static, Result<Vec<Found>>> {
        ready(scatter(&question)).boxed()
    }

    fn run(
        &self,
        pieces: usize,
        work: Box<dyn Fn(usize) + Send + Sync>,
    ) -> BoxFuture<'static, Result<()>> {
        (0..pieces).for_each(work);
        ready(Ok(())).boxed()
    }
}

/// Sends a question to all executors, and takes what they found.
fn scatter(question: &Scattered) -> Result<Vec<Found>> {
    ASKED.fetch_add(1, Ordering::Relaxed);
    let Scattered { aggregation, chunks, units, watch, .. } = question;
    let mut found = Vec::new();
    for executor in 0..EXECUTORS {
        let own = units.iter().skip(executor).step_by(EXECUTORS);
        let own: Vec<&ChunkView> = own.flat_map(|unit| &chunks[unit.clone()]).collect();
        if own.is_empty() {
            continue;
        }
        let (batches, statistics) = work(executor, aggregation, &own, watch)?;
        let batches = batches.iter().map(|bytes| received(bytes));
        found.push(Found::in_memory(batches.collect::<Result<_>>()?, statistics));
    }
    Ok(found)
}

/// The work of one executor: the partial results of its chunks, each batch as bytes.
fn work(
    executor: usize,
    aggregation: &Arc<Aggregation>,
    chunks: &[&ChunkView],
    watch: &Watch,
) -> Result<(Vec<Vec<u8>>, ReadStatistics)> {
    let mut partial = Partial::new(aggregation);
    for chunk in chunks {
        partial.add_chunk(chunk).map_err(external)?;
        watch.look(executor, partial.memory_bytes())?;
    }
    let statistics = partial.statistics();
    let partitions = if partial.group_count() > TOGETHER_MAX { PARTITIONS } else { 1 };
    let batches = partial.into_batches(partitions).map_err(external)?;
    Ok((batches.iter().map(written).collect::<Result<_>>()?, statistics))
}

fn written(batch: &RecordBatch) -> Result<Vec<u8>> {
    let mut writer = StreamWriter::try_new(Vec::new(), &batch.schema())?;
    writer.write(batch)?;
    Ok(writer.into_inner()?)
}

/// The batch that an executor wrote.
fn received(bytes: &[u8]) -> Result<RecordBatch> {
    Ok(StreamReader::try_new(bytes, None)?.next().expect("one batch was written")?)
}

fn external(error: thalweg_types::Error) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}
