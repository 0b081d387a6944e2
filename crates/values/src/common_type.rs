//! The common type of several values, for the cases in which PostgreSQL's choice differs from
//! DataFusion's: numbers with a floating point number among them, days and moments, and literals
//! beside values of a known type.
//!
//! DataFusion compares a `double precision` with a `numeric` as a `numeric` with 15 digits behind
//! the point, which loses small numbers and refuses great ones. In PostgreSQL both become floating
//! point numbers: `double precision` in comparisons, and the widest floating point type present
//! where one of the values is chosen. DataFusion compares days with moments in nanoseconds, which
//! end in the year 2262.

use arrow::datatypes::{
    DECIMAL128_MAX_PRECISION, DECIMAL256_MAX_PRECISION, DataType as ArrowType, TimeUnit,
};
use datafusion::common::{DFSchema, Result as PlanResult};
use datafusion::logical_expr::type_coercion::binary::type_union_resolution;
use datafusion::logical_expr::{Expr, ExprSchemable, cast};

use crate::arithmetic::numeric::decimal_of;
use crate::cast::is_text;

/// A numeric without precision and scale.
const PLAIN_NUMERIC: ArrowType = ArrowType::Decimal128(DECIMAL128_MAX_PRECISION, 10);

/// The type to compare numbers of these types in; `None` if DataFusion's own choice is right.
pub fn compared(types: &[ArrowType]) -> Option<ArrowType> {
    mixed(types).map(|_| ArrowType::Float64)
}

/// A type for numerics of these types whose digits on both sides of the point do not fit 128 bits
/// together; `None` if they do. DataFusion would leave out digits before the point.
pub fn wide_numeric(types: &[ArrowType]) -> Option<ArrowType> {
    let (mut whole, mut scale) = (0, 0);
    for given in types.iter().filter(|given| !given.is_null()) {
        let (digits, own) = decimal_of(given)?;
        whole = whole.max(i16::from(digits) - i16::from(own));
        scale = scale.max(own);
    }
    let digits = u8::try_from(whole + i16::from(scale)).ok()?;
    let is_wide = digits > DECIMAL128_MAX_PRECISION && digits <= DECIMAL256_MAX_PRECISION;
    is_wide.then_some(ArrowType::Decimal256(digits, scale))
}

/// The type of a value that is one of several; `None` if DataFusion's own choice is right.
pub fn chosen(types: &[ArrowType]) -> Option<ArrowType> {
    mixed(types)
}

/// [`chosen`], or DataFusion's choice among numbers of several types.
pub fn of_numbers(types: &[ArrowType]) -> Option<ArrowType> {
    let known: Vec<ArrowType> = types.iter().filter(|given| !given.is_null()).cloned().collect();
    let first = known.first()?;
    if !known.iter().all(ArrowType::is_numeric) || known.iter().all(|given| given == first) {
        return None;
    }
    chosen(&known).or_else(|| type_union_resolution(&known))
}

/// The type in which numbers of these types are compared; `None` if they have one type already, or
/// some are no numbers.
pub fn of_compared(types: &[ArrowType]) -> Option<ArrowType> {
    compared(types).or_else(|| wide_numeric(types)).or_else(|| of_numbers(types))
}

/// The widest type among days and moments of several kinds, in microseconds as columns have them.
pub fn of_moments(types: &[ArrowType]) -> Option<ArrowType> {
    let width = |given: &ArrowType| match given {
        ArrowType::Date32 => Some(0),
        ArrowType::Timestamp(TimeUnit::Microsecond, None) => Some(1),
        ArrowType::Timestamp(TimeUnit::Microsecond, Some(_)) => Some(2),
        _ => None,
    };
    let (mut widest, mut differ): (Option<(u8, &ArrowType)>, bool) = (None, false);
    for given in types.iter().filter(|given| !given.is_null()) {
        let width = width(given)?;
        match widest {
            Some((most, _)) if most >= width => differ |= most > width,
            before => {
                differ |= before.is_some();
                widest = Some((width, given));
            }
        }
    }
    widest.filter(|_| differ).map(|(_, given)| given.clone())
}

/// The widest floating point type among numbers of several types.
fn mixed(types: &[ArrowType]) -> Option<ArrowType> {
    let (mut widest, mut differ): (Option<&ArrowType>, bool) = (None, false);
    let mut first = None;
    for given in types.iter().filter(|given| !given.is_null()) {
        if !given.is_numeric() {
            return None;
        }
        differ |= *first.get_or_insert(given) != given;
        let is_wider = match given {
            ArrowType::Float64 => true,
            ArrowType::Float32 => widest.is_none(),
            _ => false,
        };
        if is_wider {
            widest = Some(given);
        }
    }
    widest.filter(|_| differ).cloned()
}

/// The value in the type, under a cast if it has another one.
pub fn cast_to(value: Expr, target: &ArrowType, schema: &DFSchema) -> PlanResult<Expr> {
    let given = value.get_type(schema)?;
    Ok(if given == *target { value } else { cast(value, target.clone()) })
}

/// The type that a literal gets where it is one of several values, and the others are of these
/// types; `None` if it is left to DataFusion.
pub fn type_beside(types: &[ArrowType]) -> Option<ArrowType> {
    of_all(types).filter(wants_type)
}

/// The common type of values of these types.
pub fn of_all(types: &[ArrowType]) -> Option<ArrowType> {
    let known: Vec<ArrowType> = types.iter().filter(|given| !given.is_null()).cloned().collect();
    of_numbers(&known).or_else(|| of_moments(&known)).or_else(|| type_union_resolution(&known))
}

/// The type of a literal in quotes that becomes a value beside others of a type. A number beside a
/// numeric keeps all of its digits, which precision and scale of the other value would round or
/// refuse.
pub fn of_literal(text: &str, beside: &ArrowType) -> ArrowType {
    match beside {
        ArrowType::Decimal128(..) => own_digits(text).unwrap_or(PLAIN_NUMERIC),
        other => other.clone(),
    }
}

/// True for a number without digits, `NaN` or `Infinity`, which numerics do not have.
pub fn is_without_digits(text: &str) -> bool {
    let text = text.trim();
    let word = text.strip_prefix(['-', '+']).unwrap_or(text);
    ["nan", "inf", "infinity"].iter().any(|known| word.eq_ignore_ascii_case(known))
}

/// Precision and scale of a number that is written as `digits[.digits][e[-]digits]`; `None` for
/// other texts, and for more digits than a numeric has.
fn own_digits(text: &str) -> Option<ArrowType> {
    let text = text.trim();
    let text = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().ok()?),
        None => (text, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let is_plain = |digits: &str| digits.bytes().all(|digit| digit.is_ascii_digit());
    if whole.len() + fraction.len() == 0 || !is_plain(whole) || !is_plain(fraction) {
        return None;
    }
    let count = |digits: &str| i32::try_from(digits.len()).ok();
    let scale = count(fraction)?.checked_sub(exponent)?.max(0);
    let whole = count(whole.trim_start_matches('0'))?.checked_add(exponent)?.max(0);
    let precision = whole.checked_add(scale)?.max(1);
    if precision > i32::from(DECIMAL128_MAX_PRECISION) {
        return None;
    }
    Some(ArrowType::Decimal128(precision as u8, scale as i8))
}

/// True for types that a literal in quotes takes on. Beside a numeric it becomes a number with its
/// own digits: see [`of_literal`].
pub fn wants_type(data_type: &ArrowType) -> bool {
    !is_text(data_type)
        && !matches!(
            data_type,
            ArrowType::Null
                | ArrowType::Dictionary(_, _)
                | ArrowType::Struct(_)
                | ArrowType::Union(_, _)
                | ArrowType::Map(_, _)
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_beside_numerics_have_their_own_digits() {
        let beside = ArrowType::Decimal128(5, 2);
        for (text, wanted) in [
            ("1.4999", (5, 4)),
            ("-1.5", (2, 1)),
            (" +10000 ", (5, 0)),
            ("0.001", (3, 3)),
            (".5", (1, 1)),
            ("5.", (1, 0)),
            ("0", (1, 0)),
            ("1.5e3", (4, 0)),
            ("15e-3", (3, 3)),
            ("1e60", (38, 10)),
            ("1.5x", (38, 10)),
            ("", (38, 10)),
        ] {
            let (precision, scale) = wanted;
            let wanted = ArrowType::Decimal128(precision, scale);
            assert_eq!(of_literal(text, &beside), wanted, "{text}");
        }
        assert_eq!(of_literal("1.5", &ArrowType::Int32), ArrowType::Int32);
    }

    #[test]
    fn many_digits_get_a_wide_type() {
        use ArrowType::{Decimal128, Decimal256, Float64, Int64, Null};
        for (types, wanted) in [
            (vec![Decimal128(38, 10), Decimal128(21, 12)], Some(Decimal256(40, 12))),
            (vec![Int64, Null, Decimal128(38, 38)], Some(Decimal256(57, 38))),
            (vec![Decimal128(38, 0), Decimal128(38, 38)], Some(Decimal256(76, 38))),
            (vec![Decimal128(38, 10), Decimal128(11, 2)], None),
            (vec![Decimal128(38, 10), Decimal128(38, 10)], None),
            (vec![Decimal128(38, 10), Float64], None),
            (Vec::new(), None),
        ] {
            assert_eq!(wide_numeric(&types), wanted, "{types:?}");
        }
    }

    #[test]
    fn moments_take_days_in() {
        use ArrowType::{Date32, Int64, Null};
        let local = || ArrowType::Timestamp(TimeUnit::Microsecond, None);
        let zoned = || ArrowType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
        for (types, wanted) in [
            (vec![Date32, Null, local()], Some(local())),
            (vec![local(), Date32], Some(local())),
            (vec![Date32, zoned(), local()], Some(zoned())),
            (vec![Date32, Date32], None),
            (vec![local(), Null], None),
            (vec![Date32, Int64], None),
        ] {
            assert_eq!(of_moments(&types), wanted, "{types:?}");
        }
    }

    #[test]
    fn floating_point_takes_all_numbers_in() {
        use ArrowType::{Decimal128, Float32, Float64, Int64, Null, Utf8View};
        let numeric = || Decimal128(5, 2);
        for (types, wanted) in [
            (vec![Float64, numeric()], Some((Float64, Float64))),
            (vec![numeric(), Null, Int64, Float64], Some((Float64, Float64))),
            (vec![Float32, numeric()], Some((Float64, Float32))),
            (vec![Float32, Int64, Float64], Some((Float64, Float64))),
            (vec![Float64, Float64, Null], None),
            (vec![Int64, numeric()], None),
            (vec![Float64, Utf8View], None),
            (Vec::new(), None),
        ] {
            let (comparing, choosing) = (compared(&types), chosen(&types));
            assert_eq!(comparing.zip(choosing), wanted, "{types:?}");
        }
    }
}
