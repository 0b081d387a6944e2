//! Opens the log: reads it, cuts off a torn write, and continues at its end.

use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::sync::Arc;

use thalweg_env::{Env, File, OpenMode};
use thalweg_types::{Lsn, Result};

use crate::checkpoint::Coverage;
use crate::data_directory::DataDirectory;
use crate::failure::file_error;
use crate::heads::LogPosition;
use crate::reader::LogReader;
use crate::record::Record;
use crate::segment::{Segment, SegmentHeader};
use crate::segment_reader::LogEnd;
use crate::writer::{ActiveSegment, LogOptions, LogWriter, OlderSegment, create};

/// Result of recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recovered {
    /// Sequence number of the last record in the log, or of the checkpoint if that is higher.
    pub last_lsn: Lsn,
    /// Number of records passed to the caller.
    pub records: u64,
    /// Number of bytes in their payloads.
    pub bytes: u64,
    /// Number of bytes of a torn write that were cut off.
    pub torn_bytes_cut: u64,
    /// True if the log had been closed cleanly.
    pub clean_close: bool,
}

/// Passes every record in the log to `on_record`, in order, and returns the writer that continues
/// at their end. `progress` receives the number of bytes read so far and in total.
///
/// Records that the checkpoint covers are passed on too if their segment is still needed, because
/// later records may refer to them. Superfluous segments are removed unread. No record after those
/// that the checkpoint covers is missing.
///
/// All records passed on are durable when this returns.
pub fn open(
    env: &Env,
    data: &DataDirectory,
    options: LogOptions,
    checkpoint: Coverage,
    on_record: &mut dyn FnMut(Record) -> Result<()>,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<(LogWriter, Recovered)> {
    let (directory, database_id) = (&*data.log(), data.database_id());
    let heads = Arc::clone(data.heads());
    let mut reader = LogReader::open(env, directory, database_id, checkpoint, heads.newest())?;
    let (mut records, mut bytes) = (0, 0);
    while let Some(record) = reader.next()? {
        records += 1;
        bytes += record.payload.len() as u64;
        on_record(record)?;
        let (done, total) = reader.progress();
        progress(done, total);
    }
    // Write this before the mark of a clean close is cut off. Write it even if the newest head has
    // no such mark, because a process that died of a failed sync may have left that head only in
    // the page cache.
    heads.write_and_sync(|head| head.clean = false)?;
    remove_leftovers(env, &reader)?;
    // Sync the directory: removals must be durable, and existing names may be only in the page
    // cache.
    env.files.sync_dir(directory).map_err(|error| file_error("sync", directory, error))?;
    let end = reader.end();
    let last_lsn = end.map_or(checkpoint.lsn, |end| end.last_lsn.max(checkpoint.lsn));
    let active = match (reader.segments.last(), end) {
        (Some(segment), Some(end)) => reopen(env, segment, &end)?,
        _ => create_first(env, directory, database_id)?,
    };
    let recovered = Recovered {
        last_lsn,
        records,
        bytes,
        torn_bytes_cut: end.map_or(0, |end| end.torn_bytes),
        clean_close: end.is_some_and(|end| end.clean_close),
    };
    let mut writer = LogWriter {
        files: Arc::clone(&env.files),
        directory: directory.to_owned(),
        database_id,
        options,
        older: older_segments(&reader.segments),
        active,
        last_lsn,
        bytes_appended: 0,
        poison: None,
        heads,
        vouched: LogPosition::default(),
    };
    writer.vouch();
    if !writer.heads.exist() {
        data.convert(env)?;
    }
    Ok((writer, recovered))
}

fn remove_leftovers(env: &Env, reader: &LogReader) -> Result<()> {
    for path in &reader.leftovers {
        env.files.remove_file(path).map_err(|error| file_error("remove", path, error))?;
    }
    Ok(())
}

fn create_first(env: &Env, directory: &Path, database_id: u64) -> Result<ActiveSegment> {
    let header =
        SegmentHeader { number: 1, previous_lsn: Lsn(0), previous_end: 0, previous_checksum: 0 };
    create(&*env.files, directory, database_id, &header).map_err(|failed| failed.error)
}

/// Size of the blocks in which a segment is rewritten.
const REWRITE_BYTES: u64 = 1 << 20;

/// Cuts the last segment to its end, which removes the mark of a clean close, and makes it durable.
fn reopen(env: &Env, segment: &Segment, end: &LogEnd) -> Result<ActiveSegment> {
    let path = segment.path.clone();
    let file = env
        .files
        .open(&path, OpenMode::ReadWrite)
        .map_err(|error| file_error("open", &path, error))?;
    let cut = file.set_len(end.offset).and_then(|()| rewrite(&*file, end.durable, end.offset));
    cut.and_then(|()| file.sync_all()).map_err(|error| file_error("write to", &path, error))?;
    Ok(ActiveSegment {
        file,
        path,
        number: segment.header.number,
        checksum: segment.checksum,
        end: end.offset,
        durable: end.offset,
        prepared: end.offset,
        durable_lsn: end.last_lsn,
        durable_checksum: end.previous_checksum,
        previous_checksum: end.previous_checksum,
    })
}

/// Rewrites bytes that may be only in the page cache. If the previous process died of a failed
/// sync, the kernel regards these pages as clean, and another sync would skip them.
fn rewrite(file: &dyn File, from: u64, to: u64) -> io::Result<()> {
    let mut offset = from;
    while offset < to {
        let mut block = vec![0; REWRITE_BYTES.min(to - offset) as usize];
        file.read_exact_at(&mut block, offset)?;
        file.write_all_at(&block, offset)?;
        offset += block.len() as u64;
    }
    Ok(())
}

fn older_segments(segments: &[Segment]) -> VecDeque<OlderSegment> {
    segments
        .windows(2)
        .map(|pair| OlderSegment {
            path: pair[0].path.clone(),
            bytes: pair[0].bytes,
            last_lsn: pair[1].header.previous_lsn,
        })
        .collect()
}
