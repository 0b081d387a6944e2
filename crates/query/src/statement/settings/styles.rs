//! Settings that decide how values are read and written: `TimeZone`, `DateStyle` and their like.

use std::sync::Arc;

use thalweg_formats::text::parse;
use thalweg_formats::text::style::{
    ByteaOutput, DateOrder, DateOutput, IntervalStyle, SessionStyle,
};
use thalweg_formats::text::zone::Zone;
use thalweg_types::{Error, Result};

use super::Settings;
use super::definitions::Definition;
use super::values::{invalid, invalid_value};

/// The keys of these settings.
const KEYS: [&str; 5] =
    ["bytea_output", "datestyle", "extra_float_digits", "intervalstyle", "timezone"];

/// The only date style that can be set.
const SUPPORTED_DATE_STYLE: &str = "ISO, MDY";

const NANOS_PER_SECOND: i64 = 1_000_000_000;

/// True for a setting that the style of a session depends on.
pub(super) fn is_style_setting(key: &str) -> bool {
    KEYS.contains(&key)
}

/// The style by the values of these settings; `None` for the default one.
pub(super) fn of(settings: &Settings) -> Option<Arc<SessionStyle>> {
    let value = |key: &str| {
        let definition = Definition::named(key)?;
        settings.stored_value(definition)
    };
    let dates = value("datestyle").unwrap_or_default();
    let (dates, order) = dates.split_once(", ").unwrap_or_default();
    let style = SessionStyle {
        zone: value("timezone")
            .and_then(|name| Zone::of_session(&name))
            .map_or(Zone::UTC, |(zone, _)| zone),
        dates: OUTPUTS.iter().find(|(name, _)| *name == dates).map_or(DateOutput::Iso, |it| it.1),
        order: ORDERS.iter().find(|(name, _)| *name == order).map_or(DateOrder::Mdy, |it| it.1),
        intervals: match value("intervalstyle").as_deref() {
            Some("postgres_verbose") => IntervalStyle::Verbose,
            Some("sql_standard") => IntervalStyle::SqlStandard,
            Some("iso_8601") => IntervalStyle::Iso8601,
            _ => IntervalStyle::Postgres,
        },
        bytea: match value("bytea_output").as_deref() {
            Some("escape") => ByteaOutput::Escape,
            _ => ByteaOutput::Hex,
        },
        extra_float_digits: value("extra_float_digits")
            .and_then(|digits| digits.parse().ok())
            .unwrap_or(1),
    };
    style.shared()
}

const OUTPUTS: [(&str, DateOutput); 4] = [
    ("ISO", DateOutput::Iso),
    ("SQL", DateOutput::Sql),
    ("Postgres", DateOutput::Postgres),
    ("German", DateOutput::German),
];

const ORDERS: [(&str, DateOrder); 3] =
    [("MDY", DateOrder::Mdy), ("DMY", DateOrder::Dmy), ("YMD", DateOrder::Ymd)];

/// Reads a zone: a name, hours east of Greenwich, an interval, or a description in POSIX form.
/// Returns the spelling that `SHOW` returns.
///
/// # Errors
/// 22023 if there is no such zone.
pub(super) fn time_zone(name: &str, value: &str) -> Result<String> {
    let invalid = || invalid_value(name, value);
    let too_large = || invalid().with_detail("UTC timezone offset is out of range.");
    let words = value.trim_start();
    if let Some(rest) = words.get(..8).filter(|word| word.eq_ignore_ascii_case("interval")) {
        let quoted = words[rest.len()..].trim();
        let text = quoted.strip_prefix('\'').and_then(|rest| rest.split_once('\''));
        let (text, _) = text.ok_or_else(invalid)?;
        let interval = parse::interval(text).map_err(|_| invalid())?;
        let with_detail = |unit: &str| {
            invalid().with_detail(format!("Cannot specify {unit} in time zone interval."))
        };
        if interval.months != 0 {
            return Err(with_detail("months"));
        }
        if interval.days != 0 {
            return Err(with_detail("days"));
        }
        let zone = Zone::of_session_offset(interval.nanoseconds / NANOS_PER_SECOND);
        return zone.map(|(_, spelling)| spelling).ok_or_else(too_large);
    }
    let is_number = words.starts_with(|c: char| c.is_ascii_digit() || "+-.".contains(c));
    if let Ok(hours) = words.parse::<f64>()
        && is_number
    {
        #[expect(clippy::cast_possible_truncation, reason = "too large offsets are refused")]
        let seconds = (hours * 3_600.0) as i64;
        let zone = Zone::of_session_offset(seconds);
        return zone.map(|(_, spelling)| spelling).ok_or_else(too_large);
    }
    Zone::of_session(value).map(|(_, spelling)| spelling).ok_or_else(invalid)
}

/// Reads a date style that is supported: dates of other styles could be written, but not read back
/// everywhere.
///
/// # Errors
/// 22023 if there is no such style, or it is not supported.
pub(super) fn date_style(name: &str, value: &str, current: &str, reset: &str) -> Result<String> {
    let style = any_date_style(name, value, current, reset)?;
    match style == SUPPORTED_DATE_STYLE {
        true => Ok(style),
        false => Err(invalid(name, value, SUPPORTED_DATE_STYLE)),
    }
}

/// Reads a date style, of which a value may name one part or both. Returns both parts.
///
/// # Errors
/// 22023 if a word is unknown or contradicts another one.
fn any_date_style(name: &str, value: &str, current: &str, reset: &str) -> Result<String> {
    let (mut output, mut order): (Option<&str>, Option<&str>) = (None, None);
    let conflict = || {
        let detail = "Conflicting \"datestyle\" specifications.";
        Err(invalid_value(name, value).with_detail(detail))
    };
    let parts = |style: &str| -> (String, String) {
        let (output, order) = style.split_once(", ").unwrap_or(("ISO", "MDY"));
        (output.to_owned(), order.to_owned())
    };
    let (mut known_output, mut known_order) = parts(current);
    let mut german_order = false;
    for word in value.split(',').map(str::trim) {
        let lower = word.trim_matches('"').to_ascii_lowercase();
        let (wanted_output, wanted_order) = match lower.as_str() {
            "iso" => (Some("ISO"), None),
            "sql" => (Some("SQL"), None),
            word if word.starts_with("postgres") => (Some("Postgres"), None),
            "german" => (Some("German"), None),
            "ymd" => (None, Some("YMD")),
            "dmy" => (None, Some("DMY")),
            word if word.starts_with("euro") => (None, Some("DMY")),
            "mdy" | "us" => (None, Some("MDY")),
            word if word.starts_with("noneuro") => (None, Some("MDY")),
            "default" => {
                let (of_reset, order_of_reset) = parts(reset);
                if output.is_none() {
                    known_output = of_reset;
                }
                if order.is_none() {
                    known_order = order_of_reset;
                }
                continue;
            }
            _ => return Err(unknown_word(name, value, word)),
        };
        if wanted_output.is_some_and(|wanted| output.is_some_and(|known| known != wanted))
            || wanted_order.is_some_and(|wanted| order.is_some_and(|known| known != wanted))
        {
            return conflict();
        }
        german_order |= wanted_output == Some("German") && order.is_none();
        (output, order) = (wanted_output.or(output), wanted_order.or(order));
    }
    let order = match (order, german_order) {
        (None, true) => "DMY",
        (None, false) => known_order.as_str(),
        (Some(order), _) => order,
    };
    Ok(format!("{}, {order}", output.unwrap_or(&known_output)))
}

fn unknown_word(name: &str, value: &str, word: &str) -> Error {
    invalid_value(name, value).with_detail(format!("Unrecognized key word: \"{word}\"."))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The values that PostgreSQL 15 shows.
    #[test]
    fn date_styles_are_read_as_postgres_reads_them() {
        for (current, value, shown) in [
            ("ISO, MDY", "sql", Some("SQL, MDY")),
            ("ISO, MDY", "dmy", Some("ISO, DMY")),
            ("SQL, DMY", "german", Some("German, DMY")),
            ("SQL, MDY", "german", Some("German, DMY")),
            ("SQL, MDY", "german, mdy", Some("German, MDY")),
            ("SQL, DMY", "default", Some("ISO, MDY")),
            ("ISO, MDY", "Postgres, European", Some("Postgres, DMY")),
            ("ISO, MDY", "iso,sql", None),
            ("ISO, MDY", "dmy,mdy", None),
            ("ISO, MDY", "iso, nonsense", None),
        ] {
            let read = any_date_style("DateStyle", value, current, "ISO, MDY");
            assert_eq!(read.ok().as_deref(), shown, "{value}");
        }
    }

    #[test]
    fn zones_are_read_as_postgres_reads_them() {
        for (value, shown) in [
            ("europe/berlin", Some("Europe/Berlin")),
            ("-8", Some("<-08>+08")),
            ("5.5", Some("<+05:30>-05:30")),
            (" 8", Some("<+08>-08")),
            ("INTERVAL '+02:00' HOUR TO MINUTE", Some("<+02>-02")),
            ("interval '-02:30:15'", Some("<-02:30:15>+02:30:15")),
            ("INTERVAL '1 day'", None),
            ("200", None),
            ("", None),
            ("nan", None),
        ] {
            assert_eq!(time_zone("TimeZone", value).ok().as_deref(), shown, "{value}");
        }
    }
}
