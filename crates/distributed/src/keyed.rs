//! Conversion of groups of keyed writes to and from their wire format.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use thalweg_protocol::cluster as wire;
use thalweg_protocol::cluster::keyed_rows::Change;
use thalweg_protocol::cluster::row_group::Failing as WireFailing;
use thalweg_protocol::cluster::write::Durability as WireDurability;
use thalweg_query::{
    Durability, Failing, KeyedChange, PackedRows, Patch, Put, RowFailure, Written,
};
use thalweg_types::{Error, Result, SqlState, TableId};

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

/// `stopped` is the stop mark that all groups of one message share.
pub(crate) fn failing(failing: WireFailing, stopped: &Arc<AtomicBool>) -> Failing {
    match failing {
        WireFailing::LeaveOut => Failing::LeaveOut,
        WireFailing::Stop => Failing::Stop(Arc::clone(stopped)),
        WireFailing::Undo => Failing::Undo(None),
    }
}

/// The kind of change on the wire, and the columns of a patch.
pub(crate) fn change_to_wire(change: &KeyedChange) -> (Change, Vec<u32>) {
    match change {
        KeyedChange::Put(Put::Create) => (Change::Create, Vec::new()),
        KeyedChange::Put(Put::Update) => (Change::Update, Vec::new()),
        KeyedChange::Put(Put::Upsert) => (Change::Upsert, Vec::new()),
        KeyedChange::Remove => (Change::Remove, Vec::new()),
        KeyedChange::Patch(patch) => (Change::Patch, columns_of(patch)),
        KeyedChange::Merge(patch) => (Change::Merge, columns_of(patch)),
    }
}

fn columns_of(patch: &Patch) -> Vec<u32> {
    patch.columns.iter().map(|column| u32::try_from(*column).unwrap_or(u32::MAX)).collect()
}

/// Received rows, still encoded.
///
/// # Errors
/// If the kind of change is unknown.
pub(crate) fn keyed_rows(rows: wire::KeyedRows) -> Result<PackedRows> {
    let change = Change::try_from(rows.change).map_err(|unknown| {
        Error::new(SqlState::PROTOCOL_VIOLATION, format!("rows change in no known way: {unknown}"))
    })?;
    // The check of a patch stays `None`: the worker's database finds it in its own catalog.
    let patch = || {
        let columns = rows.columns.iter().map(|column| *column as usize).collect();
        Arc::new(Patch { columns, check: None })
    };
    let change = match change {
        Change::Create => KeyedChange::Put(Put::Create),
        Change::Update => KeyedChange::Put(Put::Update),
        Change::Upsert => KeyedChange::Put(Put::Upsert),
        Change::Remove => KeyedChange::Remove,
        Change::Patch => KeyedChange::Patch(patch()),
        Change::Merge => KeyedChange::Merge(patch()),
    };
    Ok(PackedRows {
        table: TableId(rows.table),
        fingerprint: rows.fingerprint,
        change,
        rows: rows.rows,
        places: rows.places,
        expected: (!rows.expected.is_empty()).then_some(rows.expected),
    })
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

/// The number of written rows of a group, and the failed rows.
///
/// # Errors
/// The error of a group that failed as a whole.
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
