//! What a simulated disk forgets, and how it fails.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::Path;

use thalweg_env::{Env, Fault, FileSystem, Lie, OpenMode, SimulatedDisk};

const SEEDS: u64 = 200;

fn put(disk: &SimulatedDisk, name: &str, bytes: &[u8]) {
    let file = disk.open(Path::new(name), OpenMode::CreateNew).unwrap();
    file.write_all_at(bytes, 0).unwrap();
    file.sync_all().unwrap();
}

fn names(disk: &SimulatedDisk) -> String {
    disk.list(Path::new("/")).unwrap().join(" ")
}

/// The directories that many crashes leave of the same history.
fn outcomes(history: impl Fn(&SimulatedDisk)) -> BTreeSet<String> {
    let after_crash = |seed| {
        let disk = SimulatedDisk::new(seed);
        history(&disk);
        names(&disk.crash())
    };
    (0..SEEDS).map(after_crash).collect()
}

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn a_name_may_vanish_until_its_directory_is_synced() {
    assert_eq!(outcomes(|disk| put(disk, "/a", b"")), set(&["", "a"]));
    let synced = outcomes(|disk| {
        put(disk, "/a", b"");
        disk.sync_dir(Path::new("/")).unwrap();
    });
    assert_eq!(synced, set(&["a"]));
}

#[test]
fn a_rename_happens_or_does_not() {
    let outcomes = outcomes(|disk| {
        put(disk, "/a", b"");
        disk.sync_dir(Path::new("/")).unwrap();
        disk.rename(Path::new("/a"), Path::new("/b")).unwrap();
    });
    assert_eq!(outcomes, set(&["a", "b"]));
}

#[test]
fn removed_names_may_come_back_each_by_itself() {
    let outcomes = outcomes(|disk| {
        put(disk, "/a", b"");
        put(disk, "/b", b"");
        disk.sync_dir(Path::new("/")).unwrap();
        disk.remove_file(Path::new("/a")).unwrap();
        disk.remove_file(Path::new("/b")).unwrap();
    });
    assert_eq!(outcomes, set(&["", "a", "b", "a b"]));
}

#[test]
fn lies_are_what_a_program_does_that_forgot_to_sync() {
    let forgotten = outcomes(|disk| {
        disk.lie(Lie::DirectorySync);
        put(disk, "/a", b"");
        disk.sync_dir(Path::new("/")).unwrap();
    });
    assert_eq!(forgotten, set(&["", "a"]));
}

#[test]
fn every_operation_can_fail_and_takes_no_effect_then() {
    for (fault, kind) in
        [(Fault::InputOutput, ErrorKind::Other), (Fault::DiskFull, ErrorKind::StorageFull)]
    {
        let disk = SimulatedDisk::new(1);
        put(&disk, "/a", b"before");
        let file = disk.open(Path::new("/a"), OpenMode::ReadWrite).unwrap();
        disk.fault_at(disk.operations(), fault);
        let error = file.write_all_at(b"after!", 0).unwrap_err();
        assert!(error.kind() == kind || error.raw_os_error() == Some(5), "{error}");
        let mut bytes = [0; 6];
        file.read_exact_at(&mut bytes, 0).unwrap();
        assert_eq!(&bytes, b"before");
        file.write_all_at(b"after!", 0).unwrap();
    }
}

#[test]
fn a_short_write_stores_its_first_part() {
    let lengths: BTreeSet<u64> = (0..SEEDS)
        .map(|seed| {
            let disk = SimulatedDisk::new(seed);
            let file = disk.open(Path::new("/a"), OpenMode::CreateNew).unwrap();
            disk.fault_at(disk.operations(), Fault::ShortWrite);
            let error = file.write_all_at(b"abcd", 0).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::StorageFull);
            file.len().unwrap()
        })
        .collect();
    assert_eq!(lengths, BTreeSet::from([0, 1, 2, 3]));
}

#[test]
fn a_dead_machine_does_nothing() {
    for fault in [Fault::CrashBefore, Fault::CrashAfter, Fault::CrashTorn] {
        let disk = SimulatedDisk::new(1);
        put(&disk, "/a", b"before");
        disk.sync_dir(Path::new("/")).unwrap();
        let file = disk.open(Path::new("/a"), OpenMode::ReadWrite).unwrap();
        disk.fault_at(disk.operations(), fault);
        assert!(file.write_all_at(b"after!", 0).is_err());
        assert!(disk.crashed());
        assert!(file.len().is_err() && disk.list(Path::new("/")).is_err());
        let after = disk.crash();
        let mut bytes = [0; 6];
        after.open(Path::new("/a"), OpenMode::Read).unwrap().read_exact_at(&mut bytes, 0).unwrap();
        assert!(&bytes == b"before" || (&bytes == b"after!" && fault != Fault::CrashBefore));
    }
}

#[test]
fn the_same_seed_and_the_same_calls_leave_the_same_disk() {
    let run = |seed| {
        let (env, disk, _) = Env::simulated(seed);
        for name in ["/a", "/b", "/c"] {
            let file = env.files.open(Path::new(name), OpenMode::CreateNew).unwrap();
            file.write_all_at(&[7; 5000], 0).unwrap();
        }
        let after = disk.crash();
        let names = after.list(Path::new("/")).unwrap();
        let length = |name: &String| {
            let path = Path::new("/").join(name);
            after.open(&path, OpenMode::Read).unwrap().len().unwrap()
        };
        names.iter().map(|name| (name.clone(), length(name))).collect::<Vec<_>>()
    };
    assert!((0..20).all(|seed| run(seed) == run(seed)));
    assert!((0..20).any(|seed| run(seed) != run(seed + 1)));
}
