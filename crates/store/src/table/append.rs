//! Appending rows.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::{DataType as ArrowType, TimestampMicrosecondType};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use thalweg_types::{Error, Result, RowId, SqlState, TableSchema};

use super::{Opened, Table};
use crate::cell::{KeyHashes, same_key};
use crate::effect::Change;
use crate::index::NewRows;
use crate::open::Appender;
use crate::state::{Slot, StateKey};
use crate::{Chunk, Effect};

/// The location of some rows of a batch: its `length` rows from `offset` on were stored in `chunk`
/// from row `row` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placed {
    pub chunk: u32,
    pub row: u32,
    pub offset: usize,
    pub length: usize,
}

impl Table {
    /// Appends rows to the open chunk, and to new ones when it is full.
    ///
    /// If a row has the key of a live one, none is appended (`23505`).
    pub fn append(&mut self, rows: &RecordBatch, effect: &mut Effect) -> Result<Vec<Placed>> {
        self.check_rows(rows)?;
        let mark = effect.changes.len();
        let mut placed = Vec::with_capacity(1);
        let mut offset = 0;
        while offset < rows.num_rows() {
            let number = self.open_number();
            let opened = self.opened_mut(number).expect("the open chunk has a writer");
            let length = opened.appender.room().min(rows.num_rows() - offset);
            let row = opened.appender.rows() as u32;
            self.extend(number, &rows.slice(offset, length), None, effect);
            placed.push(Placed { chunk: number, row, offset, length });
            offset += length;
        }
        self.index_appended(rows.columns(), &placed, mark, effect)?;
        Ok(placed)
    }

    /// Appends rows that fit into an open chunk.
    pub(super) fn extend(
        &mut self,
        number: u32,
        rows: &RecordBatch,
        closed: Option<Slot>,
        effect: &mut Effect,
    ) {
        let opened = self.opened_mut(number).expect("the open chunk has a writer");
        let from = opened.appender.rows() as u32;
        opened.appender.append(rows);
        let to = opened.appender.rows() as u32;
        let chunk = Chunk::Open(Arc::clone(opened.appender.chunk()));
        let slot = match self.applied.slot(number) {
            Some(slot) => Slot { chunk, length: to, dead: None, ..slot.clone() },
            None => Slot::new(number, chunk, to),
        };
        self.apply(Change::Extended { slot, from, closed }, effect);
    }

    /// The open chunk with room for more rows; starts a new one if there is none.
    pub(super) fn open_number(&mut self) -> u32 {
        if let Some(number) = self.open
            && self.opened(number).is_some_and(|opened| opened.appender.room() > 0)
        {
            return number;
        }
        let number = self.take_number();
        self.start_chunk(number);
        number
    }

    pub(super) fn start_chunk(&mut self, number: u32) {
        // Large tables are likely to grow further.
        let expected = self.applied.rows() / 4;
        let appender = Appender::new(self.applied.arrow_schema(), expected);
        self.opened.push(Opened { number, appender, given: false });
        self.open = Some(number);
    }

    /// Applies a change and records it.
    pub(super) fn apply(&mut self, change: Change, effect: &mut Effect) {
        self.applied.apply(&change);
        effect.changes.push(change);
        self.note(effect);
    }

    /// Inserts rows that were just appended into all indexes; on failure, undoes the append.
    pub(super) fn index_appended(
        &mut self,
        columns: &[ArrayRef],
        placed: &[Placed],
        mark: usize,
        effect: &mut Effect,
    ) -> Result<()> {
        let keys = Arc::clone(self.applied.keys());
        for (done, key) in keys.iter().enumerate() {
            let columns: Vec<ArrayRef> =
                key.positions.iter().map(|position| Arc::clone(&columns[*position])).collect();
            let hashes = KeyHashes::new(&columns);
            let rows = AppendedRows { table: self, key, columns: &columns, hashes, placed };
            let inserted = key.index.write().insert(&rows);
            if let Err(row) = inserted {
                let error = self.duplicate(done, &columns, row);
                for key in &keys[..done] {
                    for piece in placed.iter().rev() {
                        let end = piece.row + piece.length as u32;
                        self.withdraw_rows(key, piece.chunk, piece.row, end);
                    }
                }
                while effect.changes.len() > mark {
                    let change = effect.changes.pop().expect("longer than the mark");
                    self.undo_rows(change);
                }
                return Err(error);
            }
        }
        Ok(())
    }

    /// Withdraws the index entries of rows `from..to` of a chunk.
    pub(super) fn withdraw_rows(&self, key: &StateKey, number: u32, from: u32, to: u32) {
        let mut index = key.index.write();
        for row in (from..to).rev() {
            let row = RowId::new(number, row);
            if let Some(hash) = self.key_hash(key, row) {
                index.withdraw(hash, row);
            }
        }
    }

    /// PostgreSQL's error for a duplicate key. `key` is the position of the table's key among
    /// [`TableSchema::keys`], `columns` are that key's columns.
    #[must_use]
    pub fn duplicate(&self, key: usize, columns: &[ArrayRef], row: usize) -> Error {
        let schema = self.schema();
        let key = schema.keys().nth(key).expect("an index for each of the schema's keys");
        let message = format!("duplicate key value violates unique constraint \"{}\"", key.name);
        let detail = key_text(schema, &schema.key_positions(key), columns, row);
        Error::new(SqlState::UNIQUE_VIOLATION, message)
            .with_detail(format!("Key {detail} already exists."))
            .with_constraint(schema, &key.name)
    }

    pub(super) fn check_rows(&self, rows: &RecordBatch) -> Result<()> {
        let fields = self.applied.arrow_schema().fields();
        if fields.len() != rows.num_columns() {
            return Err(self.wrong_columns());
        }
        for (field, column) in fields.iter().zip(rows.columns()) {
            if field.data_type() != column.data_type() {
                return Err(self.wrong_columns());
            }
            if !field.is_nullable() && column.null_count() > 0 {
                return Err(self.not_null(field.name()));
            }
        }
        Ok(())
    }

    /// The error for rows that do not match the schema because it changed after they were built.
    pub(super) fn wrong_columns(&self) -> Error {
        let message = format!(
            "could not serialize access: the columns of relation \"{}\" were changed",
            self.schema().name
        );
        Error::new(SqlState::SERIALIZATION_FAILURE, message)
    }

    pub(super) fn not_null(&self, column: &str) -> Error {
        let message = format!(
            "null value in column \"{column}\" of relation \"{}\" violates not-null constraint",
            self.schema().name
        );
        Error::new(SqlState::NOT_NULL_VIOLATION, message).with_column(self.schema(), column)
    }
}

/// A key as error messages show it: `(a, b)=(1, x)`.
#[must_use]
pub fn key_text(
    schema: &TableSchema,
    positions: &[usize],
    columns: &[ArrayRef],
    row: usize,
) -> String {
    let names: Vec<&str> =
        positions.iter().map(|position| schema.columns[*position].name.as_str()).collect();
    let values: Vec<String> = columns.iter().map(|column| shown(column, row)).collect();
    format!("({})=({})", names.join(", "), values.join(", "))
}

/// A value as error messages show it.
fn shown(column: &ArrayRef, row: usize) -> String {
    let options = FormatOptions::default()
        .with_null("null")
        .with_timestamp_format(Some("%Y-%m-%d %H:%M:%S%.f"));
    // Arrow formats no time zones here; UTC, the only possible one, is appended as in PostgreSQL.
    let (column, zone) = match column.data_type() {
        ArrowType::Timestamp(_, Some(_)) => {
            let times = column.as_primitive::<TimestampMicrosecondType>().clone();
            (Arc::new(times.with_timezone_opt(None::<Arc<str>>)) as ArrayRef, "+00")
        }
        _ => (Arc::clone(column), ""),
    };
    let text = ArrayFormatter::try_new(&column, &options)
        .and_then(|formatter| formatter.value(row).try_to_string());
    text.map_or_else(|_| "?".to_owned(), |text| text + zone)
}

/// Rows of a batch that are stored in chunks and about to be indexed.
struct AppendedRows<'a> {
    table: &'a Table,
    key: &'a StateKey,
    columns: &'a [ArrayRef],
    hashes: KeyHashes,
    placed: &'a [Placed],
}

impl NewRows for AppendedRows<'_> {
    fn len(&self) -> usize {
        self.hashes.hashes.len()
    }

    #[inline]
    fn hash(&self, row: usize) -> Option<u32> {
        (!self.hashes.is_null(row)).then(|| self.hashes.hashes[row])
    }

    #[inline]
    fn id(&self, row: usize) -> RowId {
        let piece = self.placed.iter().rfind(|piece| piece.offset <= row);
        let piece = piece.expect("the pieces cover the batch");
        RowId::new(piece.chunk, piece.row + (row - piece.offset) as u32)
    }

    #[inline]
    fn same_key(&self, row: usize, stored: RowId) -> bool {
        same_key(self.columns, row, |index| self.table.cell(stored, self.key.positions[index]))
    }

    #[inline]
    fn is_dead(&self, stored: RowId) -> bool {
        self.table.applied.is_dead(stored)
    }
}
