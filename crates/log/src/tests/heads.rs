//! Directories that lost something, or that hold files of different ages: all rows, or a refusal.

use std::path::{Path, PathBuf};

use thalweg_env::{Env, Fault, FileSystem, OpenMode, SimulatedDisk};
use thalweg_types::{ErrorKind, Result};

use super::world::{Item, PATH, Step, World, read_all, workload};
use crate::file_header::{FileHeader, FileKind};
use crate::heads::canary;
use crate::{DataDirectory, DirectoryMode, verify};

/// A directory at one moment, and what was acknowledged then.
struct Moment {
    disk: SimulatedDisk,
    acknowledged: Vec<Item>,
}

fn moments(seed: u64, steps: usize) -> (Env, Vec<Moment>) {
    let mut world = World::new(seed);
    let mut moments = Vec::new();
    for step in workload(seed, steps).into_iter().chain([Step::Reopen { clean: false }]) {
        world.step(&step).unwrap();
        let acknowledged = world.acknowledged().to_vec();
        moments.push(Moment { disk: world.disk.fork(1), acknowledged });
    }
    world.step(&Step::Reopen { clean: true }).unwrap();
    world.close();
    let acknowledged = world.acknowledged().to_vec();
    moments.push(Moment { disk: world.disk.fork(1), acknowledged });
    (world.env, moments)
}

fn open(env: &Env) -> Result<Vec<Item>> {
    let directory = DataDirectory::open(env, Path::new(PATH), DirectoryMode::OpenExisting)?;
    read_all(env, &directory).map(|(_, items)| items)
}

fn files(disk: &SimulatedDisk) -> Vec<PathBuf> {
    let root = Path::new(PATH);
    let mut files = vec![root.join("FORMAT"), root.join("HEADS")];
    for directory in [root.join("log"), root.join("checkpoint")] {
        let names = disk.list(&directory).unwrap();
        files.extend(names.iter().map(|name| directory.join(name)));
    }
    files
}

fn bytes(disk: &SimulatedDisk, path: &Path) -> Vec<u8> {
    let file = disk.open(path, OpenMode::Read).unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

fn put(disk: &SimulatedDisk, path: &Path, content: &[u8]) {
    if disk.exists(path).unwrap() {
        disk.remove_file(path).unwrap();
    }
    disk.open(path, OpenMode::CreateNew).unwrap().write_all_at(content, 0).unwrap();
}

/// Changes a copy of a moment's directory: it holds all that was acknowledged, or is refused, also
/// by those who look for damage.
fn holds_all(
    env: &Env,
    moment: &Moment,
    change: impl FnOnce(&SimulatedDisk),
) -> Result<(), String> {
    let disk = moment.disk.fork(1);
    change(&disk);
    let env = env.with_files(disk);
    let looked = verify(&env, Path::new(PATH), &mut |_| {});
    match open(&env) {
        Ok(found) if found.starts_with(&moment.acknowledged) => Ok(()),
        Ok(found) => {
            let (found, all) = (found.len(), moment.acknowledged.len());
            Err(format!("{found} of {all} records are served"))
        }
        // Refused as damaged, or since a directory is missing.
        Err(error) if error.kind() != ErrorKind::Corrupt => Ok(()),
        Err(error) => match looked {
            Ok(summary) if summary.problems == 0 => {
                Err(format!("the check finds nothing, the start says {error:?}"))
            }
            _ => Ok(()),
        },
    }
}

/// Deletes, cuts, and exchanges every file of the last moments.
fn mutate(seed: u64) -> Result<(), String> {
    let (env, moments) = moments(seed, 14);
    for (age, moment) in moments.iter().enumerate().rev().take(3) {
        for path in files(&moment.disk) {
            let what = |how: &str| format!("seed {seed}, moment {age}, {how} {}", path.display());
            holds_all(&env, moment, |disk| disk.remove_file(&path).unwrap())
                .map_err(|error| format!("{}: {error}", what("without")))?;
            let content = bytes(&moment.disk, &path);
            for length in (0..content.len()).step_by(64) {
                holds_all(&env, moment, |disk| put(disk, &path, &content[..length]))
                    .map_err(|error| format!("{} to {length}: {error}", what("cut")))?;
            }
            for older in &moments[..age] {
                if older.disk.exists(&path).unwrap_or(false) {
                    let other = bytes(&older.disk, &path);
                    holds_all(&env, moment, |disk| put(disk, &path, &other))
                        .map_err(|error| format!("{}: {error}", what("older")))?;
                }
            }
        }
    }
    Ok(())
}

#[test]
fn a_directory_that_lost_or_mixed_files_is_refused_or_whole() {
    for seed in 0..6 {
        mutate(seed).unwrap();
    }
}

#[test]
fn a_whole_older_copy_is_a_database() {
    let (env, moments) = moments(3, 20);
    for moment in moments.iter().skip(1) {
        let found = open(&env.with_files(moment.disk.fork(1))).unwrap();
        assert!(found.starts_with(&moment.acknowledged));
    }
}

#[test]
fn heads_that_nobody_checks_are_caught() {
    assert!(canary::without_check(|| (0..6).any(|seed| mutate(seed).is_err())));
}

/// Heads that are written before the log is synced vouch for what a crash takes away.
#[test]
fn heads_that_vouch_too_early_are_caught() {
    let early = |seed| {
        canary::vouching_early(|| {
            let fault = Some((30 + seed * 5, Fault::CrashTorn));
            super::crashes::run(seed, 30, fault).is_err()
        })
    };
    assert!((0..40).any(early));
}

#[test]
fn a_directory_of_version_1_is_converted() {
    let (env, moments) = moments(5, 20);
    for moment in moments.iter().skip(1) {
        let disk = moment.disk.fork(1);
        let (format, heads) = (Path::new(PATH).join("FORMAT"), Path::new(PATH).join("HEADS"));
        let header = bytes(&disk, &format).try_into().unwrap();
        let header = FileHeader::decode(FileKind::Format, &header, &format, 0).unwrap();
        put(&disk, &format, &header.encode_as(1));
        disk.remove_file(&heads).unwrap();
        let env = env.with_files(disk.clone());
        assert_eq!(verify(&env, Path::new(PATH), &mut |_| {}).unwrap().problems, 0);
        let found = open(&env).unwrap();
        assert!(found.starts_with(&moment.acknowledged));
        assert_eq!(bytes(&disk, &format)[8], 2);
        assert!(disk.exists(&heads).unwrap());
        assert_eq!(open(&env).unwrap(), found);
        disk.remove_file(&heads).unwrap();
        assert_eq!(open(&env).unwrap_err().kind(), ErrorKind::Corrupt);
    }
}

#[test]
fn a_directory_that_is_removed_takes_no_more_writes() {
    let mut world = World::new(9);
    for step in [Step::Sync, Step::Append(vec![100]), Step::Sync] {
        world.step(&step).unwrap();
    }
    world.disk.remove_dir_all(Path::new(PATH)).unwrap();
    assert!(world.append_and_sync().is_err());
    assert!(world.append_and_sync().is_err());
}
