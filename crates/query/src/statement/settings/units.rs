//! Times in settings: `250`, `'5s'`, `'2min'`.

/// Unit names with their lengths in milliseconds, longest first.
const UNITS: [(&str, u64); 5] =
    [("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1_000), ("ms", 1)];

/// The milliseconds of a text; a number without a unit is in milliseconds.
pub(super) fn milliseconds(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().ok()?;
    let unit = match unit.trim() {
        "" => 1,
        unit => UNITS.iter().find(|(name, _)| *name == unit)?.1,
    };
    // PostgreSQL's limit for time settings.
    number.checked_mul(unit).filter(|time| i32::try_from(*time).is_ok())
}

/// The text that `SHOW` returns, in the longest unit that expresses it exactly.
pub(super) fn text_of(milliseconds: u64) -> String {
    let exact =
        UNITS.iter().find(|(_, unit)| milliseconds > 0 && milliseconds.is_multiple_of(*unit));
    match exact {
        Some((name, unit)) => format!("{}{name}", milliseconds / unit),
        None => "0".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        for (text, expected) in [
            ("0", Some(0)),
            ("250", Some(250)),
            ("5s", Some(5_000)),
            ("5 s", Some(5_000)),
            ("2min", Some(120_000)),
            ("1d", Some(86_400_000)),
            ("-1", None),
            ("5 parsecs", None),
            ("99999999999", None),
        ] {
            assert_eq!(milliseconds(text), expected, "{text}");
        }
    }

    #[test]
    fn times_are_shown_as_postgres_shows_them() {
        for (time, expected) in [(0, "0"), (250, "250ms"), (90_000, "90s"), (120_000, "2min")] {
            assert_eq!(text_of(time), expected);
        }
    }
}
