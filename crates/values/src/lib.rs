//! PostgreSQL's values on Arrow: types and their names, casts, the calendar, arithmetic and errors;
//! and the cancellation and memory of the statements that compute with them.
//!
//! The crate is the lowest of three. `thalweg-functions` defines functions over values, and
//! `thalweg-dialect` parses, rewrites and plans statements. This crate sees a statement only as
//! text ([`sql_text`]), and parses no more than parts of one, such as the name of a type
//! ([`sql_parts`]).
//!
//! The entry points are [`types`] (names of types), [`cast`] (conversions), [`arithmetic`] (checked
//! operators), [`scalar_function`] (definitions of functions), [`errors`] (SQLSTATEs for errors of
//! DataFusion) and [`statement_control`] (cancellation and memory).

pub mod arithmetic;
pub mod assign;
pub mod bounded_output;
pub mod calendar;
pub mod canonical_json;
pub mod cast;
pub mod cast_function;
pub mod column_marks;
pub mod common_type;
pub mod date_pattern;
pub mod errors;
pub mod float_frames;
pub mod interval_length;
pub mod number_pattern;
pub mod scalar_function;
pub mod sql_parts;
pub mod sql_text;
pub mod statement_control;
pub mod system_types;
pub mod types;
mod wrapping;
pub mod zone;
