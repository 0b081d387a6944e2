//! Intervals from text: `1 year 2 mons -3 days 04:05:06.5`, `1.5 hours ago`, `P1DT2H`.

use arrow::datatypes::IntervalMonthDayNano;

const NANOS_PER_SECOND: f64 = 1e9;
const DAYS_PER_MONTH: f64 = 30.0;

/// The interval that a text stands for.
pub(crate) fn parse(text: &str) -> Option<IntervalMonthDayNano> {
    let lower = text.trim().to_ascii_lowercase();
    let mut sum = Sum::default();
    if let Some(designators) = lower.strip_prefix('p') {
        sum.add_designators(designators)?;
        return sum.finish();
    }
    let words = separate_units(lower.trim_start_matches('@'));
    let mut words = words.split_whitespace().peekable();
    words.peek().filter(|first| **first != "ago")?;
    while let Some(word) = words.next() {
        if word == "ago" {
            return if words.next().is_none() { sum.negated().finish() } else { None };
        }
        if word.contains(':') {
            sum.add_clock(word)?;
            continue;
        }
        if let Some((years, months)) = years_and_months(word) {
            sum.add(years, "year")?;
            sum.add(months, "month")?;
            continue;
        }
        let amount: f64 = word.parse().ok().filter(|amount: &f64| amount.is_finite())?;
        // A number without a unit counts seconds.
        let unit =
            words.next_if(|next| next.starts_with(|c: char| c.is_alphabetic()) && *next != "ago");
        sum.add(amount, unit.unwrap_or("second"))?;
    }
    sum.finish()
}

/// `1-2` is one year and two months.
fn years_and_months(word: &str) -> Option<(f64, f64)> {
    let (sign, digits) = match word.strip_prefix('-') {
        Some(digits) => (-1.0, digits),
        None => (1.0, word),
    };
    let (years, months) = digits.split_once('-')?;
    let number = |digits: &str| -> Option<f64> {
        let is_whole = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        if is_whole { digits.parse().ok() } else { None }
    };
    Some((sign * number(years)?, sign * number(months).filter(|months| *months < 12.0)?))
}

/// `1day` is `1 day`.
fn separate_units(text: &str) -> String {
    let mut separated = String::with_capacity(text.len() + 4);
    let mut before = ' ';
    for c in text.chars() {
        if c.is_alphabetic() && before.is_ascii_digit() {
            separated.push(' ');
        }
        separated.push(c);
        before = c;
    }
    separated
}

/// Parts of units carry over into smaller ones, as PostgreSQL has them do.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    months: f64,
    days: f64,
    nanos: f64,
}

impl Sum {
    fn add(&mut self, amount: f64, unit: &str) -> Option<()> {
        let months = |factor: f64| (factor * amount).round();
        match unit.strip_suffix('s').filter(|unit| unit.len() > 1).unwrap_or(unit) {
            "millennium" | "millennia" | "mil" => self.months += months(12_000.0),
            "century" | "centurie" | "c" => self.months += months(1_200.0),
            "decade" | "dec" => self.months += months(120.0),
            "year" | "yr" | "y" => self.months += months(12.0),
            "month" | "mon" => {
                self.months += amount.trunc();
                self.add_days(amount.fract() * DAYS_PER_MONTH);
            }
            "week" | "w" => self.add_days(amount * 7.0),
            "day" | "d" => self.add_days(amount),
            "hour" | "hr" | "h" => self.nanos += amount * 3_600.0 * NANOS_PER_SECOND,
            "minute" | "min" | "m" => self.nanos += amount * 60.0 * NANOS_PER_SECOND,
            "second" | "sec" => self.nanos += amount * NANOS_PER_SECOND,
            "s" => self.nanos += amount * NANOS_PER_SECOND,
            "millisecond" | "msec" | "ms" => self.nanos += amount * 1e6,
            "microsecond" | "usec" | "us" => self.nanos += amount * 1e3,
            _ => return None,
        }
        Some(())
    }

    fn add_days(&mut self, days: f64) {
        self.days += days.trunc();
        self.nanos += days.fract() * 86_400.0 * NANOS_PER_SECOND;
    }

    /// `04:05` and `-04:05:06.5`.
    fn add_clock(&mut self, word: &str) -> Option<()> {
        let (sign, digits) = match word.strip_prefix(['-', '+']) {
            Some(digits) => (if word.starts_with('-') { -1.0 } else { 1.0 }, digits),
            None => (1.0, word),
        };
        let mut seconds = 0.0;
        let mut scale = 3_600.0;
        for (index, part) in digits.split(':').enumerate() {
            let value: f64 = part.parse().ok().filter(|value: &f64| *value >= 0.0)?;
            if index > 2 || (index > 0 && value >= 60.0) {
                return None;
            }
            seconds += value * scale;
            scale /= 60.0;
        }
        self.nanos += sign * (seconds * 1e6).round() * 1e3;
        Some(())
    }

    /// What follows the `P` of `P1Y2M3DT4H5M6S`.
    fn add_designators(&mut self, text: &str) -> Option<()> {
        let (date, time) = text.split_once('t').unwrap_or((text, ""));
        for (part, is_time) in [(date, false), (time, true)] {
            let mut rest = part;
            while !rest.is_empty() {
                let end = rest.find(|c: char| c.is_alphabetic())?;
                let amount: f64 = rest[..end].parse().ok()?;
                let unit = match (&rest[end..=end], is_time) {
                    ("y", false) => "year",
                    ("m", false) => "month",
                    ("w", false) => "week",
                    ("d", false) => "day",
                    ("h", true) => "hour",
                    ("m", true) => "minute",
                    ("s", true) => "second",
                    _ => return None,
                };
                self.add(amount, unit)?;
                rest = &rest[end + 1..];
            }
        }
        Some(())
    }

    fn negated(self) -> Sum {
        Sum { months: -self.months, days: -self.days, nanos: -self.nanos }
    }

    fn finish(self) -> Option<IntervalMonthDayNano> {
        // Whole microseconds: what is below them is an error of the binary fractions.
        let micros = (self.nanos / 1e3).round();
        let fits = self.months.abs() < f64::from(i32::MAX)
            && self.days.abs() < f64::from(i32::MAX)
            && micros.abs() < 9.2e15;
        fits.then(|| {
            IntervalMonthDayNano::new(self.months as i32, self.days as i32, micros as i64 * 1_000)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_read_as_postgres_reads_them() {
        for (text, months, days, micros) in [
            ("1 day", 0, 1, 0),
            ("1 day 02:00:00", 0, 1, 7_200_000_000),
            ("1 year 2 months 3 days 04:05:06.5", 14, 3, 14_706_500_000),
            ("-1 mons +2 days -00:00:01", -1, 2, -1_000_000),
            ("1.5 hours", 0, 0, 5_400_000_000),
            ("1.5 days", 0, 1, 43_200_000_000),
            ("0.5 month", 0, 15, 0),
            ("2weeks", 0, 14, 0),
            ("90", 0, 0, 90_000_000),
            ("1 day ago", 0, -1, 0),
            ("P1Y2M3DT4H5M6.5S", 14, 3, 14_706_500_000),
            ("100 ms", 0, 0, 100_000),
            ("3 s", 0, 0, 3_000_000),
            ("1-2", 14, 0, 0),
            ("-1-2 3 days", -14, 3, 0),
        ] {
            let expected = IntervalMonthDayNano::new(months, days, micros * 1_000);
            assert_eq!(parse(text), Some(expected), "{text}");
        }
        for text in ["", "1 fortnight", "day", "1 day x", "04:61", "ago", "P1X"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
