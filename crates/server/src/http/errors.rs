//! Errors as HTTP responses: a status code, and JSON with all fields of the error.

use axum::Json;
use axum::http::header::WWW_AUTHENTICATE;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use thalweg_types::{Error, ErrorKind};

/// An error as a response to the client.
pub(crate) struct Refused(pub(crate) Error);

impl From<Error> for Refused {
    fn from(error: Error) -> Refused {
        Refused(error)
    }
}

/// The fields of an error as JSON.
pub(crate) fn error_fields(error: &Error) -> Value {
    json!({
        "sqlstate": error.state().0,
        "message": error.message(),
        "detail": error.detail(),
        "hint": error.hint(),
        "position": error.position(),
    })
}

/// An error as a response, without a challenge: a browser that gets one shows a dialog of its own.
pub(crate) fn unchallenged(error: &Error) -> Response {
    (status(error), Json(json!({ "error": error_fields(error) }))).into_response()
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let Refused(error) = self;
        let mut response = unchallenged(&error);
        if response.status() == StatusCode::UNAUTHORIZED {
            let challenge = HeaderValue::from_static("Basic realm=\"thalweg\", charset=\"UTF-8\"");
            response.headers_mut().insert(WWW_AUTHENTICATE, challenge);
        }
        response
    }
}

/// The status code for an error.
pub(super) fn status(error: &Error) -> StatusCode {
    let sqlstate = error.state().0;
    match (sqlstate, sqlstate.get(..2).unwrap_or_default()) {
        (_, "28") => StatusCode::UNAUTHORIZED,
        ("42501", _) => StatusCode::FORBIDDEN,
        (_, "0A") => StatusCode::NOT_IMPLEMENTED,
        ("57014", _) => StatusCode::GATEWAY_TIMEOUT,
        (_, "XX") => StatusCode::INTERNAL_SERVER_ERROR,
        ("23505", _) => StatusCode::CONFLICT,
        (_, "54") => StatusCode::PAYLOAD_TOO_LARGE,
        _ => match error.kind() {
            ErrorKind::InvalidRequest | ErrorKind::NotFound => StatusCode::BAD_REQUEST,
            ErrorKind::Conflict => StatusCode::CONFLICT,
            ErrorKind::Unavailable | ErrorKind::OutOfResources => StatusCode::SERVICE_UNAVAILABLE,
            ErrorKind::Corrupt => StatusCode::INTERNAL_SERVER_ERROR,
        },
    }
}

#[cfg(test)]
mod tests {
    use thalweg_types::SqlState;

    use super::*;

    #[test]
    fn statuses_follow_from_sqlstates() {
        for (state, expected) in [
            (SqlState::SYNTAX_ERROR, 400),
            (SqlState::UNDEFINED_TABLE, 400),
            (SqlState::INVALID_PASSWORD, 401),
            (SqlState::INSUFFICIENT_PRIVILEGE, 403),
            (SqlState::UNIQUE_VIOLATION, 409),
            (SqlState::SERIALIZATION_FAILURE, 409),
            (SqlState::INTERNAL_ERROR, 500),
            (SqlState::FEATURE_NOT_SUPPORTED, 501),
            (SqlState::OUT_OF_MEMORY, 503),
            (SqlState::SHUTTING_DOWN, 503),
            (SqlState::QUERY_CANCELED, 504),
        ] {
            assert_eq!(status(&Error::new(state, "x")).as_u16(), expected, "{state:?}");
        }
    }
}
