//! Motions of `FETCH` and `MOVE`.

use datafusion::sql::sqlparser::ast::{FetchDirection, Value, ValueWithSpan};
use thalweg_types::{Error, Result, SqlState};

/// The motion to the requested rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Motion {
    Forward(Rows),
    Backward(Rows),
    /// To one row: from the beginning, or, below 0, from the end.
    Absolute(i64),
    /// To one row, from the present one.
    Relative(i64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rows {
    Count(u64),
    All,
}

impl Rows {
    pub(super) fn count(self) -> Option<u64> {
        match self {
            Rows::Count(count) => Some(count),
            Rows::All => None,
        }
    }
}

impl Motion {
    /// # Errors
    /// If a number is not a valid count of rows.
    pub(crate) fn of(direction: &FetchDirection) -> Result<Motion> {
        let one = Rows::Count(1);
        Ok(match direction {
            FetchDirection::Next | FetchDirection::Forward { limit: None } => Motion::Forward(one),
            FetchDirection::Prior | FetchDirection::Backward { limit: None } => {
                Motion::Backward(one)
            }
            FetchDirection::First => Motion::Absolute(1),
            FetchDirection::Last => Motion::Absolute(-1),
            FetchDirection::Absolute { limit } => Motion::Absolute(number(limit)?),
            FetchDirection::Relative { limit } => Motion::Relative(number(limit)?),
            FetchDirection::All | FetchDirection::ForwardAll => Motion::Forward(Rows::All),
            FetchDirection::BackwardAll => Motion::Backward(Rows::All),
            FetchDirection::Count { limit } | FetchDirection::Forward { limit: Some(limit) } => {
                counted(number(limit)?)
            }
            FetchDirection::Backward { limit: Some(limit) } => {
                counted(number(limit)?.saturating_neg())
            }
        })
    }

    /// Numbers of rows that a forward-only cursor skips and then returns; `None` if it would have
    /// to move backwards.
    pub(super) fn forwards_from(self, passed: u64) -> Option<(Rows, Rows)> {
        let one_at = |ahead: i64| {
            let ahead = u64::try_from(ahead).ok()?;
            Some((Rows::Count(ahead.checked_sub(1)?), Rows::Count(1)))
        };
        match self {
            Motion::Forward(Rows::Count(0)) | Motion::Backward(_) => None,
            Motion::Forward(rows) => Some((Rows::Count(0), rows)),
            Motion::Absolute(place) => one_at(place.checked_sub(i64::try_from(passed).ok()?)?),
            Motion::Relative(ahead) => one_at(ahead),
        }
    }
}

/// So many rows forwards, or backwards if negative. Zero is the present row again.
fn counted(rows: i64) -> Motion {
    match rows {
        0 => Motion::Relative(0),
        1.. => Motion::Forward(Rows::Count(rows.unsigned_abs())),
        _ => Motion::Backward(Rows::Count(rows.unsigned_abs())),
    }
}

fn number(limit: &ValueWithSpan) -> Result<i64> {
    let parsed = match &limit.value {
        Value::Number(digits, _) => digits.to_string().parse().ok(),
        _ => None,
    };
    parsed.ok_or_else(|| {
        let message = format!("value \"{limit}\" is out of range for type integer");
        Error::new(SqlState::NUMERIC_OUT_OF_RANGE, message)
    })
}
