//! Numbers that are not written digit by digit: Roman, with an exponent, and ordinals.

use super::{expand, round_to};

/// As wide as the longest number that can be written.
const ROMAN_WIDTH: usize = 15;

/// A whole number up to 3999.
pub(super) fn roman(number: &str, upper: bool, bare: bool) -> String {
    const LETTERS: [(u32, &str); 13] = [
        (1000, "m"),
        (900, "cm"),
        (500, "d"),
        (400, "cd"),
        (100, "c"),
        (90, "xc"),
        (50, "l"),
        (40, "xl"),
        (10, "x"),
        (9, "ix"),
        (5, "v"),
        (4, "iv"),
        (1, "i"),
    ];
    let (negative, whole, _) = round_to(number, 0);
    let known = whole.parse::<u32>().ok().filter(|value| !negative && (1..4000).contains(value));
    let Some(mut value) = known else { return "#".repeat(ROMAN_WIDTH) };
    let mut text = String::new();
    for (worth, letters) in LETTERS {
        while value >= worth {
            text.push_str(letters);
            value -= worth;
        }
    }
    let text = if upper { text.to_ascii_uppercase() } else { text };
    if bare { text } else { format!("{text:>ROMAN_WIDTH$}") }
}

/// Scientific notation of a number: true if it is negative, and its digits, one of them in front of
/// the point and `places` behind it.
pub(super) fn scientific(number: &str, places: usize) -> (bool, String) {
    let plain = expand(number.trim_start_matches('-'));
    let (whole, fraction) = plain.split_once('.').unwrap_or((&plain, ""));
    let digits = format!("{whole}{fraction}");
    let first = digits.find(|digit| digit != '0');
    let mut exponent = first.map_or(0, |first| whole.len() as i64 - first as i64 - 1);
    let (one, others) = digits[first.unwrap_or(0)..].split_at(1);
    let (_, mut one, others) = round_to(&format!("{one}.{others}"), places);
    if one.len() > 1 {
        // All were nines: those behind are zeros now.
        one.truncate(1);
        exponent += 1;
    }
    let one = if one.is_empty() { "0" } else { one.as_str() };
    let point = if places > 0 { "." } else { "" };
    let sign = if exponent < 0 { '-' } else { '+' };
    let text = format!("{one}{point}{others}e{sign}{:02}", exponent.abs());
    (number.starts_with('-') && first.is_some(), text)
}

/// A number with its point moved to the right.
pub(super) fn times_ten(number: &str, places: usize) -> String {
    if places == 0 {
        return number.to_string();
    }
    let plain = expand(number);
    let (whole, fraction) = plain.split_once('.').unwrap_or((&plain, ""));
    let moved = fraction.len().min(places);
    let zeros = "0".repeat(places - moved);
    format!("{whole}{}{zeros}.{}", &fraction[..moved], &fraction[moved..])
}

/// The ending of an ordinal number: `1st`, `12th`.
pub(super) fn ordinal(whole: &str) -> &'static str {
    let mut last = whole.bytes().rev();
    match (last.next(), last.next()) {
        (_, Some(b'1')) => "th",
        (Some(b'1'), _) => "st",
        (Some(b'2'), _) => "nd",
        (Some(b'3'), _) => "rd",
        _ => "th",
    }
}
