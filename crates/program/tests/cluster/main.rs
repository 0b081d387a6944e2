//! Gateways and workers: in this process over real sockets, and as processes.

mod basics;
mod between_nodes;
mod blocks;
mod bulk_ingest;
#[path = "../../../query/tests/sqllogictest/embedded.rs"]
#[expect(dead_code, reason = "a cluster is neither durable nor restarted here")]
mod embedded;
mod faults;
#[path = "../../../server/tests/flight_sqllogictest/flight.rs"]
mod flight;
mod gateways;
mod hosts;
mod lanes;
mod leaving;
mod members;
mod memory;
#[path = "../../../server/tests/records/messages.rs"]
mod messages;
mod mischief;
mod namespaces;
mod network;
mod nodes;
mod older_copies;
mod passes;
mod plan_cache;
#[path = "../../../server/tests/sqllogictest/postgres.rs"]
mod postgres;
mod processes;
mod records;
mod reduced;
mod relayed;
#[path = "../../../query/tests/sqllogictest/route.rs"]
mod route;
#[path = "../../../server/tests/records/search.rs"]
mod search;
mod shared_process;
mod sqllogictests;
mod stages;
#[path = "../../../query/tests/sqllogictest/suite.rs"]
mod suite;
mod support;
#[path = "../../../server/tests/records/updating.rs"]
mod updating;
mod watched;
mod weather;
mod wires;
#[path = "../../../server/tests/records/writing.rs"]
mod writing;
