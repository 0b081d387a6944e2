//! Finds the rows of a state by key.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::atomic::Ordering;

use arrow::array::{Array, ArrayRef, Scalar};
use arrow::compute::kernels::cmp;
use thalweg_types::{Key, Result, RowId};

use super::{Slot, StateKey, TableState};
use crate::Chunk;
use crate::cell::{Cell, KeyHashes, cell, hash_cells, same_key};

/// Most keys that are compared with a chunk's zones before its rows are scanned.
const ZONE_KEYS_MAX: usize = 64;

impl TableState {
    /// For each row of `columns`, which are the columns of `key` in its order, the live row of this
    /// state with that key. No row matches a key with a NULL.
    ///
    /// The index answers for keys whose rows it still finds as of this state; for the others all
    /// chunks of the state are scanned.
    #[must_use]
    pub fn probe(&self, key: &Key, columns: &[ArrayRef]) -> Vec<Option<RowId>> {
        let probe = Probe { hashes: KeyHashes::new(columns), columns };
        let (mut found, open) = self.probe_indexes(key, &probe);
        if !open.is_empty() {
            let positions = self.schema.key_positions(key);
            let never = || Ok::<(), Infallible>(());
            let Ok(()) =
                self.search(&positions, &probe, &open, never, |id, row| found[row] = Some(id));
        }
        found
    }

    /// Like [`probe`](Self::probe), but without scans; `None` if a chunk would have to be scanned.
    #[must_use]
    pub fn probe_quickly(&self, key: &Key, columns: &[ArrayRef]) -> Option<Vec<Option<RowId>>> {
        let probe = Probe { hashes: KeyHashes::new(columns), columns };
        let (found, open) = self.probe_indexes(key, &probe);
        open.is_empty().then_some(found)
    }

    /// The live rows that have one of some keys in the columns at `positions`, each with the place
    /// of its key in `keys`. Values are equal if they are equal in an index. No row matches a key
    /// with a NULL. Scans the whole state; `check` runs before each chunk and may end the scan.
    ///
    /// # Errors
    /// Errors of `check`.
    pub fn rows_with_keys(
        &self,
        positions: &[usize],
        keys: &[ArrayRef],
        check: impl Fn() -> Result<()>,
    ) -> Result<Vec<(RowId, usize)>> {
        let probe = Probe { hashes: KeyHashes::new(keys), columns: keys };
        let wanted: Vec<usize> =
            (0..probe.hashes.hashes.len()).filter(|row| !probe.hashes.is_null(*row)).collect();
        let mut found: Vec<(RowId, usize)> = Vec::new();
        self.search(positions, &probe, &wanted, check, |id, key| {
            // Equal keys match a row one after the other; the first of them counts.
            if found.last().is_none_or(|(last, _)| *last != id) {
                found.push((id, key));
            }
        })?;
        Ok(found)
    }

    /// The rows that the indexes find, and the keys that they cannot decide.
    fn probe_indexes(&self, key: &Key, probe: &Probe<'_>) -> (Vec<Option<RowId>>, Vec<usize>) {
        let mut found = vec![None; probe.hashes.hashes.len()];
        assert_eq!(key.columns.len(), probe.columns.len(), "a column for each of the key's");
        let known = self.keys.iter().position(|known| known.index.columns() == key.columns);
        let open = match known {
            Some(known) => {
                let open = self.probe_index(&self.keys[known], probe, &mut found);
                self.probe_private(known, probe, &mut found);
                open
            }
            None => (0..found.len()).filter(|row| !probe.hashes.is_null(*row)).collect(),
        };
        let open = open.into_iter().filter(|row| found[*row].is_none()).collect();
        (found, open)
    }

    /// Like [`probe`](Self::probe), for a single key. Faster, since it allocates no result.
    #[must_use]
    pub fn find(&self, key: &Key, columns: &[ArrayRef]) -> Option<RowId> {
        match self.find_in_index(key, columns) {
            Some(found) => found,
            None => self.probe(key, columns).pop().flatten(),
        }
    }

    /// The live row of a key, if there is one; outer `None` if the index cannot decide.
    fn find_in_index(&self, key: &Key, columns: &[ArrayRef]) -> Option<Option<RowId>> {
        let known = self.keys.iter().position(|known| known.index.columns() == key.columns)?;
        let StateKey { index, positions, .. } = &self.keys[known];
        let Some(hash) = hash_cells(columns.iter().map(|column| cell(column, 0))) else {
            return Some(None);
        };
        if self.private_keys.candidates(known, hash).next().is_some() {
            return None;
        }
        let (mut candidate, mut others) = (None, false);
        let index = index.read();
        let removals = self.removals.load(Ordering::Acquire);
        let push = |row| others |= candidate.replace(row).is_some();
        let is_complete = index.candidates(hash, |row| self.shows(row), push);
        drop(index);
        if others || !is_complete || removals != self.removals_seen {
            return None;
        }
        let Some(row) = candidate else { return Some(None) };
        let slot = self.slot(row.chunk())?;
        let place = row.row() as usize;
        let has_key = match &slot.chunk {
            Chunk::Closed(chunk) => {
                same_key(columns, 0, |column| chunk.cell(positions[column], place))
            }
            Chunk::Open(_) => {
                let stored = slot.chunk.columns(positions, place..place + 1);
                same_key(columns, 0, |column| cell(&stored[column], 0))
            }
        };
        Some((has_key && !slot.is_dead(row.row())).then_some(row))
    }

    /// Searches a transaction's own rows for keys that no row of the table has.
    fn probe_private(&self, key: usize, probe: &Probe<'_>, found: &mut [Option<RowId>]) {
        let positions = &self.keys[key].positions;
        let mut reader = KeyReader { state: self, positions, open: HashMap::new() };
        for (row, &hash) in probe.hashes.hashes.iter().enumerate() {
            if found[row].is_none() && !probe.hashes.is_null(row) {
                found[row] = self
                    .private_keys
                    .candidates(key, hash)
                    .find(|id| !self.is_dead(*id) && reader.holds(probe, row, *id));
            }
        }
    }

    /// Searches the index, and returns the keys that it cannot decide.
    fn probe_index(
        &self,
        key: &StateKey,
        probe: &Probe<'_>,
        found: &mut [Option<RowId>],
    ) -> Vec<usize> {
        let mut candidates: Vec<(usize, RowId)> = Vec::new();
        let mut complete = vec![true; found.len()];
        {
            let index = key.index.read();
            let removals = self.removals.load(Ordering::Acquire);
            for (row, &hash) in probe.hashes.hashes.iter().enumerate() {
                index.prefetch_from(&probe.hashes.hashes, row);
                if !probe.hashes.is_null(row) {
                    let push = |candidate| candidates.push((row, candidate));
                    complete[row] = index.candidates(hash, |row| self.shows(row), push)
                        && removals == self.removals_seen;
                }
            }
        }
        let mut reader = KeyReader { state: self, positions: &key.positions, open: HashMap::new() };
        for (row, candidate) in candidates {
            if reader.holds(probe, row, candidate) {
                // The candidates of a key come newest first: if this one is dead, all earlier ones
                // are.
                complete[row] = true;
                found[row] = (!self.is_dead(candidate)).then_some(candidate);
            }
        }
        (0..found.len()).filter(|row| !complete[*row]).collect()
    }

    /// Scans all chunks for the `wanted` keys. `check` runs before each chunk and may end the scan;
    /// `matched` receives each live row with each key that it has.
    fn search<E>(
        &self,
        positions: &[usize],
        probe: &Probe<'_>,
        wanted: &[usize],
        check: impl Fn() -> Result<(), E>,
        mut matched: impl FnMut(RowId, usize),
    ) -> Result<(), E> {
        let mut by_hash: HashMap<u32, Vec<usize>> = HashMap::new();
        for &row in wanted {
            by_hash.entry(probe.hashes.hashes[row]).or_default().push(row);
        }
        for slot in &self.slots {
            check()?;
            let few = wanted.len() <= ZONE_KEYS_MAX;
            if few && !wanted.iter().any(|row| may_contain(slot, positions, probe, *row)) {
                continue;
            }
            let columns = slot.columns(positions);
            let hashes = KeyHashes::new(&columns);
            for (place, hash) in hashes.hashes.iter().enumerate() {
                let Some(rows) = by_hash.get(hash) else { continue };
                if slot.is_dead(place as u32) || hashes.is_null(place) {
                    continue;
                }
                for &row in rows {
                    if same_key(probe.columns, row, |column| cell(&columns[column], place)) {
                        matched(RowId::new(slot.number, place as u32), row);
                    }
                }
            }
        }
        Ok(())
    }
}

/// Keys that are searched.
struct Probe<'a> {
    hashes: KeyHashes,
    columns: &'a [ArrayRef],
}

/// Reads the keys of a state's rows; the arrays of an open chunk are built once.
struct KeyReader<'a> {
    state: &'a TableState,
    positions: &'a [usize],
    open: HashMap<u32, Vec<ArrayRef>>,
}

impl KeyReader<'_> {
    /// True if a row that the state shows has the key.
    fn holds(&mut self, probe: &Probe<'_>, row: usize, stored: RowId) -> bool {
        let slot = self.state.slot(stored.chunk()).expect("candidates are rows of the state");
        let place = stored.row() as usize;
        match &slot.chunk {
            Chunk::Closed(chunk) => {
                same_key(probe.columns, row, |column| chunk.cell(self.positions[column], place))
            }
            Chunk::Open(_) => {
                let columns =
                    self.open.entry(slot.number).or_insert_with(|| slot.columns(self.positions));
                same_key(probe.columns, row, |column| cell(&columns[column], place))
            }
        }
    }
}

/// True unless a chunk's zones exclude the key.
fn may_contain(slot: &Slot, positions: &[usize], probe: &Probe<'_>, row: usize) -> bool {
    let Chunk::Closed(chunk) = &slot.chunk else { return true };
    positions.iter().zip(probe.columns).all(|(&position, column)| {
        if matches!(cell(column, row), Cell::Null) {
            return false;
        }
        match &chunk.zone(position).range {
            // Floats are not compared: zones use the total order of -0 and NaN, keys use
            // PostgreSQL's.
            Some((least, greatest)) if !column.data_type().is_floating() => {
                let value = Scalar::new(column.slice(row, 1));
                let within = |compared: Result<arrow::array::BooleanArray, _>| {
                    compared.map_or(true, |compared| compared.value(0))
                };
                within(cmp::gt_eq(&value, &Scalar::new(least)))
                    && within(cmp::lt_eq(&value, &Scalar::new(greatest)))
            }
            _ => true,
        }
    })
}
