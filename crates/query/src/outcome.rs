//! The outcome of a statement.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use futures::Stream;
use thalweg_execution::row_forms::EncodedStream;
use thalweg_formats::WriteOptions;
use thalweg_formats::text::style::SessionStyle;
use thalweg_types::{Result, SqlState};

use crate::copy_in::CopyIn;
use crate::workers::Load;

/// Rows as they come.
pub type BatchStream = Pin<Box<dyn Stream<Item = Result<RecordBatch>> + Send>>;

/// The outcome of one statement.
pub struct Outcome {
    /// The result's columns; empty if the statement returns no rows. Names may repeat.
    pub schema: SchemaRef,
    /// The result's rows, if the statement returns any.
    pub rows: Option<BatchStream>,
    /// The result's rows in the form that the caller asked for, instead of `rows`.
    pub encoded: Option<EncodedStream>,
    pub tag: Tag,
    /// For `COPY` to or from the client instead of a file.
    pub copy: Option<Copy>,
    /// Remarks for the user, for example that an object existed already.
    pub notices: Vec<Notice>,
    /// The style in which the session writes the rows as text; `None` is the default one.
    pub style: Option<Arc<SessionStyle>>,
    /// Rows that were sent to workers. The commit of the statement finishes them.
    pub(crate) ahead: Option<Box<dyn Load>>,
}

/// A remark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// The kind of a warning. A plain remark has `REMARK`.
    pub state: SqlState,
    pub message: String,
    pub detail: Option<String>,
}

impl Notice {
    /// PostgreSQL's name for the severity.
    #[must_use]
    pub fn severity(&self) -> &'static str {
        if self.state == REMARK { "NOTICE" } else { "WARNING" }
    }

    /// True if a client gets the notice under this value of `client_min_messages`.
    pub(crate) fn is_sent(&self, least: &str) -> bool {
        match least {
            "error" => false,
            "warning" => self.state != REMARK,
            _ => true,
        }
    }
}

impl From<String> for Notice {
    fn from(message: String) -> Notice {
        Notice { state: REMARK, message, detail: None }
    }
}

const REMARK: SqlState = SqlState("00000");

/// A warning without a more specific kind.
pub(crate) const WARNING: SqlState = SqlState("01000");

/// A `COPY` whose other end is the client.
pub enum Copy {
    /// The rows of the outcome go to the client in this format.
    Out(WriteOptions),
    /// Rows come from the client: decode them, push them, and finish with `Session::finish_copy`.
    In(Box<CopyIn>),
}

/// The command tag, in PostgreSQL's words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tag {
    /// The reader of the rows counts them.
    Select,
    /// Rows of a cursor, counted as those of `Select`.
    Fetch,
    Insert(u64),
    Update(u64),
    Delete(u64),
    Copy(u64),
    Other(String),
}

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Tag::Select => f.write_str("SELECT"),
            Tag::Fetch => f.write_str("FETCH"),
            Tag::Insert(rows) => write!(f, "INSERT 0 {rows}"),
            Tag::Update(rows) => write!(f, "UPDATE {rows}"),
            Tag::Delete(rows) => write!(f, "DELETE {rows}"),
            Tag::Copy(rows) => write!(f, "COPY {rows}"),
            Tag::Other(text) => f.write_str(text),
        }
    }
}

impl Outcome {
    pub(crate) fn done(tag: Tag) -> Outcome {
        Outcome {
            schema: SchemaRef::new(arrow::datatypes::Schema::empty()),
            rows: None,
            encoded: None,
            tag,
            copy: None,
            notices: Vec::new(),
            style: None,
            ahead: None,
        }
    }

    pub(crate) fn command(text: &str) -> Outcome {
        Outcome::done(Tag::Other(text.to_owned()))
    }

    pub(crate) fn rows(schema: SchemaRef, rows: BatchStream, tag: Tag) -> Outcome {
        Outcome { schema, rows: Some(rows), ..Outcome::done(tag) }
    }

    /// Rows in the form that the caller asked for.
    pub(crate) fn encoded(schema: SchemaRef, rows: EncodedStream, tag: Tag) -> Outcome {
        Outcome { schema, encoded: Some(rows), ..Outcome::done(tag) }
    }

    /// True if there are rows, in either form.
    #[must_use]
    pub fn gives_rows(&self) -> bool {
        self.rows.is_some() || self.encoded.is_some()
    }

    /// A result that is in memory already.
    pub(crate) fn batches(schema: SchemaRef, batches: Vec<RecordBatch>, tag: Tag) -> Outcome {
        let rows = futures::stream::iter(batches.into_iter().map(Ok));
        Outcome::rows(schema, Box::pin(rows), tag)
    }

    pub(crate) fn with_copy(mut self, copy: Copy) -> Outcome {
        self.copy = Some(copy);
        self
    }

    pub(crate) fn with_ahead(mut self, ahead: Option<Box<dyn Load>>) -> Outcome {
        self.ahead = ahead;
        self
    }

    pub(crate) fn with_notice(mut self, notice: String) -> Outcome {
        self.notices.push(notice.into());
        self
    }

    pub(crate) fn with_warning(mut self, state: SqlState, message: impl Into<String>) -> Outcome {
        self.notices.push(Notice { state, message: message.into(), detail: None });
        self
    }
}
