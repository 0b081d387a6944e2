//! The log record of a group: physical changes with explicit positions.
//!
//! Replay follows these and makes no decisions, so that it rebuilds exactly the chunks that the
//! group was applied to. `docs/format.md` gives the bytes.

use thalweg_store::Bitmap;
use thalweg_types::{ColumnId, Error, Lsn, Result, RowId, TableId};

use crate::catalog::CatalogChange;
use crate::sequence::Position;

/// The kinds of record in the log.
pub const GROUP_RECORD: u8 = 1;
/// A bulk chunk written ahead of the group that refers to it.
pub const STAGED_RECORD: u8 = 2;

/// Identifies a staged chunk within a data directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StageId(pub u64);

/// Position of a part of an appended batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    pub chunk: u32,
    pub row: u32,
    pub length: u32,
}

/// One change, decoded from a record.
#[derive(Debug, PartialEq)]
pub enum Entry<'a> {
    Catalog(Box<CatalogChange>),
    Append { table: TableId, placements: Vec<Placement>, batch: &'a [u8] },
    Chunk { table: TableId, chunk: u32, bytes: &'a [u8] },
    StagedChunk { table: TableId, chunk: u32, stage: StageId },
    Kill { table: TableId, rows: Vec<RowId> },
    Truncate { table: TableId },
    Compact { table: TableId, chunk: u32, sources: Vec<(u32, &'a [u8])> },
    Identity { table: TableId, column: ColumnId, next: i64 },
    Sequence { id: TableId, position: Position },
}

const CATALOG: u8 = 1;
const APPEND: u8 = 2;
const CHUNK: u8 = 3;
const STAGED_CHUNK: u8 = 4;
const KILL: u8 = 5;
const TRUNCATE: u8 = 6;
const COMPACT: u8 = 7;
const IDENTITY: u8 = 8;
const SEQUENCE: u8 = 9;

/// Builds a group's payload. Small entries share a buffer; large ones stay separate parts, so that
/// a bulk chunk is never copied on its way to disk.
#[derive(Default)]
pub struct GroupEncoder {
    parts: Vec<Vec<u8>>,
    tail: Vec<u8>,
}

impl GroupEncoder {
    /// Adds a change of the catalog.
    pub fn catalog(&mut self, change: &CatalogChange) {
        let json = serde_json::to_vec(change).expect("a catalog change has only string keys");
        self.tail.push(CATALOG);
        self.bytes(&json);
    }

    /// Adds rows, encoded as `batch`, whose parts went to `placements` in order.
    pub fn append(&mut self, table: TableId, placements: &[Placement], batch: &[u8]) {
        self.head(APPEND, table);
        self.number(placements.len() as u64);
        for placement in placements {
            self.number(u64::from(placement.chunk));
            self.number(u64::from(placement.row));
            self.number(u64::from(placement.length));
        }
        self.bytes(batch);
    }

    /// Adds a whole encoded chunk with number `chunk`, without copying it.
    pub fn chunk(&mut self, table: TableId, chunk: u32, bytes: Vec<u8>) {
        self.head(CHUNK, table);
        self.number(u64::from(chunk));
        self.number(bytes.len() as u64);
        self.parts.push(std::mem::take(&mut self.tail));
        self.parts.push(bytes);
    }

    /// Adds a chunk with number `chunk` whose bytes a staged record holds.
    pub fn staged_chunk(&mut self, table: TableId, chunk: u32, stage: StageId) {
        self.head(STAGED_CHUNK, table);
        self.number(u64::from(chunk));
        self.number(stage.0);
    }

    /// Adds deleted rows, in any order; they are stored sorted, as differences.
    pub fn kill(&mut self, table: TableId, rows: &[RowId]) {
        self.head(KILL, table);
        self.number(rows.len() as u64);
        // Rows written by key usually arrive in order.
        if rows.is_sorted() {
            return self.ascending(rows);
        }
        let mut sorted = rows.to_vec();
        sorted.sort_unstable();
        self.ascending(&sorted);
    }

    fn ascending(&mut self, rows: &[RowId]) {
        let mut previous = 0;
        for row in rows {
            self.number(row.0 - previous);
            previous = row.0;
        }
    }

    /// Adds the removal of all rows of a table.
    pub fn truncate(&mut self, table: TableId) {
        self.head(TRUNCATE, table);
    }

    /// Adds a compaction: chunk `chunk` holds the rows of `sources` that their bitmaps mark.
    pub fn compact(&mut self, table: TableId, chunk: u32, sources: &[(u32, Vec<u8>)]) {
        self.head(COMPACT, table);
        self.number(u64::from(chunk));
        self.number(sources.len() as u64);
        for (source, bitmap) in sources {
            self.number(u64::from(*source));
            self.bytes(bitmap);
        }
    }

    /// Adds the next value of an identity column.
    pub fn identity(&mut self, table: TableId, column: ColumnId, next: i64) {
        self.head(IDENTITY, table);
        self.number(u64::from(column.0));
        self.tail.extend_from_slice(&next.to_le_bytes());
    }

    /// Adds the position behind which a sequence goes on.
    pub fn sequence(&mut self, id: TableId, position: Position) {
        self.head(SEQUENCE, id);
        self.tail.push(u8::from(position.is_called));
        self.tail.extend_from_slice(&position.last.to_le_bytes());
    }

    /// The parts of the payload, to be written one after the other.
    #[must_use]
    pub fn finish(mut self) -> Vec<Vec<u8>> {
        if !self.tail.is_empty() {
            self.parts.push(self.tail);
        }
        self.parts
    }

    fn head(&mut self, tag: u8, table: TableId) {
        self.tail.push(tag);
        self.number(u64::from(table.0));
    }

    /// Appends a number in LEB128.
    fn number(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.tail.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.tail.push(value as u8);
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.tail.extend_from_slice(bytes);
    }
}

/// Encodes a bitmap as words in little-endian order.
pub(crate) fn bitmap_bytes(bitmap: &Bitmap) -> Vec<u8> {
    bitmap.words().iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// # Errors
/// If the bytes are no bitmap.
pub(crate) fn bitmap_of(bytes: &[u8]) -> Result<Bitmap> {
    let (words, rest) = bytes.as_chunks::<8>();
    let words = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
    let bitmap = if rest.is_empty() { Bitmap::from_words(words) } else { None };
    bitmap.ok_or_else(|| Error::corrupt("the marks of dead rows cannot be read"))
}

/// Reads a group's payload entry by entry.
pub struct GroupDecoder<'a> {
    lsn: Lsn,
    rest: &'a [u8],
}

impl<'a> GroupDecoder<'a> {
    /// Reads the payload of group `lsn`, which errors name.
    #[must_use]
    pub fn new(lsn: Lsn, payload: &'a [u8]) -> GroupDecoder<'a> {
        GroupDecoder { lsn, rest: payload }
    }

    fn entry(&mut self) -> Result<Entry<'a>> {
        let tag = self.byte()?;
        if tag == CATALOG {
            let json = self.bytes()?;
            let change = serde_json::from_slice(json).map_err(|error| {
                Error::corrupt(format!("group {} holds an unreadable catalog change", self.lsn))
                    .with_source(error)
            })?;
            return Ok(Entry::Catalog(Box::new(change)));
        }
        let table = TableId(self.short()?);
        match tag {
            APPEND => {
                let placements = self.placements()?;
                Ok(Entry::Append { table, placements, batch: self.bytes()? })
            }
            CHUNK => Ok(Entry::Chunk { table, chunk: self.short()?, bytes: self.bytes()? }),
            STAGED_CHUNK => {
                let chunk = self.short()?;
                Ok(Entry::StagedChunk { table, chunk, stage: StageId(self.number()?) })
            }
            KILL => Ok(Entry::Kill { table, rows: self.rows()? }),
            TRUNCATE => Ok(Entry::Truncate { table }),
            COMPACT => {
                let chunk = self.short()?;
                Ok(Entry::Compact { table, chunk, sources: self.sources()? })
            }
            IDENTITY => {
                let column = ColumnId(self.short()?);
                let bytes = self.take(8)?.try_into().expect("eight bytes were taken");
                Ok(Entry::Identity { table, column, next: i64::from_le_bytes(bytes) })
            }
            SEQUENCE => {
                let is_called = match self.byte()? {
                    0 => false,
                    1 => true,
                    _ => return Err(self.unreadable()),
                };
                let bytes = self.take(8)?.try_into().expect("eight bytes were taken");
                let position = Position { last: i64::from_le_bytes(bytes), is_called };
                Ok(Entry::Sequence { id: table, position })
            }
            _ => Err(self.unreadable()),
        }
    }

    fn placements(&mut self) -> Result<Vec<Placement>> {
        let count = self.count()?;
        (0..count)
            .map(|_| {
                Ok(Placement { chunk: self.short()?, row: self.short()?, length: self.short()? })
            })
            .collect()
    }

    fn rows(&mut self) -> Result<Vec<RowId>> {
        let count = self.count()?;
        let mut previous = 0_u64;
        (0..count)
            .map(|_| {
                let step = self.number()?;
                previous = previous.checked_add(step).ok_or_else(|| self.unreadable())?;
                Ok(RowId(previous))
            })
            .collect()
    }

    fn sources(&mut self) -> Result<Vec<(u32, &'a [u8])>> {
        let count = self.count()?;
        (0..count).map(|_| Ok((self.short()?, self.bytes()?))).collect()
    }

    /// Reads a count of items that take at least one byte each, so that damage cannot request
    /// absurd memory.
    fn count(&mut self) -> Result<usize> {
        let count = self.number()?;
        if count > self.rest.len() as u64 {
            return Err(self.unreadable());
        }
        Ok(count as usize)
    }

    fn short(&mut self) -> Result<u32> {
        u32::try_from(self.number()?).map_err(|_| self.unreadable())
    }

    fn number(&mut self) -> Result<u64> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7F);
            if shift == 63 && bits > 1 {
                break;
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(self.unreadable())
    }

    fn bytes(&mut self) -> Result<&'a [u8]> {
        let length = self.count()?;
        self.take(length)
    }

    fn byte(&mut self) -> Result<u8> {
        Ok(self.take(1)?[0])
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or_else(|| self.unreadable())?;
        self.rest = rest;
        Ok(taken)
    }

    fn unreadable(&self) -> Error {
        Error::corrupt(format!("group {} in the log cannot be read", self.lsn)).with_hint(
            "It passed its checksum: it was written by another version, or by a mistake.",
        )
    }
}

impl<'a> Iterator for GroupDecoder<'a> {
    type Item = Result<Entry<'a>>;

    fn next(&mut self) -> Option<Result<Entry<'a>>> {
        if self.rest.is_empty() {
            return None;
        }
        let entry = self.entry();
        if entry.is_err() {
            self.rest = &[];
        }
        Some(entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn encoded() -> Vec<u8> {
        let mut encoder = GroupEncoder::default();
        encoder.catalog(&CatalogChange::DropNamespace { name: "old".to_owned() });
        let placement = Placement { chunk: 7, row: 300, length: 2 };
        encoder.append(TableId(1), &[placement], b"rows");
        encoder.chunk(TableId(1), 8, b"bigger".to_vec());
        encoder.staged_chunk(TableId(2), 9, StageId(u64::MAX));
        encoder.kill(TableId(1), &[RowId::new(3, 5), RowId::new(0, 1)]);
        encoder.truncate(TableId(4));
        encoder.compact(TableId(1), 10, &[(3, vec![0xFF; 4])]);
        encoder.identity(TableId(1), ColumnId(2), -5);
        encoder.sequence(TableId(6), Position { last: -7, is_called: true });
        encoder.finish().concat()
    }

    #[test]
    fn entries_come_back_as_they_went() {
        let payload = encoded();
        let entries: Vec<_> =
            GroupDecoder::new(Lsn(1), &payload).collect::<Result<Vec<_>>>().unwrap();
        assert_eq!(entries.len(), 9);
        assert_eq!(
            entries[4],
            Entry::Kill { table: TableId(1), rows: vec![RowId::new(0, 1), RowId::new(3, 5)] }
        );
        assert_eq!(entries[2], Entry::Chunk { table: TableId(1), chunk: 8, bytes: b"bigger" });
        assert_eq!(
            entries[7],
            Entry::Identity { table: TableId(1), column: ColumnId(2), next: -5 }
        );
        let position = Position { last: -7, is_called: true };
        assert_eq!(entries[8], Entry::Sequence { id: TableId(6), position });
    }

    #[test]
    fn a_cut_payload_is_an_error_or_whole_entries() {
        let payload = encoded();
        let whole: Vec<_> =
            GroupDecoder::new(Lsn(1), &payload).collect::<Result<Vec<_>>>().unwrap();
        for cut in 0..payload.len() {
            for (index, entry) in GroupDecoder::new(Lsn(1), &payload[..cut]).enumerate() {
                if let Ok(entry) = entry {
                    assert_eq!(entry, whole[index]);
                }
            }
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = GroupDecoder::new(Lsn(1), &bytes).count();
        }
    }
}
