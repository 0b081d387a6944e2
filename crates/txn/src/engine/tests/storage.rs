//! Faults of the storage: they are seen when they begin, and end when the disk is well again.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use thalweg_env::{DiskCondition, Env, FileSystem, SimulatedClock, SimulatedDisk};
use thalweg_types::{Result, TableId};

use super::model::{Row, schema};
use super::session::batch;
use super::world::{maintenance, options};
use crate::maintenance::Maintenance;
use crate::{
    CatalogChange, Durability, Engine, StorageChange, StorageReason, Transaction, WriteSet,
};

/// A call of the listener: the reason, and true if its fault began.
type Heard = Arc<Mutex<Vec<(StorageReason, bool)>>>;

struct Bench {
    disk: SimulatedDisk,
    clock: SimulatedClock,
    engine: Engine,
    maintenance: Maintenance,
    table: TableId,
    next_key: i64,
    heard: Heard,
}

impl Bench {
    fn new() -> Bench {
        let (env, disk, clock) = Env::simulated(11);
        let engine = Engine::open(env, options()).unwrap();
        let table = engine.allocate_table_id();
        let mut transaction = Transaction::new(engine.snapshot());
        let change = CatalogChange::CreateTable { schema: schema(table, "t") };
        transaction.change_catalog(change).unwrap();
        let write_set = transaction.into_write_set().unwrap();
        engine.commit_and_wait(write_set, Durability::Fsync).unwrap();
        let heard = Heard::default();
        let hears = Arc::clone(&heard);
        engine.storage().listen(Arc::new(move |change| {
            hears.lock().push(match change {
                StorageChange::Began(fault) => (fault.reason, true),
                StorageChange::Ended(fault) => (fault.reason, false),
            });
        }));
        let maintenance = maintenance(&engine);
        Bench { disk, clock, engine, maintenance, table, next_key: 0, heard }
    }

    fn write(&mut self) -> Result<()> {
        self.next_key += 1;
        let mut transaction = Transaction::new(self.engine.snapshot());
        let rows = [(self.next_key, Row { tag: None, numbers: vec![Some(1)] })];
        transaction.append(self.table, batch(&schema(self.table, "t"), &rows)).unwrap();
        let write_set = transaction.into_write_set().unwrap();
        self.engine.commit_and_wait(write_set, Durability::Fsync).map(drop)
    }

    /// Lets the maintenance thread's work happen after a while, and waits for what it asks of the
    /// other stages.
    fn look_around_after(&mut self, time: Duration) {
        self.clock.advance(time);
        self.maintenance.look_around();
        // A group without changes follows the requests through both stages. A failed log refuses
        // it.
        let _ = self.engine.commit_and_wait(WriteSet::default(), Durability::None);
    }

    fn reasons(&self) -> Vec<StorageReason> {
        let faults = self.engine.storage().faults();
        faults.into_iter().map(|fault| fault.reason).collect()
    }

    fn began(&self, reason: StorageReason) -> usize {
        self.heard.lock().iter().filter(|heard| **heard == (reason, true)).count()
    }

    fn ended(&self, reason: StorageReason) -> usize {
        self.heard.lock().iter().filter(|heard| **heard == (reason, false)).count()
    }
}

#[test]
fn a_full_disk_is_a_fault_until_it_has_room_though_nobody_writes() {
    let mut bench = Bench::new();
    bench.write().unwrap();
    assert_eq!(bench.reasons(), []);
    bench.disk.set_condition(DiskCondition::Full);
    for _ in 0..3 {
        bench.write().unwrap_err();
        bench.look_around_after(Duration::from_secs(2));
        assert!(bench.reasons().contains(&StorageReason::DiskFull), "{:?}", bench.reasons());
    }
    assert_eq!(bench.began(StorageReason::DiskFull), 1);
    bench.disk.set_condition(DiskCondition::Healthy);
    // The engine's own maintenance thread may be about to report a failure of before.
    for _ in 0..100 {
        bench.look_around_after(Duration::from_secs(2));
        if bench.reasons().is_empty() {
            break;
        }
    }
    assert_eq!(bench.reasons(), []);
    assert_eq!(bench.ended(StorageReason::DiskFull), 1);
    bench.write().unwrap();
}

#[test]
fn a_write_that_succeeds_ends_the_fault_of_the_log() {
    let mut bench = Bench::new();
    bench.disk.set_condition(DiskCondition::Full);
    bench.write().unwrap_err();
    bench.disk.set_condition(DiskCondition::Healthy);
    bench.write().unwrap();
    assert_eq!(bench.reasons(), []);
    assert_eq!(
        *bench.heard.lock(),
        [(StorageReason::DiskFull, true), (StorageReason::DiskFull, false)]
    );
}

#[test]
fn what_only_a_restart_mends_stays_a_fault() {
    for (condition, reason) in [
        (DiskCondition::ReadOnly, StorageReason::ReadOnly),
        (DiskCondition::FailingSyncs, StorageReason::LogFailed),
    ] {
        let mut bench = Bench::new();
        bench.disk.set_condition(condition);
        bench.write().unwrap_err();
        bench.disk.set_condition(DiskCondition::Healthy);
        bench.look_around_after(Duration::from_secs(2));
        bench.write().unwrap_err();
        let faults = bench.engine.storage().faults();
        let log = faults.iter().find(|fault| fault.reason == reason);
        assert!(log.is_some_and(|fault| fault.until_restart), "{condition:?}: {faults:?}");
        assert_eq!((bench.began(reason), bench.ended(reason)), (1, 0), "{condition:?}");
    }
}

#[test]
fn a_directory_that_vanishes_is_a_fault_though_nobody_writes() {
    let mut bench = Bench::new();
    let directory = options().directory.unwrap();
    bench.disk.rename(&directory.join("HEADS"), &directory.join("elsewhere")).unwrap();
    for _ in 0..3 {
        bench.look_around_after(Duration::from_secs(2));
    }
    assert!(bench.reasons().contains(&StorageReason::DirectoryGone), "{:?}", bench.reasons());
    assert_eq!(bench.began(StorageReason::DirectoryGone), 1);
    bench.write().unwrap_err();
    assert!(!bench.reasons().contains(&StorageReason::LogFailed), "one cause has one fault");
}

#[test]
fn a_checkpoint_that_failed_is_a_fault_until_one_succeeds() {
    let mut bench = Bench::new();
    bench.write().unwrap();
    bench.disk.set_condition(DiskCondition::Full);
    bench.engine.checkpoint().unwrap_err();
    bench.engine.checkpoint().unwrap_err();
    assert!(bench.reasons().contains(&StorageReason::CheckpointFailed), "{:?}", bench.reasons());
    assert_eq!(bench.began(StorageReason::CheckpointFailed), 1);
    bench.disk.set_condition(DiskCondition::Healthy);
    // The engine's own maintenance thread tries again once the time has come.
    bench.clock.advance(Duration::from_secs(60));
    bench.engine.maintain();
    assert_eq!(bench.reasons(), []);
    assert_eq!(bench.ended(StorageReason::CheckpointFailed), 1);
}
