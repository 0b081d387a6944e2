//! Requests that write, taken apart where they lie and gathered into groups.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow_ipc::reader::StreamReader;
use thalweg_protocol::{Malformed, RowsRef, WriteRef, v1};
use thalweg_query::{Durability, RecordBatcher, RecordChange, RecordTable, RecordWrite, Records};
use thalweg_types::{Error, Result};

use crate::records::calls::Call;
use crate::records::incoming::Reader;
use crate::records::tables::Tables;
use crate::records::values::given;
use crate::texts::column_without_zero;

const UNEVEN: Malformed = Malformed("there is an expected version for each row, or for none");
const NO_ARROW: Malformed = Malformed("an Arrow IPC stream cannot be read");

/// Rows that are written as one.
pub(super) struct Group {
    pub(super) write: RecordWrite,
    /// Whether they are written all or not at all.
    pub(super) atomic: bool,
}

pub(super) struct RowReader {
    call: Call,
    records: Records,
    tables: Tables,
    durability: Option<Durability>,
    /// Whether a message has come.
    begun: bool,
    /// Whether the tables are as the catalog had them when the group began.
    looked: bool,
    batcher: RecordBatcher,
    finished: Vec<Group>,
    /// What is wrong with the database itself, if anything.
    broken: Option<Error>,
}

impl RowReader {
    pub(super) fn new(call: Call, records: Records) -> RowReader {
        RowReader {
            call,
            records,
            tables: Tables::default(),
            durability: None,
            begun: false,
            looked: false,
            batcher: RecordBatcher::default(),
            finished: Vec::new(),
            broken: None,
        }
    }

    pub(super) fn records(&self) -> &Records {
        &self.records
    }

    /// What the stream asked for; `None` for what the database is set to.
    pub(super) fn durability(&self) -> Option<Durability> {
        self.durability
    }

    /// The groups of what has come since this was asked before.
    ///
    /// # Errors
    /// Only for mistakes of the database's own.
    pub(super) fn finish(&mut self) -> Result<Vec<Group>> {
        self.finish_group(false);
        self.looked = false;
        match self.broken.take() {
            None => Ok(std::mem::take(&mut self.finished)),
            Some(error) => Err(error),
        }
    }

    fn finish_group(&mut self, atomic: bool) {
        if self.batcher.rows() == 0 {
            return;
        }
        match self.batcher.finish() {
            Ok(write) => self.finished.push(Group { write, atomic }),
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
        match self.tables.get(rows.table) {
            Ok(table) => {
                push(&mut self.batcher, table, change, rows);
            }
            Err(error) => (0..count).for_each(|_| self.batcher.refuse(error.clone())),
        }
        Ok(())
    }
}

/// Record batches of an Arrow IPC stream.
impl RowReader {
    fn batches(&mut self, rows: &RowsRef<'_>, change: RecordChange) -> Result<(), Malformed> {
        let stream = StreamReader::try_new(rows.arrow, None).map_err(|_| NO_ARROW)?;
        let batches = stream.collect::<std::result::Result<Vec<RecordBatch>, _>>();
        let batches = batches.map_err(|_| NO_ARROW)?;
        let count: usize = batches.iter().map(RecordBatch::num_rows).sum();
        let mut expected: Vec<u64> = rows.expected().collect();
        if !expected.is_empty() && expected.len() != count {
            return Err(UNEVEN);
        }
        for batch in batches {
            let behind = expected.split_off(batch.num_rows().min(expected.len()));
            let wanted = std::mem::replace(&mut expected, behind);
            let table = self.tables.get_for(&self.records, rows.table, &batch.schema());
            let texts = || batch.columns().iter().try_for_each(column_without_zero);
            match table.and_then(|table| texts().map(|()| table)) {
                Ok(table) => self.batcher.push_batch(rows.table, &table, change, batch, wanted),
                Err(error) => {
                    (0..batch.num_rows()).for_each(|_| self.batcher.refuse(error.clone()));
                }
            }
        }
        Ok(())
    }
}

/// Adds rows, one by one.
#[inline]
fn push(
    batcher: &mut RecordBatcher,
    table: &Arc<RecordTable>,
    change: RecordChange,
    rows: &RowsRef<'_>,
) {
    let number = rows.table;
    if rows.expected_count == 0 {
        for row in rows.packed() {
            batcher.push_packed(number, table, change, row, None);
        }
        if rows.values_count > 0 {
            for row in rows.values() {
                batcher.push_values(number, table, change, given(row), None);
            }
        }
        return;
    }
    for (row, expected) in rows.packed().zip(rows.expected()) {
        batcher.push_packed(number, table, change, row, Some(expected));
    }
    for (row, expected) in rows.values().zip(rows.expected()) {
        batcher.push_values(number, table, change, given(row), Some(expected));
    }
}

impl Reader for RowReader {
    #[inline]
    fn message(&mut self, bytes: &[u8]) -> Result<(), Malformed> {
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
        for rows in request.rows() {
            self.rows(&rows?)?;
        }
        if request.atomic {
            self.finish_group(true);
        }
        Ok(())
    }
}
