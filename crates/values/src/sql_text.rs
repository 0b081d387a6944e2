//! The text of statements ahead of any tree: limits on its depth, positions, and passwords.

pub mod depth;
pub mod parser_stack;
mod pieces;
mod redact;
mod source_positions;
mod token_count;

pub use redact::{may_hold_password, without_passwords};
pub use source_positions::{SourcePositions, character_at};
pub use token_count::tokens_at_most;
