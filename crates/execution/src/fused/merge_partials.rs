//! Merges the groups of several workers (scan threads) to the answer.
//!
//! Few groups are merged on one thread. Many are divided into partitions by the hash of their keys,
//! and each partition is merged by one thread, without a lock. The merge runs only a little ahead
//! of the reader, and reads back groups that were spilled.

use std::iter;
use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow::array::RecordBatch;
use datafusion::error::{DataFusionError, Result};
use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};
use parking_lot::Mutex;
use thalweg_scan::{Aggregation, Partial, ReadStatistics, own_bytes, text_bytes};
use thalweg_values::errors::external;

use super::scheduler::{Found, QueryScheduler, Watch};
use super::spilled::Spilled;

/// Least number of partitions that groups are divided into. Small partitions save memory, since a
/// partition's groups exist twice while they are merged. With 108, the columns of a partition of a
/// hash table that is divided early (`thalweg_scan`) nearly fill the allocator's size class; with
/// 128 they would be a little smaller but take blocks of the same size.
const PARTITIONS_MIN: usize = 108;

/// Partitions for each worker, so that no worker waits long for the slowest one.
const PARTITIONS_A_WORKER: usize = 8;

/// Number of merge rounds that run or wait for the consumer. A round merges one partition for each
/// thread.
const ROUNDS: usize = 2;

/// Up to so many groups, merging on one thread is faster than dividing them.
const LARGE_GROUPS: usize = 16_384;

pub(super) fn is_large(groups: usize) -> bool {
    groups > LARGE_GROUPS
}

/// Number of partitions that `workers` workers divide their groups into.
pub(super) fn partitions(workers: usize) -> usize {
    PARTITIONS_MIN.max(workers * PARTITIONS_A_WORKER)
}

/// Converts complete groups to a batch of the answer.
pub(super) type Finish = Arc<dyn Fn(Partial) -> Result<RecordBatch> + Send + Sync>;

/// The answer. Each group is in exactly one of its batches.
pub enum Answer {
    Whole(Vec<RecordBatch>),
    /// Batches of very many groups. They are merged only a little ahead of the consumer, so that
    /// merged and unmerged groups are never in memory all at once.
    Parts(BoxStream<'static, Result<RecordBatch>>),
}

/// Merges the workers' groups, and finishes them with `finish`. The memory of groups that are not
/// merged yet is reported to `watch`.
pub(super) fn merge(
    aggregation: &Arc<Aggregation>,
    found: Vec<Found>,
    scheduler: &Arc<dyn QueryScheduler>,
    finish: Finish,
    watch: Watch,
) -> Result<(Answer, ReadStatistics)> {
    let mut statistics = ReadStatistics::default();
    found.iter().for_each(|found| statistics += found.statistics);
    let partitions = found.iter().map(Found::partitions).max().unwrap_or(1);
    let mut parts: Vec<Part> = (0..partitions).map(|_| Part::default()).collect();
    for found in found {
        if let Some(spilled) = found.spilled {
            let spilled = Arc::new(spilled);
            let places = parts.iter_mut().enumerate();
            places.for_each(|(place, part)| part.spilled.push((Arc::clone(&spilled), place)));
            continue;
        }
        let batches = divided(aggregation, found.batches, partitions)?;
        parts.iter_mut().zip(batches).for_each(|(part, batch)| part.batches.push(batch));
    }
    if let [Part { batches, spilled }] = parts.as_mut_slice()
        && spilled.is_empty()
    {
        let whole = merge_few_groups(aggregation, mem::take(batches), scheduler.workers(), &watch)?;
        return Ok((Answer::Whole(vec![finish(whole)?]), statistics));
    }
    let merging = Merging { aggregation: Arc::clone(aggregation), finish };
    let parts = merging.merge_by_partition(parts, Arc::clone(scheduler), watch)?;
    Ok((Answer::Parts(parts), statistics))
}

/// Divides the groups of a worker that had too few to divide them itself.
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

/// Merges few groups, whose texts may be long, on one thread.
fn merge_few_groups(
    aggregation: &Arc<Aggregation>,
    batches: Vec<RecordBatch>,
    workers: usize,
    watch: &Watch,
) -> Result<Partial> {
    let bytes_of = |batch: &RecordBatch| own_bytes(batch) + text_bytes([batch]);
    let mut left: usize = batches.iter().map(bytes_of).sum();
    hold(watch, workers, left)?;
    let mut merged = Partial::new(aggregation);
    for batch in batches {
        merged.absorb(&batch);
        watch.look(0, left + merged.memory_bytes())?;
        left -= bytes_of(&batch);
    }
    Ok(merged)
}

/// The groups of one partition, as the workers built them.
#[derive(Default)]
struct Part {
    batches: Vec<RecordBatch>,
    /// Spilled groups: the spill file, and the partition's index in it.
    spilled: Vec<(Arc<Spilled>, usize)>,
}

impl Part {
    fn bytes_on_disk(&self) -> usize {
        self.spilled.iter().map(|(spilled, place)| spilled.bytes(*place)).sum()
    }

    fn merged(self, aggregation: &Arc<Aggregation>) -> Result<Partial> {
        let mut all = merged(aggregation, &self.batches);
        drop(self.batches);
        for (spilled, place) in self.spilled {
            spilled.read(place, |batch| all.absorb(batch))?;
        }
        Ok(all)
    }
}

/// The steps that each partition goes through.
#[derive(Clone)]
struct Merging {
    aggregation: Arc<Aggregation>,
    finish: Finish,
}

impl Merging {
    /// Merges each partition separately, one round at a time, while the consumer takes the previous
    /// round.
    fn merge_by_partition(
        self,
        parts: Vec<Part>,
        scheduler: Arc<dyn QueryScheduler>,
        watch: Watch,
    ) -> Result<BoxStream<'static, Result<RecordBatch>>> {
        let mut bytes: Vec<usize> =
            parts.iter().map(|part| part.batches.iter().map(own_bytes).sum()).collect();
        // Partitions share the buffers of long texts, which stay until the last one is merged.
        if let Some(last) = bytes.last_mut() {
            *last += text_bytes(parts.iter().flat_map(|part| &part.batches));
        }
        let from_disk = parts.iter().map(Part::bytes_on_disk).max().unwrap_or(0);
        let found = bytes.iter().sum();
        let Room { at_once, rounds: under_way, bytes: all } =
            Room::make(&watch, scheduler.workers(), found, from_disk)?;
        let left = Arc::new(AtomicUsize::new(all));
        let mut partitions = parts.into_iter().zip(bytes);
        let rounds = iter::from_fn(move || {
            let round: Vec<_> = partitions.by_ref().take(at_once).collect();
            (!round.is_empty()).then_some(round)
        });
        let merged = rounds.map(move |round| {
            let (round, bytes): (Vec<_>, Vec<usize>) = round.into_iter().unzip();
            let (own, scheduler, watch) = (self.clone(), Arc::clone(&scheduler), watch.clone());
            let (left, bytes) = (Arc::clone(&left), bytes.into_iter().sum::<usize>());
            async move {
                let merged = own.round(round, scheduler.as_ref()).await;
                // A round may end before an earlier one. The memory held only shrinks, so the order
                // does not matter.
                let left = left.fetch_sub(bytes, Ordering::Relaxed) - bytes;
                hold(&watch, 1, left)?;
                merged
            }
        });
        let parts = stream::iter(merged).buffered(under_way);
        Ok(parts.map_ok(|parts| stream::iter(parts.into_iter().map(Ok))).try_flatten().boxed())
    }

    /// Merges some partitions, each on a free thread.
    async fn round(
        self,
        parts: Vec<Part>,
        scheduler: &dyn QueryScheduler,
    ) -> Result<Vec<RecordBatch>> {
        let pieces = parts.len();
        let places: Arc<Vec<Mutex<Option<Result<RecordBatch>>>>> =
            Arc::new((0..pieces).map(|_| Mutex::new(None)).collect());
        let parts: Vec<Mutex<Part>> = parts.into_iter().map(Mutex::new).collect();
        let into = Arc::clone(&places);
        let work = move |piece: usize| {
            // Take the part out, so that its memory is freed as soon as it is merged.
            let part = mem::take(&mut *parts[piece].lock());
            let merged = part.merged(&self.aggregation);
            *into[piece].lock() = Some(merged.and_then(|merged| (self.finish)(merged)));
        };
        scheduler.run(pieces, Box::new(work)).await?;
        places.iter().filter_map(|place| place.lock().take()).collect()
    }
}

/// The amount merged at a time.
struct Room {
    /// Partitions of a round, and rounds under way.
    at_once: usize,
    rounds: usize,
    /// Memory of those rounds and of all unmerged groups, in bytes.
    bytes: usize,
}

impl Room {
    /// Reserves as many partitions and rounds as memory allows. Groups read from disk exist twice:
    /// as read, and merged.
    fn make(watch: &Watch, workers: usize, found: usize, from_disk: usize) -> Result<Room> {
        let (mut at_once, mut rounds) = (workers, ROUNDS);
        loop {
            let bytes = found + from_disk * 2 * at_once * rounds;
            match hold(watch, workers, bytes) {
                Err(DataFusionError::ResourcesExhausted(_))
                    if from_disk > 0 && at_once * rounds > 1 =>
                {
                    (at_once, rounds) = match rounds {
                        1 => (at_once.div_ceil(2), 1),
                        _ => (at_once, 1),
                    };
                }
                held => return held.map(|()| Room { at_once, rounds, bytes }),
            }
        }
    }
}

/// Charges all memory of unmerged groups to the first worker, and none to the others.
fn hold(watch: &Watch, workers: usize, bytes: usize) -> Result<()> {
    (1..workers).try_for_each(|worker| watch.look(worker, 0))?;
    watch.look(0, bytes)
}

#[cfg(test)]
mod tests {
    use arrow::array::{ArrayRef, Int64Array, StringViewArray};
    use arrow::datatypes::{DataType, Schema};
    use futures::FutureExt;
    use futures::future::{self, BoxFuture};
    use thalweg_scan::{Key, KeyValue, Measure, Mode, Shape};
    use tokio::sync::oneshot;

    use super::super::scheduler::{Scattered, SchedulerKind};
    use super::*;

    /// A scheduler with one worker whose second piece of work ends before the first.
    #[derive(Debug, Default)]
    struct SecondFirst {
        first: Mutex<Option<oneshot::Sender<()>>>,
    }

    impl QueryScheduler for SecondFirst {
        fn kind(&self) -> SchedulerKind {
            SchedulerKind::Local
        }

        fn workers(&self) -> usize {
            1
        }

        fn mode(&self, _: &Shape) -> Mode {
            Mode::Chunked
        }

        fn scatter(&self, _: Scattered) -> BoxFuture<'static, Result<Vec<Found>>> {
            unreachable!("what was found is merged alone")
        }

        fn run(
            &self,
            pieces: usize,
            work: Box<dyn Fn(usize) + Send + Sync>,
        ) -> BoxFuture<'static, Result<()>> {
            (0..pieces).for_each(work);
            let mut first = self.first.lock();
            if let Some(first) = first.take() {
                let _ = first.send(());
                return future::ready(Ok(())).boxed();
            }
            let (sender, ended) = oneshot::channel();
            *first = Some(sender);
            async move {
                let _ = ended.await;
                Ok(())
            }
            .boxed()
        }
    }

    fn part(batches: Vec<RecordBatch>) -> Part {
        Part { batches, spilled: Vec::new() }
    }

    fn counted(keys: ArrayRef) -> RecordBatch {
        let counts: ArrayRef = Arc::new(Int64Array::from(vec![1; keys.len()]));
        RecordBatch::try_from_iter([("key", keys), ("count", counts)]).unwrap()
    }

    fn found(keys: Vec<i64>) -> RecordBatch {
        counted(Arc::new(Int64Array::from(keys)))
    }

    /// Groups whose keys are texts too long to be inlined in their views.
    fn found_texts(names: &[&str]) -> RecordBatch {
        let text = |name: &&str| format!("{name}, which is the beginning of a rather long text");
        counted(Arc::new(StringViewArray::from_iter_values(names.iter().map(text))))
    }

    fn counting(data_type: DataType) -> Merging {
        let key = Key { value: KeyValue::Column(0), data_type };
        let aggregation = Aggregation::new(vec![0], None, vec![key], vec![Measure::Rows]);
        let finish: Finish =
            Arc::new(|_: Partial| Ok(RecordBatch::new_empty(Arc::new(Schema::empty()))));
        Merging { aggregation: Arc::new(aggregation.unwrap()), finish }
    }

    /// A watch that refuses more than `most` bytes, and the sizes that it was called with.
    fn watch_up_to(most: usize) -> (Watch, Arc<Mutex<Vec<usize>>>) {
        let held: Arc<Mutex<Vec<usize>>> = Arc::default();
        let long_texts = Arc::clone(&held);
        let watch = Watch(Arc::new(move |_, bytes| {
            long_texts.lock().push(bytes);
            match bytes <= most {
                true => Ok(()),
                false => Err(DataFusionError::ResourcesExhausted("a test's limit".to_owned())),
            }
        }));
        (watch, held)
    }

    fn second_first() -> Arc<dyn QueryScheduler> {
        Arc::new(SecondFirst::default())
    }

    #[tokio::test]
    async fn what_is_held_shrinks_whichever_round_ends_first() {
        let (watch, held) = watch_up_to(usize::MAX);
        let parts = vec![part(vec![found(vec![1, 2, 3])]), part(vec![found(vec![4, 5])])];
        let merging = counting(DataType::Int64);
        let parts = merging.merge_by_partition(parts, second_first(), watch).unwrap();
        assert_eq!(parts.try_collect::<Vec<RecordBatch>>().await.unwrap().len(), 2);
        let held = held.lock();
        assert_eq!(held.len(), 3);
        assert!(held.is_sorted_by(|before, after| before > after), "{held:?}");
        assert_eq!(held.last(), Some(&0));
    }

    #[test]
    fn fewer_partitions_come_from_disk_at_once_where_there_is_less_room() {
        let sizes = |most, workers, from_disk| {
            let (watch, _) = watch_up_to(most);
            Room::make(&watch, workers, 100, from_disk).ok().map(|room| (room.at_once, room.rounds))
        };
        assert_eq!(sizes(100 + 2 * 10 * 8, 4, 10), Some((4, 2)));
        assert_eq!(sizes(100 + 2 * 10 * 8 - 1, 4, 10), Some((4, 1)));
        assert_eq!(sizes(100 + 2 * 10 * 3, 4, 10), Some((2, 1)));
        assert_eq!(sizes(100 + 2 * 10, 7, 10), Some((1, 1)));
        assert_eq!(sizes(100 + 2 * 10 - 1, 4, 10), None);
        assert_eq!((sizes(100, 4, 0), sizes(99, 4, 0)), (Some((4, 2)), None));
    }

    #[tokio::test]
    async fn texts_that_partitions_share_are_held_once() {
        let all = found_texts(&["one", "two", "three", "four", "five"]);
        let bytes = own_bytes(&all) + text_bytes([&all]);
        assert!(bytes > own_bytes(&all) + 5 * 40);
        let partitions = || vec![part(vec![all.slice(0, 3)]), part(vec![all.slice(3, 2)])];
        let (watch, held) = watch_up_to(bytes);
        let merging = counting(DataType::Utf8View);
        let parts =
            merging.clone().merge_by_partition(partitions(), second_first(), watch).unwrap();
        assert_eq!(parts.try_collect::<Vec<RecordBatch>>().await.unwrap().len(), 2);
        let held = held.lock();
        assert_eq!((held.first(), held.last()), (Some(&bytes), Some(&0)));
        assert!(held.is_sorted_by(|before, after| before > after), "{held:?}");
        // It fails before the first row, so that other operators can spill.
        let (watch, _) = watch_up_to(bytes - 1);
        let refused = merging.merge_by_partition(partitions(), second_first(), watch);
        assert!(matches!(refused, Err(DataFusionError::ResourcesExhausted(_))));
    }

    #[test]
    fn texts_of_few_groups_are_held_twice_while_they_are_merged() {
        let aggregation = counting(DataType::Utf8View).aggregation;
        let batches = || vec![found_texts(&["one", "two"]), found_texts(&["two", "three"])];
        let found: usize =
            batches().iter().map(|batch| own_bytes(batch) + text_bytes([batch])).sum();
        let (watch, held) = watch_up_to(usize::MAX);
        assert_eq!(merge_few_groups(&aggregation, batches(), 1, &watch).unwrap().group_count(), 3);
        assert_eq!(held.lock().first(), Some(&found));
        assert!(held.lock()[1] > found + text_bytes(&batches()[..1]));
        let (watch, _) = watch_up_to(found);
        let refused = merge_few_groups(&aggregation, batches(), 1, &watch);
        assert!(matches!(refused, Err(DataFusionError::ResourcesExhausted(_))));
    }
}
