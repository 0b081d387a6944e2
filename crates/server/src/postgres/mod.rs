//! PostgreSQL's protocol, version 3.0.
//!
//! Messages are read and written here, and not by a library, since they come from strangers and
//! carry every row: nothing is read past a message's end, and no row is an object of its own.

mod connection;
mod copy;
mod cursors;
mod execute;
mod extended;
pub(crate) mod fuzz;
mod message;
mod opening;
mod options;
mod portal;
mod reply;
mod startup;
mod told;
mod wait;
mod wire;
mod work;

use std::sync::Arc;

use tokio::net::TcpListener;

use crate::accept;
use crate::shared::{Shared, Stage};

/// Takes connections in until the server drains.
pub(crate) async fn serve(shared: Arc<Shared>, listener: TcpListener) {
    let one = |stream, peer, stranger| opening::serve(Arc::clone(&shared), stream, peer, stranger);
    accept::serve(&shared, listener, Stage::Draining, one).await;
}
