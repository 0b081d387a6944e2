//! Rows that a transaction of the gateway deleted or replaced and has not committed. Workers leave
//! them out of what the transaction reads.
//!
//! The gateway identifies them by the row handles with which it read them. A worker looks up each
//! one in the very snapshot that it reads, since compaction may have moved it. If another
//! transaction changed such a row meanwhile, the query fails with 40001, as the commit would.

use std::collections::BTreeMap;

use thalweg_types::{Error, Result, RowId, SqlState};

/// The hidden rows of one table in wire form, by worker: ascending and delta-encoded, so that
/// adjacent rows take a byte each.
pub(crate) struct HiddenRows(BTreeMap<usize, Vec<u64>>);

impl HiddenRows {
    /// Groups row handles of a gateway by worker, and encodes them.
    ///
    /// # Errors
    /// If one of the rows is not on a worker.
    pub(crate) fn of(rows: &[RowId]) -> Result<HiddenRows> {
        let mut places: BTreeMap<usize, Vec<u64>> = BTreeMap::new();
        for row in rows {
            let (place, row) = row
                .elsewhere()
                .ok_or_else(|| Error::internal("a gateway has no rows that could be hidden"))?;
            places.entry(place).or_default().push(row.0);
        }
        for rows in places.values_mut() {
            rows.sort_unstable();
            rows.dedup();
            let mut before = 0;
            for row in rows {
                *row -= std::mem::replace(&mut before, *row);
            }
        }
        Ok(HiddenRows(places))
    }

    /// The rows of the worker at index `place` of the map.
    pub(crate) fn at(&self, place: usize) -> Vec<u64> {
        self.0.get(&place).cloned().unwrap_or_default()
    }

    /// Number of hidden rows of all workers.
    pub(crate) fn count(&self) -> usize {
        self.0.values().map(Vec::len).sum()
    }
}

/// Decodes hidden rows that a gateway sent.
///
/// # Errors
/// If they are malformed.
pub(crate) fn rows(differences: &[u64]) -> Result<Vec<RowId>> {
    let mut last = 0_u64;
    let rows = differences.iter().map(|difference| {
        last = last.checked_add(*difference)?;
        Some(RowId(last)).filter(|row| row.elsewhere().is_none())
    });
    let rows: Option<Vec<RowId>> = rows.collect();
    rows.ok_or_else(|| Error::new(SqlState::PROTOCOL_VIOLATION, "hidden rows are none of a worker"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on(node: u16, row: RowId) -> RowId {
        RowId(RowId::base_of_node(node) + row.0)
    }

    #[test]
    fn each_worker_gets_its_own_rows_in_order() {
        let (first, second) = (RowId::new(7, 4), RowId::new(7, 5));
        let last = RowId::new(u32::MAX, 65_535);
        let known = [on(3, last), on(3, second), on(0, second), on(3, first), on(3, second)];
        let hidden = HiddenRows::of(&known).unwrap();
        assert_eq!(hidden.count(), 4);
        assert_eq!(hidden.at(3)[1], 1, "the one beside it");
        assert_eq!(rows(&hidden.at(3)).unwrap(), [first, second, last]);
        assert_eq!(rows(&hidden.at(0)).unwrap(), [second]);
        assert!(rows(&hidden.at(1)).unwrap().is_empty());
        assert!(HiddenRows::of(&[first]).is_err(), "it is here");
    }

    #[test]
    fn what_is_no_row_of_a_worker_is_refused() {
        for damaged in [vec![u64::MAX, 1], vec![1 << 48], vec![(1 << 48) - 1, 1]] {
            let refused = rows(&damaged).unwrap_err();
            assert_eq!(refused.state(), SqlState::PROTOCOL_VIOLATION);
        }
    }
}
