//! Rows already encoded in the form that a client reads.
//!
//! A client's front end passes the form that the client reads ([`RowForm`]) when it runs a
//! statement. If the rows lie on workers and the gateway has nothing left to compute, the outcome
//! holds the workers' bytes ([`Encoded`]), which the gateway relays without decoding. All other
//! outcomes hold record batches, whatever form was requested.

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
    /// PostgreSQL's `DataRow` messages. The client of a `COPY` gets `CopyData` instead.
    DataRows(ValueForms),
    /// PostgreSQL's `CopyData` messages, one for each row, without the header before the first row
    /// and the trailer after the last.
    CopyData(Box<WriteOptions>),
    /// gRPC messages of Arrow Flight, without the schema message that precedes them.
    Flight,
}

/// The forms of values in `DataRow` messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ValueForms {
    /// All columns as text.
    Text,
    /// One form for each column.
    Each(Arc<[ValueFormat]>),
}

impl ValueForms {
    /// The form of each of `columns` columns; `None` if the forms are for another number of
    /// columns.
    #[must_use]
    pub fn of(&self, columns: usize) -> Option<Vec<ValueFormat>> {
        match self {
            ValueForms::Text => Some(vec![ValueFormat::Text; columns]),
            ValueForms::Each(forms) => (forms.len() == columns).then(|| forms.to_vec()),
        }
    }
}

/// A few encoded rows.
#[derive(Debug, Default)]
pub struct Encoded {
    /// Number of rows.
    pub rows: u64,
    /// Length of all pieces together.
    pub bytes: usize,
    /// Consecutive parts of the encoded bytes.
    pub pieces: VecDeque<Bytes>,
}

/// Stream of encoded rows.
pub type EncodedStream = Pin<Box<dyn Stream<Item = Result<Encoded>> + Send>>;
