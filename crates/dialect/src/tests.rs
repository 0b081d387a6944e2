//! Statements of a configured session: functions, arithmetic and errors.

mod arithmetic;
mod errors;
mod functions;
