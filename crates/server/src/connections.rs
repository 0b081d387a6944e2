//! Who is connected, and what each of them does: for limits, for cancelling, for system tables.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};

use parking_lot::Mutex;
use thalweg_query::CancelHandle;
use thalweg_types::{Error, Result, SqlState};
use tokio::sync::watch;

/// Connections beyond the limit that superusers may still open.
const RESERVED: usize = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FrontEnd {
    Postgres,
    Flight,
    Http,
}

/// What is known of one connection.
pub(crate) struct Connection {
    pub(crate) id: i32,
    pub(crate) front_end: FrontEnd,
    pub(crate) peer: SocketAddr,
    pub(crate) user: String,
    /// Proves that a request to cancel comes from who opened the connection.
    pub(crate) secret: i32,
    pub(crate) cancel: CancelHandle,
    /// Told when the connection must end.
    end: watch::Sender<bool>,
    /// The statement that runs, or ran last.
    pub(crate) activity: Mutex<Activity>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Activity {
    pub(crate) statement: String,
    pub(crate) is_running: bool,
}

impl Connection {
    pub(crate) fn begin(&self, statement: &str) {
        let mut activity = self.activity.lock();
        activity.statement.clear();
        activity.statement.push_str(&statement[..statement.floor_char_boundary(1_024)]);
        activity.is_running = true;
    }

    pub(crate) fn finish(&self) {
        self.activity.lock().is_running = false;
    }

    /// Ends the connection, and first what it does.
    pub(crate) fn terminate(&self) {
        self.end.send_replace(true);
        self.cancel.shut_down();
    }

    /// Resolves when the connection must end.
    pub(crate) fn ended(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut end = self.end.subscribe();
        async move {
            // The sender lives as long as the connection, whose end is waited for.
            let _ = end.wait_for(|end| *end).await;
        }
    }

    pub(crate) fn must_end(&self) -> bool {
        *self.end.borrow()
    }
}

/// All connections of a server.
pub(crate) struct Connections {
    limit: usize,
    open: AtomicUsize,
    next: AtomicI32,
    known: Mutex<HashMap<i32, Arc<Connection>>>,
}

/// A place among the connections, given back when it is dropped.
pub(crate) struct Place {
    connections: Arc<Connections>,
}

/// A connection in the list, until this is dropped.
pub(crate) struct Listed {
    connections: Arc<Connections>,
    pub(crate) connection: Arc<Connection>,
}

impl Connections {
    pub(crate) fn new(limit: usize) -> Arc<Connections> {
        let (open, next) = (AtomicUsize::new(0), AtomicI32::new(1));
        Arc::new(Connections { limit, open, next, known: Mutex::default() })
    }

    /// A place for one more connection, before it is known whose it is.
    ///
    /// # Errors
    /// Where there are too many.
    pub(crate) fn place(self: &Arc<Self>) -> Result<Place> {
        let before = self.open.fetch_add(1, Ordering::Relaxed);
        let place = Place { connections: Arc::clone(self) };
        if before < self.limit.saturating_add(RESERVED) {
            return Ok(place);
        }
        let error = Error::new(SqlState::TOO_MANY_CONNECTIONS, "sorry, too many clients already");
        Err(error.with_hint("Close connections, or raise limits.connections."))
    }

    /// Puts a connection in the list.
    pub(crate) fn list(
        self: &Arc<Self>,
        front_end: FrontEnd,
        peer: SocketAddr,
        user: &str,
        cancel: CancelHandle,
    ) -> Listed {
        let mut secret = [0; 4];
        getrandom::fill(&mut secret).expect("the operating system has a source of randomness");
        let connection = Arc::new(Connection {
            id: self.next.fetch_add(1, Ordering::Relaxed).max(1),
            front_end,
            peer,
            user: user.to_owned(),
            secret: i32::from_ne_bytes(secret),
            cancel,
            end: watch::Sender::new(false),
            activity: Mutex::default(),
        });
        self.known.lock().insert(connection.id, Arc::clone(&connection));
        Listed { connections: Arc::clone(self), connection }
    }

    /// Cancels what a connection does, if the secret is the one that it was given.
    pub(crate) fn cancel(&self, id: i32, secret: i32) {
        let known = self.known.lock().get(&id).cloned();
        if let Some(connection) = known.filter(|known| known.secret == secret) {
            connection.cancel.cancel();
        }
    }

    pub(crate) fn all(&self) -> Vec<Arc<Connection>> {
        self.known.lock().values().cloned().collect()
    }

    /// How many connections are open, those included that are not in the list yet.
    pub(crate) fn open(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.connections.open.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        self.connections.known.lock().remove(&self.connection.id);
    }
}
