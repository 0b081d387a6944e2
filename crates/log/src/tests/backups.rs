//! Backups of a database that goes on writing checkpoints.

use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;
use thalweg_env::{Env, FileSystem, OpenMode, OpenedThrough, SimulatedDisk};
use thalweg_types::Lsn;

use super::world::{Chunks, Item, PATH, read_all, write_checkpoint};
use crate::{
    CheckpointReader, Coverage, DataDirectory, DirectoryMode, LogWriter, RecordRef, backup,
    salvage, verify,
};

const COPY: &str = "/data/copy";

/// A database in use, whose checkpoint has a chunk file.
struct Live {
    env: Env,
    directory: DataDirectory,
    log: LogWriter,
    items: Vec<Item>,
}

fn live() -> (Live, SimulatedDisk) {
    let (env, disk, _) = Env::simulated(4);
    let directory =
        DataDirectory::open(&env, Path::new(PATH), DirectoryMode::CreateOrOpen).unwrap();
    let (log, items) = read_all(&env, &directory).unwrap();
    let mut live = Live { env, directory, log, items };
    live.append_and_checkpoint(5);
    (live, disk)
}

impl Live {
    /// Appends records, and writes a head that vouches for them.
    fn append(&mut self, count: u64) {
        for _ in 0..count {
            let lsn = self.log.last_lsn().next();
            let item = Item { lsn, kind: 1, payload: vec![lsn.0 as u8; 3000] };
            self.log
                .append(&[RecordRef { lsn, kind: item.kind, payload: &[&item.payload] }])
                .unwrap();
            self.items.push(item);
        }
        self.log.sync().unwrap();
        self.log.vouch();
    }

    /// Appends records, and writes a checkpoint with a chunk file of its own, so that the ones
    /// before are removed, and so are log segments.
    fn append_and_checkpoint(&mut self, count: u64) {
        self.append(count);
        let lsn = self.log.last_lsn();
        let coverage = Coverage { lsn, log_from: lsn.next() };
        let (items, none) = (&self.items, Chunks::default());
        write_checkpoint(&self.env, &self.directory, coverage, items, &none, 0).unwrap();
        self.log.remove_before(coverage.log_from).unwrap();
    }
}

fn copied(disk: &SimulatedDisk, env: &Env) -> Vec<Item> {
    let env = env.with_files(disk.clone());
    assert_eq!(verify(&env, Path::new(COPY), &mut |_| {}).unwrap().problems, 0);
    let directory =
        DataDirectory::open(&env, Path::new(COPY), DirectoryMode::OpenExisting).unwrap();
    read_all(&env, &directory).unwrap().1
}

/// Whenever a checkpoint removes the files that a backup is about to open, or has open, the copy
/// is whole.
#[test]
fn a_checkpoint_during_a_backup_does_no_harm() {
    let moments = [
        (".tck", OpenMode::Read),
        (".tcc", OpenMode::Read),
        (".tls", OpenMode::Read),
        (".tck", OpenMode::CreateNew),
        (".tcc", OpenMode::CreateNew),
        (".tls", OpenMode::CreateNew),
    ];
    for (end, mode) in moments {
        let (live, disk) = live();
        let env = live.env.clone();
        let before = live.items.clone();
        let after = Arc::new(Mutex::new(Vec::new()));
        let reached = Arc::clone(&after);
        let live = Mutex::new(Some(live));
        let files = OpenedThrough::new(disk.clone(), move |disk, path, with| {
            if with == mode
                && path.to_str().is_some_and(|path| path.ends_with(end))
                && let Some(mut live) = live.lock().take()
            {
                live.append_and_checkpoint(5);
                reached.lock().clone_from(&live.items);
            }
            disk.open(path, with)
        });
        backup(&env.with_files(files), Path::new(PATH), Path::new(COPY)).unwrap();
        let (found, after) = (copied(&disk, &env), after.lock());
        assert_eq!(after.len(), 10, "the checkpoint was written on the way");
        assert!(found.starts_with(&before) && after.starts_with(&found), "at {mode:?} of {end}");
    }
}

/// A database that goes on writing heads, but no checkpoint, does not hide that a file is missing.
#[test]
fn a_backup_names_a_missing_chunk_file_while_the_log_grows() {
    let (live, disk) = live();
    let env = live.env.clone();
    let checkpoints = live.directory.checkpoints();
    let names = disk.list(&checkpoints).unwrap();
    let name = names.into_iter().find(|name| name.starts_with("chunks-")).unwrap();
    disk.remove_file(&checkpoints.join(&name)).unwrap();
    let live = Mutex::new(live);
    let files = OpenedThrough::new(disk, move |disk, path, mode| {
        if mode == OpenMode::Read && path.to_str().is_some_and(|path| path.ends_with(".tck")) {
            live.lock().append(1);
        }
        disk.open(path, mode)
    });
    let refused = backup(&env.with_files(files), Path::new(PATH), Path::new(COPY)).unwrap_err();
    assert!(refused.message().contains(name.as_str()), "{refused}");
}

/// A chunk file that is damaged makes its checkpoint unusable: a backup refuses it, and a repair
/// reports it and takes what the log has.
#[test]
fn backups_and_repairs_notice_damaged_chunk_files() {
    let (live, disk) = live();
    let env = live.env.clone();
    let names = disk.list(&live.directory.checkpoints()).unwrap();
    let name = names.iter().find(|name| name.starts_with("chunks-")).unwrap();
    let path = live.directory.checkpoints().join(name);
    drop(live);
    let file = disk.open(&path, OpenMode::ReadWrite).unwrap();
    file.write_all_at(&[0xAA], 500).unwrap();
    let refused = backup(&env, Path::new(PATH), Path::new(COPY)).unwrap_err();
    assert!(refused.message().contains(name.as_str()), "{refused}");
    let mut reported = Vec::new();
    let salvaged =
        salvage(&env, Path::new(PATH), None, &mut |error| reported.push(error.to_string()));
    assert!(reported.iter().any(|report| report.contains(name.as_str())), "{reported:?}");
    assert!(salvaged.is_err(), "the log begins after the checkpoint");
    file.write_all_at(&[1], 500).unwrap();
    let newest = CheckpointReader::open_newest(
        &env,
        &DataDirectory::open(&env, Path::new(PATH), DirectoryMode::OpenExisting).unwrap(),
    );
    assert_eq!(newest.unwrap().unwrap().lsn(), Lsn(5));
}
