//! Statements that are accepted and do nothing: `COMMENT ON` and `LOCK TABLE`. A notice tells the
//! client.

use datafusion::sql::sqlparser::ast::{CommentObject, Lock, ObjectName};
use thalweg_txn::Privilege;
use thalweg_types::{Error, Result, SqlState};

use super::target::QualifiedName;
use super::{Execution, Target, folded};
use crate::outcome::Outcome;

/// `COMMENT ON`: its object must exist.
pub(super) fn comment(
    execution: &Execution<'_>,
    kind: &CommentObject,
    name: &ObjectName,
) -> Result<Outcome> {
    let catalog = execution.names.catalog();
    match kind {
        CommentObject::Column => {
            let mut table = name.clone();
            let column = table.0.pop();
            let column = column.as_ref().and_then(|part| part.as_ident());
            let (Some(column), false) = (column, table.0.is_empty()) else {
                let message = "column name must be qualified";
                return Err(Error::new(SqlState::SYNTAX_ERROR, message));
            };
            Target::find(&catalog, &table)?.position(&folded(column))?;
        }
        CommentObject::Table | CommentObject::View | CommentObject::Sequence => {
            QualifiedName::existing(&catalog, name)?.find(&catalog)?;
        }
        CommentObject::Schema | CommentObject::Database => {}
        other => return Err(Error::unsupported(format!("COMMENT ON {other}"))),
    }
    Ok(Outcome::command("COMMENT").with_notice("comments are not kept".to_owned()))
}

/// `LOCK TABLE`: there are no table locks and no waits. The second of two conflicting writers
/// fails.
pub(super) fn lock(execution: &Execution<'_>, lock: &Lock) -> Result<Outcome> {
    if !execution.in_block {
        let message = "LOCK TABLE can only be used in transaction blocks";
        return Err(Error::new(SqlState::NO_ACTIVE_TRANSACTION, message));
    }
    for table in &lock.tables {
        let target = Target::find(&execution.names.catalog(), &table.name)?;
        target.require(execution, Privilege::Select)?;
    }
    let notice = "tables are not locked: transactions that change the same rows wait for each \
                  other, or fail with a serialization failure at REPEATABLE READ";
    Ok(Outcome::command("LOCK TABLE").with_notice(notice.to_owned()))
}
