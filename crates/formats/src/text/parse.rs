//! Parses text to values: accepts PostgreSQL's input for each type, and returns its errors.
//!
//! White space around a value is ignored for every type except `text`, `bytea` and `json`.

use arrow::datatypes::{IntervalMonthDayNano, i256};
use serde::de::IgnoredAny;
use thalweg_types::{Error, Result, SqlState};

use super::interval::{self as interval_form, IntervalFields};
use super::{bytea as bytea_form, datetime, decimal, float};

/// Longer values are shortened in messages.
const QUOTED_CHARACTERS_MAX: usize = 100;

/// Parses `boolean`: any unambiguous prefix of `true`, `false`, `yes`, `no`, `on`, `off`, and `1`
/// or `0`.
pub fn boolean(text: &str) -> Result<bool> {
    match text {
        "t" | "true" => return Ok(true),
        "f" | "false" => return Ok(false),
        _ => {}
    }
    let word = text.trim_ascii().to_ascii_lowercase();
    // Any prefix of a word is valid if it is unambiguous.
    let is = |full: &str, least: usize| word.len() >= least && full.starts_with(&word);
    if is("true", 1) || is("yes", 1) || is("on", 2) || word == "1" {
        Ok(true)
    } else if is("false", 1) || is("no", 1) || is("off", 2) || word == "0" {
        Ok(false)
    } else {
        Err(invalid_syntax("boolean", text))
    }
}

macro_rules! integer {
    ($name:ident, $native:ty, $type_name:literal) => {
        #[doc = concat!("Reads a value of type `", $type_name, "`.")]
        pub fn $name(text: &str) -> Result<$native> {
            use std::num::IntErrorKind::{NegOverflow, PosOverflow};
            text.trim_ascii().parse::<$native>().map_err(|error| match error.kind() {
                PosOverflow | NegOverflow => out_of_range(text, $type_name),
                _ => invalid_syntax($type_name, text),
            })
        }
    };
}

integer!(int2, i16, "smallint");
integer!(int4, i32, "integer");
integer!(int8, i64, "bigint");

/// Parses `real`. Fails with PostgreSQL's error if the number is out of range.
pub fn float4(text: &str) -> Result<f32> {
    float::parse_real(text)
}

/// Parses `double precision`. Fails with PostgreSQL's error if the number is out of range.
pub fn float8(text: &str) -> Result<f64> {
    float::parse_double(text)
}

/// A number of `precision` digits with `scale` of them after the point, as a scaled integer.
pub fn decimal128(text: &str, precision: u8, scale: i8) -> Result<i128> {
    decimal::parse_128(text, precision, scale)
}

/// Like [`decimal128`], for precisions beyond 38.
pub fn decimal256(text: &str, precision: u8, scale: i8) -> Result<i256> {
    decimal::parse_256(text, precision, scale)
}

/// Parses `bytea` in its hexadecimal or escape format.
pub fn bytea(text: &str) -> Result<Vec<u8>> {
    bytea_form::parse(text)
}

/// Days since 1970-01-01.
pub fn date(text: &str) -> Result<i32> {
    datetime::parse_date(text)
}

/// Microseconds since midnight.
pub fn time(text: &str) -> Result<i64> {
    datetime::parse_time(text)
}

/// Microseconds since 1970; a zone in the text is parsed and ignored.
pub fn timestamp(text: &str) -> Result<i64> {
    datetime::parse_timestamp(text, false)
}

/// Microseconds since 1970 in UTC; a text without a zone is in UTC.
pub fn timestamptz(text: &str) -> Result<i64> {
    datetime::parse_timestamp(text, true)
}

/// Parses `interval` without restriction to fields such as `DAY TO SECOND`.
pub fn interval(text: &str) -> Result<IntervalMonthDayNano> {
    interval_in(text, IntervalFields::default())
}

/// A value of an interval type with fields, which determine its units and the parts to keep.
pub fn interval_in(text: &str, fields: IntervalFields) -> Result<IntervalMonthDayNano> {
    interval_form::parse(text, fields)
}

/// The canonical form of a UUID.
pub fn uuid(text: &str) -> Result<String> {
    super::uuid::parse(text)
}

/// Checks that the text is well-formed JSON and does not nest too deeply.
///
/// # Errors
/// `22P02` if it is not JSON, `54001` if it nests more than `JSON_DEPTH_MAX` levels.
pub fn json(text: &str) -> Result<()> {
    match serde_json::from_str::<IgnoredAny>(text) {
        Ok(IgnoredAny) => super::json_depth::check(text),
        Err(error) => Err(Error::new(
            SqlState::INVALID_TEXT_REPRESENTATION,
            "invalid input syntax for type json",
        )
        .with_detail(format!("{error}, in {}", quoted(text)))),
    }
}

pub(crate) fn invalid_syntax(type_name: &str, text: &str) -> Error {
    Error::new(
        SqlState::INVALID_TEXT_REPRESENTATION,
        format!("invalid input syntax for type {type_name}: {}", quoted(text)),
    )
}

pub(crate) fn invalid_datetime(type_name: &str, text: &str) -> Error {
    Error::new(
        SqlState::INVALID_DATETIME_FORMAT,
        format!("invalid input syntax for type {type_name}: {}", quoted(text)),
    )
}

pub(crate) fn out_of_range(text: &str, type_name: &str) -> Error {
    Error::new(
        SqlState::NUMERIC_OUT_OF_RANGE,
        format!("value {} is out of range for type {type_name}", quoted(text.trim_ascii())),
    )
}

/// The text in quotes, shortened if it is long.
pub(crate) fn quoted(text: &str) -> String {
    match text.char_indices().nth(QUOTED_CHARACTERS_MAX) {
        Some((end, _)) => format!("\"{}...\"", &text[..end]),
        None => format!("\"{text}\""),
    }
}
