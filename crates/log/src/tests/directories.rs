//! Whose a directory is.

use std::path::Path;

use thalweg_env::{Env, FileSystem, OpenMode, SimulatedDisk};
use thalweg_types::{Error, SqlState};

use crate::{DataDirectory, DirectoryMode, Finding, backup, verify};

fn open(env: &Env, mode: DirectoryMode) -> Result<DataDirectory, Error> {
    DataDirectory::open(env, Path::new("/data/database"), mode)
}

fn put(disk: &SimulatedDisk, path: &str) {
    disk.create_dir_all(Path::new(path).parent().unwrap()).unwrap();
    disk.open(Path::new(path), OpenMode::CreateNew).unwrap();
}

#[test]
fn a_new_directory_becomes_a_database_once() {
    let (env, _, _) = Env::simulated(1);
    let refused = open(&env, DirectoryMode::OpenExisting).err().unwrap();
    assert_eq!(refused.state(), SqlState::UNDEFINED_FILE);
    let id = open(&env, DirectoryMode::CreateOrOpen).unwrap().database_id();
    assert_eq!(open(&env, DirectoryMode::CreateOrOpen).unwrap().database_id(), id);
    assert_eq!(open(&env, DirectoryMode::OpenExisting).unwrap().database_id(), id);
}

#[test]
fn a_database_is_used_by_one_at_a_time() {
    let (env, _, _) = Env::simulated(1);
    let first = open(&env, DirectoryMode::CreateOrOpen).unwrap();
    let refused = open(&env, DirectoryMode::OpenExisting).err().unwrap();
    assert_eq!(refused.state(), SqlState::OBJECT_IN_USE);
    let refused = verify(&env, first.path(), &mut |_| {}).unwrap_err();
    assert_eq!(refused.state(), SqlState::OBJECT_IN_USE);
    drop(first);
    open(&env, DirectoryMode::OpenExisting).unwrap();
}

#[test]
fn the_files_of_others_are_left_alone() {
    let (env, disk, _) = Env::simulated(1);
    put(&disk, "/data/database/letter.txt");
    let refused = open(&env, DirectoryMode::CreateOrOpen).err().unwrap();
    assert!(refused.message().contains("letter.txt"), "{refused}");
    assert_eq!(disk.list(Path::new("/data/database")).unwrap(), ["letter.txt"]);
}

#[test]
fn a_configuration_file_may_be_there_first() {
    let (env, disk, _) = Env::simulated(1);
    put(&disk, "/data/database/thalweg.toml");
    open(&env, DirectoryMode::CreateOrOpen).unwrap();
}

#[test]
fn a_log_without_its_format_is_not_made_new() {
    let (env, disk, _) = Env::simulated(1);
    put(&disk, "/data/database/log/log-00000000000000000001.tls");
    for mode in [DirectoryMode::CreateOrOpen, DirectoryMode::OpenExisting] {
        assert_eq!(open(&env, mode).err().unwrap().state(), SqlState::DATA_CORRUPTED);
    }
}

/// Who looks for damage finds what opening finds.
#[test]
fn a_format_that_is_missing_is_damage() {
    for file in [
        "log/log-00000000000000000001.tls",
        "checkpoint/checkpoint-00000000000000000007.tck",
        "checkpoint/chunks-00000000000000000007-0123abcd.tcc",
    ] {
        let (env, disk, _) = Env::simulated(1);
        put(&disk, &format!("/data/database/{file}"));
        put(&disk, "/data/database/notes.txt");
        let mut told = Vec::new();
        let mut report = |finding| match finding {
            Finding::Problem(error) => told.push(error.message().to_owned()),
            other => panic!("{other:?}"),
        };
        let summary = verify(&env, Path::new("/data/database"), &mut report).unwrap();
        assert_eq!(summary.problems, 1);
        let refused = open(&env, DirectoryMode::OpenExisting).err().unwrap();
        assert_eq!(told, [refused.message()]);
    }
    // Others have directories of these names.
    let (env, disk, _) = Env::simulated(1);
    put(&disk, "/data/database/log/syslog");
    let refused = verify(&env, Path::new("/data/database"), &mut |_| {}).unwrap_err();
    assert_eq!(refused.state(), SqlState::UNDEFINED_FILE);
}

/// Tools that copy files leave out directories without any.
#[test]
fn a_copy_without_its_empty_checkpoint_directory_is_completed() {
    let (env, disk, _) = Env::simulated(1);
    drop(open(&env, DirectoryMode::CreateOrOpen).unwrap());
    disk.remove_dir_all(Path::new("/data/database/checkpoint")).unwrap();
    assert_eq!(verify(&env, Path::new("/data/database"), &mut |_| {}).unwrap().problems, 0);
    assert!(!disk.exists(Path::new("/data/database/checkpoint")).unwrap());
    let directory = open(&env, DirectoryMode::OpenExisting).unwrap();
    assert!(disk.list(&directory.checkpoints()).unwrap().is_empty());
    drop(directory);
    let disk = disk.crash();
    assert!(disk.exists(Path::new("/data/database/checkpoint")).unwrap(), "its name is durable");
}

#[test]
fn a_backup_has_the_files_of_a_node_that_are_whole() {
    let (env, disk, _) = Env::simulated(1);
    drop(open(&env, DirectoryMode::CreateOrOpen).unwrap());
    let number = disk
        .create_dir_all(Path::new("/data/database/cluster"))
        .and_then(|()| disk.open(Path::new("/data/database/cluster/node-id"), OpenMode::CreateNew));
    number.unwrap().write_all_at(b"8 bytes.", 0).unwrap();
    put(&disk, "/data/database/cluster/shard-map.new");
    backup(&env, Path::new("/data/database"), Path::new("/data/copy")).unwrap();
    let disk = disk.crash();
    assert_eq!(disk.list(Path::new("/data/copy/cluster")).unwrap(), ["node-id"]);
    let copied = disk.open(Path::new("/data/copy/cluster/node-id"), OpenMode::Read).unwrap();
    let mut bytes = [0; 8];
    copied.read_exact_at(&mut bytes, 0).unwrap();
    assert_eq!(&bytes, b"8 bytes.");
}

#[test]
fn an_interrupted_checkpoint_is_cleared_away() {
    let (env, disk, _) = Env::simulated(1);
    drop(open(&env, DirectoryMode::CreateOrOpen).unwrap());
    put(&disk, "/data/database/checkpoint/checkpoint-00000000000000000007.tck.new");
    put(&disk, "/data/database/checkpoint/chunks-00000000000000000007.tcc.new");
    open(&env, DirectoryMode::CreateOrOpen).unwrap();
    assert!(disk.list(Path::new("/data/database/checkpoint")).unwrap().is_empty());
}
