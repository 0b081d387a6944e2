//! Errors of a request together with their status codes.

use axum::http::StatusCode;
use thalweg_types::{Error, SqlState};

use crate::http::errors::status;

/// An error and the status code of its response.
#[derive(Debug)]
pub(in crate::http) struct Failure {
    pub(in crate::http) status: StatusCode,
    pub(in crate::http) error: Error,
}

impl Failure {
    pub(in crate::http) fn new(status: StatusCode, error: Error) -> Failure {
        Failure { status, error }
    }

    /// True if the client may be sending still.
    pub(in crate::http) fn drains(&self) -> bool {
        self.status != StatusCode::REQUEST_TIMEOUT
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure { status: status(&error), error }
    }
}

/// The error for a body in an encoding or format that is not read here.
pub(in crate::http) fn unsupported_type(message: String, hint: &'static str) -> Failure {
    let error = Error::new(SqlState::FEATURE_NOT_SUPPORTED, message).with_hint(hint);
    Failure::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, error)
}
