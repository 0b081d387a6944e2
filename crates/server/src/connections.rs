//! The list of authenticated connections with the activity of each, for limits, cancellation and
//! system tables. The connections of all front ends are in one list.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use thalweg_env::Clock;
use thalweg_execution::cancel::CancelHandle;
use thalweg_query::{Activity, ActivityState, End, Role, ServerContext, TransactionStatus};
use thalweg_types::{Error, Result, SqlState};
use thalweg_values::sql_text::without_passwords;
use tokio::sync::watch;

/// Connections beyond the limit, reserved for superusers.
const RESERVED: usize = 3;
/// Maximum length of a statement in the list of activities, in bytes.
const STATEMENT_BYTES: usize = 1_024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FrontEnd {
    Postgres,
    Flight,
    Http,
    Records,
}

/// One authenticated connection.
pub(crate) struct Connection {
    pub(crate) id: i32,
    peer: SocketAddr,
    user: String,
    /// Proves that a cancel request comes from the client that opened the connection.
    pub(crate) secret: i32,
    pub(crate) cancel: CancelHandle,
    /// Set to true when the connection must end.
    end: watch::Sender<bool>,
    clock: Arc<dyn Clock>,
    connected_micros: i64,
    activity_now: Mutex<ConnectionActivity>,
}

/// Current activity of a connection. Times are microseconds since 1970.
#[derive(Clone, Debug)]
struct ConnectionActivity {
    statement: Arc<str>,
    application_name: String,
    state: ActivityState,
    transaction_started_micros: Option<i64>,
    statement_started_micros: Option<i64>,
    changed_micros: i64,
}

impl Connection {
    /// Records that a statement begins.
    pub(crate) fn begin(&self, statement: &Arc<str>) {
        let now = self.clock.now_micros();
        let mut activity_now = self.activity_now.lock();
        // An idle connection keeps its last statement, so a long one is cut.
        activity_now.statement = match statement.len() {
            ..=STATEMENT_BYTES => Arc::clone(statement),
            _ => statement[..statement.floor_char_boundary(STATEMENT_BYTES)].into(),
        };
        activity_now.state = ActivityState::Active;
        activity_now.transaction_started_micros.get_or_insert(now);
        (activity_now.statement_started_micros, activity_now.changed_micros) = (Some(now), now);
    }

    /// Records that the statement ended, with the state of the session's transaction.
    pub(crate) fn finish(&self, transaction: TransactionStatus) {
        let mut activity_now = self.activity_now.lock();
        activity_now.state = match transaction {
            TransactionStatus::Idle => ActivityState::Idle,
            TransactionStatus::Active => ActivityState::IdleInTransaction,
            TransactionStatus::Failed => ActivityState::IdleInFailedTransaction,
        };
        if transaction == TransactionStatus::Idle {
            activity_now.transaction_started_micros = None;
        }
        activity_now.changed_micros = self.clock.now_micros();
    }

    /// True if a transaction is open or a statement runs.
    pub(crate) fn is_in_transaction(&self) -> bool {
        self.activity_now.lock().state != ActivityState::Idle
    }

    pub(crate) fn call(&self, application_name: &str) {
        application_name.clone_into(&mut self.activity_now.lock().application_name);
    }

    fn activity(&self) -> Activity {
        let activity_now = self.activity_now.lock().clone();
        Activity {
            process_id: self.id,
            user: self.user.to_string(),
            application_name: activity_now.application_name,
            client: Some(self.peer),
            connected_micros: self.connected_micros,
            transaction_started_micros: activity_now.transaction_started_micros,
            statement_started_micros: activity_now.statement_started_micros,
            state_changed_micros: Some(activity_now.changed_micros),
            state: activity_now.state,
            statement: without_passwords(&activity_now.statement).into_owned(),
        }
    }

    /// Ends the connection and cancels its running statement.
    pub(crate) fn terminate(&self) {
        self.end.send_replace(true);
        self.cancel.shut_down();
    }

    /// Resolves when the connection must end.
    pub(crate) fn ended(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut end = self.end.subscribe();
        async move {
            // The sender lives as long as the connection, which outlives this wait.
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
    clock: Arc<dyn Clock>,
    known: Mutex<Known>,
}

/// Connections whose users are authenticated.
#[derive(Default)]
struct Known {
    last_id: i32,
    by_id: HashMap<i32, Arc<Connection>>,
    /// Number of connections per user.
    by_user: HashMap<String, u32>,
}

/// The right to one connection, released on drop.
pub(crate) struct ConnectionPermit {
    connections: Arc<Connections>,
    /// True if only superusers may use this place.
    reserved: bool,
}

/// A connection in the list. Dropping this removes it.
pub(crate) struct Listed {
    permit: ConnectionPermit,
    pub(crate) connection: Arc<Connection>,
}

impl Connections {
    pub(crate) fn new(limit: usize, clock: Arc<dyn Clock>) -> Arc<Connections> {
        Arc::new(Connections { limit, open: AtomicUsize::new(0), clock, known: Mutex::default() })
    }

    /// Takes a place for a connection whose user is not known yet.
    ///
    /// # Errors
    /// If there are too many connections.
    pub(crate) fn permit(self: &Arc<Self>) -> Result<ConnectionPermit> {
        let before = self.open.fetch_add(1, Ordering::Relaxed);
        let permit =
            ConnectionPermit { connections: Arc::clone(self), reserved: before >= self.limit };
        if before < self.limit.saturating_add(RESERVED) { Ok(permit) } else { Err(too_many()) }
    }

    /// Adds a connection to the list once its user is known.
    ///
    /// # Errors
    /// If only reserved places are left and the user is no superuser, or the role reached its
    /// connection limit.
    pub(crate) fn list(
        permit: ConnectionPermit,
        peer: SocketAddr,
        role: &Role,
        cancel: CancelHandle,
    ) -> Result<Listed> {
        if permit.reserved && !role.superuser {
            return Err(too_many());
        }
        let connections = Arc::clone(&permit.connections);
        let mut known = connections.known.lock();
        let connection = connections.connection(known.next_id(), peer, &role.name, cancel);
        let connection = Arc::new(connection);
        known.add(&connection, role)?;
        drop(known);
        Ok(Listed { permit, connection })
    }

    fn connection(
        &self,
        id: i32,
        peer: SocketAddr,
        user: &str,
        cancel: CancelHandle,
    ) -> Connection {
        let mut secret = [0; 4];
        getrandom::fill(&mut secret).expect("the operating system has a source of randomness");
        let now = self.clock.now_micros();
        let activity_now = ConnectionActivity {
            statement: Arc::default(),
            application_name: String::new(),
            state: ActivityState::Idle,
            transaction_started_micros: None,
            statement_started_micros: None,
            changed_micros: now,
        };
        Connection {
            id,
            peer,
            user: user.to_owned(),
            secret: i32::from_ne_bytes(secret),
            cancel,
            end: watch::Sender::new(false),
            clock: Arc::clone(&self.clock),
            connected_micros: now,
            activity_now: Mutex::new(activity_now),
        }
    }

    /// Cancels a connection's running statement if the secret is right; otherwise does nothing.
    pub(crate) fn cancel(&self, id: i32, secret: i32) {
        let known = self.known.lock().by_id.get(&id).cloned();
        if let Some(connection) = known.filter(|known| known.secret == secret) {
            connection.cancel.cancel();
        }
    }

    pub(crate) fn all(&self) -> Vec<Arc<Connection>> {
        self.known.lock().by_id.values().cloned().collect()
    }

    /// Number of open connections, including those not in the list yet.
    pub(crate) fn open(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }
}

impl ServerContext for Connections {
    fn activity(&self) -> Vec<Activity> {
        self.all().iter().map(|connection| connection.activity()).collect()
    }

    fn end(&self, process_id: i32, what: End) -> bool {
        let Some(connection) = self.known.lock().by_id.get(&process_id).cloned() else {
            return false;
        };
        match what {
            End::Statement => connection.cancel.cancel(),
            End::Session => connection.terminate(),
        }
        true
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        self.connections.open.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        self.permit.connections.known.lock().remove(&self.connection);
    }
}

impl Known {
    /// An unused number. Numbers are positive and wrap around after two thousand million.
    fn next_id(&mut self) -> i32 {
        loop {
            self.last_id = self.last_id.checked_add(1).unwrap_or(1);
            if !self.by_id.contains_key(&self.last_id) {
                return self.last_id;
            }
        }
    }

    fn add(&mut self, connection: &Arc<Connection>, role: &Role) -> Result<()> {
        let count = self.by_user.get(&role.name).copied().unwrap_or(0);
        // As in PostgreSQL, the limit does not apply to superusers.
        if !role.superuser && role.connection_limit.is_some_and(|limit| count >= limit) {
            let message = format!("too many connections for role \"{}\"", role.name);
            return Err(Error::new(SqlState::TOO_MANY_CONNECTIONS, message)
                .with_hint("Close some, or raise the role's CONNECTION LIMIT."));
        }
        self.by_user.insert(role.name.clone(), count + 1);
        self.by_id.insert(connection.id, Arc::clone(connection));
        Ok(())
    }

    fn remove(&mut self, connection: &Connection) {
        self.by_id.remove(&connection.id);
        let count = self.by_user.get_mut(&connection.user);
        let count = count.expect("a user is counted for as long as it is connected");
        *count -= 1;
        if *count == 0 {
            self.by_user.remove(&connection.user);
        }
    }
}

fn too_many() -> Error {
    Error::new(SqlState::TOO_MANY_CONNECTIONS, "sorry, too many clients already")
        .with_hint("Close connections, or raise limits.connections.")
}

#[cfg(test)]
mod tests {
    use thalweg_env::SimulatedClock;
    use thalweg_query::Database;

    use super::*;

    fn listed(connections: &Arc<Connections>, role: &Role) -> Result<Listed> {
        let cancel = Database::in_memory().unwrap().session().cancel_handle();
        Connections::list(connections.permit()?, ([127, 0, 0, 1], 1).into(), role, cancel)
    }

    async fn roles() -> (Role, Role) {
        let database = Database::in_memory().unwrap();
        database.session().execute("CREATE ROLE eve LOGIN CONNECTION LIMIT 2").await.unwrap();
        (database.role("eve").unwrap(), database.role("thalweg").unwrap())
    }

    #[tokio::test]
    async fn a_role_has_as_many_connections_as_it_may() {
        let (eve, admin) = roles().await;
        let connections = Connections::new(100, Arc::new(SimulatedClock::new()));
        let mut first =
            vec![listed(&connections, &eve).unwrap(), listed(&connections, &eve).unwrap()];
        let refused = listed(&connections, &eve).err().unwrap();
        assert_eq!(refused.state(), SqlState::TOO_MANY_CONNECTIONS);
        assert_eq!(refused.message(), "too many connections for role \"eve\"");
        let unlimited: Vec<_> = (0..5).map(|_| listed(&connections, &admin).unwrap()).collect();
        first.pop();
        first.push(listed(&connections, &eve).unwrap());
        drop((first, unlimited));
        assert_eq!((connections.open(), connections.all().len()), (0, 0));
        assert!(connections.known.lock().by_user.is_empty());
    }

    #[tokio::test]
    async fn the_last_places_are_for_superusers() {
        let (eve, admin) = roles().await;
        let connections = Connections::new(1, Arc::new(SimulatedClock::new()));
        let first = listed(&connections, &eve).unwrap();
        assert!(listed(&connections, &eve).is_err());
        let reserved: Vec<_> =
            (0..RESERVED).map(|_| listed(&connections, &admin).unwrap()).collect();
        assert!(listed(&connections, &admin).is_err());
        drop(reserved);
        assert_eq!(connections.open(), 1);
        drop(first);
        assert!(listed(&connections, &eve).is_ok());
    }

    #[tokio::test]
    async fn numbers_are_positive_and_nobodys_when_they_come_back() {
        let (eve, admin) = roles().await;
        let connections = Connections::new(100, Arc::new(SimulatedClock::new()));
        let kept = [listed(&connections, &eve).unwrap(), listed(&connections, &admin).unwrap()];
        connections.known.lock().last_id = i32::MAX - 1;
        let later = [&admin, &admin].map(|role| listed(&connections, role).unwrap());
        assert_eq!(kept.each_ref().map(|listed| listed.connection.id), [1, 2]);
        assert_eq!(later.each_ref().map(|listed| listed.connection.id), [i32::MAX, 3]);
        assert_eq!(connections.all().len(), 4);
    }
}
