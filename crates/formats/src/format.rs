//! The formats that files can have.

use std::path::Path;

use thalweg_types::{Error, Result, SqlState};

/// A file format, or a format of `COPY`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// Comma-separated values, with quotes.
    Csv,
    /// Like [`Format::Csv`], with tabs between the fields.
    Tsv,
    /// PostgreSQL's `COPY` format: tabs between the fields, backslashes before special characters.
    Text,
    /// One JSON object a line.
    Json,
    Parquet,
    /// Arrow's IPC file: batches, and an index of their offsets at the end.
    Arrow,
    /// Arrow's IPC stream: a sequence of batches.
    ArrowStream,
    /// PostgreSQL's binary `COPY`, for clients only: files cannot have this format.
    Binary,
}

impl Format {
    /// The format that a file's name implies.
    #[must_use]
    pub fn of_path(path: &Path) -> Option<Format> {
        let extension = path.extension()?.to_str()?.to_ascii_lowercase();
        Some(match extension.as_str() {
            "csv" => Format::Csv,
            "tsv" => Format::Tsv,
            "json" | "jsonl" | "ndjson" => Format::Json,
            "parquet" => Format::Parquet,
            "arrow" | "feather" | "ipc" => Format::Arrow,
            "arrows" => Format::ArrowStream,
            _ => return None,
        })
    }

    /// The format that `FORMAT …` names.
    pub fn named(name: &str) -> Result<Format> {
        Ok(match name.to_ascii_lowercase().as_str() {
            "csv" => Format::Csv,
            "tsv" => Format::Tsv,
            "text" => Format::Text,
            "json" | "jsonl" | "ndjson" => Format::Json,
            "parquet" => Format::Parquet,
            "arrow" | "feather" | "ipc" => Format::Arrow,
            "arrows" | "arrow_stream" => Format::ArrowStream,
            "binary" => Format::Binary,
            _ => {
                let message = format!("COPY format \"{name}\" not recognized");
                return Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, message)
                    .with_hint("Formats are csv, tsv, text, json, parquet, arrow and arrows."));
            }
        })
    }

    /// The usual extension of such a file's name.
    #[must_use]
    pub fn extension(self) -> &'static str {
        match self {
            Format::Csv => "csv",
            Format::Tsv => "tsv",
            Format::Text => "txt",
            Format::Json => "jsonl",
            Format::Parquet => "parquet",
            Format::Arrow => "arrow",
            Format::ArrowStream => "arrows",
            Format::Binary => "binary",
        }
    }

    /// True if a delimiter separates the fields of a record.
    #[must_use]
    pub fn is_delimited(self) -> bool {
        matches!(self, Format::Csv | Format::Tsv | Format::Text)
    }
}
