//! Prepared statements and their parameters.
//!
//! Parameters are bound to the statement's handle until others replace them. With several rows of
//! parameters, the statement runs once per row: changes are applied in one transaction, and result
//! rows are concatenated.

use std::sync::{Arc, Weak};

use arrow::array::RecordBatch;
use arrow::datatypes::{Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow_flight::sql::{
    ActionCreatePreparedStatementRequest, ActionCreatePreparedStatementResult,
};
use arrow_flight::{IpcMessage, SchemaAsIpc};
use arrow_ipc::writer::IpcWriteOptions;
use bytes::Bytes;
use futures::StreamExt;
use parking_lot::Mutex;
use thalweg_execution::row_forms::RowForm;
use thalweg_query::{BatchStream, Prepared, ScalarValue, takes_locks};
use thalweg_types::{Error, Result, SqlState};

use super::Flight;
use super::handles::Handle;
use super::identity::Caller;
use super::sessions::CallSession;
use super::statements::{Answer, Done, Rows, changed_by};
use super::transactions::no_transaction;
use super::wire::{wire_field, wire_schema};
use crate::connections::FrontEnd;
use crate::parameters::{self, Row};
use crate::values::without_zero;

pub(crate) struct PreparedStatement {
    pub(super) user: Arc<str>,
    pub(super) prepared: Prepared,
    /// Set if the statement was prepared in a transaction.
    transaction: Option<PreparedIn>,
    bound: Mutex<Arc<Vec<Row>>>,
}

/// The transaction in which a statement was prepared. The statement does not keep it open.
struct PreparedIn {
    call_session: Weak<CallSession>,
    /// The connection that began the transaction.
    opener: Option<Handle>,
}

impl Flight {
    pub(super) async fn create_prepared(
        &self,
        caller: &Caller,
        request: ActionCreatePreparedStatementRequest,
    ) -> Result<ActionCreatePreparedStatementResult> {
        without_zero(&request.query)?;
        let call_session = self.call_session(caller, request.transaction_id.as_deref())?;
        let prepared = call_session.session().await.prepare(&request.query, &[]).await?;
        let nothing: SchemaRef = Arc::new(Schema::empty());
        let dataset = prepared.schema().map_or(nothing, |schema| wire_schema(schema));
        let parameters: Vec<_> =
            prepared.parameters().iter().map(|parameter| wire_field(parameter)).collect();
        let result = (ipc(&dataset)?, ipc(&Schema::new(parameters))?);
        let statement = PreparedStatement {
            user: Arc::clone(&caller.user),
            prepared,
            transaction: request.transaction_id.is_some().then(|| PreparedIn {
                call_session: Arc::downgrade(&call_session),
                opener: call_session.opener,
            }),
            bound: Mutex::default(),
        };
        let handle = self.prepared.keep(Arc::new(statement))?;
        let (dataset_schema, parameter_schema) = result;
        let prepared_statement_handle = handle.to_bytes();
        Ok(ActionCreatePreparedStatementResult {
            prepared_statement_handle,
            dataset_schema,
            parameter_schema,
        })
    }

    pub(super) fn find_prepared(
        &self,
        caller: &Caller,
        handle: &[u8],
    ) -> Result<Arc<PreparedStatement>> {
        let found = Handle::of_bytes(handle).and_then(|handle| self.prepared.find(handle));
        found.filter(|statement| statement.user == caller.user).ok_or_else(|| {
            let message = "the prepared statement does not exist";
            Error::new(SqlState::INVALID_STATEMENT_NAME, message)
                .with_hint("It was closed, or not used for too long. Prepare it again.")
        })
    }

    pub(super) fn close_prepared(&self, caller: &Caller, handle: &[u8]) {
        if let Some(handle) = Handle::of_bytes(handle) {
            self.prepared.take_if(handle, |statement| statement.user == caller.user);
        }
    }

    /// Runs a prepared statement with its bound parameters.
    pub(super) async fn run_prepared(
        self: &Arc<Flight>,
        caller: &Caller,
        statement: &Arc<PreparedStatement>,
    ) -> Result<Done> {
        let call_session = match &statement.transaction {
            Some(transaction) => self.transaction_of(caller, transaction)?,
            None => self.seat_for(caller, None, statement.prepared.sql())?,
        };
        let bound = Arc::clone(&statement.bound.lock());
        if takes_locks(statement.prepared.sql()) {
            return self.run_locks(caller, &call_session, statement, &bound).await;
        }
        match bound.as_slice() {
            [] => self.run_once(&call_session, statement, &[], RowForm::Flight).await,
            [row] => self.run_once(&call_session, statement, row, RowForm::Flight).await,
            _ if statement.prepared.schema().is_none() => {
                self.change_by_rows(&call_session, statement, &bound).await
            }
            _ => self.query_by_rows(call_session, statement, bound).await,
        }
    }

    /// Runs a statement about advisory locks. Its session persists afterwards, since it may hold
    /// locks.
    async fn run_locks(
        &self,
        caller: &Caller,
        call_session: &Arc<CallSession>,
        statement: &PreparedStatement,
        rows: &[Row],
    ) -> Result<Done> {
        let row: &[ScalarValue] = match rows {
            [] => &[],
            [row] => row,
            _ => {
                let what = "a statement about advisory locks with several rows of parameters";
                return Err(Error::unsupported(what));
            }
        };
        let done = self.run_once(call_session, statement, row, RowForm::Flight).await?;
        if !call_session.lasts {
            self.connect(caller, call_session)?;
        }
        Ok(done)
    }

    /// The call session for a statement that was prepared in a transaction. Drivers reuse such
    /// statements without naming a transaction. After its own transaction has ended, the statement
    /// runs in the one that the same connection has begun since.
    fn transaction_of(&self, caller: &Caller, prepared: &PreparedIn) -> Result<Arc<CallSession>> {
        let own = prepared.call_session.upgrade().filter(|call_session| !call_session.has_ended());
        let later = || {
            let opener = prepared.opener?;
            let is_callers = |call_session: &CallSession| {
                call_session.opener == Some(opener) && call_session.user == caller.user
            };
            self.transactions.find_only(is_callers)
        };
        let call_session = own.or_else(later).ok_or_else(no_transaction)?;
        call_session.used_on(caller.line.as_ref());
        Ok(call_session)
    }

    async fn run_once(
        &self,
        call_session: &Arc<CallSession>,
        statement: &PreparedStatement,
        row: &[ScalarValue],
        form: RowForm,
    ) -> Result<Done> {
        let sql: Arc<str> = Arc::clone(statement.prepared.sql());
        let watch = self.shared.observer.begin(FrontEnd::Flight, &call_session.user, &sql);
        let executed =
            call_session.execute_prepared(&self.shared, &statement.prepared, row, form).await;
        self.done(executed, watch, call_session).await
    }

    /// Changes all rows or none: in the open transaction, or else in one of its own.
    async fn change_by_rows(
        &self,
        call_session: &Arc<CallSession>,
        statement: &PreparedStatement,
        rows: &[Row],
    ) -> Result<Done> {
        let prepared = &statement.prepared;
        let watch =
            self.shared.observer.begin(FrontEnd::Flight, &call_session.user, prepared.sql());
        let changed = call_session
            .all_or_none(&self.shared, async |session| {
                let mut changed = 0;
                for row in rows {
                    changed += changed_by(&session.execute_prepared(prepared, row).await?.tag);
                }
                Ok(changed)
            })
            .await;
        watch.end(changed.as_ref().err());
        changed.map(Done::Changed)
    }

    /// Runs the first row at once, so that its errors are reported immediately. The other rows run
    /// when their results are fetched.
    async fn query_by_rows(
        &self,
        call_session: Arc<CallSession>,
        statement: &Arc<PreparedStatement>,
        rows: Arc<Vec<Row>>,
    ) -> Result<Done> {
        let first = self.run_once(&call_session, statement, &rows[0], RowForm::Batches).await?;
        let Done::Rows(Answer {
            rows: Rows::Batches(first_rows),
            wire,
            watch,
            call_session: taken,
        }) = first
        else {
            return Err(Error::internal("a query gives rows"));
        };
        let statement = Arc::clone(statement);
        let later = futures::stream::iter(1..rows.len()).then(move |index| {
            let (call_session, statement, rows) =
                (Arc::clone(&call_session), Arc::clone(&statement), Arc::clone(&rows));
            async move {
                // The task that fetches these rows holds a permit already.
                let executed =
                    call_session.execute_admitted(&statement.prepared, &rows[index]).await;
                match executed.map(|outcome| outcome.rows) {
                    Ok(Some(rows)) => rows,
                    Ok(None) => one_error(Error::internal("a query gives rows")),
                    Err(error) => one_error(error),
                }
            }
        });
        let rows = Rows::Batches(Box::pin(first_rows.chain(later.flatten())));
        Ok(Done::Rows(Answer { wire, rows, watch, call_session: taken }))
    }
}

impl PreparedStatement {
    /// Binds parameters, which replace the earlier ones.
    pub(super) fn bind(&self, batches: &[RecordBatch]) -> Result<()> {
        let mut rows = Vec::new();
        for batch in batches {
            rows.extend(parameters::rows(&self.prepared, batch)?);
        }
        *self.bound.lock() = Arc::new(rows);
        Ok(())
    }
}

fn one_error(error: Error) -> BatchStream {
    Box::pin(futures::stream::once(async { Err(error) }))
}

pub(super) fn ipc(schema: &Schema) -> Result<Bytes> {
    let options = IpcWriteOptions::default();
    let message: Result<IpcMessage, ArrowError> = SchemaAsIpc::new(schema, &options).try_into();
    match message {
        Ok(IpcMessage(bytes)) => Ok(bytes),
        Err(error) => Err(Error::internal("the columns cannot be told").with_source(error)),
    }
}
