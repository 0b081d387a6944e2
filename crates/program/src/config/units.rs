//! Values with units: `4GB`, `512MiB`, `30s`, `1.5 min`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::de::{Deserializer, Visitor};
use serde::{Deserialize, Serialize, Serializer};

const SIZES: &[(&str, u64)] = &[
    ("TB", 1_000_000_000_000),
    ("TiB", 1 << 40),
    ("GB", 1_000_000_000),
    ("GiB", 1 << 30),
    ("MB", 1_000_000),
    ("MiB", 1 << 20),
    ("kB", 1_000),
    ("KiB", 1 << 10),
    ("B", 1),
    ("", 1),
];

const MICROS: &[(&str, u64)] = &[
    ("d", 86_400_000_000),
    ("h", 3_600_000_000),
    ("min", 60_000_000),
    ("s", 1_000_000),
    ("ms", 1_000),
    ("us", 1),
];

/// A number of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd)]
pub struct Size(pub u64);

/// A length of time; where it is a limit, zero means no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span(pub Duration);

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Size, String> {
        with_unit(text, SIZES)
            .map(Size)
            .ok_or_else(|| format!("{text:?} is not a size such as \"4GB\" or \"512MiB\""))
    }
}

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Span, String> {
        let micros = if text.trim() == "0" { Some(0) } else { with_unit(text, MICROS) };
        micros
            .map(|micros| Span(Duration::from_micros(micros)))
            .ok_or_else(|| format!("{text:?} is not a time such as \"30s\", \"5min\" or \"250ms\""))
    }
}

/// Parses `number unit` into the smallest unit. Accepts fractions; rejects values beyond a `u64`.
fn with_unit(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.' && c != '_');
    let (number, unit) = text.split_at(digits.unwrap_or(text.len()));
    let (_, factor) = units.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit.trim()))?;
    let number = number.replace('_', "");
    if let Ok(whole) = number.parse::<u64>() {
        return whole.checked_mul(*factor);
    }
    let product = number.parse::<f64>().ok()? * *factor as f64;
    (product < u64::MAX as f64).then_some(product as u64)
}

/// Shows the value in the largest unit that needs no fraction.
fn show(f: &mut fmt::Formatter<'_>, value: u64, units: &[(&str, u64)]) -> fmt::Result {
    if value == 0 {
        return f.write_str("0");
    }
    let (name, factor) = units
        .iter()
        .filter(|(name, factor)| !name.is_empty() && value.is_multiple_of(*factor))
        .max_by_key(|(_, factor)| *factor)
        .unwrap_or(units.last().expect("there are units"));
    write!(f, "{}{name}", value / factor)
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        show(f, self.0, SIZES)
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        show(f, u64::try_from(self.0.as_micros()).unwrap_or(u64::MAX), MICROS)
    }
}

impl Serialize for Size {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Size, D::Error> {
        deserializer.deserialize_any(UnitVisitor("a size such as \"4GB\"", str::parse))
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Span, D::Error> {
        deserializer.deserialize_any(UnitVisitor("a time such as \"30s\"", str::parse))
    }
}

/// Accepts a string with a unit, or a whole number if the value allows one without.
struct UnitVisitor<T>(&'static str, fn(&str) -> Result<T, String>);

impl<T> Visitor<'_> for UnitVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<T, E> {
        (self.1)(text).map_err(E::custom)
    }

    fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<T, E> {
        (self.1)(&number.to_string()).map_err(E::custom)
    }

    fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<T, E> {
        (self.1)(&number.to_string()).map_err(E::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        for (text, bytes, shown) in [
            ("4GB", 4_000_000_000, "4GB"),
            ("512 mib", 512 << 20, "512MiB"),
            ("1.5GiB", 3 << 29, "1536MiB"),
            ("1_000", 1_000, "1kB"),
            ("0", 0, "0"),
            ("1234567", 1_234_567, "1234567B"),
        ] {
            let size: Size = text.parse().unwrap();
            assert_eq!((size.0, size.to_string().as_str()), (bytes, shown), "{text}");
        }
        for wrong in ["", "GB", "4 potatoes", "-1", "99999999999TB", "1.2.3GB", "1e9"] {
            assert!(wrong.parse::<Size>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn times() {
        for (text, millis, shown) in [
            ("30s", 30_000, "30s"),
            ("1.5min", 90_000, "90s"),
            ("2 h", 7_200_000, "2h"),
            ("250ms", 250, "250ms"),
            ("0", 0, "0"),
        ] {
            let span: Span = text.parse().unwrap();
            assert_eq!(span.0, Duration::from_millis(millis), "{text}");
            assert_eq!(span.to_string(), shown);
        }
        for wrong in ["30", "", "s", "30 parsecs", "-1s"] {
            assert!(wrong.parse::<Span>().is_err(), "{wrong}");
        }
    }
}
