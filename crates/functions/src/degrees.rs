//! Functions of angles in degrees, and inverse functions of radians that have a range.
//!
//! Functions of degrees are exact where functions of radians are not: the sine of
//! 30 degrees is one half.
//!
//! As in PostgreSQL, angles are reduced to the first quadrant, and results are scaled by the
//! machine's value for an angle whose exact result is known.

use std::f64::consts::PI;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Float64Array};
use arrow::datatypes::{DataType as ArrowType, Float64Type};
use datafusion::logical_expr::ScalarUDF;
use thalweg_types::{Error, Result, SqlState};
use thalweg_values::scalar_function::{Compute, Function};

pub(super) fn functions() -> Vec<Arc<ScalarUDF>> {
    let float = ArrowType::Float64;
    let define = |name, compute: Compute| {
        Function::new(name, &[std::slice::from_ref(&float)], float.clone(), compute).into_udf()
    };
    let both = [float.clone(), float.clone()];
    vec![
        define("sind", |columns| of_angles(columns, sine)),
        define("cosd", |columns| of_angles(columns, cosine)),
        define("tand", |columns| of_angles(columns, tangent)),
        define("cotd", |columns| of_angles(columns, cotangent)),
        define("asind", |columns| of_ratios(columns, arc_sine)),
        define("acosd", |columns| of_ratios(columns, arc_cosine)),
        // DataFusion's own functions of radians return NaN outside of their range.
        define("asin", |columns| of_ratios(columns, f64::asin)),
        define("acos", |columns| of_ratios(columns, f64::acos)),
        define("atanh", |columns| of_ratios(columns, f64::atanh)),
        define("acosh", |columns| {
            each(columns, |value| if value < 1.0 { Err(out_of_range()) } else { Ok(value.acosh()) })
        }),
        define("atand", |columns| each(columns, |value| Ok(value.atan() / 1_f64.atan() * 45.0))),
        Function::new("atan2d", &[both.as_slice()], float.clone(), arc_tangent_of_two).into_udf(),
    ]
}

fn each(columns: &[ArrayRef], compute: impl Fn(f64) -> Result<f64>) -> Result<ArrayRef> {
    let values: Float64Array = columns[0].as_primitive::<Float64Type>().try_unary(compute)?;
    Ok(Arc::new(values))
}

fn out_of_range() -> Error {
    Error::new(SqlState::NUMERIC_OUT_OF_RANGE, "input is out of range")
}

fn of_angles(columns: &[ArrayRef], compute: fn(f64) -> f64) -> Result<ArrayRef> {
    each(
        columns,
        |angle| if angle.is_infinite() { Err(out_of_range()) } else { Ok(compute(angle)) },
    )
}

fn of_ratios(columns: &[ArrayRef], compute: fn(f64) -> f64) -> Result<ArrayRef> {
    each(columns, |ratio| if ratio.abs() > 1.0 { Err(out_of_range()) } else { Ok(compute(ratio)) })
}

fn arc_tangent_of_two(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let (y, x) =
        (columns[0].as_primitive::<Float64Type>(), columns[1].as_primitive::<Float64Type>());
    let angles = y.iter().zip(x).map(|pair| match pair {
        (Some(y), Some(x)) => Some(y.atan2(x) / 1_f64.atan() * 45.0),
        _ => None,
    });
    Ok(Arc::new(angles.collect::<Float64Array>()))
}

fn radians(degrees: f64) -> f64 {
    degrees * (PI / 180.0)
}

/// For angles from 0 to 30 degrees.
fn sine_of_small(angle: f64) -> f64 {
    radians(angle).sin() / radians(30.0).sin() / 2.0
}

/// For angles from 0 to 60 degrees.
fn cosine_of_small(angle: f64) -> f64 {
    1.0 - (1.0 - radians(angle).cos()) / (1.0 - radians(60.0).cos()) / 2.0
}

/// For angles from 0 to 90 degrees.
fn sine_of_quadrant(angle: f64) -> f64 {
    if angle <= 30.0 { sine_of_small(angle) } else { cosine_of_small(90.0 - angle) }
}

/// For angles from 0 to 90 degrees.
fn cosine_of_quadrant(angle: f64) -> f64 {
    if angle <= 60.0 { cosine_of_small(angle) } else { sine_of_small(90.0 - angle) }
}

/// The angle's counterpart between 0 and 90 degrees, and the signs of the lower and of the left
/// half of the circle.
fn in_quadrant(angle: f64) -> (f64, f64, f64) {
    let (mut angle, mut below, mut left) = (angle % 360.0, 1.0, 1.0);
    if angle < 0.0 {
        (angle, below) = (-angle, -below);
    }
    if angle > 180.0 {
        (angle, below) = (360.0 - angle, -below);
    }
    if angle > 90.0 {
        (angle, left) = (180.0 - angle, -left);
    }
    (angle, below, left)
}

fn sine(angle: f64) -> f64 {
    let (angle, below, _) = in_quadrant(angle);
    below * sine_of_quadrant(angle)
}

fn cosine(angle: f64) -> f64 {
    let (angle, _, left) = in_quadrant(angle);
    left * cosine_of_quadrant(angle)
}

/// A zero has no sign.
fn unsigned_zero(value: f64) -> f64 {
    if value == 0.0 { 0.0 } else { value }
}

fn tangent(angle: f64) -> f64 {
    let (angle, below, left) = in_quadrant(angle);
    let ratio = |angle| sine_of_quadrant(angle) / cosine_of_quadrant(angle);
    unsigned_zero(below * left * (ratio(angle) / ratio(45.0)))
}

fn cotangent(angle: f64) -> f64 {
    let (angle, below, left) = in_quadrant(angle);
    let ratio = |angle| cosine_of_quadrant(angle) / sine_of_quadrant(angle);
    unsigned_zero(below * left * (ratio(angle) / ratio(45.0)))
}

/// For ratios from 0 to 1.
fn arc_sine_of_positive(ratio: f64) -> f64 {
    match ratio <= 0.5 {
        true => ratio.asin() / 0.5_f64.asin() * 30.0,
        false => 90.0 - ratio.acos() / 0.5_f64.acos() * 60.0,
    }
}

fn arc_sine(ratio: f64) -> f64 {
    let angle = arc_sine_of_positive(ratio.abs());
    if ratio < 0.0 { -angle } else { angle }
}

fn arc_cosine(ratio: f64) -> f64 {
    match ratio {
        ratio if ratio < 0.0 => 90.0 + arc_sine_of_positive(-ratio),
        ratio if ratio <= 0.5 => 90.0 - ratio.asin() / 0.5_f64.asin() * 30.0,
        ratio => ratio.acos() / 0.5_f64.acos() * 60.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn angles_of_regular_figures_are_exact() {
        for (angle, wanted) in [(0.0, 0.0), (30.0, 0.5), (90.0, 1.0), (150.0, 0.5), (210.0, -0.5)] {
            assert_eq!(sine(angle), wanted, "sine of {angle}");
            assert_eq!(cosine(90.0 - angle), wanted, "cosine of {}", 90.0 - angle);
        }
        for (angle, wanted) in [(45.0, 1.0), (135.0, -1.0), (225.0, 1.0), (-45.0, -1.0)] {
            assert_eq!(tangent(angle), wanted, "tangent of {angle}");
            assert_eq!(cotangent(angle), wanted, "cotangent of {angle}");
        }
        for (ratio, wanted) in [(0.0, 0.0), (0.5, 30.0), (1.0, 90.0), (-0.5, -30.0)] {
            assert_eq!(arc_sine(ratio), wanted, "arc sine of {ratio}");
            assert_eq!(arc_cosine(ratio), 90.0 - wanted, "arc cosine of {ratio}");
        }
    }
}
