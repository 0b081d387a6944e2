//! From what several workers have found to the answer.

use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::error::{DataFusionError, Result};
use parking_lot::Mutex;
use thalweg_scan::{Aggregation, Partial, ReadStatistics};
use thalweg_types::Error;

use super::scheduler::{Found, QueryScheduler};

/// Into how many partitions groups are divided for each worker: while some are merged, their groups
/// are there twice, and no worker waits long for the one that has most.
pub(super) const PARTITIONS_A_WORKER: usize = 32;

/// Fewer groups are merged on one thread sooner than they are divided.
const LARGE_GROUPS: usize = 16_384;

pub(super) fn is_large(groups: usize) -> bool {
    groups > LARGE_GROUPS
}

pub(super) fn external(error: Error) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

/// What becomes of groups that are complete.
pub(super) type Finish = Arc<dyn Fn(Partial) -> Result<RecordBatch> + Send + Sync>;

/// Merges what was found, and finishes it; the groups of each of the results are in no other.
pub(super) async fn merge(
    aggregation: &Arc<Aggregation>,
    found: Vec<Found>,
    scheduler: &dyn QueryScheduler,
    finish: Finish,
) -> Result<(Vec<RecordBatch>, ReadStatistics)> {
    let mut statistics = ReadStatistics::default();
    found.iter().for_each(|found| statistics += found.statistics);
    let partitions = found.iter().map(|found| found.batches.len()).max().unwrap_or(1);
    let mut of_partition: Vec<Vec<RecordBatch>> = vec![Vec::new(); partitions];
    for found in found {
        let batches = divided(aggregation, found.batches, partitions)?;
        of_partition.iter_mut().zip(batches).for_each(|(all, batch)| all.push(batch));
    }
    if let [batches] = of_partition.as_slice() {
        return Ok((vec![finish(merged(aggregation, batches))?], statistics));
    }
    let merged = merge_apart(aggregation, of_partition, scheduler, finish).await?;
    Ok((merged, statistics))
}

/// Divides what a worker did not, because it had little.
fn divided(
    aggregation: &Arc<Aggregation>,
    batches: Vec<RecordBatch>,
    partitions: usize,
) -> Result<Vec<RecordBatch>> {
    if batches.len() == partitions {
        return Ok(batches);
    }
    merged(aggregation, &batches).into_batches(partitions).map_err(external)
}

fn merged(aggregation: &Arc<Aggregation>, batches: &[RecordBatch]) -> Partial {
    let mut merged = Partial::new(aggregation);
    batches.iter().for_each(|batch| merged.absorb(batch));
    merged
}

/// Merges each partition by itself, on whichever thread is free. Of what was found and what was
/// merged, no more is there at a time than threads work on.
async fn merge_apart(
    aggregation: &Arc<Aggregation>,
    of_partition: Vec<Vec<RecordBatch>>,
    scheduler: &dyn QueryScheduler,
    finish: Finish,
) -> Result<Vec<RecordBatch>> {
    let pieces = of_partition.len();
    let places: Arc<Vec<Mutex<Option<Result<RecordBatch>>>>> =
        Arc::new((0..pieces).map(|_| Mutex::new(None)).collect());
    let batches: Vec<Mutex<Vec<RecordBatch>>> = of_partition.into_iter().map(Mutex::new).collect();
    let (own, into) = (Arc::clone(aggregation), Arc::clone(&places));
    let work = move |piece: usize| {
        // Taken, so that each partition's memory is free as soon as it is merged.
        let batches = std::mem::take(&mut *batches[piece].lock());
        let merged = merged(&own, &batches);
        drop(batches);
        *into[piece].lock() = Some(finish(merged));
    };
    scheduler.run(pieces, Box::new(work)).await?;
    places.iter().filter_map(|place| place.lock().take()).collect()
}
