//! The parts of a request: the statement, its parameters, and the format of its rows.

use axum::extract::Query;
use axum::http::header::{ACCEPT, CONTENT_TYPE};
use axum::http::{HeaderMap, Uri};
use serde::Deserialize;
use serde_json::value::RawValue;
use thalweg_formats::Format;
use thalweg_types::{Error, Result, SqlState};

use crate::values::without_zero;

/// A statement, as text or as JSON: `{"sql": "SELECT $1", "parameters": [1]}`.
#[derive(Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub(crate) struct Request {
    pub(crate) sql: String,
    #[serde(default)]
    pub(crate) parameters: Vec<Parameter>,
}

/// A parameter's value as text in the format of literals; `None` for NULL.
#[derive(Debug, Deserialize, PartialEq)]
#[serde(try_from = "Box<RawValue>")]
pub(crate) struct Parameter(Option<String>);

impl TryFrom<Box<RawValue>> for Parameter {
    type Error = serde_json::Error;

    /// Keeps a number's digits as they were sent, since a `bigint` or a `numeric` can have more of
    /// them than a floating-point number holds.
    fn try_from(value: Box<RawValue>) -> Result<Parameter, serde_json::Error> {
        Ok(Parameter(match value.get() {
            "null" => None,
            text if text.starts_with('"') => Some(serde_json::from_str(text)?),
            other => Some(other.to_owned()),
        }))
    }
}

impl Parameter {
    pub(crate) fn text(self) -> Option<String> {
        self.0
    }
}

impl Request {
    pub(super) fn read(headers: &HeaderMap, body: &[u8]) -> Result<Request> {
        let request = Request::parse(headers, body)?;
        without_zero(&request.sql)?;
        Ok(request)
    }

    fn parse(headers: &HeaderMap, body: &[u8]) -> Result<Request> {
        let kind =
            headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        let kind = kind.split(';').next().unwrap_or_default().trim();
        if kind.eq_ignore_ascii_case("application/json") {
            let request: Request = serde_json::from_slice(body).map_err(|error| {
                let message = format!("the request cannot be read: {error}");
                Error::new(SqlState::PROTOCOL_VIOLATION, message).with_hint(
                    "Send {\"sql\": \"…\", \"parameters\": […]}, or the statement as text.",
                )
            })?;
            without_zero(&request.sql)?;
            return Ok(request);
        }
        let sql = str::from_utf8(body).map_err(|_| {
            Error::new(SqlState::INVALID_BYTE_SEQUENCE, "the statement is not valid UTF-8")
        })?;
        without_zero(sql)?;
        Ok(Request { sql: sql.to_owned(), parameters: Vec::new() })
    }

    pub(super) fn texts(self) -> Vec<Option<String>> {
        self.parameters.into_iter().map(Parameter::text).collect()
    }
}

/// Parameters of the URL's query string.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Options {
    pub(super) format: Option<String>,
}

impl Options {
    pub(super) fn read(uri: &Uri) -> Result<Options> {
        let options = Query::try_from_uri(uri).map(|Query(options)| options);
        options.map_err(|error| {
            let message = format!("the address cannot be read: {}", error.body_text());
            Error::new(SqlState::INVALID_PARAMETER_VALUE, message)
                .with_hint("The one option of a statement is format.")
        })
    }
}

/// The format of the rows: `?format=` if given, else the first known type in `Accept`, else JSON
/// lines.
pub(super) fn format(named: Option<&str>, headers: &HeaderMap) -> Result<Format> {
    match named {
        Some("json" | "jsonl" | "ndjson") => return Ok(Format::Json),
        Some("csv") => return Ok(Format::Csv),
        Some("arrow") => return Ok(Format::ArrowStream),
        Some(other) => {
            let message = format!("rows are not sent as \"{other}\"");
            return Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, message)
                .with_hint("Available values: json, csv, arrow."));
        }
        None => {}
    }
    let lines = headers.get_all(ACCEPT).into_iter().filter_map(|line| line.to_str().ok());
    let mut kinds = lines
        .flat_map(|line| line.split(','))
        .map(|kind| kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase());
    let found = kinds.find_map(|kind| match kind.as_str() {
        "application/x-ndjson" | "application/jsonl" | "application/json" => Some(Format::Json),
        "text/csv" => Some(Format::Csv),
        "application/vnd.apache.arrow.stream" => Some(Format::ArrowStream),
        _ => None,
    });
    Ok(found.unwrap_or(Format::Json))
}

/// The content type of a format in a response.
pub(super) fn content_type(format: Format) -> &'static str {
    match format {
        Format::Csv => "text/csv; charset=utf-8; header=present",
        Format::ArrowStream => "application/vnd.apache.arrow.stream",
        Format::Arrow => "application/vnd.apache.arrow.file",
        Format::Parquet => "application/vnd.apache.parquet",
        Format::Tsv | Format::Text => "text/plain; charset=utf-8",
        _ => "application/x-ndjson",
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn header(name: axum::http::HeaderName, value: &'static str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(name, HeaderValue::from_static(value));
        headers
    }

    #[test]
    fn statements_come_as_text_or_json() {
        let text = Request::read(&HeaderMap::new(), b"SELECT 1").unwrap();
        assert_eq!(text, Request { sql: "SELECT 1".to_owned(), parameters: Vec::new() });
        let json = header(CONTENT_TYPE, "application/json; charset=utf-8");
        let body = br#"{"sql": "SELECT $1", "parameters": [1, "a\u00e9", null, true, 1.50, [1 ],
            -12345678901234567890123456789.0, 1e400, {"b": 1, "a": 1.0}]}"#;
        let texts = Request::read(&json, body).unwrap().texts();
        let expected = [
            Some("1"),
            Some("aé"),
            None,
            Some("true"),
            Some("1.50"),
            Some("[1 ]"),
            Some("-12345678901234567890123456789.0"),
            Some("1e400"),
            Some(r#"{"b": 1, "a": 1.0}"#),
        ];
        assert_eq!(texts, expected.map(|text| text.map(str::to_owned)));
        assert_eq!(Request::read(&json, b"{}").unwrap_err().state().0, "08P01");
        for refused in [&b"\xff"[..], b"SELECT 'a\0b'"] {
            let error = Request::read(&HeaderMap::new(), refused).unwrap_err();
            assert_eq!(error.state().0, "22021");
        }
    }

    #[test]
    fn options_are_known_ones() {
        let read = |uri: &'static str| Options::read(&Uri::from_static(uri));
        assert_eq!(read("/sql").unwrap().format, None);
        assert_eq!(read("/sql?format=csv").unwrap().format.as_deref(), Some("csv"));
        for refused in ["/sql?format=csv&format=json", "/sql?form=csv"] {
            assert_eq!(read(refused).err().unwrap().state().0, "22023", "{refused}");
        }
    }

    #[test]
    fn the_form_is_named_or_accepted() {
        let none = HeaderMap::new();
        assert_eq!(format(Some("csv"), &none).unwrap(), Format::Csv);
        assert_eq!(format(Some("xml"), &none).unwrap_err().state().0, "22023");
        assert_eq!(format(None, &none).unwrap(), Format::Json);
        let accept = header(ACCEPT, "text/html, text/csv;q=0.9");
        assert_eq!(format(None, &accept).unwrap(), Format::Csv);
        assert_eq!(format(Some("arrow"), &accept).unwrap(), Format::ArrowStream);
        assert_eq!(format(None, &header(ACCEPT, "*/*")).unwrap(), Format::Json);
    }
}
