//! Rows in the form in which a client reads them, where others have encoded them already.
//!
//! Whoever serves a client says the form that the client reads ([`RowForm`]) when it runs a
//! statement. Where the rows lie on workers, and nothing is left to be computed here, the outcome
//! has the bytes that the workers made ([`Encoded`]), which nobody opens on their way. All other
//! outcomes have record batches, whatever was asked for.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use futures::Stream;
use thalweg_formats::WriteOptions;
use thalweg_formats::postgres::ValueFormat;
use thalweg_types::Result;

/// A form of rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum RowForm {
    #[default]
    Batches,
    /// PostgreSQL's `DataRow` messages. Whoever reads these reads `CopyData` behind a `COPY`.
    DataRows(ValueForms),
    /// PostgreSQL's `CopyData` messages, one for each row. What stands ahead of the first row and
    /// behind the last one is missing.
    CopyData(Box<WriteOptions>),
    /// gRPC messages of Arrow Flight, behind the one that tells the schema.
    Flight,
}

/// The forms of values in `DataRow` messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ValueForms {
    /// All in text.
    Text,
    /// One for each column.
    Each(Arc<[ValueFormat]>),
}

impl ValueForms {
    /// The form of each of so many columns; `None` where it is said for another number.
    #[must_use]
    pub fn of(&self, columns: usize) -> Option<Vec<ValueFormat>> {
        match self {
            ValueForms::Text => Some(vec![ValueFormat::Text; columns]),
            ValueForms::Each(forms) => (forms.len() == columns).then(|| forms.to_vec()),
        }
    }
}

/// A few rows in a form, as bytes.
#[derive(Debug, Default)]
pub struct Encoded {
    pub rows: u64,
    pub bytes: usize,
    /// One behind the other.
    pub pieces: VecDeque<Bytes>,
}

/// Encoded rows as they come.
pub type EncodedStream = Pin<Box<dyn Stream<Item = Result<Encoded>> + Send>>;
