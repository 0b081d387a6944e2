//! `SET` and `SHOW`.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringViewArray};
use arrow::datatypes::{DataType, Field, Schema};
use datafusion::sql::parser::ResetStatement;
use datafusion::sql::sqlparser::ast::{Expr, Ident, ObjectName, Set, Value};
use futures::StreamExt;
use thalweg_dialect::errors::from_datafusion;
use thalweg_dialect::parse::Parsed;
use thalweg_types::{Error, Result, SqlState};

use super::{Execution, folded};
use crate::Durability;
use crate::outcome::{Outcome, Tag};
use crate::plan;

/// What a session's user has set.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) durability: Durability,
    timezone: String,
    application_name: String,
}

/// Settings that clients send when they connect, and that have one answer here.
const FIXED: [(&str, &str); 12] = [
    ("client_encoding", "UTF8"),
    ("client_min_messages", "notice"),
    ("datestyle", "ISO, MDY"),
    ("default_transaction_isolation", "repeatable read"),
    ("integer_datetimes", "on"),
    ("intervalstyle", "postgres"),
    ("max_identifier_length", "63"),
    ("search_path", "public"),
    ("server_encoding", "UTF8"),
    ("server_version", "15.0"),
    ("standard_conforming_strings", "on"),
    ("transaction_isolation", "repeatable read"),
];

impl Settings {
    pub(crate) fn new(durability: Durability) -> Settings {
        Settings { durability, timezone: "UTC".to_owned(), application_name: String::new() }
    }

    fn get(&self, name: &str) -> Option<String> {
        Some(match name {
            "durability" => match self.durability {
                Durability::Fsync => "fsync".to_owned(),
                Durability::Write => "write".to_owned(),
                Durability::None => "none".to_owned(),
            },
            "timezone" => self.timezone.clone(),
            "application_name" => self.application_name.clone(),
            _ => FIXED.iter().find(|(fixed, _)| *fixed == name)?.1.to_owned(),
        })
    }

    /// Returns whether the setting is one of these.
    fn set(&mut self, name: &str, value: &str) -> Result<bool> {
        match name {
            "durability" => {
                self.durability = match value.to_lowercase().as_str() {
                    "fsync" => Durability::Fsync,
                    "write" => Durability::Write,
                    "none" => Durability::None,
                    _ => return Err(invalid(name, value, "fsync, write and none")),
                };
            }
            "timezone" if value.eq_ignore_ascii_case("utc") => {}
            "timezone" => return Err(invalid(name, value, "UTC")),
            "application_name" => value.clone_into(&mut self.application_name),
            _ => match FIXED.iter().find(|(fixed, _)| *fixed == name) {
                None => return Ok(false),
                Some((_, only)) if value.eq_ignore_ascii_case(only) => {}
                Some((_, only)) => return Err(invalid(name, value, only)),
            },
        }
        Ok(true)
    }
}

fn invalid(name: &str, value: &str, allowed: &str) -> Error {
    let message = format!("invalid value for parameter \"{name}\": \"{value}\"");
    Error::new(SqlState::INVALID_PARAMETER_VALUE, message)
        .with_hint(format!("Available values: {allowed}."))
}

fn unrecognized(name: &str) -> Error {
    let message = format!("unrecognized configuration parameter \"{name}\"");
    Error::new(SqlState::UNDEFINED_OBJECT, message)
}

pub(super) async fn set(
    execution: &mut Execution<'_>,
    set: &Set,
    parsed: &Parsed,
) -> Result<Outcome> {
    match set {
        Set::SingleAssignment { variable, values, .. } => {
            let name = dotted(variable);
            let value = values.iter().map(value_text).collect::<Vec<_>>().join(", ");
            if name.contains('.') {
                return pass_on(execution, parsed).await;
            }
            if !execution.settings.set(&name, &value)? {
                return Err(unrecognized(&name));
            }
            Ok(Outcome::command("SET"))
        }
        Set::SetTimeZone { value, .. } => {
            execution.settings.set("timezone", &value_text(value))?;
            Ok(Outcome::command("SET"))
        }
        // Every transaction is one snapshot, whatever was asked for.
        Set::SetTransaction { .. } | Set::SetNames { .. } => Ok(Outcome::command("SET")),
        other => Err(Error::unsupported(format!("{other}"))),
    }
}

/// Gives a setting the value that sessions begin with.
pub(super) async fn reset(
    execution: &mut Execution<'_>,
    reset: &ResetStatement,
    parsed: &Parsed,
) -> Result<Outcome> {
    let ResetStatement::Variable(name) = reset;
    let name = dotted(name);
    if name.contains('.') {
        return pass_on(execution, parsed).await;
    }
    let fresh = Settings::new(execution.database.shared.durability);
    let value = fresh.get(&name).ok_or_else(|| unrecognized(&name))?;
    execution.settings.set(&name, &value)?;
    Ok(Outcome::command("RESET"))
}

fn dotted(name: &ObjectName) -> String {
    let parts: Vec<String> = name.0.iter().filter_map(|part| part.as_ident()).map(folded).collect();
    parts.join(".")
}

fn value_text(value: &Expr) -> String {
    match value {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) | Value::DoubleQuotedString(text) => text.clone(),
            other => other.to_string(),
        },
        Expr::Identifier(ident) => ident.value.clone(),
        other => other.to_string(),
    }
}

pub(super) async fn show(execution: &Execution<'_>, variable: &[Ident]) -> Result<Outcome> {
    let words: Vec<String> = variable.iter().map(folded).collect();
    let name = match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["all"] => return show_all(execution),
        ["time", "zone"] => "timezone".to_owned(),
        ["transaction", "isolation", "level"] => "transaction_isolation".to_owned(),
        words => words.join("."),
    };
    let options = execution.state.config_options();
    let of_engine = || options.entries().into_iter().find(|entry| entry.key == name)?.value;
    let value = execution.settings.get(&name).or_else(of_engine);
    let value = value.ok_or_else(|| unrecognized(&name))?;
    texts(&[&name], vec![vec![value]])
}

fn show_all(execution: &Execution<'_>) -> Result<Outcome> {
    let own = ["application_name", "durability", "timezone"].into_iter();
    let names = own.chain(FIXED.iter().map(|(name, _)| *name));
    let mut rows: Vec<(String, String)> = names
        .map(|name| (name.to_owned(), execution.settings.get(name).unwrap_or_default()))
        .collect();
    rows.sort();
    let (names, values) = rows.into_iter().unzip();
    texts(&["name", "setting"], vec![names, values])
}

pub(super) async fn show_tables(execution: &Execution<'_>) -> Result<Outcome> {
    let text = "SELECT table_schema, table_name, table_type FROM information_schema.tables \
                WHERE table_schema <> 'information_schema' ORDER BY 1, 2";
    let planned = execution.told(plan::query_text(&execution.state, text).await)?;
    let (schema, rows) = plan::stream(&execution.state, planned, text).await?;
    Ok(Outcome::rows(schema, rows, Tag::Other("SHOW".to_owned())))
}

/// Rows of text; `columns` holds the values column by column.
fn texts(names: &[&str], columns: Vec<Vec<String>>) -> Result<Outcome> {
    let fields: Vec<Field> =
        names.iter().map(|name| Field::new(*name, DataType::Utf8View, true)).collect();
    let schema = Arc::new(Schema::new(fields));
    let arrays = columns
        .into_iter()
        .map(|values| Arc::new(StringViewArray::from_iter_values(values)) as ArrayRef)
        .collect();
    let batch = RecordBatch::try_new(Arc::clone(&schema), arrays)
        .map_err(|error| Error::internal("settings cannot be shown").with_source(error))?;
    Ok(Outcome::batches(schema, vec![batch], Tag::Other("SHOW".to_owned())))
}

/// Statements that DataFusion's session answers by itself: its own settings, prepared statements.
pub(super) async fn pass_on(execution: &Execution<'_>, parsed: &Parsed) -> Result<Outcome> {
    let planned = plan::statement(&execution.state, parsed.statement.clone()).await;
    let planned = execution.told(planned)?;
    let frame = execution.context.execute_logical_plan(planned.plan).await;
    let mut rows = execution.told(execution.told(frame)?.execute_stream().await)?;
    let schema = rows.schema();
    let mut batches = Vec::new();
    while let Some(batch) = rows.next().await {
        batches.push(batch.map_err(|error| from_datafusion(error, execution.sql))?);
    }
    if schema.fields().is_empty() {
        let first = parsed.text.split_whitespace().next().unwrap_or_default();
        return Ok(Outcome::command(&first.to_uppercase()));
    }
    Ok(Outcome::batches(schema, batches, Tag::Select))
}
