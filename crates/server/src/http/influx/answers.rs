//! Responses in the forms of InfluxDB.

use axum::Json;
use axum::http::header::{RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use thalweg_types::{Error, SqlState};

use crate::http::ingest::{Failure, Report};

/// Seconds after which a client may try again.
const RETRY_AFTER_SECONDS: HeaderValue = HeaderValue::from_static("1");
/// Clients of version 1 read the error in this header as well.
const ERROR_HEADER: &str = "X-Influxdb-Error";

/// The version of a client's interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Api {
    V1,
    V2,
}

impl Api {
    pub(super) fn path(self) -> &'static str {
        match self {
            Api::V1 => "POST /write",
            Api::V2 => "POST /api/v2/write",
        }
    }

    pub(super) fn namespace_parameter(self) -> &'static str {
        match self {
            Api::V1 => "db",
            Api::V2 => "bucket",
        }
    }

    /// The response to a request that was not admitted.
    pub(super) fn refused(self, failure: &Failure) -> Response {
        self.response(status_of(failure), failure.error.message(), &failure.error, json!({}))
    }

    /// The response to an admitted request, and the error that it reports.
    pub(super) fn answer(
        self,
        mut report: Report,
        failure: Option<Failure>,
    ) -> (Response, Option<Error>) {
        let first = report.first();
        if let (None, None) = (&failure, &first) {
            return (StatusCode::NO_CONTENT.into_response(), None);
        }
        let (written, rejected) = (report.rows, report.rejected);
        // The words at the beginning tell Telegraf that the lines need not be sent again.
        let mut message = format!("partial write: {written} lines were written");
        if rejected > 0 {
            message.push_str(&format!(", {rejected} were rejected (dropped={rejected})"));
        }
        let (status, error) = match (&failure, &first) {
            (Some(failure), _) => {
                message = match written + rejected {
                    0 => failure.error.message().to_owned(),
                    _ => {
                        format!(
                            "{message}, the others were not written: {}",
                            failure.error.message()
                        )
                    }
                };
                (status_of(failure), failure.error.clone())
            }
            (None, Some((line, error))) => {
                message.push_str(&format!("; line {line}: {}", error.message()));
                let is_denied = error.state() == SqlState::INSUFFICIENT_PRIVILEGE;
                let status = match report.is_transient() {
                    true => StatusCode::SERVICE_UNAVAILABLE,
                    false if written == 0 && is_denied => StatusCode::FORBIDDEN,
                    false => StatusCode::BAD_REQUEST,
                };
                (status, error.clone())
            }
            (None, None) => unreachable!("handled above"),
        };
        let mut fields = json!({
            "lines_written": written,
            "lines_rejected": rejected,
            "errors": report.errors("line"),
        });
        if let Some((line, _)) = first {
            fields["line"] = json!(line);
        }
        (self.response(status, &message, &error, fields), Some(error))
    }

    fn response(
        self,
        status: StatusCode,
        message: &str,
        error: &Error,
        mut fields: Value,
    ) -> Response {
        fields["sqlstate"] = json!(error.state().0);
        if let Some(hint) = error.hint() {
            fields["hint"] = json!(hint);
        }
        match self {
            Api::V1 => fields["error"] = json!(message),
            Api::V2 => {
                fields["code"] = json!(code_of(status));
                fields["message"] = json!(message);
            }
        }
        let mut response = (status, Json(fields)).into_response();
        let headers = response.headers_mut();
        if let (Api::V1, Ok(value)) = (self, HeaderValue::from_str(message)) {
            headers.insert(ERROR_HEADER, value);
        }
        match status {
            StatusCode::UNAUTHORIZED => {
                let challenge = HeaderValue::from_static("Basic realm=\"thalweg\"");
                headers.insert(WWW_AUTHENTICATE, challenge);
            }
            StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => {
                headers.insert(RETRY_AFTER, RETRY_AFTER_SECONDS);
            }
            _ => {}
        }
        response
    }
}

/// Clients wait and try again after 429 and 503, and drop the lines after other errors.
fn status_of(failure: &Failure) -> StatusCode {
    match failure.error.state() {
        SqlState::TOO_MANY_CONNECTIONS | SqlState::CONFIGURATION_LIMIT_EXCEEDED => {
            StatusCode::TOO_MANY_REQUESTS
        }
        _ if failure.status == StatusCode::GATEWAY_TIMEOUT => StatusCode::SERVICE_UNAVAILABLE,
        _ => failure.status,
    }
}

fn code_of(status: StatusCode) -> &'static str {
    match status {
        StatusCode::UNAUTHORIZED => "unauthorized",
        StatusCode::FORBIDDEN => "forbidden",
        StatusCode::NOT_FOUND => "not found",
        StatusCode::CONFLICT => "conflict",
        StatusCode::PAYLOAD_TOO_LARGE => "request too large",
        StatusCode::UNSUPPORTED_MEDIA_TYPE => "unsupported media type",
        StatusCode::TOO_MANY_REQUESTS => "too many requests",
        StatusCode::SERVICE_UNAVAILABLE => "unavailable",
        StatusCode::INTERNAL_SERVER_ERROR => "internal error",
        _ => "invalid",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(state: SqlState) -> u16 {
        let error = Error::new(state, "x");
        Api::V2.refused(&error.into()).status().as_u16()
    }

    #[test]
    fn statuses_tell_clients_to_wait_or_to_drop() {
        for (state, expected) in [
            (SqlState::INVALID_PARAMETER_VALUE, 400),
            (SqlState::INVALID_PASSWORD, 401),
            (SqlState::INSUFFICIENT_PRIVILEGE, 403),
            (SqlState::LIMIT_EXCEEDED, 413),
            (SqlState::TOO_MANY_CONNECTIONS, 429),
            (SqlState::OUT_OF_MEMORY, 503),
            (SqlState::SHUTTING_DOWN, 503),
            (SqlState::DISK_FULL, 503),
        ] {
            assert_eq!(status(state), expected, "{state:?}");
        }
    }

    #[test]
    fn a_report_decides_about_the_status() {
        let status = |report| Api::V1.answer(report, None).0.status().as_u16();
        assert_eq!(status(Report::default()), 204);
        let mut report = Report::default();
        report.rows += 3;
        report.reject(2, Error::new(SqlState::DATATYPE_MISMATCH, "x"));
        let (response, error) = Api::V1.answer(report, None);
        assert_eq!(response.status().as_u16(), 400);
        assert!(response.headers().contains_key(ERROR_HEADER));
        assert_eq!(error.unwrap().state(), SqlState::DATATYPE_MISMATCH);
        let mut report = Report::default();
        report.reject(1, Error::new(SqlState::SERIALIZATION_FAILURE, "x"));
        assert_eq!(status(report), 503);
    }
}
