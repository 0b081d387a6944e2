//! The hottest loops: adding up values by small group codes.
//!
//! If consecutive rows belong to one group, each addition would wait for the one before. So few
//! groups are added up in one pass each, with vectors of rows, and more groups in four sets of
//! totals that take turns.

use super::keys::{Run, each_run};
use crate::simd::widest;

/// Up to this many groups, counting each in a pass of its own over the cached block is fastest.
const COUNT_PASSES_MAX: usize = 16;
const CODES: usize = 256;
const LANES: usize = 4;
const WIDE: usize = 16;

/// A number that is added up. Integers wrap around; callers ensure that they do not.
pub(crate) trait Addend: Copy {
    /// The neutral element of addition.
    const NONE: Self;
    /// Up to this many groups, adding up each in a pass of its own over the cached block is
    /// fastest.
    const PASSES_MAX: usize;

    fn plus(self, other: Self) -> Self;
}

impl Addend for i64 {
    const NONE: i64 = 0;
    const PASSES_MAX: usize = 4;

    #[inline(always)]
    fn plus(self, other: i64) -> i64 {
        self.wrapping_add(other)
    }
}

impl Addend for f64 {
    const NONE: f64 = -0.0;
    const PASSES_MAX: usize = 8;

    #[inline(always)]
    fn plus(self, other: f64) -> f64 {
        self + other
    }
}

/// The total of some values, computed in several lanes so that it vectorizes.
pub(crate) fn total<T: Addend>(values: &[T]) -> T {
    widest(|| total_in_lanes(values))
}

/// Calls `take` with the group of each run and the total of its values.
pub(crate) fn total_by_run<T: Addend>(runs: &[Run], values: &[T], mut take: impl FnMut(usize, T)) {
    widest(|| each_run(runs, |group, rows| take(group, total_in_lanes(&values[rows]))));
}

#[inline(always)]
fn total_in_lanes<T: Addend>(values: &[T]) -> T {
    let mut lanes = [T::NONE; WIDE];
    let (blocks, rest) = values.as_chunks::<WIDE>();
    for block in blocks {
        (0..WIDE).for_each(|lane| lanes[lane] = lanes[lane].plus(block[lane]));
    }
    rest.iter().chain(&lanes).fold(T::NONE, |sum, value| sum.plus(*value))
}

/// Adds each value to the total of its code. `totals` has an element for each code that occurs.
pub(crate) fn add_by_code<T: Addend>(codes: &[u8], values: &[T], totals: &mut [T]) {
    if totals.len() <= T::PASSES_MAX {
        return widest(|| add_in_passes(codes, values, totals));
    }
    let mut lanes = [[T::NONE; CODES]; LANES];
    let (code_blocks, code_rest) = codes.as_chunks::<LANES>();
    let (value_blocks, value_rest) = values.as_chunks::<LANES>();
    for (codes, values) in code_blocks.iter().zip(value_blocks) {
        for lane in 0..LANES {
            let total = &mut lanes[lane][usize::from(codes[lane])];
            *total = total.plus(values[lane]);
        }
    }
    for (code, value) in code_rest.iter().zip(value_rest) {
        let total = &mut lanes[0][usize::from(*code)];
        *total = total.plus(*value);
    }
    for (code, total) in totals.iter_mut().enumerate() {
        *total = lanes.iter().fold(*total, |total, lane| total.plus(lane[code]));
    }
}

#[inline(always)]
fn add_in_passes<T: Addend>(codes: &[u8], values: &[T], totals: &mut [T]) {
    let (code_blocks, code_rest) = codes.as_chunks::<WIDE>();
    let (value_blocks, value_rest) = values.as_chunks::<WIDE>();
    for (code, total) in totals.iter_mut().enumerate() {
        let code = code as u8;
        let own = |of: u8, value: T| if of == code { value } else { T::NONE };
        let mut lanes = [T::NONE; WIDE];
        for (codes, values) in code_blocks.iter().zip(value_blocks) {
            (0..WIDE)
                .for_each(|lane| lanes[lane] = lanes[lane].plus(own(codes[lane], values[lane])));
        }
        let rest = code_rest.iter().zip(value_rest);
        let rest = rest.fold(*total, |sum, (code, value)| sum.plus(own(*code, *value)));
        *total = lanes.iter().fold(rest, |sum, value| sum.plus(*value));
    }
}

/// Counts the rows of each code.
pub(crate) fn count_by_code(codes: &[u8], counts: &mut [i64]) {
    if counts.len() <= COUNT_PASSES_MAX {
        return widest(|| {
            for (code, count) in counts.iter_mut().enumerate() {
                let code = code as u8;
                // A sum of 128 ones fits a byte, so this loop uses vectors of bytes.
                let some =
                    |some: &[u8]| -> u8 { some.iter().map(|own| u8::from(*own == code)).sum() };
                *count += codes.chunks(128).map(|rows| i64::from(some(rows))).sum::<i64>();
            }
        });
    }
    let mut lanes = [[0_u32; CODES]; LANES];
    let (blocks, rest) = codes.as_chunks::<LANES>();
    for codes in blocks {
        for lane in 0..LANES {
            lanes[lane][usize::from(codes[lane])] += 1;
        }
    }
    rest.iter().for_each(|code| lanes[0][usize::from(*code)] += 1);
    for (code, count) in counts.iter_mut().enumerate() {
        *count += lanes.iter().map(|lane| i64::from(lane[code])).sum::<i64>();
    }
}

/// True if 65,536 such values add up within 64 bits.
pub(crate) fn are_small(values: &[i64]) -> bool {
    widest(|| values.iter().fold(0, |found, value| found | magnitude(*value)) < SMALL)
}

pub(crate) fn is_small(value: i64) -> bool {
    magnitude(value) < SMALL
}

const SMALL: i64 = 1 << 46;

/// A non-negative number with as many bits as the absolute value needs.
#[inline(always)]
fn magnitude(value: i64) -> i64 {
    value ^ (value >> 63)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_and_counts_are_those_of_a_plain_loop() {
        for groups in [1_usize, 2, 4, 5, 16, 17, 256] {
            for rows in [0_usize, 1, 3, 127, 1_000, 4_096] {
                let codes: Vec<u8> = (0..rows).map(|row| (row * 7 % groups) as u8).collect();
                let values: Vec<i64> = (0..rows as i64).map(|row| row * 31 - 5_000).collect();
                let floats: Vec<f64> = values.iter().map(|value| *value as f64).collect();
                let mut expected = vec![(0, 0); groups];
                for (code, value) in codes.iter().zip(&values) {
                    expected[usize::from(*code)].0 += value;
                    expected[usize::from(*code)].1 += 1;
                }
                let (mut totals, mut counts) = (vec![0_i64; groups], vec![0_i64; groups]);
                let mut sums = vec![0.0; groups];
                add_by_code(&codes, &values, &mut totals);
                add_by_code(&codes, &floats, &mut sums);
                count_by_code(&codes, &mut counts);
                let found: Vec<(i64, i64)> = totals.iter().copied().zip(counts).collect();
                assert_eq!(found, expected, "{groups} groups, {rows} rows");
                assert_eq!(sums, totals.iter().map(|total| *total as f64).collect::<Vec<_>>());
                assert_eq!(total(&values), values.iter().sum::<i64>());
            }
        }
    }

    #[test]
    fn totals_of_runs_are_those_of_their_rows() {
        let values: Vec<i64> = (0..1_000).map(|row| row * 31 - 5_000).collect();
        let ends = [(3, 1), (0, 40), (3, 41), (1, 1_000)];
        let runs = ends.map(|(group, end)| Run { group, end });
        let mut found = Vec::new();
        total_by_run(&runs, &values, |group, total| found.push((group, total)));
        let rows = [0..1_usize, 1..40, 40..41, 41..1_000];
        let sums = rows.map(|rows| values[rows].iter().sum::<i64>());
        assert_eq!(found, [3, 0, 3, 1].into_iter().zip(sums).collect::<Vec<(usize, i64)>>());
    }

    #[test]
    fn small_values_cannot_leave_64_bits() {
        let edge = (1_i64 << 46) - 1;
        assert!(edge.checked_mul(65_536).is_some() && is_small(edge) && is_small(-edge - 1));
        assert!(!is_small(edge + 1) && !is_small(i64::MIN) && !are_small(&[0, i64::MAX]));
    }
}
