//! Periodic status requests to all workers: one request for all workers of a process.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures::future::join_all;
use thalweg_cluster::map::ShardMap;
use thalweg_protocol::cluster as wire;
use thalweg_protocol::cluster::work::Kind;
use thalweg_runtime::interval;
use thalweg_types::{ColumnId, TableId};

use super::{Shared, WorkerStatus};
use crate::scan::{Asked, by_process};

/// Interval of status requests in a small cluster.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// A gateway that is not ready yet asks this many times as often.
const LOOKS_MORE_OFTEN: u32 = 8;

/// Limit of the workers asked per second, which lengthens the interval in large clusters.
const LOOKS_A_SECOND: u32 = 256;

/// Asks all workers again and again, while the gateway exists.
pub(super) async fn keep_looking(shared: Weak<Shared>) {
    let mut ticks = interval(LOOK_EVERY);
    loop {
        ticks.tick().await;
        let Some(shared) = shared.upgrade() else { return };
        let workers = look(&shared).await.len();
        ticks.reset_after(match shared.presence.was_complete() {
            true => look_again_after(workers),
            // The cluster is starting, and its operator waits for it.
            false => look_again_after(workers) / LOOKS_MORE_OFTEN,
        });
    }
}

fn look_again_after(workers: usize) -> Duration {
    let workers = u32::try_from(workers).unwrap_or(u32::MAX);
    (Duration::from_secs(1) * workers / LOOKS_A_SECOND).max(LOOK_EVERY)
}

/// Asks all workers for their status, and updates the gateway's estimates.
pub(super) async fn look(shared: &Arc<Shared>) -> Vec<WorkerStatus> {
    let map = shared.map().current();
    let places: Vec<usize> = (0..map.workers().len()).collect();
    let processes = by_process(&places, &map);
    let seen = join_all(processes.iter().map(|asked| shard_statistics(shared, &map, asked))).await;
    let mut seen: HashMap<u64, wire::Sight> =
        seen.into_iter().flatten().map(|sight| (sight.worker, sight)).collect();
    let mut counts: HashMap<TableId, usize> = HashMap::new();
    for table in seen.values().flat_map(|sight| &sight.tables) {
        let rows = usize::try_from(table.rows).unwrap_or(usize::MAX);
        *counts.entry(TableId(table.table)).or_default() += rows;
    }
    *shared.row_counts.write() = counts;
    *shared.value_counts.write() = value_counts(seen.values());
    let workers = map.workers().iter().cloned().zip(map.shares());
    let status: Vec<WorkerStatus> = workers
        .map(|(worker, buckets)| {
            let seen = seen.remove(&worker.id);
            WorkerStatus { worker, buckets: *buckets, seen }
        })
        .collect();
    shared.presence.note(&status);
    status
}

/// The status of workers that share a process. If the answer does not cover all of them, the others
/// are asked one by one: the map may be wrong about them, or only the first one may be unreachable.
async fn shard_statistics(shared: &Arc<Shared>, map: &ShardMap, asked: &Asked) -> Vec<wire::Sight> {
    let mut seen = sights_of(shared, asked.first(), asked.others(map)).await;
    let is_missing = |place: &&usize| {
        let worker = map.workers()[**place].id;
        seen.iter().all(|sight| sight.worker != worker)
    };
    let missing: Vec<usize> = asked.places()[1..].iter().filter(is_missing).copied().collect();
    let others = missing.into_iter().map(|place| sights_of(shared, place, Vec::new()));
    seen.extend(join_all(others).await.into_iter().flatten());
    seen
}

/// The status of one worker and of others in its process; empty if it does not answer.
async fn sights_of(shared: &Arc<Shared>, place: usize, together: Vec<u64>) -> Vec<wire::Sight> {
    let look = Kind::Look(wire::Look { together });
    match shared.ask_one::<wire::Sights>(place, look).await {
        Ok(seen) => seen.sights,
        Err(error) => {
            shared.presence.note_refusal(&error);
            Vec::new()
        }
    }
}

/// Estimated number of distinct values of columns on the worker that has most of them. A column is
/// left out unless all workers with rows of the table know it.
fn value_counts<'a>(
    seen: impl Iterator<Item = &'a wire::Sight>,
) -> HashMap<(TableId, ColumnId), usize> {
    let mut tables: HashMap<u32, usize> = HashMap::new();
    let mut columns: HashMap<(u32, u32), (usize, u64)> = HashMap::new();
    for table in seen.flat_map(|sight| &sight.tables).filter(|table| table.rows > 0) {
        *tables.entry(table.table).or_default() += 1;
        for column in &table.columns {
            let (reports, most) = columns.entry((table.table, column.column)).or_default();
            (*reports, *most) = (*reports + 1, column.values.max(*most));
        }
    }
    let known =
        columns.into_iter().filter(|((table, _), (reports, _))| tables.get(table) == Some(reports));
    let known = known.map(|((table, column), (_, most))| {
        ((TableId(table), ColumnId(column)), usize::try_from(most).unwrap_or(usize::MAX))
    });
    known.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_looked_at_less_often() {
        assert_eq!(look_again_after(0), LOOK_EVERY);
        assert_eq!(look_again_after(512), LOOK_EVERY);
        assert_eq!(look_again_after(2_560), Duration::from_secs(10));
    }
}
