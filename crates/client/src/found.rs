//! What look-ups found, as rows.

use bytes::Bytes;
use thalweg_protocol::v1::{Found, Keys, Table as Announcement};

use crate::Error;

/// A row that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundRow {
    pub packed: Bytes,
    /// Changes when the row does: what a later write may expect.
    pub version: u64,
}

/// A table as a stream is told of it.
pub(crate) fn announcement(number: u32, name: &str, columns: &[&str]) -> Announcement {
    let columns = columns.iter().map(|column| (*column).to_owned()).collect();
    Announcement { number, name: name.to_owned(), columns }
}

/// Packed keys whose rows are wanted with their versions.
pub(crate) fn versioned(table: u32, packed: Vec<Bytes>) -> Keys {
    Keys { table, packed, versions: true, ..Keys::default() }
}

/// The row that a key found.
///
/// # Errors
/// Where the look-up failed.
pub(crate) fn by_key(found: Found) -> Result<Option<FoundRow>, Error> {
    if let Some(failure) = found.failure {
        return Err(Error::Refused(Box::new(failure)));
    }
    let version = found.versions.first().copied().unwrap_or_default();
    Ok(found.packed.into_iter().next().map(|packed| FoundRow { packed, version }))
}

/// The rows of so many keys, in their order. What was found has the place of its key among them.
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

/// Adds the packed rows of a range to those before.
///
/// # Errors
/// Where the look-up failed: behind the rows that were added.
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
/// Where the look-up failed.
pub(crate) fn in_range(found: Vec<Found>) -> Result<Vec<Bytes>, Error> {
    let mut rows = Vec::new();
    add_in_range(found, &mut rows)?;
    Ok(rows)
}
