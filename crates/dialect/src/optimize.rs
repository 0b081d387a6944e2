//! Passes over plans that keep their meaning and make them cheaper, where constants are folded, and
//! a guard around one of DataFusion's.

mod days;
mod rows_of_none;

pub(crate) use self::days::CompareDays;
pub(crate) use self::rows_of_none::guarded;
