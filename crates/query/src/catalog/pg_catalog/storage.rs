//! `thalweg_tables`, `thalweg_log` and `thalweg_checkpoints`: memory of tables, and disk space of
//! the log and its checkpoints. They show the present state, regardless of the transaction's
//! snapshot.

use super::rows::{Rows, Value};
use crate::catalog::CatalogLookup;

pub(super) fn tables(lookup: &CatalogLookup, rows: &mut Rows) {
    for relation in &lookup.objects.relations {
        let Some(table) = relation.table() else { continue };
        let Some(state) = lookup.state_of(table.id) else { continue };
        let (mut chunks, mut shown) = (0, 0);
        for chunk in state.chunks() {
            chunks += 1;
            shown += chunk.rows();
        }
        rows.push([
            ("relid", relation.oid.into()),
            ("schemaname", (&relation.namespace).into()),
            ("tablename", (&relation.name).into()),
            ("rows", state.rows().into()),
            ("dead_rows", (shown - state.rows()).into()),
            ("chunks", Value::Number(chunks)),
            ("bytes", state.memory_bytes().into()),
        ]);
    }
}

pub(super) fn log(lookup: &CatalogLookup, rows: &mut Rows) {
    let log = lookup.log();
    rows.push([
        ("position", count_value(log.position.0)),
        ("bytes", count_value(log.bytes)),
        ("checkpoint_due_bytes", log.checkpoint_due_bytes.map_or(Value::Null, count_value)),
    ]);
}

pub(super) fn checkpoints(lookup: &CatalogLookup, rows: &mut Rows) {
    for run in lookup.checkpoints() {
        rows.push([
            ("position", count_value(run.position.0)),
            ("bytes", count_value(run.bytes)),
            ("began", run.began_micros.map_or(Value::Null, Value::Instant)),
            ("seconds", run.took.map(|took| took.as_secs_f64()).into()),
            ("failure", run.failure.into()),
        ]);
    }
}

/// Numbers beyond an `i64` do not occur; they would saturate.
fn count_value(number: u64) -> Value {
    Value::Number(i64::try_from(number).unwrap_or(i64::MAX))
}
