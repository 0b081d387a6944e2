//! Arrow Flight SQL over gRPC: statements, prepared statements, transactions, bulk ingestion and
//! metadata. gRPC's health checks and reflection share the port.
//!
//! Each call of a Flight client can arrive on any connection. State between calls is kept under
//! handles ([`kept`]): sessions of logged-in clients, transactions, prepared statements and pending
//! results. Unused state is dropped.
//!
//! Rows are streamed: the first batch is sent before the second is computed. A slow client holds
//! the plan up, and one that disconnects ends it.

mod actions;
mod encode;
pub(crate) mod fuzz;
mod grpc_service;
mod handles;
mod identity;
mod ingest;
mod metadata;
mod prepared;
mod service;
mod session_options;
mod sessions;
mod sql_info;
mod statements;
mod tickets;
mod transactions;
pub(crate) mod upload;
mod wire;
mod xdbc_types;

use std::sync::{Arc, Weak};
use std::time::Duration;

use arrow_flight::sql::metadata::{SqlInfoData, XdbcTypeInfoData};
use thalweg_types::{Error, Result};
use tonic::Status;
use tonic::server::NamedService as _;
use tonic::service::Routes;
use tonic_health::server::HealthReporter;

use self::grpc_service::FlightGrpcService;
use self::handles::HandleMap;
pub(crate) use self::metadata::quoted;
use self::prepared::PreparedStatement;
use self::sessions::CallSession;
pub(crate) use self::statements::changed_by;
use self::statements::{Sending, Waiting};
use crate::connections::FrontEnd;
use crate::grpc::errors;
use crate::records;
use crate::shared::Shared;
use crate::web::{Kind, Web};

/// Maximum time that a result waits to be fetched.
const ROWS_WAIT: Duration = Duration::from_secs(60);

/// Time that a transaction survives without any open connection of its client. Clients that lose a
/// connection usually return at once on another one, or never.
const AWAY: Duration = Duration::from_secs(10);

/// Time after which an unused connection, transaction or prepared statement is dropped.
const IDLE: Duration = Duration::from_secs(30 * 60);
const SWEEP_EVERY: Duration = Duration::from_secs(5);
const DRAIN_EVERY: Duration = Duration::from_millis(20);

/// Maximum number of waiting results, prepared statements, and sessions of each kind.
const WAITING_MAX: usize = 4_096;
const PREPARED_MAX: usize = 65_536;
const SESSIONS_MAX: usize = 65_536;

/// State shared by all calls.
pub(crate) struct Flight {
    shared: Arc<Shared>,
    connections: HandleMap<CallSession>,
    transactions: HandleMap<CallSession>,
    /// The names of connections that ended within a transaction.
    lost: HandleMap<()>,
    prepared: HandleMap<PreparedStatement>,
    waiting: HandleMap<Waiting>,
    sending: Arc<HandleMap<Sending>>,
    sql_info: SqlInfoData,
    xdbc_types: XdbcTypeInfoData,
}

/// The gRPC front end: Flight SQL, the record API, health checks and reflection.
pub(crate) async fn web(shared: Arc<Shared>) -> Result<Web> {
    let flight = Flight::new(Arc::clone(&shared));
    let (health, health_service) = tonic_health::server::health_reporter();
    health.set_serving::<FlightGrpcService>().await;
    health.set_serving::<records::RecordsConnection>().await;
    let reflection = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
            .register_encoded_file_descriptor_set(thalweg_protocol::DESCRIPTORS)
            .with_service_name(FlightGrpcService::NAME)
            .with_service_name(thalweg_protocol::SERVICE)
            .with_service_name("grpc.health.v1.Health")
    };
    let unreflected = |error| Error::internal("reflection cannot be set up").with_source(error);
    tokio::spawn(sweep(Arc::downgrade(&flight), health, shared.drained()));
    let routes = Routes::new(FlightGrpcService::new(flight))
        .add_service(records::RecordsConnection::new(&shared))
        .add_service(health_service)
        .add_service(reflection().build_v1().map_err(unreflected)?)
        .add_service(reflection().build_v1alpha().map_err(unreflected)?);
    Ok(Web::new(shared, routes.into_axum_router(), Kind::Grpc))
}

impl Flight {
    fn new(shared: Arc<Shared>) -> Arc<Flight> {
        let clock = &Arc::clone(&shared.database.env().clock);
        Arc::new(Flight {
            shared,
            connections: HandleMap::new("connections", SESSIONS_MAX, IDLE, clock),
            transactions: HandleMap::new("transactions", SESSIONS_MAX, IDLE, clock),
            lost: HandleMap::new("lost connections", SESSIONS_MAX, IDLE, clock),
            prepared: HandleMap::new("prepared statements", PREPARED_MAX, IDLE, clock),
            waiting: HandleMap::new("results", WAITING_MAX, ROWS_WAIT, clock),
            // A result being sent is in use, so it never idles.
            sending: Arc::new(HandleMap::new("results", WAITING_MAX, Duration::MAX, clock)),
            sql_info: sql_info::sql_info(IDLE),
            xdbc_types: xdbc_types::xdbc_types(),
        })
    }

    /// Counts an error that precedes any statement, and converts it to a status.
    fn refused(&self, error: &Error) -> Status {
        self.shared.metrics.failed(FrontEnd::Flight, error);
        errors::status(error)
    }

    /// Drops idle entries, and ends sessions whose clients are gone.
    fn forget_idle(&self) {
        let now = self.shared.database.env().clock.monotonic();
        let is_over = |call_session: &CallSession| call_session.listed.connection.must_end();
        let is_left = |call_session: &CallSession| call_session.away_for(now) > AWAY;
        let mut gone = self
            .transactions
            .take_all_if(|call_session| is_over(call_session) || is_left(call_session));
        gone.extend(self.transactions.take_idle());
        let is_over = |call_session: &CallSession| {
            is_over(call_session) || (call_session.is_in_transaction() && is_left(call_session))
        };
        let connections = self.connections.take_all_if(is_over).into_iter();
        for (name, call_session) in connections.chain(self.connections.take_idle()) {
            if call_session.is_in_transaction() {
                // If the list is full, a returning client is not told and begins anew.
                let _ = self.lost.keep_as(name, Arc::new(()));
            }
            gone.push((name, call_session));
        }
        for (_, call_session) in gone {
            tokio::spawn(async move { call_session.end().await });
        }
        self.prepared.take_idle();
        self.waiting.take_idle();
        self.lost.take_idle();
    }

    /// Drops everything that no call uses, for a server that drains.
    fn forget_unused(&self) {
        self.prepared.forget_unused();
        self.waiting.forget_unused();
        self.connections.forget_unused();
        self.transactions.forget_unused();
    }
}

/// Drops idle state periodically while the service exists. After the drain begins, it reports the
/// services as not serving and drops unused state.
async fn sweep(flight: Weak<Flight>, health: HealthReporter, drained: impl Future<Output = ()>) {
    let mut drained = std::pin::pin!(drained);
    while tokio::time::timeout(SWEEP_EVERY, drained.as_mut()).await.is_err() {
        let Some(flight) = flight.upgrade() else { return };
        flight.shared.metrics.fold();
        flight.forget_idle();
    }
    health.set_not_serving::<FlightGrpcService>().await;
    health.set_not_serving::<records::RecordsConnection>().await;
    let mut ticks = tokio::time::interval(DRAIN_EVERY);
    while let Some(flight) = flight.upgrade() {
        flight.forget_unused();
        drop(flight);
        ticks.tick().await;
    }
}
