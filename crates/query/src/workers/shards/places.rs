//! Places: what gateways know rows by while a worker runs.
//!
//! A machine that fails may take rows along that gateways have read and nobody has waited for, and
//! when it is back their ids may go to others. So a place is a row's id with a number of the
//! worker's run mixed into the upper half of its chunk's number: a place of another run names a
//! chunk far from those that are there, and is refused like that of a row that was changed. Where
//! two runs have the same number, which is one of 32,768, it still names what is on the disk.

use thalweg_types::RowId;

/// The places of a run. What makes a place of an id makes an id of a place as well.
#[derive(Clone, Copy)]
pub(super) struct Places(u64);

impl Places {
    /// Those of a run that begins, which takes a random number.
    pub(super) fn of_run(random: u64) -> Places {
        // Of the chunk's 32 bits, the first tells the rows of a transaction's own.
        Places((random >> 49) << 32)
    }

    /// What ids are mixed with for somebody to whom places tell of their node.
    pub(super) fn mask(self, node_base: u64) -> u64 {
        node_base ^ self.0
    }

    /// The ids of rows that are called by their places.
    pub(super) fn rows(self, places: &[RowId]) -> Vec<RowId> {
        places.iter().map(|place| RowId(place.0 ^ self.0)).collect()
    }

    /// The ids of rows that are expected by their versions, which are places; 0 stands for no row.
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
        let (run, other) = (Places::of_run(5 << 49), Places::of_run(u64::MAX));
        let places = rows.map(|row| RowId(row.0 ^ run.mask(0)));
        assert_eq!(run.rows(&places), rows);
        assert_eq!(run.expected(vec![0, places[1].0]), [0, rows[1].0]);
        for (row, known) in other.rows(&places).iter().zip(&rows) {
            assert!(row.chunk().abs_diff(known.chunk()) >= 1 << 16, "{row:?} is near {known:?}");
        }
    }

    #[test]
    fn places_tell_of_nodes_and_belong_to_no_transaction() {
        let row = RowId::new((1 << 16) - 1, 65_535);
        let run = Places::of_run(u64::MAX);
        let place = RowId(row.0 ^ run.mask(RowId::base_of_node(7)));
        let (node, place) = place.elsewhere().unwrap();
        assert_eq!((node, run.rows(&[place])), (7, vec![row]));
        assert!(place.chunk() < 1 << 31, "{place:?}");
    }
}
