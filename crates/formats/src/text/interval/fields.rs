//! The fields of an interval type: `day to hour`, `second(3)`.

use arrow::datatypes::IntervalMonthDayNano;

use super::NANOS_PER_SECOND;

/// The parts of an interval that types can name, the greatest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum IntervalPart {
    Year,
    Month,
    Day,
    Hour,
    Minute,
    Second,
}

/// The restrictions of an interval type; by default, none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct IntervalFields {
    /// The greatest and the smallest named part.
    pub parts: Option<(IntervalPart, IntervalPart)>,
    /// The number of fractional digits of the seconds.
    pub second_digits: Option<u8>,
}

impl IntervalFields {
    /// The value within these restrictions: parts below the smallest named one are cut off, those
    /// above the greatest one stay.
    #[must_use]
    pub fn kept(self, value: IntervalMonthDayNano) -> IntervalMonthDayNano {
        let IntervalMonthDayNano { months, days, nanoseconds } = value;
        let whole = |step: i64| nanoseconds / step * step;
        let (months, days, nanoseconds) = match self.parts {
            Some((_, IntervalPart::Year)) => (months / 12 * 12, 0, 0),
            Some((_, IntervalPart::Month)) => (months, 0, 0),
            Some((_, IntervalPart::Day)) => (months, days, 0),
            Some((_, IntervalPart::Hour)) => (months, days, whole(3_600 * NANOS_PER_SECOND)),
            Some((_, IntervalPart::Minute)) => (months, days, whole(60 * NANOS_PER_SECOND)),
            Some((_, IntervalPart::Second)) | None => (months, days, self.rounded(nanoseconds)),
        };
        IntervalMonthDayNano { months, days, nanoseconds }
    }

    fn rounded(self, nanos: i64) -> i64 {
        let Some(digits) = self.second_digits else { return nanos };
        let step = 10_i64.pow(9_u32.saturating_sub(u32::from(digits)));
        let half = if nanos < 0 { -(step / 2) } else { step / 2 };
        nanos.saturating_add(half) / step * step
    }
}
