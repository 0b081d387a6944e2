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

/// Like [`check_columns`], for rows that are written out.
pub(super) fn check_values(query: &Query) -> Result<()> {
    match query.body.as_ref() {
        SetExpr::Values(values) => values.rows.iter().try_for_each(|row| check_columns(row.len())),
        _ => Ok(()),
    }
}
