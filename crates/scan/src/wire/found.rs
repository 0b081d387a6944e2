//! Checks partial results from other nodes before they are merged.

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::{DataType, Int64Type};
use thalweg_types::{Error, Result, SqlState};

use crate::aggregate::{Aggregation, Lane, Seen, State, StateKind, wide};

/// Largest count in a partial result, more than any table has rows; sums of such counts do not
/// overflow.
const ROWS_MAX: i64 = 1 << 48;

impl Aggregation {
    /// Refuses a record batch that is no partial result of this aggregation.
    ///
    /// # Errors
    /// If the columns have other types than the merge expects (`08P01`).
    pub fn check(&self, found: &RecordBatch) -> Result<()> {
        let keys = self.keys.len();
        if found.num_columns() != keys + self.measures.len() {
            return Err(refused("it has another number of columns"));
        }
        let (key_columns, states) = found.columns().split_at(keys);
        for (key, column) in self.keys.iter().zip(key_columns) {
            if !is_of(column, &key.data_type) {
                return Err(refused("a key has another type"));
            }
        }
        for (measure, column) in states.iter().enumerate() {
            check_state(self.kind_of(measure), column)?;
        }
        Ok(())
    }
}

fn check_state(kind: StateKind, column: &ArrayRef) -> Result<()> {
    let empty = State::new(kind, Seen::none()).array()?;
    // Sums that do not fit 64 bits are sent as decimals.
    let is_large_sum = matches!(kind, StateKind::Sum(Lane::Int | Lane::Decimal))
        && *column.data_type() == DataType::Decimal128(38, 0);
    if !is_of(column, empty.data_type()) && !is_large_sum {
        return Err(refused("what was found has another type"));
    }
    let counts = match kind {
        StateKind::Count => column,
        StateKind::Spread(_) => column.as_struct().column(0),
        _ => return Ok(()),
    };
    let counts = wide(counts);
    let mut counts = counts.as_primitive::<Int64Type>().values().iter();
    match counts.all(|count| (0..=ROWS_MAX).contains(count)) {
        true => Ok(()),
        false => Err(refused("no table has as many rows")),
    }
}

/// True if a column has the type, or is a `bigint` column narrowed to 32 bits.
fn is_of(column: &ArrayRef, data_type: &DataType) -> bool {
    let is_narrow = matches!((column.data_type(), data_type), (DataType::Int32, DataType::Int64));
    column.data_type() == data_type || is_narrow
}

fn refused(what: &str) -> Error {
    Error::new(SqlState::PROTOCOL_VIOLATION, format!("a partial result is malformed: {what}"))
}
