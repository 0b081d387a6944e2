//! Transactions and savepoints controlled by actions. A transaction is a session of its own, usable
//! from any connection of its user. It is rolled back when it idles for too long, soon after its
//! client has no open connection, and when the session that began it is closed.

use std::sync::Arc;

use arrow_flight::sql::{
    ActionBeginSavepointRequest, ActionEndSavepointRequest, ActionEndTransactionRequest,
    EndTransaction,
};
use bytes::Bytes;
use thalweg_query::TransactionStatus;
use thalweg_types::{Error, Result, SqlState};

use super::Flight;
use super::handles::Handle;
use super::identity::Caller;
use super::metadata::quoted;
use super::sessions::CallSession;

const HANDLE_BYTES: usize = 16;

/// Flight SQL's codes for ending a savepoint.
const RELEASE: i32 = 1;
const ROLLBACK: i32 = 2;

impl Flight {
    pub(super) async fn begin_transaction(&self, caller: &Caller) -> Result<Bytes> {
        let call_session = self.new_seat(caller, true)?;
        call_session.control("BEGIN").await?;
        Ok(self.transactions.keep(call_session)?.to_bytes())
    }

    pub(super) async fn end_transaction(
        &self,
        caller: &Caller,
        request: ActionEndTransactionRequest,
    ) -> Result<()> {
        let end = match EndTransaction::try_from(request.action) {
            Ok(EndTransaction::Commit) => "COMMIT",
            Ok(EndTransaction::Rollback) => "ROLLBACK",
            _ => return Err(neither("commit nor rollback")),
        };
        let call_session = self.find_transaction(caller, &request.transaction_id)?;
        let mut session = call_session.session().await;
        // Another call or statement may have ended it while this call waited for the session.
        if session.transaction() == TransactionStatus::Idle {
            return Err(no_transaction());
        }
        let failed = session.transaction() == TransactionStatus::Failed;
        let ended = call_session.control_in(&mut session, end).await;
        drop(session);
        if let Some(handle) = Handle::of_bytes(&request.transaction_id) {
            self.transactions.take(handle);
        }
        // Statements prepared in this transaction must not run outside of it.
        call_session.retire();
        ended?;
        if failed && end == "COMMIT" {
            let message = "the transaction was rolled back: a statement in it had failed";
            return Err(Error::new(SqlState::IN_FAILED_TRANSACTION, message));
        }
        Ok(())
    }

    /// Begins a savepoint. Its id is the transaction's id followed by the savepoint's name.
    pub(super) async fn begin_savepoint(
        &self,
        caller: &Caller,
        request: ActionBeginSavepointRequest,
    ) -> Result<Bytes> {
        let call_session = self.find_transaction(caller, &request.transaction_id)?;
        let name = call_session.name_savepoint(&request.name);
        call_session.control(&format!("SAVEPOINT {}", quoted(&name))).await?;
        Ok([&request.transaction_id, name.as_bytes()].concat().into())
    }

    pub(super) async fn end_savepoint(
        &self,
        caller: &Caller,
        request: ActionEndSavepointRequest,
    ) -> Result<()> {
        let id = request.savepoint_id.split_at_checked(HANDLE_BYTES);
        let (transaction, name) = id.ok_or_else(no_savepoint)?;
        let name = quoted(str::from_utf8(name).map_err(|_| no_savepoint())?);
        let sql = match request.action {
            RELEASE => format!("RELEASE SAVEPOINT {name}"),
            ROLLBACK => format!("ROLLBACK TO SAVEPOINT {name}"),
            _ => return Err(neither("release nor rollback")),
        };
        let call_session = self.find_transaction(caller, transaction)?;
        call_session.control(&sql).await
    }

    pub(super) fn find_transaction(&self, caller: &Caller, id: &[u8]) -> Result<Arc<CallSession>> {
        let found = Handle::of_bytes(id).and_then(|handle| self.transactions.find(handle));
        let call_session = found
            .filter(|call_session| call_session.user == caller.user)
            .ok_or_else(no_transaction)?;
        call_session.used_on(caller.line.as_ref());
        Ok(call_session)
    }
}

pub(super) fn no_transaction() -> Error {
    Error::new(SqlState::NO_ACTIVE_TRANSACTION, "the transaction does not exist")
        .with_hint("It was ended, or rolled back because its client was away for too long.")
}

fn no_savepoint() -> Error {
    Error::new(SqlState::INVALID_SAVEPOINT, "the savepoint does not exist")
}

fn neither(what: &str) -> Error {
    Error::new(SqlState::PROTOCOL_VIOLATION, format!("the end is neither {what}"))
}
