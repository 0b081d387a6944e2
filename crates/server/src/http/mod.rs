//! HTTP: health checks, metrics, statements without a driver, and rows of other programs.
//!
//! | path | what |
//! | --- | --- |
//! | `GET /health/live` | 200 while the process answers |
//! | `GET /health/ready` | 200 while it takes statements and writes, 503 and why while not |
//! | `GET /metrics` | counters for Prometheus; asks for a password where SQL does |
//! | `POST /sql` | runs a statement; rows as JSON lines, CSV or an Arrow stream ([`sql`]) |
//! | `GET /console/` | the web console, with an interface of its own ([`crate::console`]) |
//! | `POST /tables/NAME` | writes rows to a table ([`tables`]) |
//! | `POST /api/v2/write`, `POST /write` | writes points of InfluxDB's line protocol ([`influx`]) |
//! | `GET /ping`, `GET /health` | readiness as InfluxDB's clients ask for it |

pub(crate) mod call;
pub(crate) mod errors;
pub(crate) mod fuzz;
pub(crate) mod influx;
mod ingest;
pub(crate) mod request;
pub(crate) mod sql;
mod tables;

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::{ConnectInfo, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};

use thalweg_query::{Database, StorageReason};

pub(crate) use self::errors::Refused;
pub(crate) use self::ingest::BodyMemory;
use crate::console;
use crate::shared::Shared;
use crate::web::{Kind, Web};

/// The content type of Prometheus' text format.
const METRICS_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

pub(crate) fn web(shared: Arc<Shared>) -> Web {
    let router = Router::new()
        .route("/health/live", get(async || "live\n"))
        .route("/health/ready", get(ready))
        .route("/metrics", get(metrics))
        .route("/sql", post(sql::run))
        .route("/tables/{name}", post(tables::run))
        .route("/api/v2/write", post(influx::write_v2))
        .route("/write", post(influx::write_v1))
        .route("/ping", get(influx::ping))
        .route("/health", get(influx::health))
        .with_state(Arc::clone(&shared))
        .merge(console::routes(&shared));
    Web::new(shared, router, Kind::Http)
}

async fn ready(State(shared): State<Arc<Shared>>) -> Response {
    if shared.is_draining() {
        return (StatusCode::SERVICE_UNAVAILABLE, "shutting down\n").into_response();
    }
    match shared.database.readiness() {
        Ok(()) => storage_readiness(std::slice::from_ref(&shared.database)).into_response(),
        Err(error) => {
            (StatusCode::SERVICE_UNAVAILABLE, format!("{}\n", error.message())).into_response()
        }
    }
}

/// The readiness of the storage: 503 if a database refuses writes. Other faults are listed below
/// `ready`.
pub(crate) fn storage_readiness(databases: &[Database]) -> (StatusCode, String) {
    let faults = databases.iter().flat_map(|database| database.storage().faults());
    let reasons: BTreeSet<StorageReason> = faults.map(|fault| fault.reason).collect();
    let refuses_writes = reasons.iter().any(|reason| reason.refuses_writes());
    let (status, mut text) = match refuses_writes {
        true => (StatusCode::SERVICE_UNAVAILABLE, String::new()),
        false => (StatusCode::OK, "ready\n".to_owned()),
    };
    for reason in reasons {
        // Anybody may ask: paths are in the log.
        text.push_str(&format!("{}: {}\n", reason.name(), reason.summary()));
    }
    (status, text)
}

async fn metrics(
    State(shared): State<Arc<Shared>>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    request: axum::extract::Request,
) -> Result<Response, Refused> {
    metrics_page(&shared, std::slice::from_ref(&shared.database), peer, request).await
}

/// The counters of all databases of a process together.
pub(crate) async fn metrics_page(
    shared: &Shared,
    databases: &[Database],
    peer: SocketAddr,
    request: axum::extract::Request,
) -> Result<Response, Refused> {
    if !shared.config.auth.open_metrics {
        let (head, _) = request.into_parts();
        sql::user(shared, &head, peer).await?;
    }
    Ok(([(CONTENT_TYPE, METRICS_TYPE)], shared.metrics.render(databases)).into_response())
}
