//! `pg_sequence`, `pg_sequences`, and the relation that each sequence is: sequences, and the
//! counters of auto-numbered columns.

use std::sync::Arc;

use arrow::array::{BooleanArray, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::catalog::TableProvider;
use datafusion::datasource::MemTable;
use datafusion::error::Result;
use thalweg_txn::{Position, Sequence};
use thalweg_values::system_types::column_type_oid;

use super::Inputs;
use super::rows::{Rows, Value};
use crate::catalog::objects::{Objects, Source};

/// The columns of a sequence as a relation.
pub(super) fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("last_value", DataType::Int64, false),
        Field::new("log_cnt", DataType::Int64, false),
        Field::new("is_called", DataType::Boolean, false),
    ]))
}

/// A sequence as a relation of one row.
pub(in crate::catalog) fn table(sequence: &Sequence) -> Result<Arc<dyn TableProvider>> {
    let (position, ahead) = sequence.counter.observed();
    let ahead = ahead.min(sequence.options.remaining(position));
    one_row(position, i64::try_from(ahead).unwrap_or(i64::MAX))
}

/// The counter of an auto-numbered column as a relation of one row. `next` is the number of the
/// next row.
pub(in crate::catalog) fn counter_table(next: i64) -> Result<Arc<dyn TableProvider>> {
    let position = match next {
        ..=1 => Position { last: 1, is_called: false },
        next => Position { last: next - 1, is_called: true },
    };
    one_row(position, 0)
}

fn one_row(position: Position, ahead: i64) -> Result<Arc<dyn TableProvider>> {
    let row = RecordBatch::try_new(
        schema(),
        vec![
            Arc::new(Int64Array::from(vec![position.last])),
            Arc::new(Int64Array::from(vec![ahead])),
            Arc::new(BooleanArray::from(vec![position.is_called])),
        ],
    )?;
    Ok(Arc::new(MemTable::try_new(schema(), vec![vec![row]])?))
}

pub(super) fn sequence(objects: &Objects, rows: &mut Rows) {
    for relation in &objects.relations {
        let Source::Sequence(source) = &relation.source else { continue };
        let options = &source.options;
        rows.push([
            ("seqrelid", relation.oid.into()),
            ("seqtypid", column_type_oid(&options.data_type).into()),
            ("seqstart", options.start.into()),
            ("seqincrement", options.increment.into()),
            ("seqmax", options.max.into()),
            ("seqmin", options.min.into()),
            ("seqcache", options.cache.into()),
            ("seqcycle", options.cycles.into()),
        ]);
    }
}

pub(super) fn sequences(inputs: &Inputs<'_>, rows: &mut Rows) {
    for relation in &inputs.lookup.objects.relations {
        let Source::Sequence(source) = &relation.source else { continue };
        let options = &source.options;
        let position = source.sequence.as_ref().map(|sequence| sequence.counter.position());
        let may_read = inputs.lookup.may_use_sequence(&relation.namespace, &relation.name);
        let last = position.filter(|position| position.is_called && may_read);
        let last = last.map(|position| position.last);
        rows.push([
            ("schemaname", (&relation.namespace).into()),
            ("sequencename", (&relation.name).into()),
            ("sequenceowner", inputs.lookup.role_name(relation.access.owner).into()),
            ("data_type", i64::from(column_type_oid(&options.data_type)).into()),
            ("start_value", options.start.into()),
            ("min_value", options.min.into()),
            ("max_value", options.max.into()),
            ("increment_by", options.increment.into()),
            ("cycle", options.cycles.into()),
            ("cache_size", options.cache.into()),
            ("last_value", last.map_or(Value::Null, Value::Number)),
        ]);
    }
}
