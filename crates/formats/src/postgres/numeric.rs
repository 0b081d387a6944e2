//! `numeric` in binary: groups of four decimal digits, PostgreSQL's representation.

use arrow::datatypes::i256;
use thalweg_types::{Error, Result, SqlState};

/// Decimal digits in a group.
const GROUP_DIGITS: i32 = 4;
const GROUP: u128 = 10_000;
/// Enough for 76 digits, and a partial group on either side of the decimal point.
const GROUPS_MAX: usize = 21;

const POSITIVE: u16 = 0x0000;
const NEGATIVE: u16 = 0x4000;

/// Writes a value with `scale` digits after the decimal point. A negative scale is a number of
/// zeros before the point, for numbers with an exponent.
pub(super) fn encode_128(value: i128, scale: i8, out: &mut Vec<u8>) {
    let mut groups = [0; GROUPS_MAX];
    let mut count = 0;
    let mut rest = value.unsigned_abs();
    // Zeros pad the lowest group, so that a group boundary lies at the decimal point.
    let padding = padding(scale);
    if padding > 0 && rest > 0 {
        let keep = 10_u128.pow((GROUP_DIGITS - padding) as u32);
        groups[0] = (rest % keep) as u16 * 10_u16.pow(padding as u32);
        rest /= keep;
        count = 1;
    }
    while rest > 0 {
        groups[count] = (rest % GROUP) as u16;
        rest /= GROUP;
        count += 1;
    }
    write(value < 0, scale, &groups[..count], out);
}

/// Like [`encode_128`], for values with more than 38 digits.
pub(super) fn encode_256(value: i256, scale: i8, out: &mut Vec<u8>) {
    match value.to_i128() {
        Some(value) => encode_128(value, scale, out),
        None => encode_wide(value, scale, out),
    }
}

/// Converts through decimal digits, because there is no fast division of such wide integers.
fn encode_wide(value: i256, scale: i8, out: &mut Vec<u8>) {
    let digits = value.to_string();
    let digits = digits.trim_start_matches('-').as_bytes();
    let padding = padding(scale) as usize;
    let mut groups = Vec::with_capacity(GROUPS_MAX);
    let mut end = digits.len();
    let mut width = GROUP_DIGITS as usize - padding;
    let mut factor = 10_u16.pow(padding as u32);
    while end > 0 {
        let start = end.saturating_sub(width);
        let group = digits[start..end].iter().fold(0, |sum, d| sum * 10 + u16::from(d - b'0'));
        groups.push(group * factor);
        (end, width, factor) = (start, GROUP_DIGITS as usize, 1);
    }
    write(value < i256::ZERO, scale, &groups, out);
}

/// Number of zeros that pad the lowest group.
fn padding(scale: i8) -> i32 {
    (-i32::from(scale)).rem_euclid(GROUP_DIGITS)
}

/// Writes groups, given in order from the lowest.
fn write(negative: bool, scale: i8, groups: &[u16], out: &mut Vec<u8>) {
    // With a negative scale, this many groups of zeros are left out.
    let fraction_groups = -(-i32::from(scale)).div_euclid(GROUP_DIGITS);
    let low = groups.iter().position(|group| *group != 0).unwrap_or(groups.len());
    let weight = groups.len() as i32 - 1 - fraction_groups;
    let sent = &groups[low..];
    out.extend_from_slice(&(sent.len() as u16).to_be_bytes());
    let weight = if sent.is_empty() { 0 } else { weight };
    out.extend_from_slice(&(weight as i16).to_be_bytes());
    let sign = if negative { NEGATIVE } else { POSITIVE };
    out.extend_from_slice(&sign.to_be_bytes());
    out.extend_from_slice(&(i16::from(scale.max(0))).to_be_bytes());
    for group in sent.iter().rev() {
        out.extend_from_slice(&group.to_be_bytes());
    }
}

/// The text of a binary `numeric`.
pub(super) fn decode(bytes: &[u8]) -> Result<String> {
    let words: Vec<u16> =
        bytes.chunks_exact(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]])).collect();
    let [count, weight, sign, scale, groups @ ..] = words.as_slice() else {
        return Err(malformed());
    };
    let (weight, scale) = (i32::from(*weight as i16), usize::from(*scale));
    let fits =
        bytes.len().is_multiple_of(2) && groups.len() == usize::from(*count) && scale <= 0x3fff;
    if !fits || groups.iter().any(|group| u128::from(*group) >= GROUP) {
        return Err(malformed());
    }
    let sign = match *sign {
        POSITIVE => "",
        NEGATIVE => "-",
        0xc000 => return Ok("NaN".to_owned()),
        0xd000 => return Ok("Infinity".to_owned()),
        0xf000 => return Ok("-Infinity".to_owned()),
        _ => return Err(malformed()),
    };
    let group_at = |place: i32| {
        let index = usize::try_from(weight - place).ok();
        index.and_then(|index| groups.get(index)).copied().unwrap_or(0)
    };
    let mut text = String::from(sign);
    match weight {
        0.. => {
            text.push_str(&group_at(weight).to_string());
            (0..weight).rev().for_each(|place| text.push_str(&format!("{:04}", group_at(place))));
        }
        _ => text.push('0'),
    }
    if scale > 0 {
        let mut fraction = String::new();
        let last = -(scale.div_ceil(GROUP_DIGITS as usize) as i32);
        (last..0).rev().for_each(|place| fraction.push_str(&format!("{:04}", group_at(place))));
        text.push('.');
        text.push_str(&fraction[..scale]);
    }
    Ok(text)
}

fn malformed() -> Error {
    Error::new(SqlState::INVALID_BINARY_REPRESENTATION, "invalid binary numeric value")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Expects the output of PostgreSQL 15's `numeric_send`.
    #[test]
    fn values_are_sent_as_postgres_sends_them() {
        for (value, scale, expected) in [
            (0, 0, &[0_i16, 0, 0, 0][..]),
            (0, 2, &[0, 0, 0, 2]),
            (1, 0, &[1, 0, 0, 0, 1]),
            (-10_000, 0, &[1, 1, 0x4000, 0, 1]),
            (12_345_678, 4, &[2, 0, 0, 4, 1234, 5678]),
            (12_345, 2, &[2, 0, 0, 2, 123, 4500]),
            (5, 2, &[1, -1, 0, 2, 500]),
            (1, 10, &[1, -3, 0, 10, 100]),
            (100_000_001, 0, &[3, 2, 0, 0, 1, 0, 1]),
        ] {
            let bytes: Vec<u8> = expected.iter().flat_map(|word| word.to_be_bytes()).collect();
            let mut out = Vec::new();
            encode_128(value, scale, &mut out);
            assert_eq!(out, bytes, "{value} with scale {scale}");
            let mut wide = Vec::new();
            encode_wide(i256::from_i128(value), scale, &mut wide);
            assert_eq!(wide, bytes, "{value} with scale {scale}, the wide way");
        }
    }

    /// Expects the output of PostgreSQL 15's `numeric_send`, in hexadecimal digits.
    #[test]
    fn wide_values_are_sent_as_postgres_sends_them() {
        let power = format!("1{}", "0".repeat(50));
        let (sevens, nines) = ("7".repeat(60), "9".repeat(76));
        for (digits, scale, expected) in [
            (power.as_str(), 0, "0001000c000000000064"),
            (
                "170141183460469231731687303715884105728",
                0,
                "000a00090000000000aa0583209a01d5090d0c601c871bf620da1660",
            ),
            (
                "-1701411834604692317316873037158841057290",
                1,
                "000a00094000000100aa0583209a01d5090d0c601c871bf620da1661",
            ),
            (
                "-1234567890123456789012345678901234567890123456789012345",
                5,
                "000f000c40000005000c0d801ed204d2162e23340d801ed204d2162e23340d801ed204d21388",
            ),
            (&sevens, 7, &format!("0010000d000000070007{}1e5a", "1e61".repeat(14))),
            (&nines, 0, &format!("0013001200000000{}", "270f".repeat(19))),
        ] {
            let mut out = Vec::new();
            encode_256(i256::from_string(digits).unwrap(), scale, &mut out);
            let found: String = out.iter().map(|byte| format!("{byte:02x}")).collect();
            assert_eq!(found, expected, "{digits} with scale {scale}");
        }
    }

    #[test]
    fn what_was_sent_is_read_back() {
        for (value, scale, text) in [
            (0_i128, 3, "0.000"),
            (-1, 3, "-0.001"),
            (123_456_789_012_345_678, 5, "1234567890123.45678"),
            (i128::from(i64::MAX) * 1_000_000_000, 9, "9223372036854775807.000000000"),
            (10_000, 0, "10000"),
            (1, -8, "100000000"),
            (12, -1, "120"),
            (-12, -2, "-1200"),
            (123_456, -3, "123456000"),
            (1, -30, "1000000000000000000000000000000"),
            (0, -5, "0"),
        ] {
            let mut out = Vec::new();
            encode_128(value, scale, &mut out);
            assert_eq!(decode(&out).unwrap(), text);
            let mut wide = Vec::new();
            encode_wide(i256::from_i128(value), scale, &mut wide);
            assert_eq!(decode(&wide).unwrap(), text, "{value} with scale {scale}, the wide way");
        }
        let huge = i256::from_string(&"7".repeat(60)).unwrap();
        let mut out = Vec::new();
        encode_256(huge, 7, &mut out);
        assert_eq!(decode(&out).unwrap(), format!("{}.{}", "7".repeat(53), "7".repeat(7)));
    }

    #[test]
    fn malformed_values_are_refused() {
        for bytes in [&[][..], &[0], &[0, 1, 0, 0, 0, 0, 0, 0], &[0, 0, 0, 0, 1, 1, 0, 0]] {
            assert!(decode(bytes).is_err(), "{bytes:?}");
        }
    }
}
