//! Converts chunks from one schema to another.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, UInt32Array, new_null_array};
use arrow::compute::take;
use parking_lot::Mutex;
use thalweg_types::{ColumnId, Error, Result, TableSchema};

use crate::ClosedChunk;
use crate::closed::Column;
use thalweg_columns::arrow_type;

/// Builds chunks of a new schema from chunks of an old one, sharing the columns that stay.
pub(crate) struct Widener {
    columns: Vec<Source>,
}

/// The source of a column of the new schema.
enum Source {
    Old(usize),
    /// One value for all rows; chunks of equally many rows share a column.
    Constant {
        value: ArrayRef,
        made: Mutex<HashMap<usize, Arc<Column>>>,
    },
}

impl Widener {
    /// Plans the conversion. Fails if a column's type changes or an added value has another type.
    pub fn new(
        old: &TableSchema,
        new: &TableSchema,
        added: &[(ColumnId, ArrayRef)],
    ) -> Result<Widener> {
        let columns = new.columns.iter().map(|column| {
            let data_type = arrow_type(&column.data_type);
            if let Some(position) = old.position(column.id) {
                if arrow_type(&old.columns[position].data_type) != data_type {
                    return Err(Error::unsupported("changing a column's type in place"));
                }
                return Ok(Source::Old(position));
            }
            let value = match added.iter().find(|(id, _)| *id == column.id) {
                Some((_, value)) => Arc::clone(value),
                None => new_null_array(&data_type, 1),
            };
            if value.len() != 1 || value.data_type() != &data_type {
                return Err(Error::internal(format!(
                    "the value of the added column \"{}\" has another type",
                    column.name
                )));
            }
            Ok(Source::Constant { value, made: Mutex::default() })
        });
        Ok(Widener { columns: columns.collect::<Result<_>>()? })
    }

    /// Converts one chunk, which must have the old schema.
    pub fn widen(&self, chunk: &ClosedChunk) -> Arc<ClosedChunk> {
        let columns = self.columns.iter().map(|source| source.column(chunk)).collect();
        Arc::new(chunk.with_columns(columns))
    }
}

impl Source {
    fn column(&self, chunk: &ClosedChunk) -> Arc<Column> {
        match self {
            Source::Old(position) => Arc::clone(&chunk.column_parts()[*position]),
            Source::Constant { value, made } => {
                let mut made = made.lock();
                let column = made.entry(chunk.rows()).or_insert_with(|| {
                    let places = UInt32Array::from(vec![0; chunk.rows()]);
                    let array = take(value, &places, None).expect("the only place there is");
                    Arc::new(Column::build(&array))
                });
                Arc::clone(column)
            }
        }
    }
}
