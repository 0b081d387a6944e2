//! Guesses the type of a column from the texts of its values.

use arrow::datatypes::{DataType, TimeUnit};

use crate::text::parse;

/// The narrowest type that holds all values seen so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Guess {
    /// Only NULL was seen.
    #[default]
    Unknown,
    Boolean,
    Int8,
    Float8,
    Date,
    Time,
    Timestamp,
    Timestamptz,
    Text,
}

impl Guess {
    /// The narrowest type that a single value can have; [`Guess::Text`] if no other fits.
    pub fn of(text: &str) -> Guess {
        let Some(first) = text.bytes().next() else { return Guess::Text };
        if matches!(first, b't' | b'f' | b'T' | b'F') {
            let is_word = ["true", "false", "t", "f"].iter().any(|w| text.eq_ignore_ascii_case(w));
            return if is_word { Guess::Boolean } else { Guess::Text };
        }
        let is_special = ["nan", "infinity", "-infinity", "inf", "-inf"]
            .iter()
            .any(|word| text.eq_ignore_ascii_case(word));
        if is_special {
            return Guess::Float8;
        }
        if !matches!(first, b'0'..=b'9' | b'-' | b'+' | b'.') {
            return Guess::Text;
        }
        Guess::of_number_or_time(text)
    }

    fn of_number_or_time(text: &str) -> Guess {
        let digits = text.trim_start_matches(['-', '+']);
        // Codes such as `007` would lose their zeros, and long numbers their last digits.
        let is_code = digits.len() > 1
            && digits.bytes().all(|byte| byte.is_ascii_digit())
            && (digits.starts_with('0') || parse::int8(text).is_err());
        if is_code {
            return Guess::Text;
        }
        if parse::int8(text).is_ok() {
            Guess::Int8
        } else if parse::float8(text).is_ok() {
            Guess::Float8
        } else if parse::time(text).is_ok() {
            Guess::Time
        } else if parse::timestamptz(text).is_err() {
            Guess::Text
        } else if !text.contains(':') {
            Guess::Date
        } else if has_zone(text) {
            Guess::Timestamptz
        } else {
            Guess::Timestamp
        }
    }

    /// The narrowest type that includes both, for the values of one column.
    #[must_use]
    pub fn or(self, other: Guess) -> Guess {
        use Guess::{Date, Float8, Int8, Text, Timestamp, Timestamptz, Unknown};
        match (self, other) {
            (a, b) if a == b => a,
            (Unknown, known) | (known, Unknown) => known,
            (Int8, Float8) | (Float8, Int8) => Float8,
            (Date, Timestamp) | (Timestamp, Date) => Timestamp,
            (Date | Timestamp, Timestamptz) | (Timestamptz, Date | Timestamp) => Timestamptz,
            _ => Text,
        }
    }

    /// The Arrow type of a column with this guess. Unknown columns are text.
    #[must_use]
    pub fn data_type(self) -> DataType {
        match self {
            Guess::Unknown | Guess::Text => DataType::Utf8View,
            Guess::Boolean => DataType::Boolean,
            Guess::Int8 => DataType::Int64,
            Guess::Float8 => DataType::Float64,
            Guess::Date => DataType::Date32,
            Guess::Time => DataType::Time64(TimeUnit::Microsecond),
            Guess::Timestamp => DataType::Timestamp(TimeUnit::Microsecond, None),
            Guess::Timestamptz => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
        }
    }
}

/// True if a timestamp ends with a zone: its time contains more than digits, colons and points.
fn has_zone(timestamp: &str) -> bool {
    let time = timestamp.find(':').map_or("", |colon| &timestamp[colon..]);
    time.bytes().any(|byte| !matches!(byte, b'0'..=b'9' | b':' | b'.'))
}
