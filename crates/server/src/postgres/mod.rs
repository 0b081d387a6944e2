//! PostgreSQL's protocol, version 3.0.
//!
//! Messages are parsed and written here instead of by a library, since they come from untrusted
//! clients and carry every row. The code never reads past a message's end, and allocates no object
//! per row.

mod connection;
mod copy;
mod cursors;
mod execute;
mod extended;
pub(crate) mod fuzz;
mod handshake;
mod message;
mod options;
mod parameter_status;
mod portal;
mod reply;
mod running_statement;
mod startup;
mod wait;
mod wire;

use std::sync::Arc;

use tokio::net::TcpListener;

use crate::accept;
use crate::shared::{Shared, Stage};
pub(crate) use execute::placed_error;

/// Accepts connections until the server drains.
pub(crate) async fn serve(shared: Arc<Shared>, listener: TcpListener) {
    let one = |stream, peer, unauthenticated_connection| {
        handshake::serve(Arc::clone(&shared), stream, peer, unauthenticated_connection)
    };
    accept::serve(&shared, listener, Stage::Draining, one).await;
}
