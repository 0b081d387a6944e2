//! One gateway and several workers: in this process over real sockets, and as processes.

mod basics;
mod faults;
#[path = "../../../server/tests/sqllogictest/postgres.rs"]
mod postgres;
#[path = "../../../query/tests/sqllogictest/route.rs"]
mod route;
mod sqllogictests;
#[path = "../../../query/tests/sqllogictest/suite.rs"]
mod suite;
mod support;
