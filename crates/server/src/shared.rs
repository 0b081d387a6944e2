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
use crate::tls::Tls;
use crate::trace::Observer;

pub(crate) struct Shared {
    pub(crate) database: Database,
    pub(crate) config: ServerConfig,
    pub(crate) users: Arc<Users>,
    pub(crate) policy: Policy,
    pub(crate) tls: Option<Tls>,
    pub(crate) connections: Arc<Connections>,
    pub(crate) admission: Admission,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) observer: Arc<Observer>,
    /// True once the server was told to end.
    pub(crate) draining: watch::Sender<bool>,
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

    /// Resolves when the server is told to end.
    pub(crate) fn drained(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut draining = self.draining.subscribe();
        async move {
            let _ = draining.wait_for(|draining| *draining).await;
        }
    }

    pub(crate) fn is_draining(&self) -> bool {
        *self.draining.borrow()
    }
}
