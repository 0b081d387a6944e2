//! Flight SQL over a real socket, with Arrow's own client.

mod authentication;
mod front_door;
mod ingestion;
mod large;
#[path = "../shared/large_inputs.rs"]
mod large_inputs;
mod metadata;
mod plans;
mod prepared;
mod statements;
mod support;
mod transactions;
