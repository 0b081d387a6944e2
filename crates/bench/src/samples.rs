//! Statistics of repeated measurements: their median and spread.

use serde::{Deserialize, Serialize};

/// Measurements of one thing, in the order in which they were taken.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Samples(Vec<f64>);

impl Samples {
    /// Adds a measurement, which must be finite.
    pub fn push(&mut self, value: f64) {
        assert!(value.is_finite(), "a measurement is a number");
        self.0.push(value);
    }

    /// Number of measurements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True if there are no measurements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All of them, in the order in which they were taken.
    pub fn iter(&self) -> impl Iterator<Item = f64> {
        self.0.iter().copied()
    }

    /// The median; the mean of the two middle values if their number is even.
    ///
    /// # Panics
    /// If nothing was measured.
    #[must_use]
    pub fn median(&self) -> f64 {
        assert!(!self.is_empty(), "something was measured");
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        let middle = sorted.len() / 2;
        match sorted.len() % 2 {
            0 => f64::midpoint(sorted[middle - 1], sorted[middle]),
            _ => sorted[middle],
        }
    }

    /// The least measurement; infinity if there is none.
    #[must_use]
    pub fn min(&self) -> f64 {
        self.iter().fold(f64::INFINITY, f64::min)
    }

    /// The greatest measurement; negative infinity if there is none.
    #[must_use]
    pub fn max(&self) -> f64 {
        self.iter().fold(f64::NEG_INFINITY, f64::max)
    }
}

impl From<f64> for Samples {
    fn from(value: f64) -> Samples {
        Samples::from_iter([value])
    }
}

impl FromIterator<f64> for Samples {
    fn from_iter<I: IntoIterator<Item = f64>>(values: I) -> Samples {
        let mut samples = Samples::default();
        values.into_iter().for_each(|value| samples.push(value));
        samples
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_whatever_the_order() {
        assert_eq!(Samples::from_iter([9.0, 1.0, 2.0]).median(), 2.0);
        assert_eq!(Samples::from_iter([4.0, 1.0, 2.0, 9.0]).median(), 3.0);
        let samples = Samples::from_iter([3.0, 1.0]);
        assert_eq!((samples.min(), samples.max()), (1.0, 3.0));
    }
}
