//! One gateway and several workers: in this process over real sockets, and as processes.

mod basics;
mod faults;
#[path = "../../../server/tests/flight_sqllogictest/flight.rs"]
mod flight;
#[path = "../../../server/tests/sqllogictest/postgres.rs"]
mod postgres;
mod relayed;
#[path = "../../../query/tests/sqllogictest/route.rs"]
mod route;
mod sqllogictests;
#[path = "../../../query/tests/sqllogictest/suite.rs"]
mod suite;
mod support;
