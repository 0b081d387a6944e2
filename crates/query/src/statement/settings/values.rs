//! Values of settings: reads them as PostgreSQL does, and writes them as `SHOW` does.
//!
//! A value is stored as the text of `pg_settings.setting`: a number in the setting's unit, without
//! the unit's name.

use thalweg_types::{Error, Result, SqlState};

use super::definitions::{Definition, OWN};

/// Units of memory with their lengths in bytes, longest first.
const MEMORY: [(&str, i64); 5] =
    [("TB", 1 << 40), ("GB", 1 << 30), ("MB", 1 << 20), ("kB", 1 << 10), ("B", 1)];
/// Units of time with their lengths in microseconds, longest first.
const TIME: [(&str, i64); 6] = [
    ("d", 86_400_000_000),
    ("h", 3_600_000_000),
    ("min", 60_000_000),
    ("s", 1_000_000),
    ("ms", 1_000),
    ("us", 1),
];
const MEMORY_HINT: &str =
    "Valid units for this parameter are \"B\", \"kB\", \"MB\", \"GB\", and \"TB\".";
const TIME_HINT: &str = "Valid units for this parameter are \"us\", \"ms\", \"s\", \"min\", \
                         \"h\", and \"d\".";

/// The unit of a setting.
struct Unit {
    /// Its length in the shortest unit of its family.
    length: i64,
    family: &'static [(&'static str, i64)],
    hint: &'static str,
}

impl Unit {
    fn of(definition: &Definition) -> Option<Unit> {
        let (count, name) = match definition.unit {
            "" => return None,
            "8kB" => (8, "kB"),
            name => (1, name),
        };
        let length = |family: &[(&str, i64)]| {
            family.iter().find(|(known, _)| *known == name).map(|(_, length)| length * count)
        };
        match (length(&MEMORY), length(&TIME)) {
            (Some(length), _) => Some(Unit { length, family: &MEMORY, hint: MEMORY_HINT }),
            (_, length) => Some(Unit { length: length?, family: &TIME, hint: TIME_HINT }),
        }
    }
}

/// Reads a value for a setting.
///
/// # Errors
/// 22023 if the setting cannot have this value.
pub(super) fn read(definition: &Definition, value: &str) -> Result<String> {
    match definition.kind {
        "bool" => flag(value).map(str::to_owned).ok_or_else(|| no_flag(definition.name)),
        "enum" => word(definition, value),
        "integer" => {
            let number = number(definition, value)?.round_ties_even();
            if number.abs() > f64::from(i32::MAX) {
                return Err(
                    invalid_value(definition.name, value).with_hint("Value exceeds integer range.")
                );
            }
            in_range(definition, number).map(|()| format!("{number:.0}"))
        }
        "real" => {
            let number = number(definition, value)?;
            in_range(definition, number).map(|()| number.to_string())
        }
        _ => Ok(value.to_owned()),
    }
}

/// The value as `SHOW` returns it, with the longest unit that expresses it exactly.
pub(super) fn show(definition: &Definition, stored: &str) -> String {
    let Some(unit) = Unit::of(definition) else { return stored.to_owned() };
    let shown = match definition.kind {
        "integer" => stored.parse::<i64>().ok().filter(|number| *number > 0).and_then(|number| {
            let total = number.checked_mul(unit.length)?;
            let exact = unit.family.iter().find(|(_, length)| total % length == 0)?;
            Some(format!("{}{}", total / exact.1, exact.0))
        }),
        _ => stored.parse::<f64>().ok().filter(|number| *number > 0.0).and_then(|number| {
            #[expect(clippy::cast_precision_loss, reason = "lengths of units are below 2^53")]
            let lengths = unit.family.iter().map(|(name, length)| (*name, *length as f64));
            #[expect(clippy::cast_precision_loss, reason = "lengths of units are below 2^53")]
            let total = number * unit.length as f64;
            let mut shown = None;
            for (name, length) in lengths {
                let count = total / length;
                shown = Some(format!("{count}{name}"));
                if (count.round() - count).abs() < 1e-8 && count >= 1.0 {
                    break;
                }
            }
            shown
        }),
    };
    shown.unwrap_or_else(|| stored.to_owned())
}

/// A Boolean value. PostgreSQL accepts prefixes of these words.
pub(super) fn flag(value: &str) -> Option<&'static str> {
    let value = value.to_lowercase();
    let begins = |word: &str, least: usize| value.len() >= least && word.starts_with(&value);
    if value == "1" || begins("true", 1) || begins("yes", 1) || begins("on", 2) {
        Some("on")
    } else if value == "0" || begins("false", 1) || begins("no", 1) || begins("off", 2) {
        Some("off")
    } else {
        None
    }
}

/// A word of an enumeration. Some enumerations have words that the hint does not list.
fn word(definition: &Definition, value: &str) -> Result<String> {
    let lower = value.to_lowercase();
    let is_level = definition.values.contains(&"debug1");
    let meaning = match lower.as_str() {
        "debug" if is_level => "debug2",
        "fatal" | "panic" if definition.name == "client_min_messages" => "error",
        "true" | "yes" | "1" => "on",
        "false" | "no" | "0" => "off",
        word => word,
    };
    let hidden = (is_level && lower == "info").then_some("info");
    let mut known = definition.values.iter().copied().chain(hidden);
    known.find(|known| *known == lower || *known == meaning).map(str::to_owned).ok_or_else(|| {
        let values = match definition.values.split_last() {
            Some((last, rest)) if definition.category == OWN && !rest.is_empty() => {
                format!("{} and {last}", rest.join(", "))
            }
            _ => definition.values.join(", "),
        };
        invalid(definition.name, value, &values)
    })
}

/// A number in the setting's unit.
fn number(definition: &Definition, value: &str) -> Result<f64> {
    let refused = || invalid_value(definition.name, value);
    let text = value.trim_start();
    let (number, rest) = leading_number(text, definition.kind == "integer").ok_or_else(refused)?;
    let name = rest.trim();
    if name.is_empty() {
        return Ok(number);
    }
    let unit = Unit::of(definition).ok_or_else(refused)?;
    let of_value = unit.family.iter().find(|(known, _)| *known == name);
    let (_, length) = of_value.ok_or_else(|| refused().with_hint(unit.hint))?;
    #[expect(clippy::cast_precision_loss, reason = "lengths of units are below 2^53")]
    let factor = *length as f64 / unit.length as f64;
    Ok(number * factor)
}

/// The number that a text begins with, and the rest. An integer may be hexadecimal or octal.
fn leading_number(text: &str, is_integer: bool) -> Option<(f64, &str)> {
    let signed = text.strip_prefix(['+', '-']).unwrap_or(text);
    let sign = if text.starts_with('-') { -1.0 } else { 1.0 };
    let hexadecimal = signed.strip_prefix("0x").or_else(|| signed.strip_prefix("0X"));
    if let (true, Some(digits)) = (is_integer, hexadecimal) {
        let end = digits.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(digits.len());
        let number = u32::from_str_radix(&digits[..end], 16).ok()?;
        return Some((sign * f64::from(number), &digits[end..]));
    }
    let digits = |text: &str| text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let mut end = digits(signed);
    if is_integer && end > 1 && signed.starts_with('0') && !signed[end..].starts_with(['.', 'e']) {
        let number = u32::from_str_radix(&signed[..end], 8).ok()?;
        return Some((sign * f64::from(number), &signed[end..]));
    }
    if signed[end..].starts_with('.') {
        end += 1 + digits(&signed[end + 1..]);
    }
    if signed[end..].starts_with(['e', 'E']) {
        let exponent = &signed[end + 1..];
        let skipped = usize::from(exponent.starts_with(['+', '-']));
        let length = digits(&exponent[skipped..]);
        end += if length > 0 { 1 + skipped + length } else { 0 };
    }
    let number: f64 = signed[..end].parse().ok()?;
    Some((sign * number, &signed[end..]))
}

fn in_range(definition: &Definition, number: f64) -> Result<()> {
    let (least, greatest) = (definition.least, definition.greatest);
    let bound = |text: &str| text.parse::<f64>().ok();
    let is_in = bound(least).is_none_or(|least| number >= least)
        && bound(greatest).is_none_or(|greatest| number <= greatest);
    if is_in {
        return Ok(());
    }
    let unit = match definition.unit {
        "" => String::new(),
        unit => format!(" {unit}"),
    };
    let message = format!(
        "{number}{unit} is outside the valid range for parameter \"{}\" ({least} .. {greatest})",
        definition.name
    );
    Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, message))
}

pub(super) fn invalid_value(name: &str, value: &str) -> Error {
    let message = format!("invalid value for parameter \"{name}\": \"{value}\"");
    Error::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

pub(super) fn invalid(name: &str, value: &str, allowed: &str) -> Error {
    invalid_value(name, value).with_hint(format!("Available values: {allowed}."))
}

pub(super) fn no_flag(name: &str) -> Error {
    let message = format!("parameter \"{name}\" requires a Boolean value");
    Error::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The values that PostgreSQL 15 shows.
    #[test]
    fn values_are_shown_as_postgres_shows_them() {
        for (name, value, shown) in [
            ("work_mem", "64MB", Some("64MB")),
            ("work_mem", "1000", Some("1000kB")),
            ("work_mem", "1024 kB", Some("1MB")),
            ("work_mem", "1.5GB", Some("1536MB")),
            ("work_mem", "0x40", Some("64kB")),
            ("work_mem", "1e3", Some("1000kB")),
            ("work_mem", "63", None),
            ("work_mem", "nonsense", None),
            ("work_mem", "64mb", None),
            ("work_mem", "3TB", None),
            ("temp_buffers", "1000", Some("8000kB")),
            ("statement_timeout", "0", Some("0")),
            ("statement_timeout", "250", Some("250ms")),
            ("statement_timeout", "90000", Some("90s")),
            ("statement_timeout", "1d", Some("1d")),
            ("statement_timeout", "2.5s", Some("2500ms")),
            ("statement_timeout", "-1", None),
            ("statement_timeout", "5 parsecs", None),
            ("statement_timeout", "99999999999", None),
            ("vacuum_cost_delay", "1.5", Some("1500us")),
            ("vacuum_cost_delay", "2", Some("2ms")),
            ("vacuum_cost_delay", "0", Some("0")),
            ("random_page_cost", "1.1", Some("1.1")),
            ("random_page_cost", "-1", None),
            ("random_page_cost", "1ms", None),
            ("jit", "1", Some("on")),
            ("jit", "F", Some("off")),
            ("jit", "o", None),
            ("jit", "maybe", None),
            ("synchronous_commit", "LOCAL", Some("local")),
            ("synchronous_commit", "false", Some("off")),
            ("synchronous_commit", "nope", None),
            ("session_replication_role", "on", None),
            ("client_min_messages", "debug", Some("debug2")),
            ("client_min_messages", "panic", Some("error")),
            ("log_min_messages", "panic", Some("panic")),
            ("application_name", "any", Some("any")),
        ] {
            let definition = Definition::named(name).unwrap();
            let read = read(definition, value).ok().map(|stored| show(definition, &stored));
            assert_eq!(read.as_deref(), shown, "{name} = {value}");
        }
    }

    #[test]
    fn settings_accept_their_initial_values() {
        for definition in Definition::listed() {
            if definition.context == "user" && definition.category != OWN {
                let value = read(definition, definition.initial).unwrap();
                assert_eq!(value, definition.initial, "{}", definition.name);
            }
        }
    }
}
