//! The PostgreSQL port, as drivers use it and as nobody should. What is expected here is what
//! PostgreSQL 15 answers to the same bytes, unless a test says otherwise.

mod blocks;
mod copies;
mod large;
#[path = "../shared/large_inputs.rs"]
mod large_inputs;
mod locks;
mod notifications;
mod numeric_parameters;
mod opening;
mod portals;
mod support;
mod values;
mod waits;
