//! The calls of the Flight protocol, dispatched to their implementations.

use std::pin::Pin;
use std::sync::Arc;

use arrow::datatypes::Schema;
use arrow_flight::flight_service_server::FlightService;
use arrow_flight::sql::{Command, DoPutPreparedStatementResult, DoPutUpdateResult};
use arrow_flight::{
    Action, ActionType, Criteria, Empty, FlightData, FlightDescriptor, FlightInfo,
    HandshakeRequest, HandshakeResponse, PollInfo, PutResult, Result as ActionResult, SchemaResult,
    Ticket,
};
use bytes::Bytes;
use futures::{Stream, StreamExt};
use prost::Message;
use thalweg_types::{Error, Result};
use tonic::metadata::MetadataValue;
use tonic::{Request, Response, Status, Streaming};

use super::Flight;
use super::actions::ACTIONS;
use super::encode::Frame;
use super::errors::status;
use super::identity::{Caller, peer_of};
use super::prepared::ipc;
use super::statements::{Answer, Asked, flight_info};
use super::tickets::StatementTicket;
use super::upload::{Upload, command, protocol};
use super::wire::wire_schema;
use crate::read_ahead::ReadAhead;
use crate::values::without_zero;

type Answers<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

pub(crate) struct FlightCalls(pub(super) Arc<Flight>);

#[tonic::async_trait]
impl FlightService for FlightCalls {
    type HandshakeStream = Answers<HandshakeResponse>;
    type ListFlightsStream = Answers<FlightInfo>;
    type DoGetStream = Answers<FlightData>;
    type DoPutStream = Answers<PutResult>;
    type DoActionStream = Answers<ActionResult>;
    type ListActionsStream = Answers<ActionType>;
    type DoExchangeStream = Answers<FlightData>;

    async fn handshake(
        &self,
        request: Request<Streaming<HandshakeRequest>>,
    ) -> Result<Response<Self::HandshakeStream>, Status> {
        let peer = peer_of(request.extensions()).map_err(|error| status(&error))?;
        let headers = request.metadata().clone().into_headers();
        let first = request.into_inner().next().await.transpose()?;
        let shaken = self.0.shake_hands(&headers, first, peer).await;
        let (token, response) = shaken.map_err(|error| self.0.refused(&error))?;
        let mut response = Response::new(one(response));
        let value = MetadataValue::try_from(format!("Bearer {token}"));
        let value = value.map_err(|_| Status::internal("a token is plain text"))?;
        response.metadata_mut().insert("authorization", value);
        Ok(response)
    }

    async fn get_flight_info(
        &self,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        let caller = caller(&request)?;
        let info = self.0.info(&caller, request.into_inner()).await;
        info.map(Response::new).map_err(|error| status(&error))
    }

    async fn get_schema(
        &self,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<SchemaResult>, Status> {
        let caller = caller(&request)?;
        let schema = self.0.schema(&caller, &request.into_inner()).await;
        schema.map(|schema| Response::new(SchemaResult { schema })).map_err(|error| status(&error))
    }

    async fn do_get(&self, _: Request<Ticket>) -> Result<Response<Self::DoGetStream>, Status> {
        Err(Status::internal("DoGet is answered ahead of this service"))
    }

    async fn do_put(
        &self,
        request: Request<Streaming<FlightData>>,
    ) -> Result<Response<Self::DoPutStream>, Status> {
        let caller = caller(&request)?;
        let outcome = self.0.put(&caller, request.into_inner()).await;
        let app_metadata = outcome.map_err(|error| status(&error))?;
        Ok(Response::new(one(PutResult { app_metadata })))
    }

    async fn do_action(
        &self,
        request: Request<Action>,
    ) -> Result<Response<Self::DoActionStream>, Status> {
        let caller = caller(&request)?;
        let body = self.0.act(&caller, request.into_inner()).await;
        let body = body.map_err(|error| status(&error))?;
        let results = body.into_iter().map(|body| Ok(ActionResult { body }));
        Ok(Response::new(Box::pin(futures::stream::iter(results))))
    }

    async fn list_actions(
        &self,
        _: Request<Empty>,
    ) -> Result<Response<Self::ListActionsStream>, Status> {
        let actions = ACTIONS.iter().map(|(kind, description)| {
            Ok(ActionType { r#type: (*kind).to_owned(), description: (*description).to_owned() })
        });
        Ok(Response::new(Box::pin(futures::stream::iter(actions))))
    }

    async fn list_flights(
        &self,
        _: Request<Criteria>,
    ) -> Result<Response<Self::ListFlightsStream>, Status> {
        Err(Status::unimplemented("flights are not listed: ask for tables with GetTables"))
    }

    async fn poll_flight_info(
        &self,
        _: Request<FlightDescriptor>,
    ) -> Result<Response<PollInfo>, Status> {
        Err(Status::unimplemented("statements are not polled: GetFlightInfo answers at once"))
    }

    async fn do_exchange(
        &self,
        _: Request<Streaming<FlightData>>,
    ) -> Result<Response<Self::DoExchangeStream>, Status> {
        Err(Status::unimplemented("Flight SQL has no exchanges"))
    }
}

impl Flight {
    async fn info(
        self: &Arc<Flight>,
        caller: &Caller,
        descriptor: FlightDescriptor,
    ) -> Result<FlightInfo> {
        let command = command(&descriptor.cmd)?;
        if let Some(schema) = self.metadata_schema(&command) {
            let ticket = Ticket { ticket: command.into_any().encode_to_vec().into() };
            return flight_info(&schema, ticket, descriptor);
        }
        match command {
            Command::CommandStatementQuery(query) => {
                let sql: Arc<str> = query.query.into();
                let call_session = self.seat_for(caller, query.transaction_id.as_deref(), &sql)?;
                let done = self.run(caller, &call_session, &sql).await?;
                let asked = Asked::Query { sql, transaction: query.transaction_id };
                self.promise(done, asked, descriptor, &caller.user)
            }
            Command::CommandPreparedStatementQuery(query) => {
                let handle = query.prepared_statement_handle;
                let statement = self.find_prepared(caller, &handle)?;
                let done = self.run_prepared(caller, &statement).await?;
                let asked = Asked::Prepared { handle, statement };
                self.promise(done, asked, descriptor, &caller.user)
            }
            other => Err(unsupported(&other)),
        }
    }

    /// The schema of a result, without running the statement.
    async fn schema(&self, caller: &Caller, descriptor: &FlightDescriptor) -> Result<Bytes> {
        let command = command(&descriptor.cmd)?;
        if let Some(schema) = self.metadata_schema(&command) {
            return ipc(&schema);
        }
        let prepared = match command {
            Command::CommandStatementQuery(query) => {
                without_zero(&query.query)?;
                let call_session = self.call_session(caller, query.transaction_id.as_deref())?;
                call_session.session().await.prepare(&query.query, &[]).await?
            }
            Command::CommandPreparedStatementQuery(query) => {
                let statement = self.find_prepared(caller, &query.prepared_statement_handle)?;
                statement.prepared.clone()
            }
            other => return Err(unsupported(&other)),
        };
        match prepared.schema() {
            Some(schema) => ipc(&wire_schema(schema)),
            None => ipc(&Schema::empty()),
        }
    }

    pub(super) async fn do_get(
        self: &Arc<Flight>,
        caller: &Caller,
        ticket: &Ticket,
    ) -> Result<ReadAhead<Frame>> {
        match command(&ticket.ticket)? {
            Command::TicketStatementQuery(query) => {
                let ticket = StatementTicket::of_command(&query)?;
                let answer = self.redeem(caller, &ticket).await?;
                let answer = answer.unwrap_or_else(Answer::nothing);
                self.send(caller, Some(ticket.id()?), answer)
            }
            // Some clients skip `GetFlightInfo` and use the handle's command as a ticket.
            Command::CommandPreparedStatementQuery(query) => {
                let statement = self.find_prepared(caller, &query.prepared_statement_handle)?;
                let done = self.run_prepared(caller, &statement).await?;
                self.send(caller, None, done.into_answer())
            }
            question if self.metadata_schema(&question).is_some() => {
                let call_session = self.new_seat(caller, false)?;
                let batch = self.metadata(question, &mut *call_session.session().await).await?;
                self.send(caller, None, Answer::of_batch(batch))
            }
            other => Err(unsupported(&other)),
        }
    }

    /// Handles `DoPut` and returns the body of its result.
    async fn put(
        self: &Arc<Flight>,
        caller: &Caller,
        stream: Streaming<FlightData>,
    ) -> Result<Bytes> {
        let upload = Upload::receive(stream).await?;
        let record_count = match upload.command.clone() {
            Command::CommandStatementUpdate(update) => {
                let transaction = update.transaction_id.as_deref();
                let call_session = self.seat_for(caller, transaction, &update.query)?;
                let done = self.run(caller, &call_session, &update.query.into()).await?;
                self.run_to_end(done).await?
            }
            Command::CommandPreparedStatementUpdate(update) => {
                let statement = self.find_prepared(caller, &update.prepared_statement_handle)?;
                if upload.has_batches() {
                    statement.bind(&upload.collect_batches().await?)?;
                }
                let done = self.run_prepared(caller, &statement).await?;
                self.run_to_end(done).await?
            }
            Command::CommandPreparedStatementQuery(query) => {
                let handle = query.prepared_statement_handle;
                let statement = self.find_prepared(caller, &handle)?;
                statement.bind(&upload.collect_batches().await?)?;
                let result =
                    DoPutPreparedStatementResult { prepared_statement_handle: Some(handle) };
                return Ok(result.encode_to_vec().into());
            }
            Command::CommandStatementIngest(command) => {
                self.ingest(caller, command, upload).await?
            }
            other => return Err(unsupported(&other)),
        };
        Ok(DoPutUpdateResult { record_count }.encode_to_vec().into())
    }
}

/// The caller, which the front door has identified.
fn caller<T>(request: &Request<T>) -> Result<Caller, Status> {
    let caller = request.extensions().get::<Caller>().cloned();
    caller.ok_or_else(|| Status::internal("nobody found out who calls"))
}

fn one<T: Send + 'static>(answer: T) -> Answers<T> {
    Box::pin(futures::stream::once(async { Ok(answer) }))
}

fn unsupported(command: &Command) -> Error {
    match command {
        Command::Unknown(_) => protocol("the command is not one of Flight SQL's"),
        Command::CommandStatementSubstraitPlan(_) => Error::unsupported("Substrait"),
        other => {
            let name = other.type_url().rsplit('.').next().unwrap_or_default();
            protocol(&format!("{name} cannot be asked for in this way"))
        }
    }
}
