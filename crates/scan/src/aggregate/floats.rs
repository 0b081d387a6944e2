//! Floating point numbers in PostgreSQL's order, as whole numbers that compare alike.

/// A number that compares as PostgreSQL compares floats: NaN is equal to itself and greater than
/// all others, both zeros are equal.
#[inline(always)]
pub(crate) fn comparable(value: f64) -> i64 {
    // Adding 0 makes a negative zero positive and changes nothing else.
    ordered(value + 0.0)
}

/// A number in the same order that keeps negative zeros apart, so that they can be shown again.
#[inline(always)]
pub(crate) fn ordered(value: f64) -> i64 {
    let value = if value.is_nan() { f64::NAN } else { value };
    let bits = value.to_bits() as i64;
    bits ^ ((bits >> 63) as u64 >> 1) as i64
}

/// The float that [`ordered`] made a number of.
pub(crate) fn from_ordered(number: i64) -> f64 {
    f64::from_bits((number ^ ((number >> 63) as u64 >> 1) as i64) as u64)
}

/// The one form of a float that stands for all that are equal to it.
#[inline(always)]
pub(crate) fn canonical(value: f64) -> f64 {
    if value.is_nan() { f64::NAN } else { value + 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_is_postgresqls() {
        let ascending = [
            f64::NEG_INFINITY,
            -1.5,
            -f64::MIN_POSITIVE,
            0.0,
            1e-300,
            2.0,
            f64::INFINITY,
            f64::NAN,
        ];
        assert!(ascending.windows(2).all(|pair| comparable(pair[0]) < comparable(pair[1])));
        assert_eq!(comparable(-0.0), comparable(0.0));
        assert_eq!(comparable(-f64::NAN), comparable(f64::NAN));
        assert!(ordered(-0.0) < ordered(0.0));
        for value in ascending.into_iter().chain([-0.0]) {
            assert_eq!(from_ordered(ordered(value)).to_bits(), value.to_bits());
        }
    }
}
