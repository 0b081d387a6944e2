//! Runs: neighbouring rows of one group.
//!
//! If rows are (nearly) sorted by a key, those of a group are adjacent. Such a run is looked up
//! once and aggregated as a whole. Each block counts how often keys change; if runs turn out to be
//! short, the count stops after a few hundred rows.

use std::ops::Range;

use super::direct::Ids;
use crate::aggregate::vector::Rows;
use crate::simd::widest;

/// Minimum average length of runs that are worth finding.
const ROWS_A_RUN: usize = 16;

/// Number of rows after which the changes so far are checked.
const COUNTED: usize = 512;

/// Number of rows that are compared at once with the first one of a run.
const WIDE: usize = 16;

/// Rows of a group, from the end of the previous run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub group: u32,
    /// The row after the last one.
    pub end: u32,
}

/// The runs of a block. Its allocation is reused for the next block.
#[derive(Default)]
pub(crate) struct Runs(Vec<Run>);

impl Runs {
    /// Returns the groups of all rows of a block as runs if these are long, otherwise unchanged.
    pub fn of<'a>(&'a mut self, ids: Ids<'a>, rows: Rows<'_>) -> Ids<'a> {
        let Rows::All(length) = rows else { return ids };
        let are_long = match ids {
            Ids::Bytes(ids) => self.collect(&ids[..length]),
            Ids::Shorts(ids) => self.collect(&ids[..length]),
            Ids::Words(ids) => self.collect(&ids[..length]),
            Ids::One | Ids::Runs(_) => false,
        };
        if are_long { Ids::Runs(&self.0) } else { ids }
    }

    fn collect<N: Copy + PartialEq + Into<u32>>(&mut self, ids: &[N]) -> bool {
        if !are_long(ids) {
            return false;
        }
        self.0.clear();
        widest(|| {
            each_equal(ids, |id, rows| self.0.push(Run { group: id.into(), end: rows.end as u32 }));
        });
        true
    }
}

/// True if keys seldom change from one row to the next.
fn are_long<K: PartialEq>(keys: &[K]) -> bool {
    let most = keys.len() / ROWS_A_RUN;
    if most == 0 {
        return false;
    }
    let (left, right) = (&keys[..keys.len() - 1], &keys[1..]);
    let mut changes = 0;
    for (left, right) in left.chunks(COUNTED).zip(right.chunks(COUNTED)) {
        let pairs = left.iter().zip(right);
        changes += widest(|| pairs.map(|(left, right)| u32::from(left != right)).sum::<u32>());
        if changes as usize >= most {
            return false;
        }
    }
    true
}

/// Calls `visit` with the key and the rows of each run.
#[inline(always)]
fn each_equal<K: Copy + PartialEq>(keys: &[K], mut visit: impl FnMut(K, Range<usize>)) {
    let mut start = 0;
    while let [key, rest @ ..] = &keys[start..] {
        let (blocks, _) = rest.as_chunks::<WIDE>();
        let is_all = |block: &&[K; WIDE]| block.iter().fold(true, |all, one| all & (one == key));
        let same = blocks.iter().take_while(is_all).count() * WIDE;
        let more = rest[same..].iter().take_while(|one| *one == key).count();
        let end = start + 1 + same + more;
        visit(*key, start..end);
        start = end;
    }
}

/// Looks up keys, once for each run if runs are long.
pub(super) fn find_by_runs<K: Copy + PartialEq>(
    keys: &[K],
    numbers: &mut [u32],
    find: impl FnOnce(&[K], &mut [u32]),
) {
    if !are_long(keys) {
        return find(keys, numbers);
    }
    let (mut firsts, mut all_rows) = (Vec::new(), Vec::new());
    each_equal(keys, |key, rows| {
        firsts.push(key);
        all_rows.push(rows);
    });
    let mut found = vec![0; firsts.len()];
    find(&firsts, &mut found);
    for (rows, number) in all_rows.into_iter().zip(found) {
        numbers[rows].fill(number);
    }
}

/// Calls `visit` with the group and the rows of each run.
#[inline(always)]
pub(crate) fn each_run(runs: &[Run], mut visit: impl FnMut(usize, Range<usize>)) {
    let mut start = 0;
    for run in runs {
        let end = run.end as usize;
        visit(run.group as usize, start..end);
        start = end;
    }
}

/// Calls `visit` with each selected row and its group.
#[inline(always)]
pub(crate) fn each_in_runs(runs: &[Run], rows: Rows<'_>, mut visit: impl FnMut(usize, usize)) {
    match rows {
        Rows::All(_) => each_run(runs, |group, rows| rows.for_each(|row| visit(row, group))),
        Rows::Some(places) => {
            let mut rest = places;
            each_run(runs, |group, rows| {
                let own = rest.partition_point(|place| usize::from(*place) < rows.end);
                let (own, behind) = rest.split_at(own);
                own.iter().for_each(|place| visit(usize::from(*place), group));
                rest = behind;
            });
        }
    }
}

/// The group of a row.
pub(super) fn group_at(runs: &[Run], row: usize) -> u32 {
    runs[runs.partition_point(|run| run.end as usize <= row)].group
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aggregate::tests::Random;

    /// Rows in runs of about so many.
    fn rows_in_runs(random: &mut Random, rows: usize, length: u64) -> Vec<u32> {
        let mut ids = Vec::new();
        while ids.len() < rows {
            let id = random.below(200) as u32;
            let length = 1 + random.below(length * 2) as usize;
            ids.extend(std::iter::repeat_n(id, length.min(rows - ids.len())));
        }
        ids
    }

    fn visited(ids: Ids<'_>, rows: Rows<'_>) -> Vec<(usize, usize)> {
        let Ids::Runs(runs) = ids else { panic!("these are runs") };
        let mut visited = Vec::new();
        each_in_runs(runs, rows, |row, group| visited.push((row, group)));
        for (row, group) in &visited {
            assert_eq!(group_at(runs, *row) as usize, *group);
        }
        visited
    }

    #[test]
    fn runs_are_those_of_a_plain_loop_and_only_long_ones_are_found() {
        let (mut found, mut left) = (0, 0);
        for seed in 0..200 {
            let random = &mut Random(seed);
            let rows = random.pick(&[1, 15, 16, 17, 500, 1_000, 4_096]);
            let length = random.pick(&[1, 6, 20, 300, 9_000]);
            let words = rows_in_runs(random, rows, length);
            let bytes: Vec<u8> = words.iter().map(|id| *id as u8).collect();
            let shorts: Vec<u16> = words.iter().map(|id| *id as u16 + 700).collect();
            let changes = words.windows(2).filter(|pair| pair[0] != pair[1]).count();
            let places: Vec<u16> = (0..rows as u16).filter(|_| random.one_in(3)).collect();
            for (ids, more) in [Ids::Bytes(&bytes), Ids::Shorts(&shorts), Ids::Words(&words)]
                .into_iter()
                .zip([0, 700, 0])
            {
                let mut runs = Runs(vec![Run { group: 7, end: 7 }]);
                assert!(!matches!(runs.of(ids, Rows::Some(&places)), Ids::Runs(_)));
                let in_runs = runs.of(ids, Rows::All(rows));
                if (changes + 1) * ROWS_A_RUN > rows {
                    left += 1;
                    assert!(!matches!(in_runs, Ids::Runs(_)), "seed {seed}");
                    continue;
                }
                found += 1;
                let expected = |row: usize| (row, words[row] as usize + more);
                let all: Vec<_> = (0..rows).map(expected).collect();
                assert_eq!(visited(in_runs, Rows::All(rows)), all, "seed {seed}");
                let some: Vec<_> = places.iter().map(|place| expected((*place).into())).collect();
                assert_eq!(visited(in_runs, Rows::Some(&places)), some, "seed {seed}");
            }
        }
        assert!(found > 50 && left > 50, "{found} and {left}");
    }

    #[test]
    fn a_run_is_looked_up_once() {
        let random = &mut Random(3);
        for (length, at_most) in [(1, 4_096), (100, 4_096 / ROWS_A_RUN)] {
            let keys = rows_in_runs(random, 4_096, length);
            let mut numbers = vec![0; keys.len()];
            find_by_runs(&keys, &mut numbers, |keys, numbers| {
                assert!(keys.len() <= at_most, "{} of {length}", keys.len());
                numbers.iter_mut().zip(keys).for_each(|(number, key)| *number = key * 3);
            });
            let expected: Vec<u32> = keys.iter().map(|key| key * 3).collect();
            assert_eq!(numbers, expected);
        }
    }
}
