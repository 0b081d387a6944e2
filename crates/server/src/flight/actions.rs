//! `DoAction`: prepared statements, transactions, cancellation, and session options.

use std::sync::Arc;

use arrow_flight::sql::{
    ActionBeginSavepointRequest, ActionBeginSavepointResult, ActionBeginTransactionRequest,
    ActionBeginTransactionResult, ActionCancelQueryRequest, ActionCancelQueryResult,
    ActionClosePreparedStatementRequest, ActionCreatePreparedStatementRequest,
    ActionEndSavepointRequest, ActionEndTransactionRequest, Any, ProstMessageExt,
};
use arrow_flight::{
    Action, CancelFlightInfoRequest, CancelFlightInfoResult, CancelStatus, FlightInfo,
};
use bytes::Bytes;
use prost::Message;
use thalweg_types::{Error, Result};

use super::Flight;
use super::identity::Caller;
use super::tickets::StatementTicket;
use super::upload::protocol;

/// The supported actions, with their descriptions for `ListActions`.
pub(super) const ACTIONS: [(&str, &str); 11] = [
    ("CreatePreparedStatement", "Prepares a statement; returns its handle and columns."),
    ("ClosePreparedStatement", "Forgets a prepared statement."),
    ("BeginTransaction", "Begins a transaction; returns its id."),
    ("EndTransaction", "Commits a transaction or rolls it back."),
    ("BeginSavepoint", "Begins a savepoint in a transaction; returns its id."),
    ("EndSavepoint", "Releases a savepoint or rolls back to it."),
    ("CancelQuery", "Cancels what a FlightInfo stands for. Superseded by CancelFlightInfo."),
    ("CancelFlightInfo", "Cancels what a FlightInfo stands for."),
    ("SetSessionOptions", "Sets settings of the connection, as SET does."),
    ("GetSessionOptions", "Tells settings of the connection, as SHOW does."),
    ("CloseSession", "Ends the connection: its session, what it began, its token."),
];

impl Flight {
    /// Runs an action and returns the body of its result, if it has one.
    pub(super) async fn act(
        self: &Arc<Flight>,
        caller: &Caller,
        action: Action,
    ) -> Result<Option<Bytes>> {
        let body = &action.body;
        match action.r#type.as_str() {
            "CreatePreparedStatement" => {
                let request: ActionCreatePreparedStatementRequest = unpack(body)?;
                self.create_prepared(caller, request).await.map(|result| packed(&result))
            }
            "ClosePreparedStatement" => {
                let request: ActionClosePreparedStatementRequest = unpack(body)?;
                self.close_prepared(caller, &request.prepared_statement_handle);
                Ok(None)
            }
            "BeginTransaction" => {
                let _: ActionBeginTransactionRequest = unpack(body)?;
                let transaction_id = self.begin_transaction(caller).await?;
                Ok(packed(&ActionBeginTransactionResult { transaction_id }))
            }
            "EndTransaction" => {
                let request: ActionEndTransactionRequest = unpack(body)?;
                self.end_transaction(caller, request).await.map(|()| None)
            }
            "BeginSavepoint" => {
                let request: ActionBeginSavepointRequest = unpack(body)?;
                let savepoint_id = self.begin_savepoint(caller, request).await?;
                Ok(packed(&ActionBeginSavepointResult { savepoint_id }))
            }
            "EndSavepoint" => {
                let request: ActionEndSavepointRequest = unpack(body)?;
                self.end_savepoint(caller, request).await.map(|()| None)
            }
            "CancelQuery" => {
                let request: ActionCancelQueryRequest = unpack(body)?;
                let info = FlightInfo::decode(request.info).map_err(|_| unreadable())?;
                let result = self.cancel(caller, &info)? as i32;
                Ok(packed(&ActionCancelQueryResult { result }))
            }
            "CancelFlightInfo" => {
                let request =
                    CancelFlightInfoRequest::decode(body.clone()).map_err(|_| unreadable())?;
                let info = request.info.ok_or_else(unreadable)?;
                let result = CancelFlightInfoResult::new(self.cancel(caller, &info)?);
                Ok(Some(result.encode_to_vec().into()))
            }
            "SetSessionOptions" => self.set_options(caller, body).await.map(Some),
            "GetSessionOptions" => self.get_options(caller).await.map(Some),
            "CloseSession" => Ok(Some(self.close_session(caller).await)),
            other => Err(Error::unsupported(format!("the action \"{other}\""))),
        }
    }

    /// Cancels the running statements of the tickets, and drops their waiting results.
    ///
    /// Both requests, `CancelQuery` and `CancelFlightInfo`, use the same status numbers.
    fn cancel(&self, caller: &Caller, info: &FlightInfo) -> Result<CancelStatus> {
        let mut status = CancelStatus::NotCancellable;
        for ticket in info.endpoint.iter().filter_map(|endpoint| endpoint.ticket.as_ref()) {
            let id = StatementTicket::of_ticket(ticket)?.id()?;
            if self.waiting.take_if(id, |waiting| waiting.user == caller.user).is_some() {
                status = CancelStatus::Cancelled;
            }
            if let Some(sending) = self.sending.take_if(id, |sending| sending.user == caller.user) {
                sending.cancel.cancel();
                status = CancelStatus::Cancelled;
            }
        }
        Ok(status)
    }
}

fn unpack<M: ProstMessageExt>(body: &Bytes) -> Result<M> {
    let any = Any::decode(&**body).map_err(|_| unreadable())?;
    any.unpack().map_err(|_| unreadable())?.ok_or_else(unreadable)
}

fn packed<M: ProstMessageExt>(result: &M) -> Option<Bytes> {
    Some(result.as_any().encode_to_vec().into())
}

fn unreadable() -> Error {
    protocol("the action cannot be read")
}
