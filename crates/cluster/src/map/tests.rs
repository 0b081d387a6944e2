use std::path::Path;
use std::sync::Arc;

use proptest::prelude::*;
use thalweg_env::{Env, Fault};

use super::*;

fn worker(id: u64, port: u16) -> NodeName {
    NodeName { id, address: SocketAddr::from(([127, 0, 0, 1], port)) }
}

fn workers(count: u64) -> Vec<NodeName> {
    (0..count).map(|id| worker(id, 7473)).collect()
}

#[test]
fn buckets_are_spread_evenly_and_each_has_an_owner() {
    for count in [1, 2, 3, 4, 7, 16, 2_160] {
        let map = ShardMap::even(workers(count));
        let shares = map.shares();
        assert_eq!(shares.iter().sum::<usize>(), usize::from(BUCKETS));
        let (least, most) = (shares.iter().min().unwrap(), shares.iter().max().unwrap());
        assert!(*least == usize::from(BUCKETS) / count as usize, "{count}: {least}");
        assert!(most - least <= count as usize, "{count}: {least} to {most}");
    }
}

#[test]
fn without_workers_nobody_owns_anything() {
    let error = ShardMap::default().owner(Bucket(7)).unwrap_err();
    assert_eq!(error.state(), SqlState::CANNOT_CONNECT_NOW);
    assert_eq!(ShardMap::even(workers(1)).owner(Bucket(7)).unwrap(), 0);
}

#[test]
fn a_worker_that_comes_back_keeps_its_buckets() {
    let map = ShardMap::even(workers(4));
    assert_eq!(map.with(worker(2, 7473), 2, Moving::Forbidden), map);
    let moved = map.with(worker(2, 9999), 2, Moving::Forbidden);
    assert_eq!(moved.version(), map.version() + 1);
    assert_eq!((moved.shares(), moved.workers()[2].address.port()), (map.shares(), 9999));
}

#[test]
fn buckets_of_a_removed_worker_go_to_the_others() {
    for removed in 0..4 {
        let map = ShardMap::even(workers(4)).without(removed);
        assert_eq!((map.version(), map.workers().len()), (5, 3));
        assert!(map.worker(removed).is_none());
        assert_eq!(map.shares().iter().sum::<usize>(), usize::from(BUCKETS));
        assert!(map.shares().iter().all(|share| *share > 5_400), "{:?}", map.shares());
        // The wire form derives the shares anew from the buckets.
        assert_eq!(ShardMap::from_wire(&map.to_wire()).unwrap(), map);
    }
    let map = ShardMap::even(workers(1));
    assert_eq!(map.without(7), map);
    assert!(map.without(0).owner(Bucket(0)).is_err());
    assert_eq!(map.without(0).with(worker(9, 1), 9, Moving::Forbidden).shares(), [16_384]);
}

#[test]
fn a_map_knows_who_shares_a_process() {
    let map = ShardMap::even(workers(3));
    assert_eq!(map.processes(), map.workers().iter().map(|worker| worker.id).collect::<Vec<_>>());
    let moved = map.with(map.workers()[1].clone(), 7, Moving::Forbidden);
    assert_eq!((moved.version(), moved.processes()[1]), (map.version() + 1, 7));
    assert_eq!(ShardMap::from_wire(&moved.to_wire()).unwrap(), moved);
    // As written by versions in which each process had one worker.
    let mut wire = moved.to_wire();
    wire.workers[1].process = 0;
    assert_eq!(ShardMap::from_wire(&wire).unwrap().processes(), map.processes());
}

#[test]
fn buckets_with_rows_do_not_move() {
    let map = ShardMap::even(workers(4));
    let joined = map.with(worker(9, 7473), 9, Moving::Forbidden);
    assert_eq!(joined.shares()[4], 0);
    assert_eq!((&joined.shares()[..4], joined.version()), (map.shares(), map.version() + 1));
}

proptest! {
    #[test]
    fn a_map_travels_as_it_is(
        joins in prop::collection::vec((0..20_u64, 1..5_u16, any::<bool>()), 0..30),
    ) {
        let mut map = ShardMap::default();
        for (id, port, may_move) in joins {
            let moving = if may_move { Moving::Allowed } else { Moving::Forbidden };
            let next = map.with(worker(id, port), id, moving);
            prop_assert!(next.version() > map.version() || next == map);
            prop_assert_eq!(&ShardMap::from_wire(&next.to_wire()).unwrap(), &next);
            map = next;
        }
    }

    #[test]
    fn what_is_no_map_is_refused(
        buckets in prop::collection::vec(any::<u32>(), 0..4),
        owners in prop::collection::vec(0..3_u32, 0..4),
    ) {
        let wire = wire::ShardMap {
            version: 1,
            workers: workers(2).iter().map(|worker| entry(worker, 7)).collect(),
            run_buckets: buckets,
            run_owners: owners,
        };
        let sum = wire.run_buckets.iter().map(|run| u64::from(*run)).sum::<u64>();
        prop_assume!(sum != u64::from(BUCKETS));
        prop_assert!(ShardMap::from_wire(&wire).is_err());
    }
}

#[test]
fn a_stored_map_survives_a_crash_at_any_moment() {
    let directory = Path::new("/data");
    let (first, second) = (ShardMap::even(workers(2)), ShardMap::even(workers(3)));
    let mut survived = 0;
    for operation in 1..40 {
        let (env, disk, _) = Env::simulated(operation);
        MapFile::new(&env, directory).unwrap().store(&first).unwrap();
        env.files.sync_dir(Path::new("/")).unwrap();
        disk.fault_at(disk.operations() + operation, Fault::CrashBefore);
        let stored = MapFile::new(&env, directory).and_then(|file| file.store(&second));
        let env = env.with_files(disk.crash());
        let found = MapFile::new(&env, directory).unwrap().load().unwrap();
        match stored {
            Ok(()) => assert_eq!(found.as_ref(), Some(&second)),
            Err(_) => assert!(found == Some(first.clone()) || found == Some(second.clone())),
        }
        survived += usize::from(stored.is_ok());
    }
    assert!((1..39).contains(&survived), "the crash hit some of the operations");
}

#[test]
fn a_damaged_map_is_not_used() {
    let directory = Path::new("/data");
    let (env, _, _) = Env::simulated(1);
    let file = MapFile::new(&env, directory).unwrap();
    assert_eq!(file.load().unwrap(), None);
    file.store(&ShardMap::even(workers(3))).unwrap();
    let raw = env.files.open(&directory.join("shard-map"), thalweg_env::OpenMode::ReadWrite);
    let raw = raw.unwrap();
    for place in [0, 9, raw.len().unwrap() - 1] {
        let mut byte = [0];
        raw.read_exact_at(&mut byte, place).unwrap();
        raw.write_all_at(&[byte[0] ^ 1], place).unwrap();
        assert_eq!(file.load().unwrap_err().state(), SqlState::DATA_CORRUPTED);
        raw.write_all_at(&byte, place).unwrap();
    }
    assert!(file.load().unwrap().is_some());
}

#[tokio::test]
async fn versions_never_go_back() {
    let (env, _, _) = Env::simulated(1);
    let open = || SharedMap::stored(MapFile::new(&env, Path::new("/data")).unwrap()).unwrap();
    let (two, three) = (ShardMap::even(workers(2)), ShardMap::even(workers(3)));
    let shared = open();
    shared.offer(three.clone()).await.unwrap();
    assert_eq!(*shared.offer(two).await.unwrap(), three);
    assert_eq!(*open().current(), three);
    assert!(shared.agrees(3).is_ok());
    for other in [2, 4] {
        assert_eq!(shared.agrees(other).unwrap_err().state(), SqlState::STALE_SHARD_MAP);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn changes_from_many_sides_all_count() {
    let shared = SharedMap::new(ShardMap::default());
    let joins = (0..4).map(|id| {
        let shared = shared.clone();
        thalweg_runtime::spawn(async move {
            let joined = |map: &ShardMap| map.with(worker(id, 7473), id, Moving::Allowed);
            shared.change(joined).await.unwrap();
        })
    });
    for join in joins.collect::<Vec<_>>() {
        join.await.unwrap();
    }
    let map: Arc<ShardMap> = shared.current();
    assert_eq!((map.version(), map.workers().len()), (4, 4));
}
