//! Errors of a row or of a whole stream.

use std::fmt;

use thalweg_protocol::v1::Failure;
use tonic::{Code, Status};

/// The reason why a row, a look-up or a call failed.
#[derive(Clone, Debug)]
pub enum Error {
    /// The server refused this row or look-up; the stream continues.
    Refused(Box<Failure>),
    /// The call has ended.
    Ended(Box<Status>),
    /// The server could not be reached.
    Unreachable(String),
}

impl Error {
    /// The SQLSTATE, if the server sent one.
    #[must_use]
    pub fn sqlstate(&self) -> Option<&str> {
        match self {
            Error::Refused(failure) => Some(&failure.sqlstate),
            Error::Ended(status) => status.metadata().get("sqlstate")?.to_str().ok(),
            Error::Unreachable(_) => None,
        }
    }

    /// True if the connection broke, or the server is unreachable or shutting down. It is unknown
    /// whether work in flight was done.
    #[must_use]
    pub fn is_lost_connection(&self) -> bool {
        match self {
            Error::Refused(_) => false,
            Error::Ended(status) => {
                let told_by_server = status.metadata().contains_key("sqlstate");
                let broke = std::error::Error::source(&**status).is_some()
                    || status.code() == Code::Unknown;
                status.code() == Code::Unavailable || (broke && !told_by_server)
            }
            Error::Unreachable(_) => true,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Refused(failure) if failure.detail.is_empty() => f.write_str(&failure.message),
            Error::Refused(failure) => write!(f, "{}: {}", failure.message, failure.detail),
            Error::Ended(status) => f.write_str(status.message()),
            Error::Unreachable(why) => write!(f, "the server cannot be reached: {why}"),
        }
    }
}

impl std::error::Error for Error {}

impl From<Status> for Error {
    fn from(status: Status) -> Error {
        Error::Ended(Box::new(status))
    }
}

impl From<tonic::transport::Error> for Error {
    fn from(error: tonic::transport::Error) -> Error {
        use std::error::Error as _;
        let source = error.source().map(ToString::to_string);
        Error::Unreachable(source.unwrap_or_else(|| error.to_string()))
    }
}

/// The error of a call that ended without a reason.
pub(crate) fn ended() -> Error {
    Status::unavailable("the stream has ended").into()
}
