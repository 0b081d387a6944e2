//! Flight SQL over a real socket, with Arrow's own client.

mod authentication;
mod ingestion;
mod metadata;
mod prepared;
mod statements;
mod support;
mod transactions;
