//! Errors of values while a statement runs.

use arrow::error::ArrowError;
use thalweg_types::{Error, SqlState};

use super::clean;

/// PostgreSQL's error for one of Arrow's kernels.
pub fn from_arrow(error: &ArrowError) -> Error {
    match error {
        ArrowError::DivideByZero => division_by_zero(),
        ArrowError::ArithmeticOverflow(message) => overflow(message),
        ArrowError::CastError(message)
        | ArrowError::ParseError(message)
        | ArrowError::ComputeError(message)
        | ArrowError::InvalidArgumentError(message) => from_message(message),
        ArrowError::NotYetImplemented(message) => Error::unsupported(clean(message)),
        ArrowError::MemoryError(message) => {
            Error::new(SqlState::OUT_OF_MEMORY, "out of memory").with_detail(clean(message))
        }
        ArrowError::OffsetOverflowError(_) => {
            Error::new(SqlState::OUT_OF_MEMORY, "a column of text exceeds 2 GiB in one batch")
        }
        ArrowError::CsvError(message) | ArrowError::JsonError(message) => {
            Error::new(SqlState::BAD_COPY_FILE_FORMAT, clean(message))
        }
        other => Error::internal(clean(&other.to_string())),
    }
}

pub(super) fn from_message(message: &str) -> Error {
    let error_text = clean(message);
    if error_text.to_lowercase().contains("divide by zero") {
        return division_by_zero();
    }
    if error_text.contains("Scalar subquery returned more than one row") {
        let error_text = "more than one row returned by a subquery used as an expression";
        return Error::new(SqlState::CARDINALITY_VIOLATION, error_text);
    }
    if error_text.starts_with("Unable to parse date from") {
        return Error::new(SqlState::DATETIME_OVERFLOW, "date field value out of range");
    }
    bad_argument(&error_text)
        .or_else(|| bad_unit(&error_text))
        .or_else(|| bad_text(&error_text))
        .or_else(|| out_of_range(&error_text))
        .unwrap_or_else(|| Error::new(SqlState::DATA_EXCEPTION, error_text))
}

/// Errors of functions about arguments that they do not accept.
fn bad_argument(message: &str) -> Option<Error> {
    if message.contains("field position must not be zero") {
        return Some(Error::new(SqlState::INVALID_PARAMETER_VALUE, message));
    }
    let is_length = message.starts_with("negative count not allowed");
    is_length
        .then(|| Error::new(SqlState::SUBSTRING_ERROR, "negative substring length not allowed"))
}

/// "Date part 'x' not supported" and "Unsupported date_trunc granularity: 'x'. …"
fn bad_unit(message: &str) -> Option<Error> {
    let (_, rest) = message
        .split_once("Date part '")
        .or_else(|| message.split_once("date_trunc granularity: '"))?;
    let unit = rest.split('\'').next()?;
    Some(Error::new(SqlState::INVALID_PARAMETER_VALUE, format!("unit \"{unit}\" not recognized")))
}

fn division_by_zero() -> Error {
    Error::new(SqlState::DIVISION_BY_ZERO, "division by zero")
}

fn overflow(message: &str) -> Error {
    // "Int16Array overflow on abs(-32768)".
    let of_abs = message.split_once("Array overflow on abs(");
    if let Some(name) = of_abs.and_then(|(before, _)| before.split(' ').next_back()) {
        let error_text = format!("{} out of range", type_name(name));
        return Error::new(SqlState::NUMERIC_OUT_OF_RANGE, error_text);
    }
    let error = Error::new(SqlState::NUMERIC_OUT_OF_RANGE, "value out of range: overflow");
    if message.is_empty() { error } else { error.with_detail(clean(message)) }
}

/// Text that is not a value of the type: "Cannot cast string 'abc' to value of Int32 type", "Error
/// parsing timestamp from 'x': …", "Parser error: Invalid date …".
fn bad_text(message: &str) -> Option<Error> {
    let (text, name) = if let Some((_, rest)) = message.split_once("Cannot cast string '") {
        let (text, rest) = rest.rsplit_once("' to value of ")?;
        (text, type_name(rest.trim_end_matches(" type")))
    } else if let Some((_, rest)) = message.split_once("Error parsing timestamp from '") {
        (rest.rsplit_once("': ")?.0, "timestamp")
    } else if let Some((_, rest)) = message.split_once("Cannot parse string '") {
        (rest.split_once('\'')?.0, "numeric")
    } else if message.contains("Interval") || message.contains("interval") {
        let (_, rest) = message.split_once('"').or_else(|| message.split_once('\''))?;
        (rest.split(['"', '\'']).next()?, "interval")
    } else {
        return None;
    };
    Some(invalid_text(name, text))
}

/// `text` is not a value of the type. Dates have error codes of their own, as in PostgreSQL.
pub(crate) fn invalid_text(type_name: &str, text: &str) -> Error {
    let state = match type_name {
        "date" | "interval" => SqlState::INVALID_DATETIME_FORMAT,
        name if name.starts_with("time") => SqlState::INVALID_DATETIME_FORMAT,
        _ => SqlState::INVALID_TEXT_REPRESENTATION,
    };
    Error::new(state, format!("invalid input syntax for type {type_name}: \"{text}\""))
}

fn out_of_range(message: &str) -> Option<Error> {
    let lower = message.to_lowercase();
    if let Some((_, rest)) = message.split_once("Can't cast value ") {
        let (_, to) = rest.split_once(" to type ")?;
        let error_text = format!("{} out of range", type_name(to.trim()));
        return Some(Error::new(SqlState::NUMERIC_OUT_OF_RANGE, error_text));
    }
    if lower.contains("too large to store in a decimal")
        || lower.contains("too small to store in a decimal")
        || lower.contains("is not a valid decimal")
        || lower.contains("exceeds the max precision")
        || lower.contains("cannot cast to decimal")
        || lower.contains("precision of decimal")
    {
        return Some(
            Error::new(SqlState::NUMERIC_OUT_OF_RANGE, "numeric field overflow")
                .with_detail(message),
        );
    }
    if lower.contains("overflow") || lower.contains("out of range") {
        return Some(overflow(message));
    }
    None
}

/// PostgreSQL's name for Arrow's type, as far as casts from text name it.
fn type_name(arrow: &str) -> &'static str {
    match arrow {
        "Int8" | "Int16" | "UInt8" => "smallint",
        "Int32" | "UInt16" => "integer",
        "Int64" | "UInt32" | "UInt64" => "bigint",
        "Float32" => "real",
        "Float64" => "double precision",
        "Boolean" => "boolean",
        "Date32" | "Date64" => "date",
        name if name.starts_with("Decimal") => "numeric",
        name if name.starts_with("Timestamp") => "timestamp",
        name if name.starts_with("Time") => "time",
        name if name.starts_with("Interval") => "interval",
        _ => "value",
    }
}
