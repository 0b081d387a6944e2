//! PostgreSQL's protocol, version 3.0.
//!
//! Messages are read and written here, and not by a library, since they come from strangers and
//! carry every row: nothing is read past a message's end, and no row is an object of its own.

mod connection;
mod copy;
mod execute;
mod message;
mod portal;
mod reply;
mod startup;
mod wire;

use std::sync::Arc;

use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::shared::Shared;

/// Takes connections in until the server drains.
pub(crate) async fn serve(shared: Arc<Shared>, listener: TcpListener) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, peer)) => {
                    let shared = Arc::clone(&shared);
                    connections.spawn(connection::serve(shared, stream, peer));
                }
                // Too many open files, or a client that was gone before it was taken in.
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::task::yield_now().await;
                }
            },
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
            () = shared.drained() => break,
        }
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}
