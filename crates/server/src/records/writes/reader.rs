//! Decodes write requests in place and gathers their rows into groups.

use std::iter::Empty;
use std::sync::Arc;

use arrow::array::RecordBatch;
use thalweg_formats::rows::BatchReader;
use thalweg_protocol::{Malformed, RowsRef, WriteRef, v1};
use thalweg_query::{
    Durability, RecordBatcher, RecordChange, RecordTable, RecordTarget, RecordWrite, Records,
};
use thalweg_types::{Error, Result};

use crate::records::calls::Call;
use crate::records::incoming::Reader;
use crate::records::tables::Tables;
use crate::records::values::decode_values;
use crate::values::check_column;

const UNEVEN: Malformed = Malformed("there is an expected version for each row, or for none");

/// Rows that are written as one group.
pub(super) struct Group {
    pub(super) write: RecordWrite,
    /// True if either all rows are written or none.
    pub(super) atomic: bool,
    /// Number of bytes in the messages of these rows.
    pub(super) bytes: usize,
}

pub(super) struct RowReader {
    call: Call,
    records: Records,
    tables: Tables,
    durability: Option<Durability>,
    /// True after the first message.
    begun: bool,
    /// True if the tables match the catalog as of the current group's beginning.
    looked: bool,
    arrow: BatchReader,
    batcher: RecordBatcher,
    /// Number of bytes in the messages whose rows are in the batcher.
    bytes: usize,
    finished: Vec<Group>,
    /// The error that ends the stream: too many rows were refused, or the database itself failed.
    broken: Option<Error>,
}

impl RowReader {
    pub(super) fn new(call: Call, records: Records, message_bytes_max: usize) -> RowReader {
        RowReader {
            call,
            records,
            tables: Tables::default(),
            durability: None,
            begun: false,
            looked: false,
            arrow: BatchReader::new(message_bytes_max),
            batcher: RecordBatcher::default(),
            bytes: 0,
            finished: Vec::new(),
            broken: None,
        }
    }

    pub(super) fn records(&self) -> &Records {
        &self.records
    }

    /// The durability that the stream asked for; `None` for the database's setting.
    pub(super) fn durability(&self) -> Option<Durability> {
        self.durability
    }

    /// The groups decoded since the previous call.
    ///
    /// # Errors
    /// If too many rows were refused to report each, or if the database itself failed.
    pub(super) fn finish(&mut self) -> Result<Vec<Group>> {
        self.finish_group(false);
        self.looked = false;
        match self.broken.take() {
            None => Ok(std::mem::take(&mut self.finished)),
            Some(error) => Err(error),
        }
    }

    fn finish_group(&mut self, atomic: bool) {
        let bytes = std::mem::take(&mut self.bytes);
        if self.batcher.rows() == 0 {
            return;
        }
        match self.batcher.finish() {
            Ok(write) => self.finished.push(Group { write, atomic, bytes }),
            Err(error) => self.broken = Some(error),
        }
    }

    fn begin(&mut self, durability: v1::Durability) {
        self.begun = true;
        self.durability = match durability {
            v1::Durability::Unspecified => None,
            v1::Durability::Fsync => Some(Durability::Fsync),
            v1::Durability::Write => Some(Durability::Write),
            v1::Durability::None => Some(Durability::None),
        };
    }

    #[inline]
    fn rows(&mut self, rows: &RowsRef<'_>) -> Result<(), Malformed> {
        let forms = [rows.packed_count > 0, rows.values_count > 0, !rows.arrow.is_empty()];
        if forms.into_iter().filter(|form| *form).count() > 1 {
            return Err(Malformed("rows of one message are packed, values or Arrow, not several"));
        }
        let change = self.call.change(rows.operation);
        let Some(change) = change else {
            return Err(Malformed("the operation is not the one of the call"));
        };
        if !rows.arrow.is_empty() {
            return self.batches(rows, change);
        }
        let count = rows.packed_count + rows.values_count;
        if rows.expected_count != 0 && rows.expected_count != count {
            return Err(UNEVEN);
        }
        if count == 0 {
            return Ok(());
        }
        match self.tables.get(rows.table) {
            Ok(table) => push(&mut self.batcher, table, change, rows),
            Err(error) => self.batcher.refuse(count, &error),
        }
        Ok(())
    }
}

/// Rows as record batches of an Arrow IPC stream.
impl RowReader {
    fn batches(&mut self, rows: &RowsRef<'_>, change: RecordChange) -> Result<(), Malformed> {
        let batches = self.arrow.read(rows.arrow).map_err(Malformed)?;
        let count: usize = batches.iter().map(RecordBatch::num_rows).sum();
        let mut expected: Vec<u64> = rows.expected().collect();
        if !expected.is_empty() && expected.len() != count {
            return Err(UNEVEN);
        }
        for batch in batches {
            let behind = expected.split_off(batch.num_rows().min(expected.len()));
            let wanted = std::mem::replace(&mut expected, behind);
            let table = self.tables.get_for(&self.records, rows.table, &batch.schema());
            let checked = || batch.columns().iter().try_for_each(check_column);
            match table.and_then(|table| checked().map(|()| table)) {
                Ok(table) => self.batcher.push_batch(rows.table, &table, change, batch, wanted),
                Err(error) => self.batcher.refuse(batch.num_rows(), &error),
            }
        }
        Ok(())
    }
}

/// Adds the rows of a message to the batcher.
#[inline]
fn push(
    batcher: &mut RecordBatcher,
    table: &Arc<RecordTable>,
    change: RecordChange,
    rows: &RowsRef<'_>,
) {
    let into = RecordTarget { number: rows.table, table, change };
    let values = || rows.values().map(decode_values);
    // Reading expected versions scans the whole message, so it is skipped if there are none.
    match (rows.values_count > 0, rows.expected_count > 0) {
        (false, false) => batcher.push_packed(into, rows.packed(), None::<Empty<u64>>),
        (false, true) => batcher.push_packed(into, rows.packed(), Some(rows.expected())),
        (true, false) => batcher.push_values(into, values(), None::<Empty<u64>>),
        (true, true) => batcher.push_values(into, values(), Some(rows.expected())),
    }
}

impl Reader for RowReader {
    #[inline]
    fn message(&mut self, bytes: &[u8]) -> Result<(), Malformed> {
        if self.broken.is_some() {
            return Ok(());
        }
        let request = WriteRef::read(bytes)?;
        if !self.begun {
            self.begin(request.durability);
        }
        if !self.looked {
            self.looked = true;
            if self.records.must_look_again() {
                self.tables.look_again(&self.records);
            }
        }
        if request.has_tables {
            for table in request.tables() {
                self.tables.announce(&self.records, table)?;
            }
        }
        if request.atomic {
            self.finish_group(false);
        }
        self.bytes += bytes.len();
        let taken = request.rows().try_for_each(|rows| self.rows(&rows?));
        if request.atomic {
            if taken.is_err() {
                // An atomic message is dropped as a whole, including the rows before the malformed
                // part.
                self.batcher = RecordBatcher::default();
            }
            self.finish_group(true);
        }
        taken
    }
}
