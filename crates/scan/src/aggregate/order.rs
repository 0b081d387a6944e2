//! Sort orders by one number, to find the first of some rows.
//!
//! The rank of a row is one wide integer, so that rows are compared, serialized and merged without
//! knowledge of the order.

use thalweg_types::{Result, RowId};

use super::floats::comparable;
use super::number::{Block, Lane, Number};
use super::vector::{Mask, Vector};

/// An order of rows by an integer or a float.
///
/// Ties are broken by row id: the row in the chunk with the lowest number comes first, and within a
/// chunk the one with the lowest offset. In a reversed order the last one comes first.
#[derive(Clone, Debug, PartialEq)]
pub struct Order {
    pub(crate) lane: Lane,
    pub(crate) number: Number,
    pub(crate) direction: Direction,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Direction {
    pub descending: bool,
    pub nulls_first: bool,
    /// True if the last of several equal rows comes first.
    pub from_end: bool,
}

/// The position of a row in an order: lower ranks come first, and no two rows have the same.
///
/// From the highest bits on: NULL flag of the number, the number, the row, and whether the row's
/// value is NULL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rank(pub i128);

const ROW_SHIFT: u32 = 1;
const NUMBER_SHIFT: u32 = 49;
const NULLS_SHIFT: u32 = 113;

/// The bits of a row id, after shifting.
const ROW_MASK: u64 = (1 << (NUMBER_SHIFT - ROW_SHIFT)) - 1;

impl Order {
    /// An order; `None` for decimals.
    #[must_use]
    pub fn by(lane: Lane, number: Number, descending: bool, nulls_first: bool) -> Option<Order> {
        let direction = Direction { descending, nulls_first, from_end: false };
        (lane != Lane::Decimal).then_some(Order { lane, number, direction })
    }

    /// The opposite order.
    #[must_use]
    pub fn reversed(self) -> Order {
        let Direction { descending, nulls_first, from_end } = self.direction;
        let direction =
            Direction { descending: !descending, nulls_first: !nulls_first, from_end: !from_end };
        Order { direction, ..self }
    }

    /// The sort keys of a block's rows as integers that compare alike.
    pub(crate) fn numbers<'a>(
        &self,
        block: &Block<'a>,
        mask: Option<&Mask>,
    ) -> Result<Vector<'a, i64>> {
        match self.lane {
            Lane::Float => Ok(self.number.floats(block, mask)?.map(comparable)),
            Lane::Int | Lane::Decimal => self.number.ints(block, mask),
        }
    }
}

impl Direction {
    /// The rank of a row, given its number, which may be NULL.
    #[inline(always)]
    pub fn rank(self, number: Option<i64>, row: RowId, has_value: bool) -> Rank {
        let (nulls, number): (u8, i64) = match number {
            Some(number) if self.descending => (1, !number),
            Some(number) => (1, number),
            None if self.nulls_first => (0, 0),
            None => (2, 0),
        };
        // Flipping the sign bit makes the number unsigned and keeps the order.
        let number = (number as u64) ^ (1 << 63);
        let number = (i128::from(nulls) << NULLS_SHIFT) | (i128::from(number) << NUMBER_SHIFT);
        let row = i128::from(self.bits_of(row)) << ROW_SHIFT;
        Rank(number | row | i128::from(!has_value))
    }

    /// The bits of a rank that represent the row.
    #[inline(always)]
    pub fn bits_of(self, row: RowId) -> u64 {
        if self.from_end { !row.0 & ROW_MASK } else { row.0 }
    }
}

impl Rank {
    /// The rank of no row, after all others.
    pub const NONE: Rank = Rank(i128::MAX);

    /// The row's bits, as [`Direction::bits_of`] returns them.
    #[inline(always)]
    pub fn row_bits(self) -> u64 {
        (self.0 >> ROW_SHIFT) as u64 & ROW_MASK
    }

    /// True if there is a row and its value is not NULL.
    pub fn has_value(self) -> bool {
        self.0 & 1 == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLAGS: [bool; 2] = [false, true];

    #[test]
    fn ranks_are_in_the_order_of_numbers_and_then_of_rows() {
        let numbers = [i64::MIN, -1, 0, 1, i64::MAX];
        let rows = [(0, 0), (0, 65_535), (1, 0), (u32::MAX, 65_535)];
        let rows = rows.map(|(chunk, row)| RowId::new(chunk, row));
        for (descending, nulls_first) in FLAGS.map(|one| FLAGS.map(|two| (one, two))).concat() {
            let order = Order::by(Lane::Int, Number::Int(0), descending, nulls_first).unwrap();
            let mut known: Vec<Option<i64>> = numbers.into_iter().map(Some).collect();
            if descending {
                known.reverse();
            }
            known.insert(if nulls_first { 0 } else { numbers.len() }, None);
            let ranks = |direction: Direction| -> Vec<Rank> {
                let of_number = |number: &Option<i64>| {
                    rows.map(|row| direction.rank(*number, row, row.0 % 2 == 0))
                };
                known.iter().flat_map(of_number).collect()
            };
            let ascending = ranks(order.direction);
            assert!(ascending.is_sorted_by(|left, right| left < right), "{order:?}");
            let reversed = order.reversed();
            let backwards = ranks(reversed.direction);
            assert!(backwards.is_sorted_by(|left, right| left > right), "{reversed:?}");
            for rank in ascending.iter().chain(&backwards) {
                assert!(*rank < Rank::NONE && rank.0 >= 0);
            }
        }
    }

    #[test]
    fn a_rank_knows_its_row_and_whether_that_has_a_value() {
        let row = RowId::new(70_000, 12_345);
        for from_end in FLAGS {
            let direction = Direction { descending: true, nulls_first: false, from_end };
            for has_value in FLAGS {
                let rank = direction.rank(Some(-5), row, has_value);
                assert_eq!(rank.row_bits(), direction.bits_of(row));
                assert_ne!(rank.row_bits(), direction.bits_of(RowId::new(70_000, 12_346)));
                assert_eq!(rank.has_value(), has_value);
            }
        }
        assert!(!Rank::NONE.has_value());
    }

    #[test]
    fn rows_are_not_ordered_by_decimals() {
        assert_eq!(Order::by(Lane::Decimal, Number::Decimal(1), false, false), None);
    }
}
