//! The common type of numbers, where a floating point number is among them.
//!
//! DataFusion takes a `double precision` beside a `numeric` for a `numeric` with 15 digits behind
//! the point, which loses small numbers and refuses great ones. In PostgreSQL both are floating
//! point numbers: `double precision` where values are compared, the widest floating point type
//! that is there where one of them is chosen.

use arrow::datatypes::DataType as ArrowType;
use datafusion::common::{DFSchema, Result as PlanResult};
use datafusion::logical_expr::type_coercion::binary::type_union_resolution;
use datafusion::logical_expr::{Expr, ExprSchemable, cast};

/// The type to compare numbers of these types in; `None` where DataFusion's own choice is right.
pub(crate) fn compared(types: &[ArrowType]) -> Option<ArrowType> {
    mixed(types).map(|_| ArrowType::Float64)
}

/// The type of a value that is one of several; `None` where DataFusion's own choice is right.
pub(crate) fn chosen(types: &[ArrowType]) -> Option<ArrowType> {
    mixed(types)
}

/// [`chosen`], or DataFusion's choice among numbers of several types.
pub(crate) fn of_numbers(types: &[ArrowType]) -> Option<ArrowType> {
    let known: Vec<ArrowType> = types.iter().filter(|given| !given.is_null()).cloned().collect();
    let first = known.first()?;
    if !known.iter().all(ArrowType::is_numeric) || known.iter().all(|given| given == first) {
        return None;
    }
    chosen(&known).or_else(|| type_union_resolution(&known))
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
pub(crate) fn cast_to(value: Expr, target: &ArrowType, schema: &DFSchema) -> PlanResult<Expr> {
    let given = value.get_type(schema)?;
    Ok(if given == *target { value } else { cast(value, target.clone()) })
}

#[cfg(test)]
mod tests {
    use super::*;

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
