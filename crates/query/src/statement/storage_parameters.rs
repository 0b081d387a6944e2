//! Storage parameters of PostgreSQL, such as `fillfactor`.
//!
//! They tune pages and vacuuming, which do not exist here. Migrations and `pgbench` send them, so
//! they are accepted with a notice.

use datafusion::sql::sqlparser::ast::Expr;
use thalweg_types::{Error, Result, SqlState};

use super::folded;

const OF_TABLES: &[&str] = &[
    "autovacuum_analyze_scale_factor",
    "autovacuum_analyze_threshold",
    "autovacuum_enabled",
    "autovacuum_freeze_max_age",
    "autovacuum_freeze_min_age",
    "autovacuum_freeze_table_age",
    "autovacuum_multixact_freeze_max_age",
    "autovacuum_multixact_freeze_min_age",
    "autovacuum_multixact_freeze_table_age",
    "autovacuum_vacuum_cost_delay",
    "autovacuum_vacuum_cost_limit",
    "autovacuum_vacuum_insert_scale_factor",
    "autovacuum_vacuum_insert_threshold",
    "autovacuum_vacuum_scale_factor",
    "autovacuum_vacuum_threshold",
    "fillfactor",
    "log_autovacuum_min_duration",
    "parallel_workers",
    "toast_tuple_target",
    "vacuum_index_cleanup",
    "vacuum_truncate",
];

const OF_INDEXES: &[&str] = &["deduplicate_items", "fillfactor"];

/// True if a parameter of a table has no effect here.
pub(super) fn is_of_table(name: &str) -> bool {
    OF_TABLES.contains(&name)
}

/// The notice about a parameter.
pub(super) fn notice(name: &str) -> String {
    format!("storage parameter \"{name}\" has no effect")
}

/// Checks the value of a parameter.
///
/// # Errors
/// 22023 for a `fillfactor` that PostgreSQL refuses.
pub(super) fn check(name: &str, value: &Expr) -> Result<()> {
    if name != "fillfactor" {
        return Ok(());
    }
    let text = value.to_string();
    let text = text.trim_matches('\'');
    let Ok(number) = text.parse::<i64>() else {
        let message = format!("invalid value for integer option \"{name}\": {text}");
        return Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, message));
    };
    if (10..=100).contains(&number) {
        return Ok(());
    }
    let message = format!("value {text} out of bounds for option \"{name}\"");
    Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, message)
        .with_detail("Valid values are between \"10\" and \"100\"."))
}

/// The notices about the parameters of an index.
///
/// # Errors
/// 22023 for parameters that indexes do not have, and bad values.
pub(super) fn of_index(parameters: &[Expr]) -> Result<Vec<String>> {
    let notices = parameters.iter().map(|parameter| {
        let (name, value) = match parameter {
            Expr::BinaryOp { left, right, .. } => (left.as_ref(), Some(right.as_ref())),
            name => (name, None),
        };
        let name = match name {
            Expr::Identifier(ident) => folded(ident),
            other => other.to_string(),
        };
        if !OF_INDEXES.contains(&name.as_str()) {
            let message = format!("unrecognized parameter \"{name}\"");
            return Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, message));
        }
        value.map_or(Ok(()), |value| check(&name, value))?;
        Ok(notice(&name))
    });
    notices.collect()
}
