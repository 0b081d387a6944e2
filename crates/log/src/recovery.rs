//! Opening the log: reading it, cutting what a crash tore, and going on at its end.

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

/// What recovery found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recovered {
    /// Of the last record in the log, or what the checkpoint covers if that is higher.
    pub last_lsn: Lsn,
    /// How many records were handed on.
    pub records: u64,
    /// How many bytes of payload they had.
    pub bytes: u64,
    /// How many bytes of a torn write were cut away.
    pub torn_bytes_cut: u64,
    /// Whether the log had been closed properly.
    pub clean_close: bool,
}

/// Hands every record that is in the log to `on_record`, in order, and returns the writer that goes
/// on where they end. `progress` is told how many bytes were read of how many.
///
/// Of the records that the checkpoint covers, those in segments that it leaves needed are handed on
/// all the same: a caller may have kept records that a checkpoint does not hold, for others that
/// follow. Superfluous segments are removed unseen. After what the checkpoint covers, no record is
/// missing.
///
/// All that was handed on is durable when this returns.
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
    // Before the mark of a clean close is cut off, and also where the newest head has no such mark:
    // a process that died of a failed sync may have left that head in the page cache alone.
    heads.write_and_sync(|head| head.clean = false)?;
    remove_leftovers(env, &reader)?;
    // What was removed must stay away, and what is there may be so in the page cache alone.
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

/// How much of a segment is written again at once.
const REWRITE_BYTES: u64 = 1 << 20;

/// Cuts the last segment to its end (taking the mark of a clean close away) and makes it durable.
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

/// Writes what may be in the page cache alone once more, as it is. If the process before this one
/// died of a failed sync, the kernel takes these pages for clean, and another sync would skip them.
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
