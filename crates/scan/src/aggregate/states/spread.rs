//! Variances and standard deviations.
//!
//! A state has the count, the mean and the sum of squared differences from it, which are updated
//! value by value (Welford) and merged (Chan, Golub and LeVeque). This avoids subtracting large
//! sums of squares that nearly cancel out.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Float64Array, Int64Array, StructArray};
use arrow::datatypes::{DataType, Field, Fields, Float64Type, Int64Type};

use super::argument::each_valid;
use crate::aggregate::keys::Ids;
use crate::aggregate::vector::{Rows, Vector};

/// The statistic to compute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spread {
    VarianceOfSample,
    VarianceOfPopulation,
    DeviationOfSample,
    DeviationOfPopulation,
}

impl Spread {
    /// The statistic; `None` if there are too few values.
    fn of(self, moments: &Moments) -> Option<f64> {
        let freedom = match self {
            Spread::VarianceOfSample | Spread::DeviationOfSample => moments.count - 1,
            Spread::VarianceOfPopulation | Spread::DeviationOfPopulation => moments.count,
        };
        let variance = (freedom > 0).then(|| moments.squares / freedom as f64)?;
        Some(match self {
            Spread::VarianceOfSample | Spread::VarianceOfPopulation => variance,
            Spread::DeviationOfSample | Spread::DeviationOfPopulation => variance.sqrt(),
        })
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Moments {
    count: i64,
    mean: f64,
    /// The sum of squared differences from the mean.
    squares: f64,
}

impl Moments {
    #[inline(always)]
    fn add(&mut self, value: f64) {
        self.count += 1;
        let distance = value - self.mean;
        self.mean += distance / self.count as f64;
        self.squares += distance * (value - self.mean);
    }

    fn merge(&mut self, other: &Moments) {
        if self.count == 0 || other.count == 0 {
            if self.count == 0 {
                *self = *other;
            }
            return;
        }
        let (own, others) = (self.count as f64, other.count as f64);
        let distance = other.mean - self.mean;
        self.count += other.count;
        self.mean += distance * (others / (own + others));
        self.squares += other.squares + distance * distance * (own * others / (own + others));
    }
}

pub(crate) struct Spreads {
    spread: Spread,
    moments: Vec<Moments>,
}

impl Spreads {
    /// No groups yet.
    pub fn new(spread: Spread) -> Spreads {
        Spreads { spread, moments: Vec::new() }
    }

    /// Extends the state to `groups` groups.
    pub fn grow(&mut self, groups: usize) {
        self.moments.resize(groups, Moments::default());
    }

    /// Aggregates the rows of a block.
    pub fn update(&mut self, given: &Vector<'_, f64>, ids: Ids<'_>, rows: Rows<'_>) {
        let moments = &mut self.moments;
        each_valid(ids, rows, given.nulls.as_ref(), |row, group| {
            moments[group].add(given.values.get(row));
        });
    }

    /// Merges the groups of another state; pairs are (group there, group here).
    pub fn merge(&mut self, other: &Spreads, pairs: &[(u32, u32)]) {
        for (from, to) in pairs {
            self.moments[*to as usize].merge(&other.moments[*from as usize]);
        }
    }

    /// The statistic of each group as `Float64`; NULL if there are too few values.
    pub fn finish(&self) -> ArrayRef {
        let spreads = self.moments.iter().map(|moments| self.spread.of(moments));
        Arc::new(spreads.collect::<Float64Array>())
    }

    fn fields() -> Fields {
        let float = |name| Field::new(name, DataType::Float64, false);
        let count = Field::new("count", DataType::Int64, false);
        Fields::from(vec![count, float("mean"), float("squares")])
    }

    /// The counts, means and sums of squares as a struct, whatever the statistic.
    pub fn state(&self) -> ArrayRef {
        let floats = |of: fn(&Moments) -> f64| {
            Arc::new(Float64Array::from_iter_values(self.moments.iter().map(of))) as ArrayRef
        };
        let counts = Int64Array::from_iter_values(self.moments.iter().map(|of| of.count));
        let columns =
            vec![Arc::new(counts) as ArrayRef, floats(|of| of.mean), floats(|of| of.squares)];
        Arc::new(StructArray::new(Spreads::fields(), columns, None))
    }

    /// Restores the state from a column of a partial result.
    pub fn of_state(spread: Spread, array: &ArrayRef) -> Spreads {
        let columns = array.as_struct();
        let floats = |place: usize| columns.column(place).as_primitive::<Float64Type>().values();
        let counts = columns.column(0).as_primitive::<Int64Type>().values();
        let moments = (0..array.len()).map(|group| Moments {
            count: counts[group],
            mean: floats(1)[group],
            squares: floats(2)[group],
        });
        Spreads { spread, moments: moments.collect() }
    }

    /// Bytes allocated for the state.
    pub fn memory_bytes(&self) -> usize {
        self.moments.capacity() * size_of::<Moments>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moments(values: &[f64]) -> Moments {
        let mut moments = Moments::default();
        values.iter().for_each(|value| moments.add(*value));
        moments
    }

    #[test]
    fn small_distances_between_large_values_are_not_lost() {
        // The sum of squares of such values has no room for the distances.
        let values: Vec<f64> = (0..1_000).map(|n| 1e9 + f64::from(n % 2)).collect();
        let whole = moments(&values);
        let mut merged = moments(&values[..300]);
        merged.merge(&moments(&[]));
        merged.merge(&moments(&values[300..]));
        for found in [whole, merged] {
            assert!((Spread::VarianceOfPopulation.of(&found).unwrap() - 0.25).abs() < 1e-9);
            assert!((Spread::DeviationOfSample.of(&found).unwrap() - 0.500_25).abs() < 1e-5);
        }
    }

    #[test]
    fn few_values_have_no_spread_of_a_sample() {
        assert_eq!(Spread::VarianceOfPopulation.of(&moments(&[])), None);
        assert_eq!(Spread::VarianceOfPopulation.of(&moments(&[7.5])), Some(0.0));
        assert_eq!(Spread::DeviationOfSample.of(&moments(&[7.5])), None);
        let endless = Spread::DeviationOfPopulation.of(&moments(&[f64::INFINITY, 1.0]));
        assert!(endless.unwrap().is_nan());
    }
}
