//! Keys that replaced rows keep, under constraints that are NOT VALID.
//!
//! Rows from before such a constraint may violate it. They may still be changed in other columns:
//! PostgreSQL does not check a key that an update leaves alone.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::row::{RowConverter, Rows, SortField};
use thalweg_types::{Error, ForeignKey, Result, RowId, TableId, TableSchema};

use super::Referring;

/// The keys of replaced rows that their new versions keep.
#[derive(Clone, Debug)]
pub struct KeptKeys {
    child: TableId,
    constraint: String,
    keys: Arc<HashSet<Box<[u8]>>>,
}

impl KeptKeys {
    /// `old` and `new` are the values of the constraint's columns. `None` if no row keeps its key.
    ///
    /// # Errors
    /// Only internal errors.
    pub(crate) fn of(
        (child, key): (&TableSchema, &ForeignKey),
        old: &[ArrayRef],
        new: &[ArrayRef],
    ) -> Result<Option<KeptKeys>> {
        let (old, new) = (encoded(old)?, encoded(new)?);
        let kept = old.iter().zip(new.iter()).filter(|(old, new)| old == new);
        let keys: HashSet<Box<[u8]>> = kept.map(|(old, _)| old.as_ref().into()).collect();
        let constraint = key.name.clone();
        let kept = KeptKeys { child: child.id, constraint, keys: Arc::new(keys) };
        Ok((!kept.keys.is_empty()).then_some(kept))
    }

    /// True if the rows belong to a temporary table.
    pub(crate) fn is_of_temporary(&self) -> bool {
        self.child.is_temporary()
    }
}

/// The values of some columns, comparable as bytes.
fn encoded(columns: &[ArrayRef]) -> Result<Rows> {
    let compared = |error| Error::internal("keys cannot be compared").with_source(error);
    let fields = columns.iter().map(|column| SortField::new(column.data_type().clone()));
    let converter = RowConverter::new(fields.collect()).map_err(compared)?;
    converter.convert_columns(columns).map_err(compared)
}

impl Referring {
    /// The first row whose key has no holder, and was not kept.
    ///
    /// # Errors
    /// Only internal errors.
    pub(crate) fn first_new_orphan<'k>(
        &self,
        holders: &[Option<RowId>],
        kept: impl Iterator<Item = &'k KeptKeys>,
    ) -> Result<Option<usize>> {
        let first = self.first_orphan(holders);
        if first.is_none() || !self.foreign_key.unvalidated {
            return Ok(first);
        }
        let is_own = |kept: &&KeptKeys| {
            kept.child == self.child.id && kept.constraint == self.foreign_key.name
        };
        let kept: Vec<&KeptKeys> = kept.filter(is_own).collect();
        if kept.is_empty() {
            return Ok(first);
        }
        let keys = encoded(&self.child_columns)?;
        let is_kept =
            |row: usize| kept.iter().any(|kept| kept.keys.contains(keys.row(row).as_ref()));
        let is_orphan = |row: &usize| self.refers(*row) && holders[*row].is_none();
        Ok((0..self.rows()).filter(is_orphan).find(|row| !is_kept(*row)))
    }
}
