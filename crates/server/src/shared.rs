//! What all front ends of a server share.

use std::sync::Arc;

use thalweg_query::Database;
use tokio::sync::watch;

use crate::admission::Admission;
use crate::auth::{Policy, Users};
use crate::config::ServerConfig;
use crate::connections::Connections;
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
