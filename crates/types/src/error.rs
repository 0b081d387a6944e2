//! One error type for everything that a user can meet.
//!
//! Its [`ErrorKind`] says what the user must do; its [`SqlState`] says what happened, in
//! PostgreSQL's codes. The kind follows from the code by one table, so the two never disagree.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

use crate::TableSchema;
use crate::bounded::{bounded, cut};

/// A result whose error is [`Error`] unless stated otherwise.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Maximum length of a message, in bytes: some name all that a plan holds.
const MESSAGE_BYTES_MAX: usize = 64 << 10;
/// Bytes that are shown of a clause that is not supported.
const CLAUSE_BYTES_MAX: usize = 4 << 10;

/// The action that an error asks of the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// Change the request: it can never succeed as it is.
    InvalidRequest,
    /// Run the transaction again: another one came first.
    Conflict,
    /// Name something that exists.
    NotFound,
    /// Try again later, or elsewhere: nothing is wrong with the request.
    Unavailable,
    /// Raise a limit, free memory or disk, or ask for less.
    OutOfResources,
    /// Data on disk is damaged: restore it.
    Corrupt,
}

/// A five-character code from PostgreSQL's list (PostgreSQL 15 documentation, appendix A).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SqlState(pub &'static str);

macro_rules! sql_states {
    ($($name:ident = $code:literal => $kind:ident,)*) => {
        impl SqlState {
            $(pub const $name: SqlState = SqlState($code);)*

            /// The action that an error with this code asks of the user.
            #[must_use]
            pub fn kind(self) -> ErrorKind {
                match self.0 {
                    $($code => ErrorKind::$kind,)*
                    _ => ErrorKind::InvalidRequest,
                }
            }

            /// The code that a text names; nothing where it is none of these.
            #[must_use]
            pub fn named(code: &str) -> Option<SqlState> {
                match code {
                    $($code => Some(SqlState::$name),)*
                    _ => None,
                }
            }
        }
    };
}

sql_states! {
    WARNING = "01000" => InvalidRequest,
    CONNECTION_FAILURE = "08006" => Unavailable,
    PROTOCOL_VIOLATION = "08P01" => InvalidRequest,
    NO_DATA_FOUND = "P0002" => NotFound,
    INVALID_GRANT_OPERATION = "0LP01" => InvalidRequest,
    FEATURE_NOT_SUPPORTED = "0A000" => InvalidRequest,
    CARDINALITY_VIOLATION = "21000" => InvalidRequest,
    DATA_EXCEPTION = "22000" => InvalidRequest,
    STRING_TOO_LONG = "22001" => InvalidRequest,
    NUMERIC_OUT_OF_RANGE = "22003" => InvalidRequest,
    INVALID_DATETIME_FORMAT = "22007" => InvalidRequest,
    DATETIME_OVERFLOW = "22008" => InvalidRequest,
    DIVISION_BY_ZERO = "22012" => InvalidRequest,
    INTERVAL_OVERFLOW = "22015" => InvalidRequest,
    INVALID_PARAMETER_VALUE = "22023" => InvalidRequest,
    NULL_VALUE_NOT_ALLOWED = "22004" => InvalidRequest,
    SUBSTRING_ERROR = "22011" => InvalidRequest,
    INVALID_ESCAPE_CHARACTER = "22019" => InvalidRequest,
    INVALID_REGULAR_EXPRESSION = "2201B" => InvalidRequest,
    INVALID_ARGUMENT_FOR_NTILE = "22014" => InvalidRequest,
    INVALID_ARGUMENT_FOR_NTH_VALUE = "22016" => InvalidRequest,
    INVALID_ARGUMENT_FOR_LOGARITHM = "2201E" => InvalidRequest,
    INVALID_ARGUMENT_FOR_POWER = "2201F" => InvalidRequest,
    INVALID_ARGUMENT_FOR_WIDTH_BUCKET = "2201G" => InvalidRequest,
    INVALID_LIMIT = "2201W" => InvalidRequest,
    INVALID_OFFSET = "2201X" => InvalidRequest,
    INVALID_ESCAPE_SEQUENCE = "22025" => InvalidRequest,
    SEQUENCE_LIMIT_EXCEEDED = "2200H" => InvalidRequest,
    INVALID_NAME = "42602" => InvalidRequest,
    ARRAY_SUBSCRIPT_ERROR = "2202E" => InvalidRequest,
    SINGLETON_JSON_ITEM_REQUIRED = "22038" => InvalidRequest,
    UNTRANSLATABLE_CHARACTER = "22P05" => InvalidRequest,
    INVALID_SQL_JSON_SUBSCRIPT = "22033" => InvalidRequest,
    NON_NUMERIC_SQL_JSON_ITEM = "22036" => InvalidRequest,
    SQL_JSON_ARRAY_NOT_FOUND = "22039" => InvalidRequest,
    SQL_JSON_MEMBER_NOT_FOUND = "2203A" => InvalidRequest,
    SQL_JSON_OBJECT_NOT_FOUND = "2203C" => InvalidRequest,
    INVALID_TEXT_REPRESENTATION = "22P02" => InvalidRequest,
    INVALID_BINARY_REPRESENTATION = "22P03" => InvalidRequest,
    BAD_COPY_FILE_FORMAT = "22P04" => InvalidRequest,
    INVALID_BYTE_SEQUENCE = "22021" => InvalidRequest,
    NOT_NULL_VIOLATION = "23502" => InvalidRequest,
    FOREIGN_KEY_VIOLATION = "23503" => InvalidRequest,
    UNIQUE_VIOLATION = "23505" => InvalidRequest,
    CHECK_VIOLATION = "23514" => InvalidRequest,
    ACTIVE_TRANSACTION = "25001" => InvalidRequest,
    READ_ONLY_TRANSACTION = "25006" => InvalidRequest,
    NO_ACTIVE_TRANSACTION = "25P01" => InvalidRequest,
    IN_FAILED_TRANSACTION = "25P02" => InvalidRequest,
    IDLE_IN_TRANSACTION_TIMEOUT = "25P03" => Unavailable,
    INVALID_STATEMENT_NAME = "26000" => NotFound,
    INVALID_AUTHORIZATION = "28000" => InvalidRequest,
    INVALID_PASSWORD = "28P01" => InvalidRequest,
    DEPENDENT_OBJECTS = "2BP01" => InvalidRequest,
    INVALID_CURSOR_NAME = "34000" => NotFound,
    INVALID_CATALOG_NAME = "3D000" => NotFound,
    INVALID_SAVEPOINT = "3B001" => NotFound,
    INVALID_SCHEMA_NAME = "3F000" => NotFound,
    SERIALIZATION_FAILURE = "40001" => Conflict,
    DEADLOCK_DETECTED = "40P01" => Conflict,
    SYNTAX_ERROR = "42601" => InvalidRequest,
    INSUFFICIENT_PRIVILEGE = "42501" => InvalidRequest,
    DUPLICATE_COLUMN = "42701" => InvalidRequest,
    AMBIGUOUS_COLUMN = "42702" => InvalidRequest,
    UNDEFINED_COLUMN = "42703" => NotFound,
    UNDEFINED_OBJECT = "42704" => NotFound,
    DUPLICATE_OBJECT = "42710" => InvalidRequest,
    AMBIGUOUS_FUNCTION = "42725" => InvalidRequest,
    GROUPING_ERROR = "42803" => InvalidRequest,
    DATATYPE_MISMATCH = "42804" => InvalidRequest,
    WRONG_OBJECT_TYPE = "42809" => InvalidRequest,
    UNDEFINED_FUNCTION = "42883" => NotFound,
    UNDEFINED_TABLE = "42P01" => NotFound,
    UNDEFINED_PARAMETER = "42P02" => InvalidRequest,
    DUPLICATE_CURSOR = "42P03" => InvalidRequest,
    DUPLICATE_STATEMENT = "42P05" => InvalidRequest,
    DUPLICATE_SCHEMA = "42P06" => InvalidRequest,
    DUPLICATE_TABLE = "42P07" => InvalidRequest,
    INVALID_COLUMN_REFERENCE = "42P10" => InvalidRequest,
    INVALID_FOREIGN_KEY = "42830" => InvalidRequest,
    INVALID_TABLE_DEFINITION = "42P16" => InvalidRequest,
    INDETERMINATE_DATATYPE = "42P18" => InvalidRequest,
    DUPLICATE_ALIAS = "42712" => InvalidRequest,
    CANNOT_COERCE = "42846" => InvalidRequest,
    INVALID_RECURSION = "42P19" => InvalidRequest,
    WINDOWING_ERROR = "42P20" => InvalidRequest,
    GENERATED_ALWAYS = "428C9" => InvalidRequest,
    RESERVED_NAME = "42939" => InvalidRequest,
    DISK_FULL = "53100" => OutOfResources,
    OUT_OF_MEMORY = "53200" => OutOfResources,
    TOO_MANY_CONNECTIONS = "53300" => OutOfResources,
    CONFIGURATION_LIMIT_EXCEEDED = "53400" => OutOfResources,
    LIMIT_EXCEEDED = "54000" => OutOfResources,
    STATEMENT_TOO_COMPLEX = "54001" => OutOfResources,
    TOO_MANY_COLUMNS = "54011" => InvalidRequest,
    OBJECT_NOT_IN_STATE = "55000" => InvalidRequest,
    OBJECT_IN_USE = "55006" => Unavailable,
    LOCK_NOT_AVAILABLE = "55P03" => Unavailable,
    QUERY_CANCELED = "57014" => Unavailable,
    SHUTTING_DOWN = "57P01" => Unavailable,
    CANNOT_CONNECT_NOW = "57P03" => Unavailable,
    IDLE_SESSION_TIMEOUT = "57P05" => Unavailable,
    IO_ERROR = "58030" => Unavailable,
    UNDEFINED_FILE = "58P01" => NotFound,
    // One of ours: between nodes, never told to clients.
    STALE_SHARD_MAP = "TW001" => Unavailable,
    STALE_DEFINITIONS = "TW002" => Unavailable,
    UNKNOWN_FRAGMENT = "TW003" => Unavailable,
    STALE_GATEWAY = "TW004" => Unavailable,
    OTHER_WORKER = "TW005" => Unavailable,
    INTERNAL_ERROR = "XX000" => InvalidRequest,
    DATA_CORRUPTED = "XX001" => Corrupt,
}

/// An error for people: message, SQLSTATE, position, and a hint at the next step. A copy is
/// another reference to the same fault, because a million rows may share one.
#[derive(Clone)]
pub struct Error(Arc<Inner>);

/// The catalog object of an error. PostgreSQL reports it in fields of its own, which programs
/// read instead of the message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    pub schema: String,
    pub table: String,
    pub part: Part,
}

/// The part of a table that an error names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    Column(String),
    Constraint(String),
}

impl Subject {
    fn of(table: &TableSchema, part: Part) -> Subject {
        Subject { schema: table.namespace.clone(), table: table.name.clone(), part }
    }
}

struct Inner {
    state: SqlState,
    message: String,
    detail: Option<String>,
    hint: Option<String>,
    position: Option<usize>,
    subject: Option<Subject>,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

impl Error {
    /// An error without further fields. A long message is cut.
    #[must_use]
    pub fn new(state: SqlState, message: impl Into<String>) -> Error {
        Error(Arc::new(Inner {
            state,
            message: cut(message.into(), MESSAGE_BYTES_MAX),
            detail: None,
            hint: None,
            position: None,
            subject: None,
            source: None,
        }))
    }

    /// An error for a missing feature (`0A000`): "… is not supported".
    #[must_use]
    pub fn unsupported(what: impl fmt::Display) -> Error {
        let what = bounded(what, CLAUSE_BYTES_MAX);
        Error::new(SqlState::FEATURE_NOT_SUPPORTED, format!("{what} is not supported"))
    }

    /// Something that can only be a mistake in Thalweg itself.
    #[must_use]
    pub fn internal(message: impl Into<String>) -> Error {
        Error::new(SqlState::INTERNAL_ERROR, message)
    }

    /// An error for damaged data (`XX001`).
    #[must_use]
    pub fn corrupt(message: impl Into<String>) -> Error {
        Error::new(SqlState::DATA_CORRUPTED, message)
    }

    /// Further facts, a sentence.
    #[must_use]
    pub fn with_detail(mut self, detail: impl Into<String>) -> Error {
        self.own().detail = Some(detail.into());
        self
    }

    /// The next step for the user, one sentence.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Error {
        self.own().hint = Some(hint.into());
        self
    }

    /// Where in the statement: the character's place, counted from 1.
    #[must_use]
    pub fn with_position(mut self, position: usize) -> Error {
        self.own().position = Some(position);
        self
    }

    /// Names the constraint of a table that was violated.
    #[must_use]
    pub fn with_constraint(self, table: &TableSchema, constraint: &str) -> Error {
        self.with_subject(Subject::of(table, Part::Constraint(constraint.to_owned())))
    }

    /// Names the column of a table that the error is about.
    #[must_use]
    pub fn with_column(self, table: &TableSchema, column: &str) -> Error {
        self.with_subject(Subject::of(table, Part::Column(column.to_owned())))
    }

    /// Names the object (table, column, constraint …) that the error is about.
    #[must_use]
    pub fn with_subject(mut self, subject: Subject) -> Error {
        self.own().subject = Some(subject);
        self
    }

    /// Adds the error that caused this one. It is for logs, not for clients.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Error {
        self.own().source = Some(source.into());
        self
    }

    /// The kind, which determines what the user must do; it follows from the SQLSTATE.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.0.state.kind()
    }

    /// The SQLSTATE.
    #[must_use]
    pub fn state(&self) -> SqlState {
        self.0.state
    }

    /// The main message, in one line.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Further details about what happened.
    #[must_use]
    pub fn detail(&self) -> Option<&str> {
        self.0.detail.as_deref()
    }

    /// Advice what to do.
    #[must_use]
    pub fn hint(&self) -> Option<&str> {
        self.0.hint.as_deref()
    }

    /// Position of the error in the statement: in characters, counted from 1.
    #[must_use]
    pub fn position(&self) -> Option<usize> {
        self.0.position
    }

    /// The object that the error is about.
    #[must_use]
    pub fn subject(&self) -> Option<&Subject> {
        self.0.subject.as_ref()
    }
}

impl Error {
    /// The parts of this error alone: it may be told of many rows, to each of several waiters.
    fn own(&mut self) -> &mut Inner {
        if Arc::get_mut(&mut self.0).is_none() {
            let Inner { state, message, detail, hint, position, subject, source: _ } = &*self.0;
            self.0 = Arc::new(Inner {
                state: *state,
                message: message.clone(),
                detail: detail.clone(),
                hint: hint.clone(),
                position: *position,
                subject: subject.clone(),
                source: None,
            });
        }
        Arc::get_mut(&mut self.0).expect("nobody else has the copy")
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.0.state.0, self.0.message)?;
        if let Some(detail) = self.detail() {
            write!(f, " ({detail})")?;
        }
        if let Some(hint) = self.hint() {
            write!(f, " [{hint}]")?;
        }
        Ok(())
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source.as_deref().map(|source| source as &(dyn StdError + 'static))
    }
}
