//! PostgreSQL's protocol, version 3.0.
//!
//! Messages are read and written here, and not by a library, since they come from strangers and
//! carry every row: nothing is read past a message's end, and no row is an object of its own.

mod connection;
mod copy;
mod execute;
pub(crate) mod fuzz;
mod message;
mod portal;
mod reply;
mod startup;
mod wire;

use std::sync::Arc;

use tokio::net::TcpListener;

use crate::accept;
use crate::shared::Shared;

/// Takes connections in until the server drains.
pub(crate) async fn serve(shared: Arc<Shared>, listener: TcpListener) {
    let connection = |stream, peer| connection::serve(Arc::clone(&shared), stream, peer);
    accept::serve(&shared, listener, connection).await;
}
