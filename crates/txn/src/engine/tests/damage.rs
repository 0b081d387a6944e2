//! Damaged files: an error, or the right answer.

use std::path::{Path, PathBuf};

use thalweg_env::{Env, FileSystem, OpenMode, SimulatedDisk};
use thalweg_types::{ErrorKind, Result};

use super::cases;
use super::model::{Image, Model, Row, schema};
use super::session::image;
use super::world::{End, World, options};
use crate::{Durability, Engine};

/// A small database at rest, and what it held after each group, the last one last.
struct Sample {
    env: Env,
    disk: SimulatedDisk,
    images: Vec<Image>,
}

fn sample() -> Sample {
    let mut world = World::new(5);
    world.start().unwrap();
    let mut images = vec![Model::default().image()];
    for group in 0..24_i64 {
        let (mut session, stamp) = (world.begin(), world.stamp());
        let row = |value| Row { tag: Some(format!("tag {value}")), numbers: vec![Some(value)] };
        match session.view.tables.keys().next().copied() {
            None => session.create(schema(world.engine().allocate_table_id(), "t"), stamp),
            Some(id) if group % 6 == 5 => {
                let first = group * 100;
                let rows: Vec<_> = (first..first + 30).map(|key| (key, row(key))).collect();
                session.bulk(world.engine(), id, &rows, stamp);
            }
            Some(id) => {
                if group % 3 == 2 {
                    session.remove(id, group - 1).unwrap();
                }
                session.insert(id, group, row(group), stamp);
            }
        }
        world.commit(session, Durability::Fsync).unwrap();
        images.push(world.committed.image());
        if group == 10 {
            world.checkpoint().unwrap();
        }
    }
    // As after a process that died: without the mark of a clean end.
    let disk = world.disk.fork(1);
    world.restart(End::Kill).unwrap();
    Sample { env: world.env.clone(), disk, images }
}

impl Sample {
    /// Opens a copy of the database with one file changed.
    fn open(&self, path: &Path, damage: impl Fn(&dyn thalweg_env::File)) -> Result<Image> {
        let disk = self.disk.fork(1);
        damage(&*disk.open(path, OpenMode::ReadWrite).unwrap());
        let engine = Engine::open(self.env.with_files(disk), options())?;
        Ok(image(&engine.snapshot()).unwrap())
    }

    fn files(&self) -> Vec<PathBuf> {
        let root = options().directory.unwrap();
        let mut files = vec![root.join("FORMAT"), root.join("HEADS")];
        for directory in [root.join("checkpoint"), root.join("log")] {
            let names = self.disk.list(&directory).unwrap();
            files.extend(names.iter().map(|name| directory.join(name)));
        }
        files
    }

    fn bytes(&self, path: &Path) -> Vec<u8> {
        let file = self.disk.open(path, OpenMode::Read).unwrap();
        let mut bytes = vec![0; file.len().unwrap() as usize];
        file.read_exact_at(&mut bytes, 0).unwrap();
        bytes
    }

    /// An error that says that files are damaged, or all rows.
    fn assert_right(&self, found: Result<Image>, what: &str) {
        match found {
            Ok(found) => assert_eq!(Some(&found), self.images.last(), "{what}"),
            Err(error) => assert_eq!(error.kind(), ErrorKind::Corrupt, "{what}: {error:?}"),
        }
    }
}

#[test]
fn any_flipped_byte_is_detected_or_harmless() {
    let sample = sample();
    // Every byte in a long run; every seventh in the gate.
    let step = if cases(0) > 0 { 1 } else { 7 };
    for path in sample.files() {
        for (place, byte) in sample.bytes(&path).into_iter().enumerate().step_by(step) {
            let flip = [0x01, 0x80, 0xff][place % 3];
            let found =
                sample.open(&path, |file| file.write_all_at(&[byte ^ flip], place as u64).unwrap());
            sample.assert_right(found, &format!("byte {place} of {} ^ {flip:#x}", path.display()));
        }
    }
}

#[test]
fn a_cut_at_any_length_is_refused_or_harmless() {
    let sample = sample();
    let files = sample.files();
    let last = files.last().unwrap();
    for path in &files {
        let step = if path == last || cases(0) > 0 { 1 } else { 31 };
        for length in (0..sample.bytes(path).len()).step_by(step) {
            let what = format!("{} cut to {length}", path.display());
            let found = sample.open(path, |file| file.set_len(length as u64).unwrap());
            let Ok(found) = &found else {
                sample.assert_right(found, &what);
                continue;
            };
            if path == last {
                // Heads vouch for every group but perhaps the last: it is vouched for after its
                // acknowledgement.
                let last_two = &sample.images[sample.images.len() - 2..];
                assert!(last_two.contains(found), "{what}: {found:?}");
            } else {
                assert_eq!(Some(found), sample.images.last(), "{what}");
            }
        }
    }
}
