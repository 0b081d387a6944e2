//! Output of the program: results, in every format, and errors.

pub mod error;
mod expanded;
pub mod results;
pub mod table;
pub mod text;
