//! The web console on the HTTP port.
//!
//! | path | answer |
//! | --- | --- |
//! | `GET /` | sends browsers to the console |
//! | `GET /console/` and `/console/assets/…` | the page, its script and its style ([`assets`]) |
//! | `GET /console/api/session` | the user and the token of this browser's session ([`login`]) |
//! | `POST /console/api/login`, `…/logout` | begins and ends a session |
//! | `POST /console/api/run` | runs statements; results as frames ([`run`], [`frames`]) |
//! | `POST /console/api/cancel` | cancels what a request of this session runs |
//! | `POST /console/api/export` | runs one statement; rows as a file |
//! | `GET /console/api/metrics` | the page of `/metrics` |
//!
//! Promises: no request of another site has an effect ([`guard`]). The page loads nothing from
//! elsewhere and runs no script but its own. Statements run as those of `POST /sql` do, with the
//! same limits, roles and admission, and leave statements to other clients ([`room`]).

mod assets;
mod cells;
mod frames;
mod guard;
mod login;
mod room;
mod run;
mod sessions;

use std::sync::Arc;

use axum::Router;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
    X_FRAME_OPTIONS,
};
use axum::http::{HeaderName, HeaderValue};
use axum::middleware::map_response;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use thalweg_types::Error;

use self::assets::Assets;
use self::room::Room;
use self::sessions::Sessions;
use crate::connections::FrontEnd;
use crate::http::errors::unchallenged;
use crate::shared::Shared;

/// The policy of every page of the console: it loads its own files and nothing else. `style-src`
/// needs no `unsafe-inline`, since the editor's styles are constructed style sheets.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
    img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; \
    frame-ancestors 'none'";

/// Headers of every response of the console.
fn headers() -> [(HeaderName, &'static str); 6] {
    [
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_FRAME_OPTIONS, "DENY"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ]
}

/// The console of one server.
pub(crate) struct Console {
    shared: Arc<Shared>,
    assets: Assets,
    sessions: Sessions,
    room: Room,
}

/// An error as a response to the console's page.
struct Refusal(Error);

impl From<Error> for Refusal {
    fn from(error: Error) -> Refusal {
        Refusal(error)
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        unchallenged(&self.0)
    }
}

impl Console {
    /// Counts an error of a request that ran no statement.
    fn failed(&self, error: &Error) {
        self.shared.metrics.failed(FrontEnd::Http, error);
    }
}

pub(crate) fn routes(shared: &Arc<Shared>) -> Router {
    let console = Arc::new(Console {
        shared: Arc::clone(shared),
        assets: Assets::new(),
        sessions: Sessions::default(),
        room: Room::new(&shared.config.limits),
    });
    Router::new()
        .route("/", get(assets::front_door))
        .route("/console", get(assets::front_door))
        .route("/console/", get(assets::page))
        .route("/console/assets/{name}", get(assets::asset))
        .route("/console/api/session", get(login::session))
        .route("/console/api/login", post(login::login))
        .route("/console/api/logout", post(login::logout))
        .route("/console/api/run", post(run::run))
        .route("/console/api/cancel", post(run::cancel))
        .route("/console/api/export", post(run::export))
        .route("/console/api/metrics", get(run::metrics))
        .layer(map_response(secured))
        .with_state(console)
}

async fn secured(mut response: Response) -> Response {
    let fields = response.headers_mut();
    for (name, value) in headers() {
        fields.insert(name, HeaderValue::from_static(value));
    }
    // An answer belongs to one session. Assets replace this.
    fields.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}
