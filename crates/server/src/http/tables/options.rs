//! The parts of a request before its body: the table, the format, and options of the URL.

use axum::extract::Query;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, Uri};
use serde::Deserialize;
use thalweg_types::{Error, Result, SqlState};

use super::invalid;
use crate::flight::quoted;
use crate::http::ingest::Failure;
use crate::http::ingest::failure::unsupported_type;
use crate::values::without_zero;

/// What happens to a row whose primary key exists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Mode {
    /// The whole request fails.
    #[default]
    Insert,
    /// The row replaces the columns that it has values for.
    Upsert,
}

/// Parameters of the URL's query string.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Options {
    pub(super) mode: Mode,
    /// The names of the columns, separated by commas.
    columns: Option<String>,
    /// True if CSV begins with a line of names.
    header: Option<bool>,
}

/// The format of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    JsonLines,
    /// An array of objects, or one object.
    Json,
    Csv,
    Arrow,
    Parquet,
}

impl Options {
    pub(super) fn read(uri: &Uri) -> Result<Options> {
        let options = Query::try_from_uri(uri).map(|Query(options)| options);
        options.map_err(|error| {
            invalid(format!("the address cannot be read: {}", error.body_text()))
                .with_hint("Options are mode (insert or upsert), columns and header.")
        })
    }

    /// The columns that the URL names.
    pub(super) fn columns(&self) -> Option<Vec<String>> {
        let names = self.columns.as_deref()?.split(',');
        Some(names.map(|name| name.trim().to_owned()).collect())
    }

    /// True if CSV begins with a line of names.
    pub(super) fn has_header(&self) -> bool {
        self.header.unwrap_or(true)
    }

    /// # Errors
    /// If options contradict each other or the format.
    pub(super) fn check(&self, format: Format) -> Result<()> {
        let names_columns = self.columns.is_some();
        match format {
            Format::Csv if self.has_header() && names_columns => {
                Err(invalid("the header and the option columns both name the columns")
                    .with_hint("Leave columns out, or set header=false if there is no header."))
            }
            Format::Csv if !self.has_header() && !names_columns => {
                Err(invalid("CSV without a header needs the option columns"))
            }
            Format::Csv => Ok(()),
            _ if self.header.is_some() => Err(invalid("the option header is for CSV only")),
            Format::Arrow | Format::Parquet if names_columns => {
                Err(invalid("the option columns is for JSON and CSV only")
                    .with_hint("Arrow and Parquet name their columns themselves."))
            }
            _ => Ok(()),
        }
    }
}

impl Format {
    /// # Errors
    /// 415 if the content type is missing or unknown.
    pub(super) fn of(headers: &HeaderMap) -> Result<Format, Failure> {
        let kind = headers.get(CONTENT_TYPE).map(|kind| kind.to_str().unwrap_or("?"));
        let kind = kind.unwrap_or_default();
        let name = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        Ok(match name.as_str() {
            "application/x-ndjson" | "application/jsonl" | "application/ndjson" => {
                Format::JsonLines
            }
            "application/json" => Format::Json,
            "text/csv" => Format::Csv,
            "application/vnd.apache.arrow.stream" => Format::Arrow,
            "application/vnd.apache.parquet" => Format::Parquet,
            _ => {
                let message = match kind {
                    "" => "the request does not say what its body is".to_owned(),
                    _ => format!("rows of the content type \"{kind}\" are not read"),
                };
                return Err(unsupported_type(
                    message,
                    "Content types: application/x-ndjson, application/json, text/csv, \
                     application/vnd.apache.arrow.stream, application/vnd.apache.parquet.",
                ));
            }
        })
    }
}

/// A table's name, `NAME` or `SCHEMA.NAME`. Its parts are compared exactly, as if they were quoted.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TableName(Vec<String>);

impl TableName {
    pub(super) fn read(name: &str) -> Result<TableName> {
        without_zero(name)?;
        let parts: Vec<String> = name.split('.').map(str::to_owned).collect();
        if parts.len() > 2 || parts.iter().any(String::is_empty) {
            let message = format!("invalid name of a table: \"{name}\"");
            return Err(Error::new(SqlState::INVALID_NAME, message)
                .with_hint("Name the table, or its schema and the table: SCHEMA.TABLE."));
        }
        Ok(TableName(parts))
    }

    /// The name as the record API takes it.
    pub(super) fn plain(&self) -> String {
        self.0.join(".")
    }

    /// The name in SQL.
    pub(super) fn quoted(&self) -> String {
        self.0.iter().map(|part| quoted(part)).collect::<Vec<_>>().join(".")
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn names_are_quoted_and_others_refused() {
        let quoted = |name: &str| TableName::read(name).map(|name| name.quoted());
        assert_eq!(quoted("t").unwrap(), "\"t\"");
        assert_eq!(quoted("s.\"; DROP").unwrap(), "\"s\".\"\"\"; DROP\"");
        for name in ["", ".", "a.", ".b", "a.b.c", "a\0"] {
            assert!(quoted(name).is_err(), "{name:?}");
        }
    }

    #[test]
    fn options_that_contradict_each_other_are_refused() {
        let check = |query: &str, format| {
            let uri: Uri = format!("/tables/t?{query}").parse().unwrap();
            Options::read(&uri).and_then(|options| options.check(format))
        };
        for (query, format, is_right) in [
            ("", Format::Csv, true),
            ("mode=upsert", Format::Arrow, true),
            ("mode=replace", Format::Csv, false),
            ("columns=a", Format::Csv, false),
            ("header=false", Format::Csv, false),
            ("header=false&columns=a,b", Format::Csv, true),
            ("header=false", Format::Json, false),
            ("columns=a,b", Format::JsonLines, true),
            ("columns=a,b", Format::Parquet, false),
            ("color=red", Format::Json, false),
        ] {
            assert_eq!(check(query, format).is_ok(), is_right, "{query}");
        }
    }

    #[test]
    fn content_types_name_formats() {
        for (kind, format) in [
            ("application/x-ndjson", Some(Format::JsonLines)),
            ("Application/JSON; charset=utf-8", Some(Format::Json)),
            ("text/csv; header=present", Some(Format::Csv)),
            ("application/vnd.apache.arrow.stream", Some(Format::Arrow)),
            ("application/vnd.apache.parquet", Some(Format::Parquet)),
            ("text/plain", None),
            ("application/x-www-form-urlencoded", None),
            ("", None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
            assert_eq!(Format::of(&headers).ok(), format, "{kind}");
        }
        assert_eq!(Format::of(&HeaderMap::new()).err().unwrap().status.as_u16(), 415);
    }
}
