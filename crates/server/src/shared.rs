//! What all front ends of a server share.

use std::net::SocketAddr;
use std::sync::Arc;

use thalweg_query::{Database, Session};
use thalweg_types::{Error, Result, SqlState};
use tokio::sync::watch;

use crate::admission::Admission;
use crate::auth::{Policy, Users};
use crate::config::ServerConfig;
use crate::connections::{Connections, Listed, Place};
use crate::metrics::Metrics;
use crate::strangers::Strangers;
use crate::tls::Tls;
use crate::trace::Observer;

pub(crate) struct Shared {
    pub(crate) database: Database,
    pub(crate) config: ServerConfig,
    pub(crate) users: Arc<Users>,
    pub(crate) policy: Policy,
    pub(crate) tls: Option<Tls>,
    pub(crate) connections: Arc<Connections>,
    pub(crate) strangers: Arc<Strangers>,
    pub(crate) admission: Admission,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) observer: Arc<Observer>,
    pub(crate) stage: watch::Sender<Stage>,
}

/// How far a server is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    Serving,
    /// No statement is taken any more; those that run may end.
    Draining,
    /// All statements have ended; what is on its way to clients may arrive.
    Closing,
}

impl Shared {
    /// Puts a connection in the list, and its session with it.
    ///
    /// # Errors
    /// Where the user has too many, or is gone.
    pub(crate) fn list(
        &self,
        place: Place,
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

    /// Resolves when the server has reached a stage.
    pub(crate) fn reached(&self, wanted: Stage) -> impl Future<Output = ()> + Send + use<> {
        let mut stage = self.stage.subscribe();
        async move {
            let _ = stage.wait_for(|stage| *stage >= wanted).await;
        }
    }

    /// Resolves when the server is told to end.
    pub(crate) fn drained(&self) -> impl Future<Output = ()> + Send + use<> {
        self.reached(Stage::Draining)
    }

    pub(crate) fn is_draining(&self) -> bool {
        *self.stage.borrow() >= Stage::Draining
    }
}
