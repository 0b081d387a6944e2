//! Checkpoints: a snapshot written to files while writes go on.
//!
//! The manifest holds the catalog, the tables' headers, the dead rows of all chunks, and open and
//! small chunks whole. Columns of other chunks lie in chunk files. A checkpoint writes those that
//! no file has yet, and refers to the others.
//!
//! An open chunk is written up to the snapshot's last row. Replay reopens it if the log appends to
//! it.

mod chunk_entry;
mod read;
mod stored;

use std::collections::{HashMap, HashSet};
use std::sync::atomic::Ordering;

use serde::{Deserialize, Serialize};
use thalweg_log::{CheckpointWriter, Coverage, DataDirectory, Stored};
use thalweg_store::{ChunkView, ClosedChunk, TableState, codec};
use thalweg_types::{ColumnId, Error, Lsn, Result, TableId, TableSchema};

use crate::catalog::Catalog;
use crate::engine::Shared;
use crate::log_status::{CheckpointRun, error_line};
use crate::progress::Unit;
use crate::published::Snapshot;
use crate::record::bitmap_bytes;
use crate::storage_health::{Part, StorageReason};
use crate::transaction_stage::Request;
use chunk_entry::ChunkEntry;
pub(crate) use read::{Restored, read};
pub(crate) use stored::StoredColumns;
use stored::storable;

/// The catalog and the tables' headers.
const CATALOG_SECTION: u32 = 1;
/// A whole chunk in the manifest; the id is its table and number.
const CHUNK_SECTION: u32 = 2;
/// The entries of a table's chunks whose columns lie in chunk files; the id is the table.
const ENTRIES_SECTION: u32 = 3;
/// One column of a chunk, in a chunk file; the id is the chunk's table and number, the part the
/// column's id. The columns of a chunk follow each other in the order of its schema.
const COLUMN_SECTION: u32 = 4;

/// A checkpoint is worthwhile only if it frees at least this fraction (one eighth) of its own size
/// of the log.
pub(crate) const CHECKPOINT_SHARE: u64 = 8;

/// The first section: everything except the chunks.
#[derive(Serialize, Deserialize)]
struct Header {
    catalog: Catalog,
    tables: Vec<TableHeader>,
}

#[derive(Serialize, Deserialize)]
struct TableHeader {
    id: TableId,
    /// The number of the next chunk.
    next_chunk: u32,
    identities: Vec<(ColumnId, i64)>,
}

/// Writes a checkpoint of the durable state, then removes log segments that it covers.
pub(crate) fn write(shared: &Shared) -> Result<Lsn> {
    let Some(directory) = &shared.directory else { return Ok(Lsn(0)) };
    let (began_micros, began) = (shared.env.clock.now_micros(), shared.env.clock.monotonic());
    // One checkpoint at a time.
    let mut stored = shared.stored.lock();
    let log_from = first_needed(shared);
    let snapshot = shared.publisher.snapshot();
    let position = snapshot.lsn();
    let mut bytes = 0;
    let written = write_files(shared, directory, log_from, &snapshot, &mut stored, &mut bytes);
    drop(stored);
    let (is_durable, failure) = match written {
        Ok(not_removed) => (true, not_removed),
        Err(error) => (false, Some(error)),
    };
    shared.checkpoints.add(CheckpointRun {
        position,
        bytes,
        began_micros: Some(began_micros),
        took: Some(shared.env.clock.monotonic().saturating_sub(began)),
        failure: failure.as_ref().map(error_line),
    });
    match &failure {
        None => shared.storage.works(Part::Checkpoint),
        Some(error) => shared.storage.failed(StorageReason::CheckpointFailed, error, false),
    }
    if is_durable {
        shared.segments.request_removal(log_from);
        let _ = shared.requests.send(Request::RemoveBefore(log_from));
        let due = shared.options.checkpoint_bytes.max(bytes / CHECKPOINT_SHARE);
        shared.checkpoint_due.store(due, Ordering::Relaxed);
    }
    failure.map_or(Ok(position), Err)
}

/// Writes the files. Once the checkpoint is durable, `stored` has its columns; until then it stays
/// as it was. `written_bytes` receives the number of bytes written, also on failure. Returns why
/// superfluous files could not be removed.
fn write_files(
    shared: &Shared,
    directory: &DataDirectory,
    log_from: Lsn,
    snapshot: &Snapshot,
    stored: &mut StoredColumns,
    written_bytes: &mut u64,
) -> Result<Option<Error>> {
    let rows_min = shared.options.chunk_file_rows_min;
    let coverage = Coverage { lsn: snapshot.lsn(), log_from };
    let writer = CheckpointWriter::create(&shared.env, directory, coverage, &stored.files)?;
    let bytes = snapshot.tables().map(|(_, state)| stored.bytes_to_write(state, rows_min)).sum();
    shared.progress.begin("checkpoint", Some(bytes), Unit::Bytes);
    let mut sections = Sections {
        shared,
        rewritten: stored.files_to_rewrite(snapshot, rows_min),
        moved: HashMap::new(),
        before: stored,
        now: StoredColumns::default(),
        writer,
        done: 0,
    };
    let written = sections.write(snapshot);
    let Sections { mut now, writer, .. } = sections;
    *written_bytes = writer.bytes();
    let written = written.and_then(|()| writer.finish());
    shared.progress.end();
    let written = written?;
    *written_bytes = written.bytes;
    now.files = written.files;
    *stored = now;
    Ok(written.not_removed)
}

/// The first group whose log record is still needed beside a checkpoint whose snapshot is taken
/// after this call.
///
/// Groups after the snapshot may refer to chunks that were staged before it. Chunks whose group is
/// not published yet hold the floor; chunks staged from now on come after the last group.
pub(crate) fn first_needed(shared: &Shared) -> Lsn {
    let published = shared.publisher.snapshot().lsn();
    shared.staging.floor().map_or(published, |floor| floor.min(published))
}

/// The sections of a checkpoint that is being written.
struct Sections<'a> {
    shared: &'a Shared,
    /// Columns that chunk files have already.
    before: &'a StoredColumns,
    /// Files of which no section is to be used any more.
    rewritten: HashSet<u64>,
    /// Sections of these files that were written anew, with their new places. Chunks may share a
    /// section and each have a column of its own, as after a start.
    moved: HashMap<Stored, Stored>,
    /// Columns of this checkpoint.
    now: StoredColumns,
    writer: CheckpointWriter,
    /// Number of bytes written.
    done: u64,
}

impl Sections<'_> {
    fn write(&mut self, snapshot: &Snapshot) -> Result<()> {
        let header = Header {
            catalog: snapshot.catalog().as_ref().clone(),
            tables: snapshot.tables().map(|(id, state)| table_header(id, state)).collect(),
        };
        let json = serde_json::to_vec(&header)
            .map_err(|error| Error::internal("the catalog cannot be written").with_source(error))?;
        self.writer.section(CATALOG_SECTION, 0, &[&json])?;
        snapshot.tables().try_for_each(|(id, state)| self.table(id, state))
    }

    fn table(&mut self, id: TableId, state: &TableState) -> Result<()> {
        let mut entries = Vec::new();
        for view in state.chunks() {
            let section = section_id(id, view.number());
            match storable(&view, self.shared.options.chunk_file_rows_min) {
                Some(chunk) => {
                    self.columns(section, state.schema(), chunk)?;
                    entry(&view, chunk).encode(&mut entries);
                }
                None => {
                    let (head, chunk) = chunk_section(&view);
                    self.writer.section(CHUNK_SECTION, section, &[&head, &chunk])?;
                    self.done += (head.len() + chunk.len()) as u64;
                }
            }
            self.shared.progress.advance(self.done);
        }
        if entries.is_empty() {
            return Ok(());
        }
        self.writer.section(ENTRIES_SECTION, u64::from(id.0), &[&entries])
    }

    /// Refers to the columns of a chunk, and stores those that no chunk file has.
    fn columns(&mut self, section: u64, schema: &TableSchema, chunk: &ClosedChunk) -> Result<()> {
        for (index, column) in chunk.column_handles().enumerate() {
            let part = schema.columns[index].id.0;
            let before = self.before.get(&column);
            let known = self.now.get(&column).or_else(|| self.place_of(before?));
            let place = match known {
                Some(place) => {
                    self.writer.refer(COLUMN_SECTION, section, part, place);
                    place
                }
                None => {
                    let bytes = codec::encode_chunk_column(chunk, index);
                    self.done += bytes.len() as u64;
                    let place = self.writer.store(COLUMN_SECTION, section, part, &[&bytes])?;
                    self.moved.extend(before.map(|before| (before, place)));
                    place
                }
            };
            self.now.insert(column, place);
        }
        Ok(())
    }

    /// Where a section of the checkpoint before lies in the files of this one; `None` if it has to
    /// be written anew.
    fn place_of(&self, before: Stored) -> Option<Stored> {
        match self.rewritten.contains(&before.file) {
            true => self.moved.get(&before).copied(),
            false => Some(before),
        }
    }
}

fn entry(view: &ChunkView, chunk: &ClosedChunk) -> ChunkEntry {
    ChunkEntry {
        number: view.number(),
        rows: chunk.rows() as u32,
        columns: chunk.column_count() as u32,
        dead: view.dead().cloned(),
    }
}

fn table_header(id: TableId, state: &TableState) -> TableHeader {
    let columns = state.schema().columns.iter().filter(|column| column.has_own_counter());
    TableHeader {
        id,
        next_chunk: state.next_chunk(),
        identities: columns.filter_map(|c| Some((c.id, state.identities().next(c.id)?))).collect(),
    }
}

/// Encodes a chunk's section: the length of the dead rows' bitmap, the bitmap, then the chunk.
fn chunk_section(view: &ChunkView) -> (Vec<u8>, Vec<u8>) {
    let dead = view.dead().map(bitmap_bytes).unwrap_or_default();
    let mut head = (dead.len() as u64).to_le_bytes().to_vec();
    head.extend_from_slice(&dead);
    (head, codec::encode_chunk(&view.to_closed()))
}

fn section_id(table: TableId, chunk: u32) -> u64 {
    (u64::from(table.0) << 32) | u64::from(chunk)
}

fn damaged(what: &str) -> Error {
    Error::corrupt(format!("the checkpoint holds {what}"))
        .with_hint("Run `thalweg check` on the directory; restore it from a copy.")
}
