//! Groups of rows that change by their keys, as they travel.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use arrow::record_batch::RecordBatch;
use thalweg_protocol::cluster as wire;
use thalweg_protocol::cluster::keyed_rows::Change;
use thalweg_protocol::cluster::row_group::Failing as WireFailing;
use thalweg_protocol::cluster::write::Durability as WireDurability;
use thalweg_query::{Durability, Failing, KeyedChange, KeyedRows, Patch, Put, RowFailure, Written};
use thalweg_types::{Error, Lsn, Result, SqlState, TableId};

use crate::rows;

pub(crate) fn durability_to_wire(durability: Durability) -> WireDurability {
    match durability {
        Durability::Fsync => WireDurability::Fsync,
        Durability::Write => WireDurability::Write,
        Durability::None => WireDurability::None,
    }
}

pub(crate) fn durability(durability: WireDurability) -> Durability {
    match durability {
        WireDurability::Fsync => Durability::Fsync,
        WireDurability::Write => Durability::Write,
        WireDurability::None => Durability::None,
    }
}

pub(crate) fn failing_to_wire(failing: &Failing) -> WireFailing {
    match failing {
        Failing::LeaveOut => WireFailing::LeaveOut,
        Failing::Stop(_) => WireFailing::Stop,
        Failing::Undo(_) => WireFailing::Undo,
    }
}

/// `stopped` is the mark of all groups that came together.
pub(crate) fn failing(failing: WireFailing, stopped: &Arc<AtomicBool>) -> Failing {
    match failing {
        WireFailing::LeaveOut => Failing::LeaveOut,
        WireFailing::Stop => Failing::Stop(Arc::clone(stopped)),
        WireFailing::Undo => Failing::Undo(None),
    }
}

/// Some rows of a change; places and expected versions are theirs.
pub(crate) fn rows_to_wire(
    rows: &KeyedRows,
    fingerprint: u64,
    batch: &RecordBatch,
    places: Vec<u32>,
    expected: Vec<u64>,
) -> Result<wire::KeyedRows> {
    let change = match &rows.change {
        KeyedChange::Put(Put::Create) => Change::Create,
        KeyedChange::Put(Put::Update) => Change::Update,
        KeyedChange::Put(Put::Upsert) => Change::Upsert,
        KeyedChange::Patch(_) => Change::Patch,
        KeyedChange::Remove => Change::Remove,
    };
    let columns = match &rows.change {
        KeyedChange::Patch(patch) => patch.columns.as_slice(),
        KeyedChange::Put(_) | KeyedChange::Remove => &[],
    };
    let columns = columns.iter().map(|column| u32::try_from(*column).unwrap_or(u32::MAX));
    Ok(wire::KeyedRows {
        table: rows.table.0,
        fingerprint,
        change: change as i32,
        columns: columns.collect(),
        rows: rows::encode(batch.schema_ref(), std::slice::from_ref(batch))?,
        places,
        expected,
    })
}

/// Rows as they came, with the fingerprint of the schema that they were made for.
///
/// # Errors
/// Where they cannot be read.
pub(crate) fn keyed_rows(rows: wire::KeyedRows) -> Result<(u64, KeyedRows)> {
    let change = match rows.change() {
        Change::Create => KeyedChange::Put(Put::Create),
        Change::Update => KeyedChange::Put(Put::Update),
        Change::Upsert => KeyedChange::Put(Put::Upsert),
        Change::Remove => KeyedChange::Remove,
        Change::Patch => {
            let columns = rows.columns.iter().map(|column| *column as usize).collect();
            // What is checked, the worker's database knows.
            KeyedChange::Patch(Arc::new(Patch { columns, check: None }))
        }
    };
    let (_, batches) = rows::decode(&rows.rows)?;
    let Ok([batch]) = <[RecordBatch; 1]>::try_from(batches) else {
        return Err(Error::new(SqlState::PROTOCOL_VIOLATION, "rows that change are one batch"));
    };
    let keyed = KeyedRows {
        table: TableId(rows.table),
        version: Lsn(0),
        change,
        rows: batch,
        places: rows.places,
        expected: (!rows.expected.is_empty()).then_some(rows.expected),
    };
    Ok((rows.fingerprint, keyed))
}

pub(crate) fn written_to_wire(written: Result<Written>) -> wire::GroupWritten {
    match written {
        Ok(written) => wire::GroupWritten {
            rows: written.rows,
            failures: written
                .failures
                .iter()
                .map(|failed| failure_to_wire(failed.place, &failed.error))
                .collect(),
            failed: None,
        },
        Err(error) => {
            wire::GroupWritten { failed: Some(failure_to_wire(0, &error)), ..Default::default() }
        }
    }
}

fn failure_to_wire(place: u32, error: &Error) -> wire::KeyedFailure {
    wire::KeyedFailure {
        place,
        sqlstate: error.state().0.to_owned(),
        message: error.message().to_owned(),
        detail: error.detail().unwrap_or_default().to_owned(),
        hint: error.hint().unwrap_or_default().to_owned(),
    }
}

/// How many rows of a group were written, and the others.
///
/// # Errors
/// Why none was.
pub(crate) fn written(group: wire::GroupWritten) -> Result<(u64, Vec<RowFailure>)> {
    if let Some(failed) = group.failed {
        return Err(failure(failed).error);
    }
    Ok((group.rows, group.failures.into_iter().map(failure).collect()))
}

fn failure(failed: wire::KeyedFailure) -> RowFailure {
    let state = SqlState::named(&failed.sqlstate).unwrap_or(SqlState::INTERNAL_ERROR);
    let mut error = Error::new(state, failed.message);
    if !failed.detail.is_empty() {
        error = error.with_detail(failed.detail);
    }
    if !failed.hint.is_empty() {
        error = error.with_hint(failed.hint);
    }
    RowFailure { place: failed.place, error }
}
