//! Passes over plans that keep their meaning and make them cheaper, where constants are folded.

mod days;

pub(crate) use self::days::CompareDays;
