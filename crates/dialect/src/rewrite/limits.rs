//! Limits of a query's size: a query far beyond them would keep the planner busy for minutes.

use datafusion::sql::sqlparser::ast::{Query, SetExpr};
use thalweg_types::{Error, Result, SqlState};

/// PostgreSQL's limit; a row's description counts columns in 16 bits.
const COLUMNS_MAX: usize = 1_664;

/// # Errors
/// If a result would have more columns than a result can have.
pub fn check_columns(count: usize) -> Result<()> {
    if count <= COLUMNS_MAX {
        return Ok(());
    }
    let message = format!("target lists can have at most {COLUMNS_MAX} entries");
    Err(Error::new(SqlState::TOO_MANY_COLUMNS, message))
}

/// Like [`check_columns`], for the select lists of a query and the rows that it writes out, before
/// anything is built from them. A `*` counts as one entry.
///
/// # Errors
/// As [`check_columns`].
pub(super) fn check_lists(query: &Query) -> Result<()> {
    let mut bodies = vec![query.body.as_ref()];
    while let Some(body) = bodies.pop() {
        match body {
            SetExpr::Select(select) => check_columns(select.projection.len())?,
            SetExpr::Values(values) => {
                values.rows.iter().try_for_each(|row| check_columns(row.len()))?;
            }
            SetExpr::SetOperation { left, right, .. } => {
                bodies.extend([left, right].map(Box::as_ref))
            }
            // Queries in parentheses are visited themselves.
            _ => {}
        }
    }
    Ok(())
}
