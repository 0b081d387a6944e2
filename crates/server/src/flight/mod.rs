//! Arrow Flight SQL over gRPC: statements, prepared statements, transactions, bulk ingestion and
//! what clients ask about the database; beside it gRPC's health checks and reflection.
//!
//! A Flight client's calls come one by one, on any connection. What lasts between them is kept
//! under handles ([`kept`]): sessions for those who log in, transactions, prepared statements,
//! results on their way. All of it ends when nobody uses it.
//!
//! Rows leave as they come: the first goes out before the second batch is computed, a slow client
//! holds the plan up, and one that leaves ends it.

mod actions;
mod encode;
mod front_door;
pub(crate) mod fuzz;
mod identity;
mod ingest;
mod kept;
mod metadata;
mod prepared;
mod seats;
mod service;
mod session_options;
mod sql_info;
mod statements;
mod tickets;
mod transactions;
mod upload;
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

use self::front_door::FrontDoor;
use self::kept::Kept;
use self::prepared::PreparedStatement;
use self::seats::Seat;
use self::statements::{Sending, Waiting};
use crate::connections::FrontEnd;
use crate::grpc::errors;
use crate::records;
use crate::shared::Shared;
use crate::web::{Kind, Web};

/// How long rows wait to be fetched.
const ROWS_WAIT: Duration = Duration::from_secs(60);

/// How long a transaction is kept whose client has no connection any more: clients that lose one
/// come back at once on another, or not at all.
const AWAY: Duration = Duration::from_secs(10);

/// How long a connection, a transaction or a prepared statement is kept that nobody uses.
const IDLE: Duration = Duration::from_secs(30 * 60);
const SWEEP_EVERY: Duration = Duration::from_secs(5);
const DRAIN_EVERY: Duration = Duration::from_millis(20);

/// How many of each are kept at most.
const WAITING_MAX: usize = 4_096;
const PREPARED_MAX: usize = 65_536;
const SESSIONS_MAX: usize = 65_536;

/// What all calls share.
pub(crate) struct Flight {
    shared: Arc<Shared>,
    connections: Kept<Seat>,
    transactions: Kept<Seat>,
    /// The names of connections that ended in the midst of a transaction.
    lost: Kept<()>,
    prepared: Kept<PreparedStatement>,
    waiting: Kept<Waiting>,
    sending: Arc<Kept<Sending>>,
    sql_info: SqlInfoData,
    xdbc_types: XdbcTypeInfoData,
}

/// Flight SQL, the record API, health checks and reflection.
pub(crate) async fn web(shared: Arc<Shared>) -> Result<Web> {
    let flight = Flight::new(Arc::clone(&shared));
    let (health, health_service) = tonic_health::server::health_reporter();
    health.set_serving::<FrontDoor>().await;
    health.set_serving::<records::Door>().await;
    let reflection = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
            .register_encoded_file_descriptor_set(thalweg_protocol::DESCRIPTORS)
            .with_service_name(FrontDoor::NAME)
            .with_service_name(thalweg_protocol::SERVICE)
            .with_service_name("grpc.health.v1.Health")
    };
    let unreflected = |error| Error::internal("reflection cannot be set up").with_source(error);
    tokio::spawn(sweep(Arc::downgrade(&flight), health, shared.drained()));
    let routes = Routes::new(FrontDoor::new(flight))
        .add_service(records::Door::new(&shared))
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
            connections: Kept::new("connections", SESSIONS_MAX, IDLE, clock),
            transactions: Kept::new("transactions", SESSIONS_MAX, IDLE, clock),
            lost: Kept::new("lost connections", SESSIONS_MAX, IDLE, clock),
            prepared: Kept::new("prepared statements", PREPARED_MAX, IDLE, clock),
            waiting: Kept::new("results", WAITING_MAX, ROWS_WAIT, clock),
            // What is being sent is in use.
            sending: Arc::new(Kept::new("results", WAITING_MAX, Duration::MAX, clock)),
            sql_info: sql_info::sql_info(IDLE),
            xdbc_types: xdbc_types::xdbc_types(),
        })
    }

    /// Counts what was refused ahead of any statement, and tells it.
    fn refused(&self, error: &Error) -> Status {
        self.shared.metrics.failed(FrontEnd::Flight, error);
        errors::status(error)
    }

    /// Forgets what nobody uses.
    fn forget_idle(&self) {
        let now = self.shared.database.env().clock.monotonic();
        let is_over = |seat: &Seat| seat.listed.connection.must_end();
        let is_left = |seat: &Seat| seat.away_for(now) > AWAY;
        let mut gone = self.transactions.take_all_if(|seat| is_over(seat) || is_left(seat));
        gone.extend(self.transactions.take_idle());
        let is_over = |seat: &Seat| is_over(seat) || (seat.is_in_transaction() && is_left(seat));
        let connections = self.connections.take_all_if(is_over).into_iter();
        for (name, seat) in connections.chain(self.connections.take_idle()) {
            if seat.is_in_transaction() {
                // Where too many are remembered, whoever comes back begins anew.
                let _ = self.lost.keep_as(name, Arc::new(()));
            }
            gone.push((name, seat));
        }
        for (_, seat) in gone {
            tokio::spawn(async move { seat.end().await });
        }
        self.prepared.take_idle();
        self.waiting.take_idle();
        self.lost.take_idle();
    }

    /// Forgets all but what is in use.
    fn forget_unused(&self) {
        self.prepared.forget_unused();
        self.waiting.forget_unused();
        self.connections.forget_unused();
        self.transactions.forget_unused();
    }
}

/// Keeps order for as long as the service is there.
async fn sweep(flight: Weak<Flight>, health: HealthReporter, drained: impl Future<Output = ()>) {
    let mut drained = std::pin::pin!(drained);
    while tokio::time::timeout(SWEEP_EVERY, drained.as_mut()).await.is_err() {
        let Some(flight) = flight.upgrade() else { return };
        flight.shared.metrics.fold();
        flight.forget_idle();
    }
    health.set_not_serving::<FrontDoor>().await;
    health.set_not_serving::<records::Door>().await;
    let mut ticks = tokio::time::interval(DRAIN_EVERY);
    while let Some(flight) = flight.upgrade() {
        flight.forget_unused();
        drop(flight);
        ticks.tick().await;
    }
}
