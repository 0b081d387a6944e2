//! A limit on the work of the parser.
//!
//! Where the parser fails to read an expression in one way, it goes back and tries another. Each of
//! `n` nested attempts doubles the work, so that `cast(` forty times, with a mistake inside, takes
//! days. The parser of the next release remembers what failed
//! (<https://github.com/apache/datafusion-sqlparser-rs/pull/2352>); other forms may be left. So the
//! number of expressions that a statement begins to read is bounded by its number of tokens.

use std::cell::Cell;

use datafusion::sql::sqlparser::parser::ParserError;
use thalweg_values::statement_control::check_cancelled;

/// Number of attempts that every statement has: a few hundredths of a second.
const ATTEMPTS_MIN: usize = 20_000;

/// Number of further attempts for each token.
const ATTEMPTS_PER_TOKEN: usize = 16;

/// Number of attempts between two cancellation checks.
const ATTEMPTS_UNCHECKED: usize = 1_024;

thread_local! {
    /// Number of attempts that are left to the text that this thread parses.
    static LEFT: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// Runs `parse` on a text of so many tokens.
pub(super) fn bounded<T>(tokens: usize, parse: impl FnOnce() -> T) -> T {
    LEFT.set(tokens.saturating_mul(ATTEMPTS_PER_TOKEN).saturating_add(ATTEMPTS_MIN));
    let parsed = parse();
    LEFT.set(usize::MAX);
    parsed
}

/// Counts an attempt to read an expression.
///
/// # Errors
/// If no attempt is left, or if the statement was canceled. The parser tries nothing else after
/// this error.
pub(super) fn attempt() -> Result<(), ParserError> {
    let left = LEFT.get();
    if left == 0 || left.is_multiple_of(ATTEMPTS_UNCHECKED) && check_cancelled().is_err() {
        return Err(ParserError::RecursionLimitExceeded);
    }
    LEFT.set(left - 1);
    Ok(())
}
