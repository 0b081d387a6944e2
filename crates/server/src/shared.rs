//! State shared by all front ends of a server.

use std::net::SocketAddr;
use std::sync::Arc;

use thalweg_query::{Database, Session};
use thalweg_types::{Error, Result, SqlState};
use tokio::sync::watch;

use crate::admission::Admission;
use crate::auth::{Policy, Users};
use crate::config::ServerConfig;
use crate::connections::{ConnectionPermit, Connections, Listed};
use crate::http::BodyMemory;
use crate::metrics::Metrics;
use crate::records::memory::Memory;
use crate::tls::Tls;
use crate::trace::Observer;
use crate::unauthenticated::Unauthenticated;

pub(crate) struct Shared {
    pub(crate) database: Database,
    pub(crate) config: ServerConfig,
    pub(crate) users: Arc<Users>,
    pub(crate) policy: Policy,
    pub(crate) tls: Option<Tls>,
    pub(crate) connections: Arc<Connections>,
    pub(crate) unauthenticated: Arc<Unauthenticated>,
    pub(crate) admission: Admission,
    /// The memory of rows that arrive as record streams and HTTP uploads.
    pub(crate) ingest_memory: Memory,
    /// The memory of long rows that arrive over HTTP, until they are complete.
    pub(crate) body_memory: BodyMemory,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) observer: Arc<Observer>,
    pub(crate) stage: watch::Sender<Stage>,
}

/// Stage of a server's life; stages follow in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    Serving,
    /// New statements are refused; running ones may end.
    Draining,
    /// All statements have ended; responses in flight may arrive.
    Closing,
}

impl Shared {
    /// Adds a connection and its session to the list.
    ///
    /// # Errors
    /// If the role does not exist any more, or has too many connections.
    pub(crate) fn list(
        &self,
        place: ConnectionPermit,
        peer: SocketAddr,
        user: &str,
        session: &Session,
    ) -> Result<Listed> {
        let role = self.database.role(user).ok_or_else(|| {
            let message = format!("role \"{user}\" does not exist");
            Error::new(SqlState::INVALID_AUTHORIZATION, message)
        })?;
        Connections::list(place, peer, &role, session.cancel_handle())
    }

    /// Resolves when the server has reached a stage or a later one.
    pub(crate) fn reached(&self, wanted: Stage) -> impl Future<Output = ()> + Send + use<> {
        let mut stage = self.stage.subscribe();
        async move {
            let _ = stage.wait_for(|stage| *stage >= wanted).await;
        }
    }

    /// Resolves when the server begins to shut down.
    pub(crate) fn drained(&self) -> impl Future<Output = ()> + Send + use<> {
        self.reached(Stage::Draining)
    }

    pub(crate) fn is_draining(&self) -> bool {
        *self.stage.borrow() >= Stage::Draining
    }
}
