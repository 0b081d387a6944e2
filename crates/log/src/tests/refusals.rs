//! What the disk refuses, people are told; what can go on goes on.

use std::path::Path;

use thalweg_env::{Env, Fault, FileSystem, SimulatedDisk};
use thalweg_types::{Lsn, Result, SqlState};

use super::world::{PATH, read_all};
use crate::{
    CheckpointReader, CheckpointWriter, Coverage, DataDirectory, DirectoryMode, LogWriter,
    RecordRef,
};

fn start() -> (Env, SimulatedDisk, DataDirectory, LogWriter) {
    let (env, disk, _) = Env::simulated(5);
    let directory =
        DataDirectory::open(&env, Path::new(PATH), DirectoryMode::CreateOrOpen).unwrap();
    let (log, _) = read_all(&env, &directory).unwrap();
    (env, disk, directory, log)
}

fn append(log: &mut LogWriter, lsn: u64) -> Result<()> {
    log.append(&[RecordRef { lsn: Lsn(lsn), kind: 1, payload: &[b"payload"] }])
}

fn up_to(lsn: u64) -> Coverage {
    Coverage { lsn: Lsn(lsn), log_from: Lsn(lsn + 1) }
}

#[test]
fn a_full_disk_refuses_writes_until_there_is_space() {
    for fault in [Fault::DiskFull, Fault::ShortWrite] {
        let (env, disk, directory, mut log) = start();
        append(&mut log, 1).unwrap();
        disk.fault_at(disk.operations(), fault);
        let refused = append(&mut log, 2).unwrap_err();
        assert_eq!(refused.state(), SqlState::DISK_FULL);
        assert!(refused.hint().unwrap().contains("Free space"));
        append(&mut log, 2).unwrap();
        log.sync().unwrap();
        drop(log);
        let (_, items) = read_all(&env, &directory).unwrap();
        assert_eq!(items.len(), 2);
    }
}

#[test]
fn a_segment_that_finds_no_space_is_taken_back() {
    for (ahead, fault) in [(0, Fault::DiskFull), (1, Fault::DiskFull), (1, Fault::ShortWrite)] {
        let (env, disk, directory, mut log) = start();
        let filling = vec![1; 8000];
        log.append(&[RecordRef { lsn: Lsn(1), kind: 1, payload: &[&filling] }]).unwrap();
        log.sync().unwrap();
        disk.fault_at(disk.operations() + ahead, fault);
        assert_eq!(append(&mut log, 2).unwrap_err().state(), SqlState::DISK_FULL);
        assert_eq!(disk.list(&directory.log()).unwrap().len(), 1);
        append(&mut log, 2).unwrap();
        assert_eq!(disk.list(&directory.log()).unwrap().len(), 2);
        drop(log);
        assert_eq!(read_all(&env, &directory).unwrap().1.len(), 2);
    }
}

#[test]
fn after_a_failed_sync_nothing_is_written_any_more() {
    let (_, disk, _directory, mut log) = start();
    append(&mut log, 1).unwrap();
    disk.fault_at(disk.operations(), Fault::InputOutput);
    assert_eq!(log.sync().unwrap_err().state(), SqlState::IO_ERROR);
    let operations = disk.operations();
    for refused in [log.sync().unwrap_err(), append(&mut log, 2).unwrap_err()] {
        assert_eq!(refused.state(), SqlState::IO_ERROR);
        assert!(refused.message().contains("earlier failure"), "{refused}");
    }
    assert!(log.close().is_err());
    assert_eq!(disk.operations(), operations);
}

#[test]
fn a_checkpoint_that_finds_no_space_leaves_the_one_before() {
    let (env, disk, directory, _log) = start();
    let path = directory.checkpoints();
    CheckpointWriter::create(&env, &directory, up_to(1), &[]).unwrap().finish().unwrap();
    let mut refusals = 0;
    for ahead in 0..40 {
        disk.fault_at(disk.operations() + ahead, Fault::DiskFull);
        let refused = CheckpointWriter::create(&env, &directory, up_to(2), &[])
            .and_then(|mut checkpoint| {
                checkpoint.section(1, 1, &[&[1; 2_000_000]])?;
                checkpoint.store(1, 2, 0, &[&[2; 2_000_000]])?;
                checkpoint.finish()
            })
            .err();
        if let Some(refused) = refused {
            assert_eq!(refused.state(), SqlState::DISK_FULL);
            refusals += 1;
            let there = disk.list(&path).unwrap();
            let newest = CheckpointReader::open_newest(&env, &directory).unwrap().unwrap();
            if newest.lsn() == Lsn(2) {
                // Its name could not be synced. Its files and those of the one before are there.
                assert_eq!(there.len(), 3, "{there:?}");
                break;
            }
            assert_eq!((newest.lsn(), there.len()), (Lsn(1), 1), "{there:?}");
            continue;
        }
        // The fault hit an operation that needs no space.
        CheckpointWriter::create(&env, &directory, up_to(1), &[]).unwrap().finish().unwrap();
        disk.remove_file(&path.join("checkpoint-00000000000000000002.tck")).unwrap();
    }
    assert!(refusals >= 5, "{refusals}: two files are created and written, a head is written");
}

#[test]
fn sequence_numbers_never_go_back() {
    let (_, _, _directory, mut log) = start();
    append(&mut log, 5).unwrap();
    let back = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| append(&mut log, 4)));
    assert!(back.is_err());
}
