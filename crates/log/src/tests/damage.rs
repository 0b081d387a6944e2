//! Damage is found, and told from torn writes.

use std::path::{Path, PathBuf};

use thalweg_env::{Env, FileSystem, OpenMode, SimulatedDisk};
use thalweg_types::{ErrorKind, Lsn, Result};

use super::world::{Item, OPTIONS, PATH, read_all, read_all_with};
use crate::file_header::{FileHeader, FileKind, HEADER_BYTES};
use crate::record::{Entry, RecordHeader};
use crate::{
    CheckpointReader, CheckpointWriter, Coverage, DataDirectory, DirectoryMode, Finding,
    LogOptions, LogWriter, RecordRef, Summary, open, verify,
};

/// A database with a checkpoint, three segments and 14 records, at rest.
struct Sample {
    env: Env,
    disk: SimulatedDisk,
    items: Vec<Item>,
}

fn item(lsn: u64, length: usize) -> Item {
    let payload = (0..length).map(|place| (place as u64 * 7 + lsn * 31) as u8 | 1).collect();
    Item { lsn: Lsn(lsn), kind: lsn as u8, payload }
}

fn append(log: &mut LogWriter, item: &Item) {
    let payload: &[&[u8]] = &[&item.payload];
    log.append(&[RecordRef { lsn: item.lsn, kind: item.kind, payload }]).unwrap();
}

fn open_directory(env: &Env) -> Result<DataDirectory> {
    DataDirectory::open(env, Path::new(PATH), DirectoryMode::CreateOrOpen)
}

/// What a checkpoint covers that keeps the whole log.
fn up_to(lsn: u64) -> Coverage {
    Coverage { lsn: Lsn(lsn), log_from: Lsn(0) }
}

/// The first records have no checkpoint, the next are in one, and some of those in the log, too.
fn sample(clean: bool) -> Sample {
    sample_with(clean, 14)
}

/// As [`sample`], where heads vouch for the first records only.
fn sample_with(clean: bool, vouched: u64) -> Sample {
    let (env, disk, _) = Env::simulated(1);
    let directory = open_directory(&env).unwrap();
    let options = LogOptions { segment_bytes: 700, ahead_bytes: 0 };
    CheckpointReader::open_newest(&env, &directory).unwrap();
    let (mut log, _) =
        open(&env, &directory, options, Coverage::default(), &mut |_| Ok(()), &mut |_, _| {})
            .unwrap();
    let mut items = Vec::new();
    for lsn in 1..=14 {
        let item = item(lsn, [0, 5, 64, 130, 200][lsn as usize % 5]);
        append(&mut log, &item);
        log.sync().unwrap();
        if lsn <= vouched {
            log.vouch();
        }
        items.push(item);
        if lsn == 4 {
            checkpoints(&env, &directory, &items);
        }
    }
    if clean {
        log.close().unwrap();
    }
    drop(directory);
    Sample { env, disk, items }
}

/// Writes two checkpoints of four items. The second has one item inline, one in its own chunk file,
/// and two in the chunk file of the first, which holds garbage too.
fn checkpoints(env: &Env, directory: &DataDirectory, items: &[Item]) {
    let name = |place: usize| (u32::from(items[place].kind), items[place].lsn.0);
    let store = |writer: &mut CheckpointWriter, place: usize| {
        let (kind, id) = name(place);
        writer.store(kind, id, 0, &[&items[place].payload]).unwrap()
    };
    let mut first = CheckpointWriter::create(env, directory, up_to(3), &[]).unwrap();
    let stored = [0, 1, 2].map(|place| store(&mut first, place));
    let files = first.finish().unwrap().files;
    let mut second = CheckpointWriter::create(env, directory, up_to(4), &files).unwrap();
    second.refer(name(0).0, name(0).1, 0, stored[0]);
    store(&mut second, 1);
    second.refer(name(2).0, name(2).1, 0, stored[2]);
    second.section(name(3).0, name(3).1, &[&items[3].payload]).unwrap();
    let written = second.finish().unwrap();
    assert!(written.files.len() == 2 && written.not_removed.is_none());
}

impl Sample {
    /// The same database on a disk of its own, to be damaged.
    fn copy(&self) -> Sample {
        let disk = self.disk.fork(1);
        Sample { env: self.env.with_files(disk.clone()), disk, items: self.items.clone() }
    }

    fn recover(&self) -> Result<Vec<Item>> {
        let directory = open_directory(&self.env)?;
        read_all(&self.env, &directory).map(|(_, items)| items)
    }

    fn verify(&self) -> (Summary, Vec<Finding>) {
        let mut findings = Vec::new();
        let summary =
            verify(&self.env, Path::new(PATH), &mut |finding| findings.push(finding)).unwrap();
        (summary, findings)
    }

    fn files(&self) -> Vec<PathBuf> {
        let root = Path::new(PATH);
        let mut files = vec![root.join("FORMAT"), root.join("HEADS")];
        for directory in [root.join("log"), root.join("checkpoint")] {
            let names = self.disk.list(&directory).unwrap();
            files.extend(names.iter().map(|name| directory.join(name)));
        }
        files
    }

    fn segments(&self) -> Vec<PathBuf> {
        let log = Path::new(PATH).join("log");
        self.files().into_iter().filter(|path| path.starts_with(&log)).collect()
    }

    fn bytes(&self, path: &Path) -> Vec<u8> {
        let file = self.disk.open(path, OpenMode::Read).unwrap();
        let mut bytes = vec![0; file.len().unwrap() as usize];
        file.read_exact_at(&mut bytes, 0).unwrap();
        bytes
    }

    fn write(&self, path: &Path, offset: usize, bytes: &[u8]) {
        let file = self.disk.open(path, OpenMode::ReadWrite).unwrap();
        file.write_all_at(bytes, offset as u64).unwrap();
    }

    fn cut(&self, path: &Path, length: usize) {
        self.disk.open(path, OpenMode::ReadWrite).unwrap().set_len(length as u64).unwrap();
    }

    fn assert_damaged(&self, what: &str) {
        let error = self.recover().expect_err(what);
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{what}: {error:?}");
        assert!(error.hint().is_some(), "{what}: {error:?}");
        assert!(self.verify().0.problems > 0, "{what}");
    }
}

#[test]
fn the_sample_is_sound() {
    for clean in [false, true] {
        let sample = sample(clean);
        let (summary, findings) = sample.verify();
        assert_eq!((summary.problems, summary.clean_close), (0, clean));
        assert_eq!((summary.files, summary.records), (5 + sample.segments().len() as u64, 14));
        assert_eq!(summary.log_lsns, Some((Lsn(1), Lsn(14))));
        assert_eq!(findings.len() as u64, summary.files - 2);
        assert!(sample.segments().len() >= 3);
        assert_eq!(sample.recover().unwrap(), sample.items);
    }
}

/// Slots of heads are mostly zeros: a few of these stand for all.
fn is_worth_trying(path: &Path, place: usize) -> bool {
    !path.ends_with("HEADS") || place % 4096 < 264 || place.is_multiple_of(509)
}

#[test]
fn any_flipped_byte_is_detected_or_harmless() {
    for clean in [false, true] {
        let sample = sample(clean);
        for path in sample.files() {
            for (place, byte) in sample.bytes(&path).into_iter().enumerate() {
                if !is_worth_trying(&path, place) {
                    continue;
                }
                for flip in [0x01, 0x80, 0xff] {
                    let copy = sample.copy();
                    copy.write(&path, place, &[byte ^ flip]);
                    let what = format!("byte {place} of {} ^ {flip:#x}", path.display());
                    assert!(copy.verify().0.problems > 0, "{what}");
                    match copy.recover() {
                        Ok(items) => assert_eq!(items, sample.items, "{what}"),
                        Err(error) => assert_eq!(error.kind(), ErrorKind::Corrupt, "{what}"),
                    }
                }
            }
        }
    }
}

#[test]
fn a_cut_at_any_length_loses_only_what_is_cut_away() {
    let sample = sample_with(false, 0);
    let segments = sample.segments();
    for path in sample.files() {
        let last = segments.last() == Some(&path);
        for length in 0..sample.bytes(&path).len() {
            if !is_worth_trying(&path, length) {
                continue;
            }
            let copy = sample.copy();
            copy.cut(&path, length);
            let what = format!("{} cut to {length}", path.display());
            match copy.recover() {
                Ok(items) if last => assert!(sample.items.starts_with(&items), "{what}"),
                Ok(items) => assert_eq!(items, sample.items, "{what}"),
                Err(error) => assert_eq!(error.kind(), ErrorKind::Corrupt, "{what}"),
            }
            assert!(last || copy.verify().0.problems > 0, "{what}");
        }
    }
}

#[test]
fn a_cut_last_record_leaves_all_before_it() {
    let sample = sample_with(false, 13);
    let last = sample.segments().pop().unwrap();
    let end = sample.bytes(&last).len();
    // The last record has 200 bytes of payload, which fill four steps of the grid.
    for length in end - 64 - 256..end {
        let copy = sample.copy();
        copy.cut(&last, length);
        assert_eq!(copy.recover().unwrap(), sample.items[..13], "{length}");
        // What was cut is gone for good, and the log goes on.
        assert_eq!(copy.verify().1.len() as u64, copy.verify().0.files - 2, "{length}");
        assert_eq!(copy.recover().unwrap(), sample.items[..13], "{length}");
    }
}

#[test]
fn zeros_at_the_end_are_the_end_of_the_log() {
    let sample = sample(false);
    let last = sample.segments().pop().unwrap();
    let end = sample.bytes(&last).len();
    for zeros in [1, 63, 64, 65, 512, 100_000] {
        let copy = sample.copy();
        copy.cut(&last, end + zeros);
        let (summary, findings) = copy.verify();
        assert_eq!(summary.problems, 0);
        assert!(!findings.iter().any(|finding| matches!(finding, Finding::TornTail { .. })));
        assert_eq!(copy.recover().unwrap(), sample.items);
        assert_eq!(copy.bytes(&last).len(), end);
    }
}

#[test]
fn zeros_are_written_ahead_and_cut_off_again() {
    for close in [false, true] {
        let (env, disk, _) = Env::simulated(3);
        let directory = open_directory(&env).unwrap();
        let options = LogOptions { segment_bytes: 8192, ahead_bytes: 5000 };
        let (mut log, _) = read_all_with(&env, &directory, options).unwrap();
        let items: Vec<Item> = (1..=40).map(|lsn| item(lsn, 200)).collect();
        for item in &items {
            append(&mut log, item);
            log.sync().unwrap();
        }
        let sample = Sample { env, disk, items };
        let segments = sample.segments();
        let (last, older) = segments.split_last().unwrap();
        assert!(!older.is_empty());
        // A header, and records of 64 bytes and the payload up to the grid.
        assert!(older.iter().all(|path| sample.bytes(path).len() == 64 + 25 * 320));
        let end = 64 + (40 - 25 * older.len()) * 320;
        assert_eq!(sample.bytes(last).len(), 64 + 5000);
        if close {
            log.close().unwrap();
            assert_eq!(sample.bytes(last).len(), end + 64);
        }
        drop(directory);
        assert_eq!(sample.verify().0.problems, 0);
        assert_eq!(sample.recover().unwrap(), sample.items);
        assert_eq!(sample.bytes(last).len(), end);
    }
}

#[test]
fn after_a_clean_close_nothing_may_follow() {
    let sample = sample(true);
    let last = sample.segments().pop().unwrap();
    let end = sample.bytes(&last).len();
    for zeros in [1, 64, 1000] {
        let copy = sample.copy();
        copy.cut(&last, end + zeros);
        copy.assert_damaged("zeros after the mark of a clean close");
    }
}

/// A synced record, and one after it that was not synced: that one may be torn.
#[test]
fn unwritten_sectors_are_torn_only_where_nothing_was_durable() {
    let (env, disk, _) = Env::simulated(2);
    let directory = open_directory(&env).unwrap();
    let (mut log, _) = read_all(&env, &directory).unwrap();
    let items = vec![item(1, 3000), item(2, 3000)];
    append(&mut log, &items[0]);
    log.sync().unwrap();
    append(&mut log, &items[1]);
    drop((log, directory));
    let sample = Sample { env, disk, items };
    let path = sample.segments().remove(0);
    let (second, end) = (64 + 64 + 3008, sample.bytes(&path).len());
    for from in (0..end).step_by(512) {
        let (to, copy) = ((from + 512).min(end), sample.copy());
        copy.write(&path, from, &vec![0; to - from]);
        if to <= second {
            copy.assert_damaged("a sector of zeros before what was durable");
        } else if from >= second {
            assert_eq!(copy.recover().unwrap(), sample.items[..1], "from {from}");
        }
        // The sector between holds both the end of the first record and the only header that tells
        // that this was durable: without it nobody can say.
    }
}

#[test]
fn zeros_that_were_written_do_not_excuse_damage() {
    let (env, disk, _) = Env::simulated(3);
    let directory = open_directory(&env).unwrap();
    let (mut log, _) = read_all(&env, &directory).unwrap();
    let mut item = item(1, 4000);
    item.payload[600..3000].fill(0);
    append(&mut log, &item);
    log.sync().unwrap();
    drop((log, directory));
    let sample = Sample { env, disk, items: vec![item] };
    let path = sample.segments().remove(0);
    assert_eq!(sample.copy().recover().unwrap(), sample.items);
    for place in [128, 400, 1000, 3900] {
        let copy = sample.copy();
        copy.write(&path, place, &[0xaa]);
        copy.assert_damaged("a flipped byte beside zeros");
    }
    sample.write(&path, 3584, &[0; 512]);
    assert_eq!(sample.recover().unwrap(), []);
}

#[test]
fn missing_swapped_and_foreign_segments_are_detected() {
    let sample = sample(false);
    let segments = sample.segments();
    for missing in &segments[1..segments.len() - 1] {
        let copy = sample.copy();
        copy.disk.remove_file(missing).unwrap();
        copy.assert_damaged("a segment is missing");
    }
    let copy = sample.copy();
    segments.iter().for_each(|path| copy.disk.remove_file(path).unwrap());
    copy.assert_damaged("the log is missing");

    let copy = sample.copy();
    let (other, held) = (&segments[0], &segments[1]);
    copy.cut(held, 0);
    copy.write(held, 0, &sample.bytes(other));
    copy.assert_damaged("a segment under another's name");

    let copy = sample.copy();
    let mut header = sample.bytes(held)[..HEADER_BYTES as usize].try_into().unwrap();
    let mut decoded = FileHeader::decode(FileKind::Segment, &header, held, 0).unwrap();
    decoded.database_id ^= 1;
    header = decoded.encode();
    copy.write(held, 0, &header);
    assert!(copy.recover().unwrap_err().message().contains("another database"));
}

/// The oldest segment is wholly in the checkpoint: a removal that was interrupted.
#[test]
fn a_missing_segment_that_nobody_needs_is_no_damage() {
    let sample = sample(false);
    sample.disk.remove_file(&sample.segments()[0]).unwrap();
    assert_eq!(sample.verify().0.problems, 0);
    assert_eq!(sample.recover().unwrap(), sample.items);
}

/// A crash may undo any of several removals: what is left before a gap is cleared away.
#[test]
fn segments_that_came_back_are_no_damage() {
    let sample = sample(false);
    let directory = open_directory(&sample.env).unwrap();
    let mut checkpoint = CheckpointWriter::create(&sample.env, &directory, up_to(14), &[]).unwrap();
    for item in &sample.items {
        checkpoint.section(u32::from(item.kind), item.lsn.0, &[&item.payload]).unwrap();
    }
    checkpoint.finish().unwrap();
    drop(directory);
    let segments = sample.segments();
    sample.disk.remove_file(&segments[1]).unwrap();
    assert_eq!(sample.verify().0.problems, 0);
    assert_eq!(sample.recover().unwrap(), sample.items);
    assert_eq!(sample.segments(), segments[2..]);
}

/// What a checkpoint made superfluous may be damaged: nobody looks at it, and it goes.
#[test]
fn damage_in_a_segment_that_nobody_needs_is_none() {
    let sample = sample(false);
    let directory = open_directory(&sample.env).unwrap();
    let coverage = Coverage { lsn: Lsn(9), log_from: Lsn(8) };
    let mut checkpoint = CheckpointWriter::create(&sample.env, &directory, coverage, &[]).unwrap();
    for item in &sample.items[..9] {
        checkpoint.section(u32::from(item.kind), item.lsn.0, &[&item.payload]).unwrap();
    }
    checkpoint.finish().unwrap();
    drop(directory);
    let segments = sample.segments();
    let first_lsns = sample.verify().1.into_iter().filter_map(|finding| match finding {
        Finding::Segment { path, lsns, .. } => Some((path, lsns.unwrap().0)),
        _ => None,
    });
    let needed: Vec<PathBuf> = first_lsns.map(|(path, _)| path).collect();
    assert!(needed.len() < segments.len() && segments.ends_with(&needed), "{needed:?}");
    for path in &segments {
        for damage in [0, 20, HEADER_BYTES as usize, HEADER_BYTES as usize + 70] {
            let copy = sample.copy();
            let byte = sample.bytes(path)[damage];
            copy.write(path, damage, &[byte ^ 0x55]);
            if needed.contains(path) {
                copy.assert_damaged("a segment that is needed");
                continue;
            }
            let (summary, findings) = copy.verify();
            assert_eq!(summary.problems, 0, "{findings:?}");
            let superfluous = findings
                .iter()
                .any(|finding| matches!(finding, Finding::Superfluous { path: at } if at == path));
            assert!(superfluous, "{findings:?}");
            assert_eq!(copy.recover().unwrap(), sample.items);
            assert_eq!(copy.segments(), needed);
        }
    }
}

/// The next segment is begun only when the one before is durable.
#[test]
fn the_segment_before_an_unfinished_one_is_not_torn() {
    let sample = sample(false);
    let segments = sample.segments();
    let last = &segments[segments.len() - 1];
    let next = last.with_file_name(format!("log-{:020}.tls", segments.len() + 1));
    sample.disk.open(&next, OpenMode::CreateNew).unwrap();
    let copy = sample.copy();
    assert_eq!(copy.recover().unwrap(), sample.items);
    assert_eq!(copy.segments(), segments);
    sample.cut(last, sample.bytes(last).len() - 1);
    sample.assert_damaged("a segment that was complete");
}

/// Records whose own checksums are right, but that are not those which were written.
#[test]
fn records_that_do_not_follow_each_other_are_detected() {
    let sample = sample(false);
    let mut segments = sample.segments();
    let rewritten = |path: &Path, change: &dyn Fn(&mut RecordHeader)| {
        let (copy, place) = (sample.copy(), HEADER_BYTES as usize);
        let bytes = sample.bytes(path)[place..place + 64].try_into().unwrap();
        let (mut header, _) = RecordHeader::decode(&bytes).unwrap();
        change(&mut header);
        copy.write(path, place, &header.encode());
        copy
    };
    let last = segments.pop().unwrap();
    let copy = rewritten(&last, &|header| header.lsn = Lsn(12));
    copy.assert_damaged("a sequence number that goes back");
    let copy = rewritten(&segments.pop().unwrap(), &|header| header.entry = Entry::Record(99));
    copy.assert_damaged("a record that is not the one which the next follows");
}

#[test]
fn a_damaged_checkpoint_is_not_passed_over_for_an_older_one() {
    let sample = sample(false);
    let directory = open_directory(&sample.env).unwrap();
    let checkpoints = directory.checkpoints();
    let older = checkpoints.join("checkpoint-00000000000000000004.tck");
    let bytes = sample.bytes(&older);
    CheckpointWriter::create(&sample.env, &directory, up_to(9), &[]).unwrap().finish().unwrap();
    assert!(!sample.disk.exists(&older).unwrap());
    sample.disk.open(&older, OpenMode::CreateNew).unwrap().write_all_at(&bytes, 0).unwrap();
    drop(directory);
    sample.cut(&checkpoints.join("checkpoint-00000000000000000009.tck"), 100);
    sample.assert_damaged("the newest checkpoint");
}

/// A crash may undo the removal of an older checkpoint. A start keeps it until it has read the
/// newest one: if that is damaged, a repair may take the older one.
#[test]
fn a_start_that_finds_damage_removes_no_older_checkpoint() {
    let sample = sample(false);
    let directory = open_directory(&sample.env).unwrap();
    let checkpoints = directory.checkpoints();
    let is_of_checkpoint = |path: &PathBuf| path.starts_with(&checkpoints);
    let older: Vec<PathBuf> = sample.files().into_iter().filter(is_of_checkpoint).collect();
    let contents: Vec<Vec<u8>> = older.iter().map(|path| sample.bytes(path)).collect();
    let mut newest = CheckpointWriter::create(&sample.env, &directory, up_to(9), &[]).unwrap();
    newest.section(1, 1, &[&[7; 100]]).unwrap();
    newest.finish().unwrap();
    assert!(older.iter().all(|path| !sample.disk.exists(path).unwrap()));
    for (path, bytes) in older.iter().zip(&contents) {
        sample.disk.open(path, OpenMode::CreateNew).unwrap().write_all_at(bytes, 0).unwrap();
    }
    let newest = checkpoints.join("checkpoint-00000000000000000009.tck");
    drop(directory);
    sample.write(&newest, HEADER_BYTES as usize, &[8]);
    assert!(sample.recover().is_err());
    assert!(older.iter().all(|path| sample.disk.exists(path).unwrap()));
}

/// The chunk files of a sample.
fn chunk_files(sample: &Sample) -> Vec<PathBuf> {
    let is_chunk_file = |path: &PathBuf| path.extension().is_some_and(|end| end == "tcc");
    sample.files().into_iter().filter(is_chunk_file).collect()
}

#[test]
fn missing_swapped_and_foreign_chunk_files_are_detected() {
    let sample = sample(false);
    let files = chunk_files(&sample);
    let [first, second] = &files[..] else { panic!("{files:?}") };
    for (path, other) in [(first, second), (second, first)] {
        let copy = sample.copy();
        copy.disk.remove_file(path).unwrap();
        copy.assert_damaged("a chunk file is missing");
        let error = copy.recover().unwrap_err();
        assert!(error.message().contains(path.to_str().unwrap()), "{error}");

        let copy = sample.copy();
        copy.cut(path, 0);
        copy.write(path, 0, &sample.bytes(other));
        copy.assert_damaged("another chunk file under this name");

        let copy = sample.copy();
        let mut bytes = sample.bytes(path);
        for (kind, at) in [(FileKind::ChunksStart, 0), (FileKind::ChunksEnd, bytes.len() - 64)] {
            let header = bytes[at..at + 64].try_into().unwrap();
            let mut header = FileHeader::decode(kind, &header, path, 0).unwrap();
            header.database_id ^= 1;
            bytes[at..at + 64].copy_from_slice(&header.encode());
        }
        copy.write(path, 0, &bytes);
        copy.assert_damaged("a chunk file of another database");
        assert!(copy.recover().unwrap_err().message().contains("another database"));
    }
}

/// A chunk file with other content, sound in itself, under the number that the manifest names.
#[test]
fn a_chunk_file_of_another_time_is_detected() {
    let sample = sample(false);
    let path = chunk_files(&sample).remove(0);
    let (env, _, _) = Env::simulated(1);
    let directory = open_directory(&env).unwrap();
    CheckpointReader::open_newest(&env, &directory).unwrap();
    let mut writer = CheckpointWriter::create(&env, &directory, up_to(3), &[]).unwrap();
    for item in &sample.items[..3] {
        let changed: Vec<u8> = item.payload.iter().map(|byte| byte ^ 2).collect();
        writer.store(u32::from(item.kind), item.lsn.0, 0, &[&changed]).unwrap();
    }
    writer.finish().unwrap();
    let names = env.files.list(&directory.checkpoints()).unwrap();
    let other = names.iter().find(|name| name.starts_with("chunks-")).unwrap();
    let file = env.files.open(&directory.checkpoints().join(other), OpenMode::Read).unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_exact_at(&mut bytes, 0).unwrap();
    assert_eq!(bytes.len(), sample.bytes(&path).len());
    assert_eq!(bytes[..64], sample.bytes(&path)[..64], "the same database, number and group");
    sample.write(&path, 0, &bytes);
    sample.assert_damaged("a chunk file of another time");
}

/// A crash may undo the removal of files, or leave a chunk file whose manifest never came.
#[test]
fn files_that_no_manifest_names_are_superfluous() {
    let sample = sample(false);
    let directory = Path::new(PATH).join("checkpoint");
    let there = sample.disk.list(&directory).unwrap();
    let superfluous = [
        directory.join("checkpoint-00000000000000000002.tck"),
        directory.join("chunks-00000000000000000001-00000000.tcc"),
        directory.join("chunks-00000000000000000009-0123abcd.tcc"),
    ];
    for path in &superfluous {
        sample.disk.open(path, OpenMode::CreateNew).unwrap();
    }
    let (summary, findings) = sample.verify();
    assert_eq!(summary.problems, 0, "{findings:?}");
    for path in &superfluous {
        let is_told =
            |finding: &Finding| matches!(finding, Finding::Superfluous { path: at } if at == path);
        assert!(findings.iter().any(is_told), "{path:?}");
    }
    assert_eq!(sample.recover().unwrap(), sample.items);
    assert_eq!(sample.disk.list(&directory).unwrap(), there);
}

#[test]
fn another_format_version_is_named() {
    let kinds = [
        (FileKind::Format, "FORMAT"),
        (FileKind::CheckpointStart, ".tck"),
        (FileKind::ChunksStart, ".tcc"),
    ];
    for (kind, end) in kinds {
        let sample = sample(false);
        let is_of_kind = |path: &PathBuf| path.to_str().unwrap().ends_with(end);
        let path = sample.files().into_iter().find(is_of_kind).unwrap();
        let header = sample.bytes(&path)[..HEADER_BYTES as usize].try_into().unwrap();
        let header = FileHeader::decode(kind, &header, &path, 0).unwrap();
        sample.write(&path, 0, &header.encode_as(7));
        let error = sample.recover().unwrap_err();
        assert!(error.message().contains("version 7"), "{error}");
        assert!(error.message().contains("reads versions up to"), "{error}");
    }
}

#[test]
fn a_record_that_exceeds_a_segment_stands_at_its_end() {
    let (env, disk, _) = Env::simulated(4);
    let directory = open_directory(&env).unwrap();
    let (mut log, _) = read_all(&env, &directory).unwrap();
    let lengths = [100, 3 * OPTIONS.segment_bytes as usize, 100];
    let items: Vec<Item> = (1..).zip(lengths).map(|(lsn, length)| item(lsn, length)).collect();
    items.iter().for_each(|item| append(&mut log, item));
    log.close().unwrap();
    drop(directory);
    let sample = Sample { env, disk, items };
    assert_eq!(sample.segments().len(), 3);
    assert_eq!(sample.recover().unwrap(), sample.items);
}
