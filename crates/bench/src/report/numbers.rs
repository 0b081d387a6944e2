//! Readable numbers: three significant digits, and the unit.

use crate::finding::{Finding, Unit, Wanted};
use crate::samples::Samples;

/// A number with its unit; seconds below one are shown as milliseconds.
pub fn shown(value: f64, unit: Unit) -> String {
    match unit {
        Unit::Seconds if value < 1.0 => format!("{} ms", digits(value * 1000.0)),
        Unit::Seconds => format!("{} s", digits(value)),
        Unit::Megabytes => format!("{} MB", digits(value)),
        Unit::Kibibytes => format!("{} KiB", digits(value)),
        Unit::Mebibytes => format!("{} MiB", digits(value)),
        Unit::MegabytesPerSecond => format!("{} MB/s", digits(value)),
        Unit::RowsPerSecond => format!("{} M rows/s", digits(value / 1e6)),
        Unit::StatementsPerSecond => format!("{}/s", digits(value)),
        Unit::Count => format!("{value:.0}"),
        Unit::Number => digits(value),
    }
}

/// The median, and the range of the measurements.
pub fn spread(samples: &Samples, unit: Unit) -> String {
    let median = shown(samples.median(), unit);
    match samples.len() {
        1 => median,
        _ => {
            let (min, max) = (shown(samples.min(), unit), shown(samples.max(), unit));
            format!("{median} ({min} – {max})")
        }
    }
}

/// Our median divided by the peer's, or an empty text without a peer.
pub fn ratio(finding: &Finding) -> String {
    finding.ratio().map_or_else(String::new, |ratio| format!("{ratio:.2}x"))
}

/// The target and whether it was reached, or an empty text without a target.
pub fn wanted(finding: &Finding) -> String {
    let bound = match finding.wanted {
        Wanted::RatioAtMost(bound) => format!("≤ {bound:.2}x"),
        Wanted::RatioAtLeast(bound) => format!("≥ {bound:.2}x"),
        Wanted::AtMost(bound) => format!("≤ {}", shown(bound, finding.unit)),
        Wanted::AtLeast(bound) => format!("≥ {}", shown(bound, finding.unit)),
        Wanted::Nothing => return String::new(),
    };
    match finding.reached() {
        Some(true) => format!("{bound} ✓"),
        Some(false) => format!("{bound} ✗"),
        None => bound,
    }
}

/// Three significant digits; two for small numbers.
fn digits(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 0.1 || size == 0.0 => format!("{value:.2}"),
        size => format!("{value:.*}", (1.0 - size.log10()).ceil().min(9.0) as usize),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits_and_a_unit() {
        assert_eq!(shown(0.012_345, Unit::Seconds), "12.3 ms");
        assert_eq!(shown(3.723_4, Unit::Seconds), "3.72 s");
        assert_eq!(shown(1_234_567.0, Unit::RowsPerSecond), "1.23 M rows/s");
        assert_eq!(shown(22.0, Unit::Count), "22");
        assert_eq!(shown(0.001_234, Unit::Number), "0.0012");
        let samples = Samples::from_iter([1.0, 3.0, 2.0]);
        assert_eq!(spread(&samples, Unit::Seconds), "2.00 s (1.00 s – 3.00 s)");
    }
}
