//! Floating-point numbers: the shortest digits that read back as the same number, in PostgreSQL's
//! layout.

use std::fmt::Write;

use thalweg_types::{Error, Result, SqlState};

use super::parse::invalid_syntax;

/// Numbers from 1e15 on are written with an exponent.
const DOUBLE_FIXED_DIGITS: usize = 15;
/// Numbers from 1e6 on are written with an exponent.
const REAL_FIXED_DIGITS: usize = 6;
/// Numbers with more zeros than this after the point are written with an exponent.
const FIXED_ZEROS_MAX: usize = 3;

pub(super) fn format_double(value: f64, out: &mut String) {
    if !format_special(value, out) {
        lay_out(zmij::Buffer::new().format_finite(value), DOUBLE_FIXED_DIGITS, out);
    }
}

pub(super) fn format_real(value: f32, out: &mut String) {
    if !format_special(f64::from(value), out) {
        lay_out(zmij::Buffer::new().format_finite(value), REAL_FIXED_DIGITS, out);
    }
}

/// Writes a number in as many digits as `%.*g` of C does: `extra` more than the type always keeps.
pub fn format_double_in(value: f64, extra: i8, out: &mut String) {
    match extra > 0 {
        true => format_double(value, out),
        false => format_in_digits(value, DOUBLE_FIXED_DIGITS, extra, out),
    }
}

/// Like [`format_double_in`], for `real`.
pub fn format_real_in(value: f32, extra: i8, out: &mut String) {
    match extra > 0 {
        true => format_real(value, out),
        false => format_in_digits(f64::from(value), REAL_FIXED_DIGITS, extra, out),
    }
}

fn format_in_digits(value: f64, kept_digits: usize, extra: i8, out: &mut String) {
    if format_special(value, out) {
        return;
    }
    let digits = kept_digits.saturating_sub(usize::from(extra.unsigned_abs())).max(1);
    let scientific = format!("{value:.*e}", digits - 1);
    let (mantissa, power) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let power: i32 = power.parse().expect("an exponent is a number");
    let without_zeros = |number: &str| match number.contains('.') {
        true => number.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => number.to_owned(),
    };
    if power < -4 || power >= digits as i32 {
        let (sign, power) = (if power < 0 { '-' } else { '+' }, power.abs());
        let mantissa = without_zeros(mantissa);
        write!(out, "{mantissa}e{sign}{power:02}").expect("writing to a string does not fail");
    } else {
        let behind = (digits as i32 - 1 - power).max(0) as usize;
        out.push_str(&without_zeros(&format!("{value:.behind$}")));
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

/// Writes a nonzero number, given with or without an exponent and in the fewest digits that
/// distinguish it from its neighbours.
fn lay_out(given: &str, fixed_digits: usize, out: &mut String) {
    if let Some(text) = laid_out_already(given, fixed_digits) {
        return out.push_str(text);
    }
    let (mantissa, power) = match given.split_once('e') {
        Some((mantissa, power)) => (mantissa, power.parse().expect("an exponent is a number")),
        None => (given, 0),
    };
    let unsigned = mantissa.strip_prefix('-').unwrap_or(mantissa);
    if unsigned.len() < mantissa.len() {
        out.push('-');
    }
    let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
    let whole = whole.trim_start_matches('0');
    let fraction = fraction.trim_end_matches('0');
    let zeros = fraction.len() - fraction.trim_start_matches('0').len();
    let is_fixed = power == 0
        && if whole.is_empty() { zeros <= FIXED_ZEROS_MAX } else { whole.len() <= fixed_digits };
    if !is_fixed {
        let before = if whole.is_empty() { -(zeros as i32) } else { whole.len() as i32 };
        return lay_out_anew(&format!("{whole}{fraction}"), before + power, fixed_digits, out);
    }
    out.push_str(if whole.is_empty() { "0" } else { whole });
    if !fraction.is_empty() {
        out.push('.');
        out.push_str(fraction);
    }
}

/// Most numbers already have PostgreSQL's layout, except for the `.0` of whole numbers. `None` for
/// those that may not: with an exponent, with too many digits, or below 1.
fn laid_out_already(given: &str, fixed_digits: usize) -> Option<&str> {
    /// `e-324` is the longest exponent.
    const EXPONENT_BYTES: usize = 5;
    let bytes = given.as_bytes();
    if bytes[bytes.len().saturating_sub(EXPONENT_BYTES)..].contains(&b'e') {
        return None;
    }
    let start = usize::from(bytes[0] == b'-');
    let point = bytes.iter().position(|byte| *byte == b'.')?;
    if bytes[start] == b'0' || point - start > fixed_digits {
        return None;
    }
    Some(if matches!(bytes, [.., b'.', b'0']) { &given[..point] } else { given })
}

/// `before` is the number of digits before the point, from the first nonzero digit on.
fn lay_out_anew(digits: &str, before: i32, fixed_digits: usize, out: &mut String) {
    let digits = digits.trim_matches('0');
    let (zeros, whole) = ((-before).max(0) as usize, before.max(0) as usize);
    if zeros > FIXED_ZEROS_MAX || whole > fixed_digits {
        let (first, others) = digits.split_at(1);
        out.push_str(first);
        if !others.is_empty() {
            out.push('.');
            out.push_str(others);
        }
        let exponent = before - 1;
        let sign = if exponent < 0 { '-' } else { '+' };
        write!(out, "e{sign}{:02}", exponent.abs()).expect("writing to a string does not fail");
    } else if whole == 0 {
        out.push_str("0.");
        out.extend(std::iter::repeat_n('0', zeros));
        out.push_str(digits);
    } else {
        let (before, behind) = digits.split_at(whole.min(digits.len()));
        out.push_str(before);
        out.extend(std::iter::repeat_n('0', whole - before.len()));
        if !behind.is_empty() {
            out.push('.');
            out.push_str(behind);
        }
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

/// Digits that rounded to infinity or to zero are out of range; the texts `inf` and `0` are valid.
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The digits of a number, and the number of them before the point.
    fn taken_apart(text: &str) -> (String, i32) {
        let unsigned = text.trim_start_matches('-');
        let (mantissa, power) = unsigned.split_once('e').unwrap_or((unsigned, "0"));
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let all = format!("{whole}{fraction}");
        let digits = all.trim_start_matches('0');
        let before = whole.len() as i32 - (all.len() - digits.len()) as i32;
        (digits.trim_end_matches('0').to_owned(), before + power.parse::<i32>().unwrap())
    }

    /// The number in PostgreSQL's layout.
    fn laid_out(digits: &str, before: i32, fixed_digits: i32) -> String {
        if before < -3 || before > fixed_digits {
            let (first, others) = digits.split_at(1);
            let point = if others.is_empty() { "" } else { "." };
            let sign = if before < 1 { '-' } else { '+' };
            return format!("{first}{point}{others}e{sign}{:02}", (before - 1).abs());
        }
        if before <= 0 {
            return format!("0.{}{digits}", "0".repeat(-before as usize));
        }
        let whole = before as usize;
        match digits.split_at_checked(whole) {
            Some((whole, "")) => whole.to_owned(),
            Some((whole, fraction)) => format!("{whole}.{fraction}"),
            None => format!("{digits:0<whole$}"),
        }
    }

    /// `standard` is the standard library's text. If two texts are equally short and near, it
    /// chooses the greater one, and PostgreSQL the one with an even last digit.
    fn check(text: &str, standard: &str, fixed_digits: i32) {
        let (digits, before) = taken_apart(text);
        let (expected, expected_before) = taken_apart(standard);
        assert_eq!((digits.len(), before), (expected.len(), expected_before), "{text}");
        let sign = if standard.starts_with('-') { "-" } else { "" };
        assert_eq!(text, format!("{sign}{}", laid_out(&digits, before, fixed_digits)));
    }

    fn check_double(value: f64) {
        let mut text = String::new();
        format_double(value, &mut text);
        check(&text, &format!("{value:e}"), 15);
        assert_eq!(parse_double(&text).unwrap().to_bits(), value.to_bits());
    }

    fn check_real(value: f32) {
        let mut text = String::new();
        format_real(value, &mut text);
        check(&text, &format!("{value:e}"), 6);
        assert_eq!(parse_real(&text).unwrap().to_bits(), value.to_bits());
    }

    #[test]
    fn halves_go_to_the_even_digit() {
        let mut text = String::new();
        // The nearest number is 2998489.25.
        format_real(2_998_489.2, &mut text);
        assert_eq!(text, "2.9984892e+06");
    }

    #[test]
    fn powers_of_ten_and_their_neighbours() {
        for exponent in -320..=308 {
            let power: f64 = format!("1e{exponent}").parse().unwrap();
            for value in [power, power * 1.25, power.next_up(), power.next_down(), -power * 3.0] {
                if value.is_finite() && value != 0.0 {
                    check_double(value);
                }
                let value = value as f32;
                if value.is_finite() && value != 0.0 {
                    check_real(value);
                }
            }
        }
        [f64::MIN_POSITIVE, f64::MAX, f64::from_bits(1)].into_iter().for_each(check_double);
        [f32::MIN_POSITIVE, f32::MAX, f32::from_bits(1)].into_iter().for_each(check_real);
    }

    proptest! {
        #[test]
        fn doubles_of_all_sizes(bits: u64, cents in -1_000_000_000_i64..1_000_000_000) {
            for value in [f64::from_bits(bits), cents as f64 / 100.0, cents as f64] {
                if value.is_finite() && value != 0.0 {
                    check_double(value);
                }
            }
        }

        #[test]
        fn reals_of_all_sizes(bits: u32, cents in -1_000_000_000_i32..1_000_000_000) {
            for value in [f32::from_bits(bits), cents as f32 / 100.0, cents as f32] {
                if value.is_finite() && value != 0.0 {
                    check_real(value);
                }
            }
        }
    }
}
