//! Minimum and maximum.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Float32Array, Float64Array, StringViewBuilder};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, Decimal128Type, Float32Type, Float64Type};

use super::argument::each_valid;
use super::sums::seen_of;
use super::{Seen, nulls_of};
use crate::aggregate::emit::{decimal_array, int_array};
use crate::aggregate::floats::{from_ordered, ordered};
use crate::aggregate::keys::{Ids, Run, each_run};
use crate::aggregate::number::Lane;
use crate::aggregate::source::{Column, Data};
use crate::aggregate::vector::{Rows, Values, Vector};
use crate::simd::widest;

/// An ordered number with a least and a greatest value.
pub(crate) trait Extreme: Copy + Ord {
    const LEAST: Self;
    const GREATEST: Self;
}

impl Extreme for i64 {
    const LEAST: i64 = i64::MIN;
    const GREATEST: i64 = i64::MAX;
}

impl Extreme for i128 {
    const LEAST: i128 = i128::MIN;
    const GREATEST: i128 = i128::MAX;
}

/// Minima or maxima of integers; floats are mapped to integers in the same order.
pub(crate) struct Extremes<T> {
    values: Vec<T>,
    greatest: bool,
    seen: Seen,
}

impl<T: Extreme> Extremes<T> {
    /// No groups yet. Keeps maxima if `greatest`, else minima.
    pub fn new(greatest: bool, seen: Seen) -> Extremes<T> {
        Extremes { values: Vec::new(), greatest, seen }
    }

    /// Extends the state to `groups` groups.
    pub fn grow(&mut self, groups: usize) {
        let first = if self.greatest { T::LEAST } else { T::GREATEST };
        self.values.resize(groups, first);
    }

    /// Aggregates a block. The values may be narrower than the state's.
    pub fn update<V>(&mut self, given: &Vector<'_, V>, ids: Ids<'_>, rows: Rows<'_>)
    where
        V: Extreme + Into<T>,
    {
        let tells = self.seen.begin(self.values.len(), given.nulls.is_some());
        let Extremes { values, greatest, .. } = self;
        if let (Rows::All(count), Ids::One, None) = (rows, ids, &given.nulls)
            && !matches!(given.values, Values::Constant(_))
            && !tells
        {
            let all = given.values.slice(count);
            values[0] = match *greatest {
                true => {
                    let best = widest(|| all.iter().fold(V::LEAST, |best, one| best.max(*one)));
                    values[0].max(best.into())
                }
                false => {
                    let best = widest(|| all.iter().fold(V::GREATEST, |best, one| best.min(*one)));
                    values[0].min(best.into())
                }
            };
            return;
        }
        if let (Rows::All(count), Ids::Runs(runs), None) = (rows, ids, &given.nulls) {
            return self.update_runs(&given.values.slice(count), runs);
        }
        let Extremes { values, greatest, seen } = self;
        macro_rules! update {
            ($better:expr) => {
                each_valid(ids, rows, given.nulls.as_ref(), |row, group| {
                    let value: T = given.values.get(row).into();
                    if $better(value, values[group]) {
                        values[group] = value;
                    }
                    seen.mark(group);
                })
            };
        }
        match *greatest {
            true => update!(|value, best| value > best),
            false => update!(|value, best| value < best),
        }
    }

    fn update_runs<V: Extreme + Into<T>>(&mut self, given: &[V], runs: &[Run]) {
        let Extremes { values, greatest, seen } = self;
        macro_rules! update {
            ($better:ident, $worst:expr) => {
                widest(|| {
                    each_run(runs, |group, rows| {
                        let best = given[rows].iter().fold($worst, |best, one| best.$better(*one));
                        values[group] = values[group].$better(best.into());
                        seen.mark(group);
                    });
                })
            };
        }
        match *greatest {
            true => update!(max, V::LEAST),
            false => update!(min, V::GREATEST),
        }
    }

    /// Merges the groups of another state; pairs are (group there, group here).
    pub fn merge(&mut self, other: &Extremes<T>, pairs: &[(u32, u32)]) {
        self.seen.begin(self.values.len(), other.seen.may_lack());
        for (from, to) in pairs {
            if other.seen.has(*from as usize) {
                let (value, best) = (other.values[*from as usize], &mut self.values[*to as usize]);
                *best = if self.greatest { value.max(*best) } else { value.min(*best) };
                self.seen.mark(*to as usize);
            }
        }
    }

    /// The values and their validity; values of groups without one are undefined.
    fn parts(&self) -> (Vec<T>, Option<NullBuffer>) {
        let nulls = nulls_of(&self.seen, self.values.len());
        (self.values.clone(), nulls)
    }

    fn of(values: Vec<T>, nulls: Option<&NullBuffer>, greatest: bool) -> Extremes<T> {
        let seen = seen_of(nulls, values.len());
        Extremes { values, greatest, seen }
    }

    /// Bytes allocated for values and marks.
    pub fn memory_bytes(&self) -> usize {
        self.values.capacity() * size_of::<T>() + self.seen.memory_bytes()
    }
}

impl Extremes<i64> {
    /// The result as an array; floats are mapped back.
    pub fn finish(&self, lane: Lane, data_type: &DataType) -> ArrayRef {
        let (values, nulls) = self.parts();
        let floats = || values.iter().map(|value| from_ordered(*value));
        match (lane, data_type) {
            (Lane::Float, DataType::Float32) => {
                let values: Vec<f32> = floats().map(|value| value as f32).collect();
                Arc::new(Float32Array::new(values.into(), nulls))
            }
            (Lane::Float, _) => {
                Arc::new(Float64Array::new(floats().collect::<Vec<f64>>().into(), nulls))
            }
            _ => int_array(values, nulls, data_type),
        }
    }

    /// Restores the state from a column of a partial result.
    pub fn of_state(array: &ArrayRef, greatest: bool) -> Extremes<i64> {
        let column = Column::of_array(array);
        let values: Vec<i64> = match &column.data {
            Data::Int16(values) => values.iter().map(|value| i64::from(*value)).collect(),
            Data::Int32(values) => values.iter().map(|value| i64::from(*value)).collect(),
            Data::Int64(values) => values.to_vec(),
            Data::Bits(bits) => bits.iter().map(i64::from).collect(),
            Data::Float32(_) => array
                .as_primitive::<Float32Type>()
                .values()
                .iter()
                .map(|value| ordered(f64::from(*value)))
                .collect(),
            _ => {
                let floats = array.as_primitive::<Float64Type>();
                floats.values().iter().map(|value| ordered(*value)).collect()
            }
        };
        Extremes::of(values, array.nulls(), greatest)
    }
}

impl Extremes<i128> {
    /// The result as decimals of the given type.
    pub fn finish(&self, data_type: &DataType) -> ArrayRef {
        let (values, nulls) = self.parts();
        decimal_array(values, nulls, data_type)
    }

    /// Restores the state from a column of a partial result.
    pub fn of_state(array: &ArrayRef, greatest: bool) -> Extremes<i128> {
        let values = array.as_primitive::<Decimal128Type>();
        Extremes::of(values.values().to_vec(), values.nulls(), greatest)
    }
}

/// Minima or maxima of texts, compared by their bytes.
pub(crate) struct TextExtremes {
    texts: Vec<Option<Box<str>>>,
    /// Length of all texts in bytes.
    bytes: usize,
    greatest: bool,
}

impl TextExtremes {
    /// No groups yet. Keeps maxima if `greatest`, else minima.
    pub fn new(greatest: bool) -> TextExtremes {
        TextExtremes { texts: Vec::new(), bytes: 0, greatest }
    }

    /// Extends the state to `groups` groups.
    pub fn grow(&mut self, groups: usize) {
        self.texts.resize(groups, None);
    }

    /// Aggregates a block, which starts at row `start` of the column.
    pub fn update(
        &mut self,
        (column, start): (&Column, usize),
        nulls: Option<&NullBuffer>,
        ids: Ids<'_>,
        rows: Rows<'_>,
    ) {
        match &column.data {
            Data::Text(texts) => each_valid(ids, rows, nulls, |row, group| {
                self.offer(group, texts.value(start + row));
            }),
            Data::Dictionary(dictionary) => each_valid(ids, rows, nulls, |row, group| {
                self.offer(group, dictionary.values.value(dictionary.codes.get(start + row)));
            }),
            _ => unreachable!("the column holds texts"),
        }
    }

    fn offer(&mut self, group: usize, text: &str) {
        let best = &mut self.texts[group];
        let is_better = best.as_deref().is_none_or(|best| match self.greatest {
            true => text > best,
            false => text < best,
        });
        if is_better {
            self.bytes += text.len();
            self.bytes -= best.replace(text.into()).map_or(0, |worse| worse.len());
        }
    }

    /// Merges the groups of another state; pairs are (group there, group here).
    pub fn merge(&mut self, other: &TextExtremes, pairs: &[(u32, u32)]) {
        for (from, to) in pairs {
            if let Some(text) = &other.texts[*from as usize] {
                self.offer(*to as usize, text);
            }
        }
    }

    /// The result as a `Utf8View` array; NULL for groups without a value.
    pub fn finish(&self) -> ArrayRef {
        let mut texts = StringViewBuilder::new();
        self.texts.iter().for_each(|text| texts.append_option(text.as_deref()));
        Arc::new(texts.finish())
    }

    /// Restores the state from a column of a partial result.
    pub fn of_state(array: &ArrayRef, greatest: bool) -> TextExtremes {
        let mut extremes = TextExtremes::new(greatest);
        extremes.grow(array.len());
        for (group, text) in array.as_string_view().iter().enumerate() {
            if let Some(text) = text {
                extremes.offer(group, text);
            }
        }
        extremes
    }

    /// Bytes allocated for the texts.
    pub fn memory_bytes(&self) -> usize {
        self.texts.capacity() * size_of::<Option<Box<str>>>() + self.bytes
    }
}
