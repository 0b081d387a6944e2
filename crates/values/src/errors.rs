//! DataFusion's errors in PostgreSQL's terms: code, wording, position in the statement, hint.
//!
//! DataFusion reports most mistakes as sentences. This module recognises the sentences that clients
//! meet. Any other sentence keeps its wording, without DataFusion's own prefixes.

mod foreign_functions;
mod planning;
mod position;
mod syntax;
mod values;

use arrow::error::ArrowError;
use datafusion::common::SchemaError;
use datafusion::common::diagnostic::Diagnostic;
use datafusion::error::DataFusionError;
use thalweg_types::{Error, SqlState};

pub use syntax::{from_tokenizer, trailing_junk, unexpected};
pub use values::from_arrow as from_arrow_error;
pub(crate) use values::invalid_text;

/// Carries an error of ours through DataFusion; [`from_datafusion`] extracts it.
#[must_use]
pub fn external(error: Error) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

/// The error that a client sees for one that DataFusion met while it planned or ran `sql`.
///
/// `sql` must be the text that was parsed, because positions refer to it. If DataFusion only
/// carries an [`Error`] of Thalweg's own, the function returns that one unchanged.
#[must_use]
pub fn from_datafusion(error: DataFusionError, sql: &str) -> Error {
    match error {
        DataFusionError::External(source) => match source.downcast::<Error>() {
            Ok(own) => *own,
            Err(source) => translate(&DataFusionError::External(source), sql),
        },
        error => translate(&error, sql),
    }
}

fn translate(error: &DataFusionError, sql: &str) -> Error {
    match error {
        DataFusionError::Context(_, inner) => translate(inner, sql),
        DataFusionError::Shared(inner) => translate(inner, sql),
        DataFusionError::Diagnostic(diagnostic, inner) => {
            let error_text = translate(inner, sql);
            match place_of(diagnostic, sql) {
                Some(position) => error_text.with_position(position),
                None => error_text,
            }
        }
        DataFusionError::Collection(errors) => errors.first().map_or_else(
            || Error::internal("an error without a cause"),
            |first| translate(first, sql),
        ),
        DataFusionError::ArrowError(error, _) => from_arrow(error, sql),
        DataFusionError::SQL(error, _) => syntax::from_parser(error, sql),
        DataFusionError::SchemaError(error, _) => from_schema(error, sql),
        DataFusionError::Plan(message) => planning::from_message(message, sql),
        DataFusionError::Configuration(message) => {
            Error::new(SqlState::INVALID_PARAMETER_VALUE, clean(message))
        }
        DataFusionError::Execution(message) => values::from_message(message),
        DataFusionError::NotImplemented(message) => planning::not_implemented(message, sql),
        DataFusionError::ResourcesExhausted(message) => out_of_memory(message),
        DataFusionError::External(source) => from_source(source.as_ref(), sql),
        DataFusionError::IoError(error) => from_io(error, sql),
        DataFusionError::ObjectStore(error) => {
            Error::new(SqlState::IO_ERROR, clean(&error.to_string()))
        }
        DataFusionError::ParquetError(error) => {
            Error::new(SqlState::BAD_COPY_FILE_FORMAT, clean(&error.to_string()))
        }
        DataFusionError::Internal(message) => internal(message),
        other => Error::internal(clean(&other.strip_backtrace())),
    }
}

fn from_arrow(error: &ArrowError, sql: &str) -> Error {
    match error {
        ArrowError::ExternalError(source) => from_source(source.as_ref(), sql),
        ArrowError::IoError(_, error) => from_io(error, sql),
        error => values::from_arrow(error),
    }
}

type Source = dyn std::error::Error + Send + Sync + 'static;

fn from_source(source: &Source, sql: &str) -> Error {
    known(source, sql).unwrap_or_else(|| Error::internal(clean(&source.to_string())))
}

/// Errors come wrapped several times, by DataFusion, Arrow, and code that reads and writes files.
fn known(source: &Source, sql: &str) -> Option<Error> {
    if let Some(own) = source.downcast_ref::<Error>() {
        Some(own.clone())
    } else if let Some(error) = source.downcast_ref::<DataFusionError>() {
        Some(translate(error, sql))
    } else if let Some(error) = source.downcast_ref::<ArrowError>() {
        Some(from_arrow(error, sql))
    } else {
        source.downcast_ref::<std::io::Error>().map(|error| from_io(error, sql))
    }
}

/// Spill files are the only files that statements themselves read and write.
fn from_io(error: &std::io::Error, sql: &str) -> Error {
    use std::io::ErrorKind;
    if let Some(error_text) = error.get_ref().and_then(|source| known(source, sql)) {
        return error_text;
    }
    let message = error.to_string();
    if message.contains("used disk space during the spilling process has exceeded") {
        return no_room("All of database.spill_limit is taken.", "Raise database.spill_limit");
    }
    let state = match error.kind() {
        ErrorKind::NotFound => SqlState::UNDEFINED_FILE,
        ErrorKind::PermissionDenied => SqlState::INSUFFICIENT_PRIVILEGE,
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
            let hint = "Let database.spill_directory name a directory with more room";
            return no_room(&message, hint);
        }
        _ => SqlState::IO_ERROR,
    };
    Error::new(state, message)
}

fn no_room(detail: &str, hint: &str) -> Error {
    Error::new(SqlState::DISK_FULL, "no room for temporary files")
        .with_detail(detail)
        .with_hint(format!("{hint}, raise database.memory_limit, or read fewer rows."))
}

fn from_schema(error: &SchemaError, sql: &str) -> Error {
    match error {
        SchemaError::FieldNotFound { field, valid_fields } => {
            planning::unknown_column(field, valid_fields, sql)
        }
        SchemaError::AmbiguousReference { field } => position::at_name(
            Error::new(
                SqlState::AMBIGUOUS_COLUMN,
                format!("column reference \"{}\" is ambiguous", field.name),
            ),
            &field.name,
            sql,
        ),
        // Two columns of one relation have the same name, because two relations have its name.
        SchemaError::DuplicateQualifiedField { qualifier, .. } => Error::new(
            SqlState::DUPLICATE_ALIAS,
            format!("table name \"{}\" specified more than once", qualifier.table()),
        ),
        SchemaError::DuplicateUnqualifiedField { name } => Error::new(
            SqlState::DUPLICATE_COLUMN,
            format!("column name \"{name}\" appears more than once"),
        )
        .with_hint("Give the columns different names with AS."),
    }
}

/// `message` names the operator that asked for memory, as in "Failed to allocate additional 1.0 MB
/// for GroupedHashAggregateStream[0] with …".
fn out_of_memory(message: &str) -> Error {
    let operator = message
        .split_once(" for ")
        .and_then(|(_, rest)| rest.split_once(" with "))
        .map(|(operator, _)| operator.split('[').next().unwrap_or(operator).trim());
    let settings = ["database.process_memory_limit", "query_memory_limit"];
    let named = |setting: &&&str| {
        let name = setting.rsplit('.').next().unwrap_or(setting);
        message.contains(&format!("({name})"))
    };
    let setting = settings.iter().find(named).unwrap_or(&"database.memory_limit");
    let error_text = match operator {
        Some(operator) => format!("out of memory in {operator}"),
        None => "out of memory".to_string(),
    };
    Error::new(SqlState::OUT_OF_MEMORY, error_text)
        .with_detail(clean(message))
        .with_hint(format!("Raise {setting}, or let the statement read fewer rows."))
}

fn internal(message: &str) -> Error {
    Error::internal(clean(message))
}

/// The first line of a message without the prefixes and requests that DataFusion puts around it.
fn clean(message: &str) -> String {
    const PREFIXES: [&str; 8] = [
        "Error during planning: ",
        "Execution error: ",
        "Internal error: ",
        "Arrow error: ",
        "External error: ",
        "Invalid argument error: ",
        "Compute error: ",
        "This feature is not implemented: ",
    ];
    let mut text = message.split("\n\nbacktrace:").next().unwrap_or(message);
    text = text.split("\nThis issue was likely caused by a bug").next().unwrap_or(text);
    text = text.split(".\nThis was likely caused by a bug").next().unwrap_or(text);
    while let Some(rest) = PREFIXES.iter().find_map(|prefix| text.strip_prefix(prefix)) {
        text = rest;
    }
    // The parser's values in Rust's notation mean nothing to users.
    if text.contains("span: Span(") {
        text = text.split(['{', '(', ':']).next().unwrap_or(text).trim_end_matches(", got");
    }
    text.trim_end().trim_end_matches('.').to_string()
}

fn place_of(diagnostic: &Diagnostic, sql: &str) -> Option<usize> {
    let start = diagnostic.span?.start;
    Some(position::of_location(sql, start.line, start.column))
}

#[cfg(test)]
mod tests;
