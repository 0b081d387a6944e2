//! Floating-point numbers: the shortest digits that read back as the same number, laid out as
//! PostgreSQL does.

use std::fmt::{LowerExp, Write};

use thalweg_types::{Error, Result, SqlState};

use super::parse::invalid_syntax;

/// Numbers from 1e15 on are written with an exponent.
const DOUBLE_FIXED_DIGITS: i32 = 15;
/// Numbers from 1e6 on are written with an exponent.
const REAL_FIXED_DIGITS: i32 = 6;
/// Numbers below 1e-4 are written with an exponent.
const FIXED_EXPONENT_MIN: i32 = -4;

pub(super) fn format_double(value: f64, out: &mut String) {
    if !format_special(value, out) {
        lay_out(value, DOUBLE_FIXED_DIGITS, out);
    }
}

pub(super) fn format_real(value: f32, out: &mut String) {
    if !format_special(f64::from(value), out) {
        lay_out(value, REAL_FIXED_DIGITS, out);
    }
}

fn format_special(value: f64, out: &mut String) -> bool {
    let name = match value {
        _ if value.is_nan() => "NaN",
        f64::INFINITY => "Infinity",
        f64::NEG_INFINITY => "-Infinity",
        0.0 => match value.is_sign_negative() {
            true => "-0",
            false => "0",
        },
        _ => return false,
    };
    out.push_str(name);
    true
}

fn lay_out(value: impl LowerExp, fixed_digits: i32, out: &mut String) {
    // `d.ddde-x` with the fewest digits that tell the number from its neighbours.
    let start = out.len();
    write!(out, "{value:e}").expect("writing to a string does not fail");
    let mark = start + out[start..].find('e').expect("the form has an exponent");
    let exponent: i32 = out[mark + 1..].parse().expect("the exponent is a number");
    if exponent < FIXED_EXPONENT_MIN || exponent >= fixed_digits {
        out.truncate(mark);
        let sign = if exponent < 0 { '-' } else { '+' };
        write!(out, "e{sign}{:02}", exponent.abs()).expect("writing to a string does not fail");
        return;
    }
    let negative = out[start..].starts_with('-');
    let digits: String =
        out[start..mark].chars().filter(|character| character.is_ascii_digit()).collect();
    out.truncate(start);
    if negative {
        out.push('-');
    }
    if exponent < 0 {
        out.push_str("0.");
        out.extend(std::iter::repeat_n('0', (-exponent - 1) as usize));
        out.push_str(&digits);
        return;
    }
    let whole = exponent as usize + 1;
    if digits.len() <= whole {
        out.push_str(&digits);
        out.extend(std::iter::repeat_n('0', whole - digits.len()));
    } else {
        out.push_str(&digits[..whole]);
        out.push('.');
        out.push_str(&digits[whole..]);
    }
}

pub(super) fn parse_double(text: &str) -> Result<f64> {
    let value: f64 = parse_with(text, "double precision")?;
    check_range(value.is_infinite(), value == 0.0, text, "double precision")?;
    Ok(value)
}

pub(super) fn parse_real(text: &str) -> Result<f32> {
    let value: f32 = parse_with(text, "real")?;
    check_range(value.is_infinite(), value == 0.0, text, "real")?;
    Ok(value)
}

fn parse_with<T: std::str::FromStr>(text: &str, type_name: &str) -> Result<T> {
    text.trim_ascii().parse().map_err(|_| invalid_syntax(type_name, text))
}

/// Digits that rounded to infinity or to zero are out of range; `inf` and `0` are what they are.
fn check_range(is_infinite: bool, is_zero: bool, text: &str, type_name: &str) -> Result<()> {
    if !is_infinite && !is_zero {
        return Ok(());
    }
    let mut mantissa = text.bytes().take_while(|byte| !matches!(byte, b'e' | b'E'));
    if mantissa.any(|byte| matches!(byte, b'1'..=b'9')) {
        return Err(float_out_of_range(text, type_name));
    }
    Ok(())
}

fn float_out_of_range(text: &str, type_name: &str) -> Error {
    Error::new(
        SqlState::NUMERIC_OUT_OF_RANGE,
        format!("\"{}\" is out of range for type {type_name}", text.trim_ascii()),
    )
}
