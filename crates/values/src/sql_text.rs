//! The text of statements ahead of any tree: limits on its depth, positions, and passwords.

pub mod depth;
pub mod parser_stack;
mod redact;
mod source_positions;

pub use redact::{may_hold_password, without_passwords};
pub use source_positions::{SourcePositions, character_at};
