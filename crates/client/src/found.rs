//! Conversion of the answers of look-ups to rows.

use bytes::Bytes;
use thalweg_protocol::v1::{Found, Keys, Table as Announcement};

use crate::Error;

/// A row found by a look-up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundRow {
    pub packed: Bytes,
    /// Changes with each change of the row. A later write can expect this version.
    pub version: u64,
}

/// The announcement of a table to a stream.
pub(crate) fn announcement(number: u32, name: &str, columns: &[&str]) -> Announcement {
    let columns = columns.iter().map(|column| (*column).to_owned()).collect();
    Announcement { number, name: name.to_owned(), columns }
}

/// A look-up of packed keys that requests versions as well.
pub(crate) fn versioned(table: u32, packed: Vec<Bytes>) -> Keys {
    Keys { table, packed, versions: true, ..Keys::default() }
}

/// The row found for a key, if any.
///
/// # Errors
/// If the look-up failed.
pub(crate) fn by_key(found: Found) -> Result<Option<FoundRow>, Error> {
    if let Some(failure) = found.failure {
        return Err(Error::Refused(Box::new(failure)));
    }
    let version = found.versions.first().copied().unwrap_or_default();
    Ok(found.packed.into_iter().next().map(|packed| FoundRow { packed, version }))
}

/// The rows of a number of keys, in the order of the keys. `found.index` is a key's position.
///
/// # Errors
/// The first look-up that failed.
pub(crate) fn by_keys(found: Vec<Found>, keys: usize) -> Result<Vec<Option<FoundRow>>, Error> {
    let mut rows = vec![None; keys];
    for found in found {
        let place = usize::try_from(found.index).unwrap_or(usize::MAX);
        let row = by_key(found)?;
        if let Some(place) = rows.get_mut(place) {
            *place = row;
        }
    }
    Ok(rows)
}

/// Appends the packed rows of a range.
///
/// # Errors
/// If the look-up failed. The rows before the failure have been appended.
pub(crate) fn add_in_range(found: Vec<Found>, rows: &mut Vec<Bytes>) -> Result<(), Error> {
    for found in found {
        if let Some(failure) = found.failure {
            return Err(Error::Refused(Box::new(failure)));
        }
        rows.extend(found.packed);
    }
    Ok(())
}

/// The packed rows of a range.
///
/// # Errors
/// If the look-up failed.
pub(crate) fn in_range(found: Vec<Found>) -> Result<Vec<Bytes>, Error> {
    let mut rows = Vec::new();
    add_in_range(found, &mut rows)?;
    Ok(rows)
}
