//! Reads a checkpoint.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use thalweg_log::CheckpointReader;
use thalweg_store::{Arrival, Effect, Table, TableState, codec};
use thalweg_types::{Lsn, Result, TableId, TableSchema};

use super::chunk_entry::ChunkEntry;
use super::{
    CATALOG_SECTION, CHUNK_SECTION, COLUMN_SECTION, ENTRIES_SECTION, Header, StoredColumns,
    TableHeader, damaged, section_id,
};
use crate::catalog::Catalog;
use crate::parallel::{self, Threads};
use crate::progress::{Progress, Unit};
use crate::record::bitmap_of;

/// The state read from a checkpoint.
pub(crate) struct Restored {
    pub(crate) lsn: Lsn,
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) tables: HashMap<TableId, (Table, Arc<TableState>)>,
    /// Where the columns of its chunks are stored.
    pub(crate) stored: StoredColumns,
}

impl Restored {
    pub(crate) fn nothing() -> Restored {
        Restored {
            lsn: Lsn(0),
            catalog: Arc::default(),
            tables: HashMap::new(),
            stored: StoredColumns::default(),
        }
    }
}

/// Chunks by their number.
type Chunks = BTreeMap<u32, Arrival>;

/// A chunk to read.
enum Job {
    /// The section has all of it.
    Whole { section: usize },
    /// The sections have its columns.
    Columns { table: TableId, entry: ChunkEntry, sections: Vec<usize> },
}

/// Chunks that were read, by their tables.
struct Loaded {
    chunks: HashMap<TableId, Chunks>,
    stored: StoredColumns,
}

/// Reads a checkpoint.
pub(crate) fn read(
    reader: &CheckpointReader,
    threads: Threads,
    progress: &dyn Progress,
) -> Result<Restored> {
    let header = read_header(reader)?;
    let jobs = jobs(reader)?;
    let total = reader.sections().iter().map(|section| section.length).sum();
    progress.begin("reading the checkpoint", Some(total), Unit::Bytes);
    let loaded = Mutex::new(Loaded {
        chunks: HashMap::new(),
        stored: StoredColumns::in_files(reader.chunk_files().to_vec()),
    });
    let done = AtomicU64::new(0);
    let read = parallel::for_each(&jobs, threads, |job| {
        let bytes = load(reader, &header.catalog, job, &loaded)?;
        progress.advance(done.fetch_add(bytes, Ordering::Relaxed) + bytes);
        Ok(())
    });
    progress.end();
    read?;
    let loaded = loaded.into_inner().expect("no thread panicked with the chunks");
    let Loaded { mut chunks, stored } = loaded;
    let mut tables = HashMap::new();
    for table in &header.tables {
        let chunks = chunks.remove(&table.id).unwrap_or_default();
        tables.insert(table.id, restore_table(&header.catalog, table, chunks, threads)?);
    }
    Ok(Restored { lsn: reader.lsn(), catalog: Arc::new(header.catalog), tables, stored })
}

/// Lists the chunks of a checkpoint.
fn jobs(reader: &CheckpointReader) -> Result<Vec<Job>> {
    let mut jobs = Vec::new();
    let mut columns: HashMap<u64, Vec<usize>> = HashMap::new();
    for (index, section) in reader.sections().iter().enumerate() {
        match section.kind {
            CHUNK_SECTION => jobs.push(Job::Whole { section: index }),
            COLUMN_SECTION => columns.entry(section.id).or_default().push(index),
            _ => {}
        }
    }
    let entries = reader.sections().iter().enumerate();
    for (index, section) in entries.filter(|(_, section)| section.kind == ENTRIES_SECTION) {
        let table = TableId(section.id as u32);
        let bytes = reader.read(index)?;
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let entry = ChunkEntry::decode(&mut rest)?;
            let sections = columns.remove(&section_id(table, entry.number)).unwrap_or_default();
            if sections.len() != entry.columns as usize {
                return Err(damaged("a chunk without all of its columns"));
            }
            jobs.push(Job::Columns { table, entry, sections });
        }
    }
    if columns.is_empty() { Ok(jobs) } else { Err(damaged("columns without a chunk")) }
}

/// Reads a chunk, and returns the length of its sections in bytes.
fn load(
    reader: &CheckpointReader,
    catalog: &Catalog,
    job: &Job,
    loaded: &Mutex<Loaded>,
) -> Result<u64> {
    let id = match job {
        Job::Whole { section } => TableId((reader.sections()[*section].id >> 32) as u32),
        Job::Columns { table, .. } => *table,
    };
    let table = catalog.table(id).ok_or_else(|| damaged("a chunk without a table"))?;
    let (chunk, sections) = match job {
        Job::Whole { section } => {
            let number = reader.sections()[*section].id as u32;
            (read_chunk(reader, *section, number, &table.schema)?, &[*section][..])
        }
        Job::Columns { entry, sections, .. } => {
            (read_columns(reader, entry, sections, &table.schema)?, &sections[..])
        }
    };
    let sections = sections.iter().map(|section| &reader.sections()[*section]);
    let mut loaded = loaded.lock().expect("no thread panics while it holds the chunks");
    for (column, section) in chunk.chunk.column_handles().zip(sections.clone()) {
        if let Some(place) = section.stored() {
            loaded.stored.insert(column, place);
        }
    }
    loaded.chunks.entry(id).or_default().insert(chunk.number, chunk);
    Ok(sections.map(|section| section.length).sum())
}

/// Reads a chunk whose columns lie in chunk files.
fn read_columns(
    reader: &CheckpointReader,
    entry: &ChunkEntry,
    sections: &[usize],
    schema: &TableSchema,
) -> Result<Arrival> {
    let parts = sections.iter().map(|section| reader.sections()[*section].part);
    if !parts.eq(schema.columns.iter().map(|column| column.id.0)) {
        return Err(damaged("a chunk with other columns than its table"));
    }
    let rows = entry.rows as usize;
    let chunk = codec::decode_chunk_columns(schema, rows, |index| reader.read(sections[index]))?;
    Ok(Arrival { number: entry.number, chunk: Arc::new(chunk), dead: entry.dead.clone() })
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
