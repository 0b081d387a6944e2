//! Row handles: identifiers of rows that gateways use while a worker runs.
//!
//! A failed node may lose rows that gateways have read and that were not durable yet; after a
//! restart, other rows may get their ids. So a row handle is a row id with a number of the worker's
//! run mixed into the upper half of its chunk number. A handle from another run refers to a chunk
//! number far from all existing ones, and is refused like that of a changed row. If two runs have
//! the same number, with a probability of 1 in 32,768, the handle still refers to the row on disk.

use thalweg_types::RowId;

/// The row handles of a run. One operation turns an id into a handle and back.
#[derive(Clone, Copy)]
pub(super) struct RowHandles(u64);

impl RowHandles {
    /// The row handles of a new run, which takes a random number.
    pub(super) fn of_run(random: u64) -> RowHandles {
        // The first of the chunk's 32 bits marks the transaction's own rows.
        RowHandles((random >> 49) << 32)
    }

    /// The mask for ids that go to a gateway, where handles also identify the node.
    pub(super) fn mask(self, node_base: u64) -> u64 {
        node_base ^ self.0
    }

    /// The row ids of handles.
    pub(super) fn rows(self, handles: &[RowId]) -> Vec<RowId> {
        handles.iter().map(|place| RowId(place.0 ^ self.0)).collect()
    }

    /// The row ids of expected versions, which are handles; 0 stands for no row.
    pub(super) fn expected(self, mut versions: Vec<u64>) -> Vec<u64> {
        for version in versions.iter_mut().filter(|version| **version != 0) {
            *version ^= self.0;
        }
        versions
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_hold_for_their_run() {
        let rows = [RowId::new(1, 0), RowId::new(1, 65_535), RowId::new(70_000, 9)];
        let (run, other) = (RowHandles::of_run(5 << 49), RowHandles::of_run(u64::MAX));
        let handles = rows.map(|row| RowId(row.0 ^ run.mask(0)));
        assert_eq!(run.rows(&handles), rows);
        assert_eq!(run.expected(vec![0, handles[1].0]), [0, rows[1].0]);
        for (row, known) in other.rows(&handles).iter().zip(&rows) {
            assert!(row.chunk().abs_diff(known.chunk()) >= 1 << 16, "{row:?} is near {known:?}");
        }
    }

    #[test]
    fn places_tell_of_nodes_and_belong_to_no_transaction() {
        let row = RowId::new((1 << 16) - 1, 65_535);
        let run = RowHandles::of_run(u64::MAX);
        let place = RowId(row.0 ^ run.mask(RowId::base_of_node(7)));
        let (node, place) = place.elsewhere().unwrap();
        assert_eq!((node, run.rows(&[place])), (7, vec![row]));
        assert!(place.chunk() < 1 << 31, "{place:?}");
    }
}
