//! Limits on copies: some rewrites repeat an operand of a statement.
//!
//! `(a, b) < (x, y)` repeats `a` and `x`. Such forms inside each other grow exponentially with
//! their depth, so the number of expressions that a statement is rewritten to is bounded by the
//! number that it was written with. An operand that has another value each time cannot be repeated.

use std::ops::ControlFlow;

use crate::walk;
use datafusion::sql::sqlparser::ast::{Expr, Statement, Visitor};
use thalweg_types::{Error, Result, SqlState};
use thalweg_values::statement_control::check_cancelled;

use super::names::normalized;

/// Number of expressions to which every statement may be rewritten.
const EXPRESSIONS_MIN: usize = 50_000;
/// Number of further expressions for each one that was written.
const EXPRESSIONS_PER_WRITTEN: usize = 16;
/// Number of expressions between two cancellation checks.
const EXPRESSIONS_UNCHECKED: usize = 1_024;

/// Functions that have another value, or an effect, with each call. Syntax trees are rewritten
/// ahead of names, so the functions themselves, which know this, are not at hand.
const VOLATILE: [&str; 30] = [
    "clock_timestamp",
    "currval",
    "file_row_index",
    "gen_random_uuid",
    "input_file_name",
    "lastval",
    "nextval",
    "pg_advisory_lock",
    "pg_advisory_lock_shared",
    "pg_advisory_unlock",
    "pg_advisory_unlock_all",
    "pg_advisory_unlock_shared",
    "pg_advisory_xact_lock",
    "pg_advisory_xact_lock_shared",
    "pg_cancel_backend",
    "pg_notify",
    "pg_sleep",
    "pg_terminate_backend",
    "pg_try_advisory_lock",
    "pg_try_advisory_lock_shared",
    "pg_try_advisory_xact_lock",
    "pg_try_advisory_xact_lock_shared",
    "rand",
    "random",
    "set_config",
    "setval",
    "thalweg_setting_now",
    "timeofday",
    "uuid",
    "uuid_generate_v4",
];

/// The expressions that a statement may still be rewritten to.
pub(super) struct Budget(usize);

impl Budget {
    pub(super) fn of(statement: &Statement) -> Budget {
        let mut written = Count(0);
        let _ = walk::visit(statement, &mut written);
        Budget(written.0.saturating_mul(EXPRESSIONS_PER_WRITTEN).saturating_add(EXPRESSIONS_MIN))
    }

    /// Counts an expression of the rewritten statement.
    ///
    /// # Errors
    /// If there are too many (`54001`), or the statement was canceled.
    pub(super) fn count(&mut self) -> Result<()> {
        self.0 = self.0.checked_sub(1).ok_or_else(|| {
            Error::new(SqlState::STATEMENT_TOO_COMPLEX, "the expression is too complex")
                .with_detail("Comparisons of rows and arrays inside each other repeat operands.")
                .with_hint("Compute the operands in a subquery.")
        })?;
        match self.0.is_multiple_of(EXPRESSIONS_UNCHECKED) {
            true => check_cancelled(),
            false => Ok(()),
        }
    }
}

struct Count(usize);

impl Visitor for Count {
    type Break = ();

    fn pre_visit_expr(&mut self, _: &Expr) -> ControlFlow<()> {
        self.0 += 1;
        ControlFlow::Continue(())
    }
}

/// Checks that an operand may be repeated.
///
/// # Errors
/// If it calls a volatile function (`0A000`).
pub(super) fn check_repeated(operand: &Expr) -> Result<()> {
    match walk::visit(operand, &mut FindVolatile) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(name) => {
            Err(Error::unsupported(format!("{name}() in a comparison that repeats it"))
                .with_hint("Call the function in a subquery, and compare its column."))
        }
    }
}

/// True for the name of a function with another value, or an effect, with each call.
#[must_use]
pub fn is_volatile(function: &str) -> bool {
    VOLATILE.contains(&function)
}

struct FindVolatile;

impl Visitor for FindVolatile {
    type Break = String;

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<String> {
        let Expr::Function(function) = expr else { return ControlFlow::Continue(()) };
        let name = function.name.0.last().and_then(|part| part.as_ident()).map(normalized);
        match name.filter(|name| is_volatile(name)) {
            Some(name) => ControlFlow::Break(name),
            None => ControlFlow::Continue(()),
        }
    }
}
