//! The HTTP port of a process that serves no clients itself: health and metrics, and no SQL.
//!
//! | path | what |
//! | --- | --- |
//! | `GET /health/live` | 200 while the process answers |
//! | `GET /health/ready` | 200 while it works and takes writes, 503 and why while it does not |
//! | `GET /metrics` | counters for Prometheus; asks for a password where a server does |

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::{ConnectInfo, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use thalweg_query::Database;
use thalweg_types::{Error, Result, SqlState};
use tokio::task::JoinSet;

use crate::auth::Policy;
use crate::config::ServerConfig;
use crate::http::{self, Refused};
use crate::listen::{bind, local, shared, warn_of_plain_text};
use crate::shared::Shared;
use crate::tls::Tls;
use crate::web::{Kind, Web};

/// Says whether a process is ready, or why not.
pub type Ready = Arc<dyn Fn() -> Result<()> + Send + Sync>;

/// A running port. Dropping it closes the port.
pub struct Monitor {
    address: SocketAddr,
    _tasks: JoinSet<()>,
}

#[derive(Clone)]
struct Monitored {
    shared: Arc<Shared>,
    databases: Arc<[Database]>,
    ready: Ready,
}

impl Monitor {
    /// Opens the HTTP port of a configuration over the databases of a process. Its other ports are
    /// left out.
    ///
    /// # Errors
    /// If there is no database, the configuration has [faults](ServerConfig::faults), or the port
    /// is taken.
    pub fn start(
        mut config: ServerConfig,
        databases: Vec<Database>,
        ready: Ready,
    ) -> Result<Monitor> {
        (config.listen.grpc_port, config.listen.postgres_port) = (0, 0);
        if let Some(fault) = config.faults().into_iter().next() {
            return Err(fault.error);
        }
        let Some(first) = databases.first().cloned() else {
            return Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, "there is no database"));
        };
        let policy = Policy::new(config.auth.method, &[config.listen.http()])?;
        let tls = Tls::load(&config.tls)?;
        warn_of_plain_text(&config, tls.as_ref());
        let shared = shared(config, first, policy, tls)?;
        let listener = bind(shared.config.listen.http())?;
        let address = local(&listener)?;
        let monitored =
            Monitored { shared: Arc::clone(&shared), databases: databases.into(), ready };
        let router = Router::new()
            .route("/health/live", get(async || "live\n"))
            .route("/health/ready", get(is_ready))
            .route("/metrics", get(metrics))
            .with_state(monitored);
        let mut tasks = JoinSet::new();
        tasks.spawn(Web::new(shared, router, Kind::Http).serve(listener));
        Ok(Monitor { address, _tasks: tasks })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

async fn is_ready(State(it): State<Monitored>) -> Response {
    match (it.ready)() {
        Ok(()) => http::storage_readiness(&it.databases).into_response(),
        Err(error) => {
            (StatusCode::SERVICE_UNAVAILABLE, format!("{}\n", error.message())).into_response()
        }
    }
}

async fn metrics(
    State(it): State<Monitored>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    request: axum::extract::Request,
) -> Result<Response, Refused> {
    http::metrics_page(&it.shared, &it.databases, peer, request).await
}
