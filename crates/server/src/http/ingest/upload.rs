//! The session of a request that writes rows.

use std::net::SocketAddr;
use std::sync::Arc;

use thalweg_query::{
    Failing, Outcome, RecordBatcher, RecordWrite, Records, Session, SessionInfo, Written,
};
use thalweg_types::{Error, Result, SqlState};

use super::Failure;
use crate::admission::{Asker, Permit};
use crate::connections::{FrontEnd, Listed};
use crate::records::memory::Held;
use crate::shared::Shared;
use crate::trace::Watch;

/// A request that writes rows. It is listed as a connection and counts against the limit.
pub(in crate::http) struct Upload {
    pub(in crate::http) shared: Arc<Shared>,
    pub(in crate::http) session: Session,
    pub(in crate::http) records: Records,
    asker: Asker,
    watch: Watch,
    listed: Listed,
}

impl Upload {
    /// # Errors
    /// If the server shuts down, there are too many connections, or the user may not log in.
    pub(in crate::http) fn enter(
        shared: &Arc<Shared>,
        user: &Arc<str>,
        peer: SocketAddr,
        name: &str,
    ) -> Result<Upload> {
        if shared.is_draining() {
            let message = "the database system is shutting down";
            return Err(Error::new(SqlState::CANNOT_CONNECT_NOW, message));
        }
        let place = shared.connections.permit()?;
        let mut session = shared.database.session_as(user)?;
        let records = shared.database.records_as(user)?;
        let listed = shared.list(place, peer, user, &session)?;
        let process_id = listed.connection.id;
        session.introduce(SessionInfo { process_id, ..SessionInfo::default() });
        let name: Arc<str> = name.into();
        listed.connection.begin(&name);
        let watch = shared.observer.begin(FrontEnd::Http, user, &name);
        let asker = Asker::of(&session);
        Ok(Upload { shared: Arc::clone(shared), session, records, asker, watch, listed })
    }

    /// Ends the observation of the request, with its error if there is one.
    pub(in crate::http) fn end(self, error: Option<&Error>) {
        self.watch.end(error);
    }

    /// Resolves with an error when an administrator ends the request.
    pub(in crate::http) fn terminated(&self) -> impl Future<Output = Failure> + Send + use<> {
        let ended = self.listed.connection.ended();
        async move {
            ended.await;
            let message = "terminating connection due to administrator command";
            Error::new(SqlState::SHUTTING_DOWN, message).into()
        }
    }

    /// Runs a statement of the request once it is admitted.
    pub(in crate::http) async fn execute(&mut self, sql: &str) -> Result<Outcome> {
        let _permit = self.shared.admission.admit_statement(self.asker, sql).await?;
        self.session.execute(sql).await
    }

    /// Waits for the right to compute with rows that have arrived.
    pub(in crate::http) fn permit(&self) -> impl Future<Output = Permit> + Send + use<> {
        let (shared, asker) = (Arc::clone(&self.shared), self.asker);
        async move { shared.admission.readmit(asker).await }
    }

    /// Waits for the memory that this many bytes of rows need.
    pub(in crate::http) fn memory(
        &self,
        bytes: usize,
    ) -> impl Future<Output = Held> + Send + use<> {
        let memory = self.shared.ingest_memory.clone();
        async move { memory.hold(bytes).await }
    }
}

/// Runs work that takes long, such as decoding rows, on a thread that may block.
pub(in crate::http) async fn on_blocking_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let broken = |panic| Error::internal("the rows could not be taken").with_source(panic);
    tokio::task::spawn_blocking(work).await.map_err(broken)?
}

/// Waits until the changes that others have begun are visible. A definition is refused for one that
/// is not durable yet and therefore not visible.
///
/// # Errors
/// If the database ends.
pub(in crate::http) async fn wait_for_others(records: &Records) -> Result<()> {
    let nothing = RecordBatcher::default().finish()?;
    written(records, nothing).await.map(drop)
}

/// Writes a group and waits until it is durable. Rows that fail are left out.
pub(in crate::http) fn written(
    records: &Records,
    write: RecordWrite,
) -> impl Future<Output = Result<Written>> + Send + use<> {
    let (sender, receiver) = tokio::sync::oneshot::channel();
    let acknowledge = Box::new(move |outcome| {
        // The request may be gone; its group is written nevertheless.
        let _ = sender.send(outcome);
    });
    records.write(write, Failing::LeaveOut, None, acknowledge);
    async move { receiver.await.map_err(|_| Error::internal("the database gave no answer"))? }
}
