//! The values of one expression for the rows of a block.

use std::borrow::Cow;
use std::rc::Rc;

use arrow::buffer::{BooleanBuffer, NullBuffer};

/// Number of rows of a block, chosen so that its values stay in the nearest caches.
pub(crate) const BLOCK_ROWS: usize = 4096;

#[derive(Clone)]
pub(crate) enum Values<'a, T> {
    Slice(&'a [T]),
    Owned(Vec<T>),
    /// Values that several expressions use.
    Shared(Rc<Vec<T>>),
    Constant(T),
}

impl<T: Copy> Values<'_, T> {
    /// The values as a slice; a constant is repeated for `rows` rows.
    pub fn slice(&self, rows: usize) -> Cow<'_, [T]> {
        match self {
            Values::Slice(values) => Cow::Borrowed(values),
            Values::Owned(values) => Cow::Borrowed(values),
            Values::Shared(values) => Cow::Borrowed(values),
            Values::Constant(value) => Cow::Owned(vec![*value; rows]),
        }
    }

    /// Converts each value; a constant stays one.
    pub fn map<R>(&self, convert: impl Fn(T) -> R) -> Values<'static, R> {
        match self {
            Values::Constant(value) => Values::Constant(convert(*value)),
            values => Values::Owned(values.known().iter().map(|value| convert(*value)).collect()),
        }
    }

    /// The value of a row.
    pub fn get(&self, row: usize) -> T {
        match self {
            Values::Slice(values) => values[row],
            Values::Owned(values) => values[row],
            Values::Shared(values) => values[row],
            Values::Constant(value) => *value,
        }
    }

    /// Combines the values of two expressions row by row.
    pub fn zip<R>(
        &self,
        other: &Values<'_, T>,
        mut combine: impl FnMut(T, T) -> R,
    ) -> Values<'static, R> {
        match (self, other) {
            (Values::Constant(left), Values::Constant(right)) => {
                Values::Constant(combine(*left, *right))
            }
            (Values::Constant(left), right) => {
                Values::Owned(right.known().iter().map(|right| combine(*left, *right)).collect())
            }
            (left, Values::Constant(right)) => {
                Values::Owned(left.known().iter().map(|left| combine(*left, *right)).collect())
            }
            (left, right) => {
                let pairs = left.known().iter().zip(right.known());
                Values::Owned(pairs.map(|(left, right)| combine(*left, *right)).collect())
            }
        }
    }

    /// Makes cloning cheap by sharing owned values.
    pub fn shared(self) -> Self {
        match self {
            Values::Owned(values) => Values::Shared(Rc::new(values)),
            values => values,
        }
    }

    /// The values as a slice; must not be a constant.
    fn known(&self) -> &[T] {
        match self {
            Values::Slice(values) => values,
            Values::Owned(values) => values,
            Values::Shared(values) => values,
            Values::Constant(_) => unreachable!("constants are told apart before"),
        }
    }
}

/// Values and their validity. Values under NULLs are arbitrary.
#[derive(Clone)]
pub(crate) struct Vector<'a, T> {
    pub values: Values<'a, T>,
    pub nulls: Option<NullBuffer>,
}

impl<T: Copy> Vector<'_, T> {
    /// The same value in all rows.
    pub fn constant(value: T) -> Vector<'static, T> {
        Vector { values: Values::Constant(value), nulls: None }
    }

    /// Converts each value, including those under NULLs.
    pub fn map<R>(&self, convert: impl Fn(T) -> R) -> Vector<'static, R> {
        Vector { values: self.values.map(convert), nulls: self.nulls.clone() }
    }

    /// True if the row is NULL.
    pub fn is_null(&self, row: usize) -> bool {
        self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row))
    }
}

/// The rows of a block that are still wanted: 1 for wanted, 0 for others.
pub(crate) struct Mask(pub Vec<u8>);

impl Mask {
    /// All of `rows` rows are wanted.
    pub fn all(rows: usize) -> Mask {
        Mask(vec![1; rows])
    }

    /// The live rows of a block; without a bitmap all are.
    pub fn live(live: Option<&BooleanBuffer>, start: usize, rows: usize) -> Mask {
        match live {
            Some(live) => Mask(live.slice(start, rows).iter().map(u8::from).collect()),
            None => Mask::all(rows),
        }
    }

    /// True if the row is wanted.
    pub fn is_wanted(&self, row: usize) -> bool {
        self.0[row] == 1
    }

    /// True if no row is wanted.
    pub fn is_clear(&self) -> bool {
        !self.0.contains(&1)
    }

    /// Removes all rows.
    pub fn clear(&mut self) {
        self.0.fill(0);
    }

    /// Removes the NULL rows, or if `are_null` the others.
    pub fn keep_nulls(&mut self, nulls: Option<&NullBuffer>, are_null: bool) {
        match nulls {
            None if are_null => self.clear(),
            None => {}
            Some(nulls) => {
                let bits = nulls.inner().iter();
                self.0.iter_mut().zip(bits).for_each(|(kept, valid)| {
                    *kept &= u8::from(valid != are_null);
                });
            }
        }
    }

    /// The offsets of the wanted rows, ascending.
    pub fn places(&self) -> Vec<u16> {
        let mut places = vec![0; self.0.len() + 1];
        let mut count = 0;
        for (row, wanted) in self.0.iter().enumerate() {
            // Written always, but kept only if wanted: this avoids a branch to mispredict.
            places[count] = row as u16;
            count += usize::from(*wanted);
        }
        places.truncate(count);
        places
    }

    /// Number of wanted rows.
    pub fn count(&self) -> usize {
        crate::simd::widest(|| {
            self.0.chunks(128).map(|some| usize::from(some.iter().sum::<u8>())).sum()
        })
    }
}

/// The wanted rows of a block: the first ones, or a list of offsets.
#[derive(Clone, Copy)]
pub(crate) enum Rows<'a> {
    All(usize),
    Some(&'a [u16]),
}

impl Rows<'_> {
    /// Number of wanted rows.
    pub fn count(&self) -> usize {
        match self {
            Rows::All(rows) => *rows,
            Rows::Some(places) => places.len(),
        }
    }

    /// The row at a position among them.
    #[inline(always)]
    pub fn get(&self, place: usize) -> usize {
        match self {
            Rows::All(_) => place,
            Rows::Some(places) => usize::from(places[place]),
        }
    }

    /// Calls `visit` with the position and the offset of each row.
    #[inline(always)]
    pub fn each_placed(&self, mut visit: impl FnMut(usize, usize)) {
        match self {
            Rows::All(rows) => (0..*rows).for_each(|row| visit(row, row)),
            Rows::Some(places) => {
                let rows = places.iter().enumerate();
                rows.for_each(|(place, row)| visit(place, usize::from(*row)));
            }
        }
    }

    /// Calls `visit` with the offset of each row.
    #[inline(always)]
    pub fn each(&self, mut visit: impl FnMut(usize)) {
        match self {
            Rows::All(rows) => (0..*rows).for_each(visit),
            Rows::Some(places) => places.iter().for_each(|row| visit(usize::from(*row))),
        }
    }
}
