//! Maps floats to integers in PostgreSQL's order.

/// A number that compares as PostgreSQL compares floats: NaN equals itself and is greater than all
/// others, both zeros are equal.
#[inline(always)]
pub(crate) fn comparable(value: f64) -> i64 {
    // Adding 0 turns -0 into 0 and changes nothing else.
    ordered(value + 0.0)
}

/// Like [`comparable`], but keeps -0 apart from 0, so that the float can be restored.
#[inline(always)]
pub(crate) fn ordered(value: f64) -> i64 {
    let value = if value.is_nan() { f64::NAN } else { value };
    let bits = value.to_bits() as i64;
    bits ^ ((bits >> 63) as u64 >> 1) as i64
}

/// Inverts [`ordered`].
pub(crate) fn from_ordered(number: i64) -> f64 {
    f64::from_bits((number ^ ((number >> 63) as u64 >> 1) as i64) as u64)
}

/// The representative of all floats that are equal in PostgreSQL.
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
