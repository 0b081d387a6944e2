//! HTTP: health checks, metrics, and statements without a driver.
//!
//! | path | what |
//! | --- | --- |
//! | `GET /health/live` | 200 while the process answers |
//! | `GET /health/ready` | 200 while statements are taken, 503 and the reason while they are not |
//! | `GET /metrics` | counters for Prometheus; asks for a password where SQL does |
//! | `POST /sql` | runs a statement; rows as JSON lines, CSV or an Arrow stream ([`sql`]) |

mod errors;
pub(crate) mod fuzz;
mod request;
mod sql;

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::{ConnectInfo, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};

use self::errors::Refused;
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
        .with_state(Arc::clone(&shared));
    Web::new(shared, router, Kind::Http)
}

async fn ready(State(shared): State<Arc<Shared>>) -> Response {
    if shared.is_draining() {
        return (StatusCode::SERVICE_UNAVAILABLE, "shutting down\n").into_response();
    }
    match shared.database.readiness() {
        Ok(()) => "ready\n".into_response(),
        Err(error) => {
            (StatusCode::SERVICE_UNAVAILABLE, format!("{}\n", error.message())).into_response()
        }
    }
}

async fn metrics(
    State(shared): State<Arc<Shared>>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    request: axum::extract::Request,
) -> Result<Response, Refused> {
    if !shared.config.auth.open_metrics {
        let (head, _) = request.into_parts();
        sql::user(&shared, &head, peer).await?;
    }
    Ok(([(CONTENT_TYPE, METRICS_TYPE)], shared.metrics.render(&shared.database)).into_response())
}
