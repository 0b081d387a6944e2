//! Checkpoints: a snapshot written to one file while writes go on.
//!
//! An open chunk is written up to the snapshot's last row. Replay reopens it if the log appends to
//! it.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use serde::{Deserialize, Serialize};
use thalweg_log::{CheckpointReader, CheckpointWriter, Coverage, DataDirectory};
use thalweg_store::{Arrival, ChunkView, Effect, Table, TableState, codec};
use thalweg_types::{ColumnId, Error, Lsn, Result, TableId, TableSchema};

use crate::catalog::Catalog;
use crate::engine::Shared;
use crate::log_status::{CheckpointRun, error_line};
use crate::parallel::{self, Threads};
use crate::progress::{Progress, Unit};
use crate::published::Snapshot;
use crate::record::{bitmap_bytes, bitmap_of};
use crate::storage_health::{Part, StorageReason};
use crate::transaction_stage::Request;

const CATALOG_SECTION: u32 = 1;
const CHUNK_SECTION: u32 = 2;

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
    let log_from = first_needed(shared);
    let snapshot = shared.publisher.snapshot();
    let position = snapshot.lsn();
    let mut bytes = 0;
    let written = write_file(shared, directory, log_from, &snapshot, &mut bytes);
    shared.checkpoints.add(CheckpointRun {
        position,
        bytes,
        began_micros: Some(began_micros),
        took: Some(shared.env.clock.monotonic().saturating_sub(began)),
        failure: written.as_ref().err().map(error_line),
    });
    match &written {
        Ok(()) => shared.storage.works(Part::Checkpoint),
        Err(error) => shared.storage.failed(StorageReason::CheckpointFailed, error, false),
    }
    written?;
    let _ = shared.requests.send(Request::RemoveBefore(log_from));
    let due = shared.options.checkpoint_bytes.max(bytes / CHECKPOINT_SHARE);
    shared.checkpoint_due.store(due, Ordering::Relaxed);
    Ok(position)
}

/// Writes the file. `written_bytes` receives the number of bytes written, also on failure.
fn write_file(
    shared: &Shared,
    directory: &DataDirectory,
    log_from: Lsn,
    snapshot: &Snapshot,
    written_bytes: &mut u64,
) -> Result<()> {
    let mut writer = CheckpointWriter::create(
        &shared.env,
        directory,
        Coverage { lsn: snapshot.lsn(), log_from },
    )?;
    let bytes = snapshot.tables().map(|(_, state)| state.memory_bytes() as u64).sum();
    shared.progress.begin("checkpoint", Some(bytes), Unit::Bytes);
    let written = write_sections(shared, snapshot, &mut writer);
    *written_bytes = writer.bytes();
    let written = written.and_then(|()| writer.finish());
    shared.progress.end();
    *written_bytes = written?;
    Ok(())
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

fn write_sections(
    shared: &Shared,
    snapshot: &Snapshot,
    writer: &mut CheckpointWriter,
) -> Result<()> {
    let header = Header {
        catalog: snapshot.catalog().as_ref().clone(),
        tables: snapshot.tables().map(|(id, state)| table_header(id, state)).collect(),
    };
    let json = serde_json::to_vec(&header)
        .map_err(|error| Error::internal("the catalog cannot be written").with_source(error))?;
    writer.section(CATALOG_SECTION, 0, &[&json])?;
    let mut done = 0;
    for (id, state) in snapshot.tables() {
        for view in state.chunks() {
            let (head, chunk) = chunk_section(&view);
            writer.section(CHUNK_SECTION, section_id(id, view.number()), &[&head, &chunk])?;
            done += (head.len() + chunk.len()) as u64;
            shared.progress.advance(done);
        }
    }
    Ok(())
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

/// The state read from a checkpoint.
pub(crate) struct Restored {
    pub(crate) lsn: Lsn,
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) tables: HashMap<TableId, (Table, Arc<TableState>)>,
}

impl Restored {
    pub(crate) fn nothing() -> Restored {
        Restored { lsn: Lsn(0), catalog: Arc::default(), tables: HashMap::new() }
    }
}

/// Chunks by their number.
type Chunks = BTreeMap<u32, Arrival>;

/// Reads a checkpoint.
pub(crate) fn read(
    reader: &CheckpointReader,
    threads: Threads,
    progress: &dyn Progress,
) -> Result<Restored> {
    let header = read_header(reader)?;
    let total = reader.sections().iter().map(|section| section.length).sum();
    progress.begin("reading the checkpoint", Some(total), Unit::Bytes);
    let chunks: Mutex<HashMap<TableId, Chunks>> = Mutex::default();
    let done = std::sync::atomic::AtomicU64::new(0);
    let sections: Vec<usize> = (0..reader.sections().len())
        .filter(|index| reader.sections()[*index].kind == CHUNK_SECTION)
        .collect();
    let loaded = parallel::for_each(&sections, threads, |&index| {
        let info = &reader.sections()[index];
        let id = TableId((info.id >> 32) as u32);
        let entry = header.catalog.table(id).ok_or_else(|| damaged("a chunk without a table"))?;
        let number = info.id as u32;
        let chunk = read_chunk(reader, index, number, &entry.schema)?;
        let mut chunks = chunks.lock().expect("no thread panics while it holds the chunks");
        chunks.entry(id).or_default().insert(number, chunk);
        progress.advance(done.fetch_add(info.length, Ordering::Relaxed) + info.length);
        Ok(())
    });
    progress.end();
    loaded?;
    let mut chunks = chunks.into_inner().expect("no thread panicked with the chunks");
    let mut tables = HashMap::new();
    for table in &header.tables {
        let chunks = chunks.remove(&table.id).unwrap_or_default();
        tables.insert(table.id, restore_table(&header.catalog, table, chunks, threads)?);
    }
    Ok(Restored { lsn: reader.lsn(), catalog: Arc::new(header.catalog), tables })
}

fn read_header(reader: &CheckpointReader) -> Result<Header> {
    let index = reader
        .sections()
        .iter()
        .position(|section| section.kind == CATALOG_SECTION)
        .ok_or_else(|| damaged("no catalog"))?;
    serde_json::from_slice(&reader.read(index)?)
        .map_err(|error| damaged("a catalog that cannot be read").with_source(error))
}

fn read_chunk(
    reader: &CheckpointReader,
    index: usize,
    number: u32,
    schema: &TableSchema,
) -> Result<Arrival> {
    let bytes = reader.read(index)?;
    let (head, rest) =
        bytes.split_first_chunk::<8>().ok_or_else(|| damaged("a chunk without a head"))?;
    let (dead, chunk) = usize::try_from(u64::from_le_bytes(*head))
        .ok()
        .and_then(|length| rest.split_at_checked(length))
        .ok_or_else(|| damaged("a chunk with a wrong length"))?;
    let dead = if dead.is_empty() { None } else { Some(bitmap_of(dead)?) };
    Ok(Arrival { number, chunk: Arc::new(codec::decode_chunk(schema, chunk)?), dead })
}

fn restore_table(
    catalog: &Catalog,
    header: &TableHeader,
    chunks: Chunks,
    threads: Threads,
) -> Result<(Table, Arc<TableState>)> {
    let entry = catalog.table(header.id).ok_or_else(|| damaged("rows without a table"))?;
    let (mut table, mut state) = Table::new(Arc::clone(&entry.schema));
    let mut effect = Effect::new();
    table.append_chunks_at(chunks.into_values().collect(), &threads, &mut effect)?;
    effect.publish(&mut state);
    table.raise_next_chunk(header.next_chunk);
    for (column, next) in &header.identities {
        table.identities().raise(*column, *next);
    }
    Ok((table, state))
}

fn damaged(what: &str) -> Error {
    Error::corrupt(format!("the checkpoint holds {what}"))
        .with_hint("Run `thalweg check` on the directory; restore it from a copy.")
}
