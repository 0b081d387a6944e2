//! Decimal numbers with a fixed scale.

use arrow::datatypes::i256;
use thalweg_types::{Error, Result, SqlState};

use super::parse::{invalid_syntax, quoted};

/// Number of digits that always fit 64 bits.
const SHORT_DIGITS: usize = 18;

/// The most digits of a numeric without precision.
const DIGITS_MAX: u8 = 38;

/// Digits before the point in the types of numbers without precision: what fits 32 and 64 bits, or
/// else all that there is room for.
const WHOLE_DIGITS: [i64; 2] = [9, 18];

/// Parses a `numeric(precision, scale)`; rounds digits beyond the scale half away from zero.
pub(super) fn parse_128(text: &str, precision: u8, scale: i8) -> Result<i128> {
    if let Some(value) = parse_short(text.as_bytes(), precision, scale) {
        return Ok(value);
    }
    let digits = ScaledDigits::parse(text, precision, scale)?;
    let value = digits
        .bytes
        .iter()
        .try_fold(0_i128, |value, digit| {
            value.checked_mul(10)?.checked_add(i128::from(digit - b'0'))
        })
        .ok_or_else(|| overflow(precision, scale))?;
    Ok(if digits.negative { -value } else { value })
}

pub(super) fn parse_256(text: &str, precision: u8, scale: i8) -> Result<i256> {
    if let Some(value) = parse_short(text.as_bytes(), precision, scale) {
        return Ok(i256::from_i128(value));
    }
    let ten = i256::from_i128(10);
    let digits = ScaledDigits::parse(text, precision, scale)?;
    let value = digits
        .bytes
        .iter()
        .try_fold(i256::ZERO, |value, digit| {
            value.checked_mul(ten)?.checked_add(i256::from_i128(i128::from(digit - b'0')))
        })
        .ok_or_else(|| overflow(precision, scale))?;
    Ok(if digits.negative { value.wrapping_neg() } else { value })
}

/// The common case: a sign, few digits, and no more of them after the point than the scale allows.
fn parse_short(text: &[u8], precision: u8, scale: i8) -> Option<i128> {
    let (negative, digits) = match text.first()? {
        b'-' => (true, &text[1..]),
        _ => (false, text),
    };
    if digits.is_empty() || digits.len() > SHORT_DIGITS {
        return None;
    }
    let mut value = 0_i64;
    let mut point = None;
    for (place, &byte) in digits.iter().enumerate() {
        match byte {
            b'0'..=b'9' => value = value * 10 + i64::from(byte - b'0'),
            b'.' if point.is_none() => point = Some(place),
            _ => return None,
        }
    }
    if point.is_some() && digits.len() == 1 {
        return None;
    }
    let behind = point.map_or(0, |place| digits.len() - place - 1);
    let missing = usize::try_from(scale).ok()?.checked_sub(behind)?;
    let value = i128::from(value).checked_mul(10_i128.checked_pow(missing as u32)?)?;
    let limit = 10_i128.checked_pow(u32::from(precision));
    if limit.is_some_and(|limit| value >= limit) {
        return None;
    }
    Some(if negative { -value } else { value })
}

/// The digits of a number times ten to the power of the scale, rounded.
struct ScaledDigits {
    negative: bool,
    /// ASCII digits without leading zeros, at most as many as the precision allows.
    bytes: Vec<u8>,
}

impl ScaledDigits {
    fn parse(text: &str, precision: u8, scale: i8) -> Result<ScaledDigits> {
        let literal = Literal::parse(text)?;
        let leading = literal.digits.iter().take_while(|digit| **digit == b'0').count();
        let significant = &literal.digits[leading..];
        if significant.is_empty() {
            return Ok(ScaledDigits { negative: false, bytes: Vec::new() });
        }
        // Number of significant digits before the point of the scaled number.
        let whole = literal.whole - leading as i64 + i64::from(scale);
        if whole < 0 {
            return Ok(ScaledDigits { negative: false, bytes: Vec::new() });
        }
        if whole > i64::from(precision) {
            return Err(overflow(precision, scale));
        }
        let whole = whole as usize;
        let mut bytes = significant[..whole.min(significant.len())].to_vec();
        bytes.resize(whole, b'0');
        if significant.get(whole).is_some_and(|digit| *digit >= b'5') {
            add_one(&mut bytes);
        }
        if bytes.len() > usize::from(precision) {
            return Err(overflow(precision, scale));
        }
        Ok(ScaledDigits { negative: literal.negative, bytes })
    }
}

fn add_one(digits: &mut Vec<u8>) {
    for digit in digits.iter_mut().rev() {
        if *digit < b'9' {
            *digit += 1;
            return;
        }
        *digit = b'0';
    }
    digits.insert(0, b'1');
}

/// A parsed number.
struct Literal {
    negative: bool,
    /// All digits, including those after the point.
    digits: Vec<u8>,
    /// Number of digits before the point, after the exponent is applied.
    whole: i64,
}

impl Literal {
    fn parse(text: &str) -> Result<Literal> {
        let invalid = || invalid_syntax("numeric", text);
        let trimmed = text.trim_ascii();
        let (negative, rest) = match trimmed.as_bytes() {
            [b'-', rest @ ..] => (true, rest),
            [b'+', rest @ ..] => (false, rest),
            rest => (false, rest),
        };
        let is_special = ["nan", "inf", "infinity"]
            .iter()
            .any(|name| rest.eq_ignore_ascii_case(name.as_bytes()));
        if is_special {
            return Err(Error::unsupported(format!("numeric {}", quoted(trimmed))));
        }
        let mark = rest.iter().position(|byte| matches!(byte, b'e' | b'E'));
        let (mantissa, exponent) = match mark {
            Some(mark) => {
                let exponent = std::str::from_utf8(&rest[mark + 1..]).map_err(|_| invalid())?;
                (&rest[..mark], exponent.parse::<i32>().map_err(|_| invalid())?)
            }
            None => (rest, 0),
        };
        let point = mantissa.iter().position(|byte| *byte == b'.').unwrap_or(mantissa.len());
        let mut digits = mantissa.to_vec();
        if point < digits.len() {
            digits.remove(point);
        }
        if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
            return Err(invalid());
        }
        Ok(Literal { negative, digits, whole: point as i64 + i64::from(exponent) })
    }
}

/// The number of digits on both sides of the point that numbers need.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct DigitCounts {
    whole: i64,
    fraction: i64,
}

impl DigitCounts {
    /// The digits of a number as it is written: zeros at its end count.
    ///
    /// # Errors
    /// 22P02 if the text is no number, 0A000 for `NaN` and the infinities.
    pub(super) fn of(text: &str) -> Result<DigitCounts> {
        let literal = Literal::parse(text)?;
        let leading = literal.digits.iter().take_while(|digit| **digit == b'0').count();
        let whole = match leading == literal.digits.len() {
            true => 0,
            false => (literal.whole - leading as i64).max(0),
        };
        Ok(DigitCounts { whole, fraction: (literal.digits.len() as i64 - literal.whole).max(0) })
    }

    /// The digits that two numbers need in one type.
    pub(super) fn with(self, other: DigitCounts) -> DigitCounts {
        DigitCounts {
            whole: self.whole.max(other.whole),
            fraction: self.fraction.max(other.fraction),
        }
    }

    /// The digits behind the point, as far as a numeric has room for them.
    pub(super) fn rounded(self) -> DigitCounts {
        let room = (i64::from(DIGITS_MAX) - self.whole).max(0);
        DigitCounts { fraction: self.fraction.min(room), ..self }
    }

    /// Precision and scale of a type with these digits behind the point. The precision is one of
    /// few, so that plans for numbers of one scale are shared.
    ///
    /// # Errors
    /// 22003 if there are more digits than a numeric holds.
    pub(super) fn decimal(self) -> Result<(u8, i8)> {
        let DigitCounts { whole, fraction } = self;
        let room = i64::from(DIGITS_MAX) - fraction;
        if whole > room {
            let message = "value overflows numeric format";
            return Err(Error::new(SqlState::NUMERIC_OUT_OF_RANGE, message).with_detail(format!(
                "It needs {whole} digits before the point and {fraction} behind it, together more \
                 than {DIGITS_MAX}."
            )));
        }
        let whole = WHOLE_DIGITS.into_iter().find(|digits| whole <= *digits).unwrap_or(room);
        Ok(((whole.min(room) + fraction) as u8, fraction as i8))
    }
}

fn overflow(precision: u8, scale: i8) -> Error {
    let whole = i32::from(precision) - i32::from(scale);
    Error::new(SqlState::NUMERIC_OUT_OF_RANGE, "numeric field overflow").with_detail(format!(
        "A field with precision {precision}, scale {scale} must round to an absolute value less \
         than 10^{whole}."
    ))
}

pub(super) fn format_128(value: i128, scale: i8, out: &mut String) {
    let mut buffer = itoa::Buffer::new();
    place_point(value < 0, buffer.format(value.unsigned_abs()), scale, out);
}

pub(super) fn format_256(value: i256, scale: i8, out: &mut String) {
    let text = value.to_string();
    let digits = text.strip_prefix('-');
    place_point(digits.is_some(), digits.unwrap_or(&text), scale, out);
}

fn place_point(negative: bool, digits: &str, scale: i8, out: &mut String) {
    if negative {
        out.push('-');
    }
    let Ok(scale @ 1..) = usize::try_from(scale) else {
        out.push_str(digits);
        if digits != "0" {
            out.extend(std::iter::repeat_n('0', usize::from(scale.unsigned_abs())));
        }
        return;
    };
    match digits.len().checked_sub(scale) {
        Some(whole @ 1..) => {
            out.push_str(&digits[..whole]);
            out.push('.');
            out.push_str(&digits[whole..]);
        }
        _ => {
            out.push_str("0.");
            out.extend(std::iter::repeat_n('0', scale - digits.len()));
            out.push_str(digits);
        }
    }
}
