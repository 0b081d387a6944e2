//! `LOCK TABLE`, which is accepted and does nothing. A notice tells the client.

use datafusion::sql::sqlparser::ast::Lock;
use thalweg_txn::Privilege;
use thalweg_types::{Error, Result, SqlState};

use super::{Execution, Target};
use crate::outcome::Outcome;

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
