//! Recovers tables from a directory: the newest checkpoint, then the log after it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock};

use thalweg_log::{CheckpointReader, Record};
use thalweg_store::{Arrival, ClosedChunk, Effect, Table, TableState, ThisThread, codec};
use thalweg_types::{Error, Lsn, Result, TableId, TableSchema};

use crate::apply::added_values;
use crate::catalog::{Catalog, CatalogChange};
use crate::checkpoint::{self, Restored, StoredColumns};
use crate::parallel::{self, Threads};
use crate::progress::Progress;
use crate::record::{
    Entry, GROUP_RECORD, GroupDecoder, Placement, STAGED_RECORD, StageId, bitmap_of,
};

/// A staged record's payload.
type Encoded = Vec<u8>;

/// Replays records in the order of the log.
pub(crate) struct Replay {
    lsn: Lsn,
    catalog: Arc<Catalog>,
    tables: HashMap<TableId, (Table, Arc<TableState>)>,
    /// Staged chunks without a commit so far, still encoded.
    staged: HashMap<StageId, Encoded>,
    /// Columns that the checkpoint's chunk files have.
    stored: StoredColumns,
    threads: Threads,
}

/// Loads the newest checkpoint, if there is one.
pub(crate) fn load(
    checkpoint: Option<&CheckpointReader>,
    threads: Threads,
    progress: &dyn Progress,
) -> Result<Replay> {
    let restored = match checkpoint {
        Some(reader) => checkpoint::read(reader, threads, progress)?,
        None => Restored::nothing(),
    };
    Ok(Replay {
        lsn: restored.lsn,
        catalog: restored.catalog,
        tables: restored.tables,
        staged: HashMap::new(),
        stored: restored.stored,
        threads,
    })
}

impl Replay {
    pub(crate) fn record(&mut self, record: Record) -> Result<()> {
        match record.kind {
            STAGED_RECORD => self.stage(record),
            GROUP_RECORD if record.lsn <= self.lsn => self.skip(&record),
            GROUP_RECORD => self.group(&record),
            kind => Err(Error::corrupt(format!(
                "record {} in segment {} is of the unknown kind {kind}",
                record.lsn, record.segment
            ))),
        }
    }

    fn stage(&mut self, record: Record) -> Result<()> {
        let head = record.payload.first_chunk::<8>().ok_or_else(|| {
            Error::corrupt(format!("a staged chunk in segment {} is cut", record.segment))
        })?;
        self.staged.insert(StageId(u64::from_le_bytes(*head)), record.payload);
        Ok(())
    }

    /// Skips a group that the checkpoint holds. Only the staged chunks that it refers to have to be
    /// removed.
    fn skip(&mut self, record: &Record) -> Result<()> {
        for entry in GroupDecoder::new(record.lsn, &record.payload) {
            if let Entry::StagedChunk { stage, .. } = entry? {
                self.staged.remove(&stage);
            }
        }
        Ok(())
    }

    fn group(&mut self, record: &Record) -> Result<()> {
        let mut entries = Vec::new();
        for entry in GroupDecoder::new(record.lsn, &record.payload) {
            entries.push(entry?);
        }
        let mut rest = entries.into_iter().peekable();
        while let Some(entry) = rest.next() {
            match entry {
                Entry::Catalog(change) => self.catalog_change(&change, record.lsn)?,
                Entry::StagedChunk { table, chunk, stage } => {
                    let mut run = vec![(chunk, stage)];
                    let is_next = |next: &Entry<'_>| match next {
                        Entry::StagedChunk { table: of, .. } => *of == table,
                        _ => false,
                    };
                    while let Some(Entry::StagedChunk { chunk, stage, .. }) = rest.next_if(is_next)
                    {
                        run.push((chunk, stage));
                    }
                    self.staged_chunks(table, run)?;
                }
                other => self.rows(other)?,
            }
        }
        self.lsn = record.lsn;
        Ok(())
    }

    fn catalog_change(&mut self, change: &CatalogChange, lsn: Lsn) -> Result<()> {
        match change {
            CatalogChange::CreateTable { schema } => {
                self.tables.insert(schema.id, Table::new(Arc::new(schema.clone())));
            }
            CatalogChange::AlterTable { schema, added, .. } => {
                let values = added_values(&self.catalog, schema, added.as_deref())?;
                let threads = self.threads;
                self.change(schema.id, |table, effect| {
                    table.alter(Arc::new(schema.clone()), &values, &threads, effect)
                })?;
            }
            CatalogChange::DropTable { id } => {
                self.tables.remove(id);
            }
            _ => {}
        }
        self.catalog = Arc::new(self.catalog.after(change, lsn)?);
        Ok(())
    }

    fn rows(&mut self, entry: Entry<'_>) -> Result<()> {
        match entry {
            Entry::Append { table, placements, batch } => self.append(table, &placements, batch),
            Entry::Chunk { table, chunk, bytes } => {
                let decoded = codec::decode_chunk(self.schema(table)?.as_ref(), bytes)?;
                let arrival = Arrival { number: chunk, chunk: Arc::new(decoded), dead: None };
                self.change(table, |t, e| t.append_chunks_at(vec![arrival], &ThisThread, e))
            }
            Entry::Kill { table, rows } => self.change(table, |t, e| t.kill(&rows, e).map(drop)),
            Entry::Truncate { table } => self.change(table, |t, e| {
                t.truncate(e);
                Ok(())
            }),
            Entry::Compact { table, chunk, sources } => {
                let sources = sources
                    .into_iter()
                    .map(|(number, bytes)| Ok((number, bitmap_of(bytes)?)))
                    .collect::<Result<Vec<_>>>()?;
                self.change(table, |t, e| t.apply_compaction_at(chunk, &sources, e))
            }
            Entry::Identity { table, column, next } => {
                let (table, _) = self.tables.get(&table).ok_or_else(unknown_table)?;
                table.identities().raise(column, next);
                Ok(())
            }
            Entry::Sequence { id, position } => {
                let (_, _, sequence) = self.catalog.sequence(id).ok_or_else(unknown_table)?;
                sequence.counter.set(position);
                Ok(())
            }
            Entry::Catalog(_) | Entry::StagedChunk { .. } => {
                unreachable!("taken care of where the group is walked")
            }
        }
    }

    fn append(&mut self, id: TableId, placements: &[Placement], batch: &[u8]) -> Result<()> {
        let schema = self.schema(id)?;
        let batch = codec::decode_batch(&thalweg_store::arrow_schema(&schema), batch)?;
        let total: usize = placements.iter().map(|place| place.length as usize).sum();
        if total != batch.num_rows() {
            return Err(Error::corrupt("a group in the log places other rows than it holds"));
        }
        let mut offset = 0;
        for place in placements {
            let part = batch.slice(offset, place.length as usize);
            offset += place.length as usize;
            self.change(id, |t, e| t.append_at(place.chunk, place.row, &part, e))?;
        }
        Ok(())
    }

    /// Adds chunks that were staged for a table, in the order of their numbers.
    fn staged_chunks(&mut self, table: TableId, run: Vec<(u32, StageId)>) -> Result<()> {
        let schema = self.schema(table)?;
        let mut staged: Vec<(u32, Mutex<Encoded>, OnceLock<ClosedChunk>)> = Vec::new();
        for (number, stage) in run {
            let bytes = self.staged.remove(&stage).ok_or_else(|| {
                Error::corrupt("the log lacks a bulk chunk that a later group takes in")
            })?;
            staged.push((number, Mutex::new(bytes), OnceLock::new()));
        }
        let threads = self.threads;
        parallel::for_each(&staged, threads, |(_, bytes, chunk)| {
            // Take the bytes out, so that they are freed as soon as the chunk is decoded.
            let bytes = std::mem::take(&mut *bytes.lock().expect("one thread takes each"));
            let decoded = codec::decode_chunk(&schema, &bytes[STAGE_HEAD..])?;
            chunk.set(decoded).expect("one thread sets each");
            Ok(())
        })?;
        let arrival = |(number, _, chunk): (u32, Mutex<Encoded>, OnceLock<ClosedChunk>)| {
            let chunk = Arc::new(chunk.into_inner().expect("was decoded"));
            Arrival { number, chunk, dead: None }
        };
        let arrivals = staged.into_iter().map(arrival).collect();
        self.change(table, |t, e| t.append_chunks_at(arrivals, &threads, e))
    }

    fn schema(&self, id: TableId) -> Result<Arc<TableSchema>> {
        Ok(Arc::clone(&self.catalog.table(id).ok_or_else(unknown_table)?.schema))
    }

    /// Makes one change to a table and publishes it at once, since there are no readers yet.
    fn change(
        &mut self,
        id: TableId,
        change: impl FnOnce(&mut Table, &mut Effect) -> Result<()>,
    ) -> Result<()> {
        let (table, state) = self.tables.get_mut(&id).ok_or_else(unknown_table)?;
        let mut effect = Effect::default();
        change(table, &mut effect)?;
        effect.publish(state);
        Ok(())
    }

    /// Ends the recovery. Staged chunks without a commit are dropped.
    pub(crate) fn finish(self) -> Restored {
        let Replay { lsn, catalog, tables, stored, .. } = self;
        Restored { lsn, catalog, tables, stored }
    }
}

/// A staged record begins with its id.
pub(crate) const STAGE_HEAD: usize = 8;

fn unknown_table() -> Error {
    Error::corrupt("the log changes a table that the catalog does not know")
}
