//! `SET` and `SHOW`.

mod units;

use std::sync::Arc;
use std::time::Duration;

use arrow::array::{ArrayRef, RecordBatch, StringViewArray};
use arrow::datatypes::{DataType, Field, Schema};
use datafusion::sql::parser::ResetStatement;
use datafusion::sql::sqlparser::ast::{Expr, Ident, ObjectName, Set, Value};
use futures::StreamExt;
use thalweg_dialect::errors::from_datafusion;
use thalweg_dialect::parse::Parsed;
use thalweg_types::{Error, Result, SqlState};

use super::{Execution, folded, less_isolated, role};
use crate::Durability;
use crate::outcome::{Outcome, Tag};
use crate::plan;
use crate::privileges::Identity;

/// What a session's user has set.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) identity: Identity,
    pub(crate) durability: Durability,
    /// Times in milliseconds, 0 for none, in the order of [`TIMES`].
    times: [u64; TIMES.len()],
    /// Texts that are only remembered, in the order of [`REMEMBERED`].
    remembered: Arc<[String; REMEMBERED.len()]>,
    /// Whether a setting of DataFusion's was changed.
    are_the_engines: bool,
}

/// Limits of time; PostgreSQL's names.
const TIMES: [&str; 4] = [
    "idle_in_transaction_session_timeout",
    "idle_session_timeout",
    "lock_timeout",
    "statement_timeout",
];

/// Settings that clients make and that change nothing here, with what they are at first.
const REMEMBERED: [(&str, &str); 11] = [
    ("application_name", ""),
    ("bytea_output", "hex"),
    ("client_min_messages", "notice"),
    ("default_transaction_read_only", "off"),
    ("extra_float_digits", "1"),
    ("lc_messages", "C"),
    ("lc_monetary", "C"),
    ("lc_numeric", "C"),
    ("lc_time", "C"),
    ("row_security", "on"),
    ("synchronize_seqscans", "on"),
];

/// Settings that clients send when they connect, and that have one answer here.
const FIXED: [(&str, &str); 18] = [
    ("client_encoding", "UTF8"),
    ("datestyle", "ISO, MDY"),
    ("default_table_access_method", "heap"),
    ("default_transaction_deferrable", "off"),
    ("default_transaction_isolation", "repeatable read"),
    ("integer_datetimes", "on"),
    ("intervalstyle", "postgres"),
    ("lc_collate", "C"),
    ("lc_ctype", "C"),
    ("max_identifier_length", "63"),
    ("max_index_keys", "32"),
    ("search_path", "\"$user\", public"),
    ("server_encoding", "UTF8"),
    ("server_version", "15.0"),
    ("server_version_num", "150000"),
    ("standard_conforming_strings", "on"),
    ("transaction_isolation", "repeatable read"),
    ("transaction_read_only", "off"),
];

/// Other spellings of what some settings are fixed to.
const SPELLINGS: [(&str, &[&str]); 4] = [
    ("datestyle", &["iso", "iso, ymd", "iso, dmy"]),
    ("default_transaction_isolation", &["read committed", "serializable", "read uncommitted"]),
    ("search_path", &["public", "\"$user\",public", "$user, public", "public, pg_catalog"]),
    ("transaction_isolation", &["read committed", "serializable", "read uncommitted"]),
];

const UTC_NAMES: [&str; 7] = ["utc", "etc/utc", "gmt", "etc/gmt", "zulu", "uct", "z"];

impl Settings {
    pub(crate) fn new(durability: Durability, identity: Identity) -> Settings {
        Settings {
            identity,
            durability,
            times: [0; TIMES.len()],
            remembered: Arc::new(REMEMBERED.map(|(_, value)| value.to_owned())),
            are_the_engines: false,
        }
    }

    /// How long a statement may take.
    pub(crate) fn statement_timeout(&self) -> Option<Duration> {
        self.time("statement_timeout")
    }

    pub(crate) fn time(&self, name: &str) -> Option<Duration> {
        let at = TIMES.iter().position(|known| *known == name)?;
        (self.times[at] > 0).then(|| Duration::from_millis(self.times[at]))
    }

    pub(crate) fn are_the_engines(&self) -> bool {
        self.are_the_engines
    }

    pub(crate) fn get(&self, name: &str) -> Option<String> {
        let name = name.to_lowercase();
        if let Some(at) = TIMES.iter().position(|known| *known == name) {
            return Some(units::text_of(self.times[at]));
        }
        if let Some(at) = REMEMBERED.iter().position(|(known, _)| *known == name) {
            return Some(self.remembered[at].clone());
        }
        Some(match name.as_str() {
            "durability" => match self.durability {
                Durability::Fsync => "fsync".to_owned(),
                Durability::Write => "write".to_owned(),
                Durability::None => "none".to_owned(),
            },
            "timezone" => "UTC".to_owned(),
            _ => FIXED.iter().find(|(fixed, _)| *fixed == name)?.1.to_owned(),
        })
    }

    /// Returns whether the setting is one of these.
    pub(crate) fn set(&mut self, name: &str, value: &str) -> Result<bool> {
        let name = name.to_lowercase();
        if value.eq_ignore_ascii_case("default") {
            let fresh = Settings::new(self.durability, self.identity);
            let Some(value) = fresh.get(&name) else { return Ok(false) };
            return self.set(&name, &value);
        }
        if let Some(at) = TIMES.iter().position(|known| *known == name) {
            let times = "a number of milliseconds, or a time such as 5s, 2min and 1h";
            self.times[at] =
                units::milliseconds(value).ok_or_else(|| invalid(&name, value, times))?;
            return Ok(true);
        }
        if let Some(at) = REMEMBERED.iter().position(|(known, _)| *known == name) {
            value.clone_into(&mut Arc::make_mut(&mut self.remembered)[at]);
            return Ok(true);
        }
        match name.as_str() {
            "durability" => {
                self.durability = match value.to_lowercase().as_str() {
                    "fsync" => Durability::Fsync,
                    "write" => Durability::Write,
                    "none" => Durability::None,
                    _ => return Err(invalid(&name, value, "fsync, write and none")),
                };
            }
            "timezone" if UTC_NAMES.contains(&value.to_lowercase().as_str()) => {}
            "timezone" => return Err(invalid(&name, value, "UTC")),
            _ => match FIXED.iter().find(|(fixed, _)| *fixed == name) {
                None => return Ok(false),
                Some((_, only)) if means(&name, value, only) => {}
                Some((_, only)) => return Err(invalid(&name, value, only)),
            },
        }
        Ok(true)
    }

    pub(crate) fn names() -> Vec<&'static str> {
        let mut names = vec!["durability", "timezone"];
        names.extend(TIMES);
        names.extend(REMEMBERED.iter().chain(&FIXED).map(|(name, _)| *name));
        names.sort_unstable();
        names
    }
}

/// Whether a value is the only one that a setting has here.
fn means(name: &str, value: &str, only: &str) -> bool {
    if name == "client_encoding" {
        // Of an encoding's name PostgreSQL reads letters and digits alone: asyncpg sends `'utf-8'`,
        // quotes included.
        let letters = value.chars().filter(char::is_ascii_alphanumeric);
        let encoding = letters.collect::<String>().to_lowercase();
        return encoding == "utf8" || encoding == "unicode";
    }
    let others = SPELLINGS.iter().find(|(known, _)| *known == name);
    value.eq_ignore_ascii_case(only)
        || others.is_some_and(|(_, others)| others.contains(&value.to_lowercase().as_str()))
}

fn invalid(name: &str, value: &str, allowed: &str) -> Error {
    let message = format!("invalid value for parameter \"{name}\": \"{value}\"");
    Error::new(SqlState::INVALID_PARAMETER_VALUE, message)
        .with_hint(format!("Available values: {allowed}."))
}

pub(crate) fn unrecognized(name: &str) -> Error {
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
                execution.names.rights().set_engine(&name)?;
                execution.settings.are_the_engines = true;
                return pass_on(execution, parsed).await;
            }
            if let Some(outcome) = role::session::assign(execution, &name, &value)? {
                return Ok(outcome);
            }
            if !execution.settings.set(&name, &value)? {
                return Err(unrecognized(&name));
            }
            Ok(Outcome::command("SET"))
        }
        Set::SetRole { context_modifier, role_name } => {
            role::session::set_role(execution, *context_modifier, role_name.as_ref())
        }
        Set::SetSessionAuthorization(to) => role::session::set_authorization(execution, to),
        Set::SetTimeZone { value, .. } => {
            execution.settings.set("timezone", &value_text(value))?;
            Ok(Outcome::command("SET"))
        }
        // Every transaction is one snapshot, whatever was asked for.
        Set::SetTransaction { modes, .. } => {
            let outcome = Outcome::command("SET");
            Ok(less_isolated(modes).into_iter().fold(outcome, Outcome::with_notice))
        }
        Set::SetNames { .. } => Ok(Outcome::command("SET")),
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
    if role::session::reset(execution, &name) {
        return Ok(Outcome::command("RESET"));
    }
    if name.contains('.') {
        execution.names.rights().set_engine(&name)?;
        return pass_on(execution, parsed).await;
    }
    let identity = execution.settings.identity;
    let fresh = Settings::new(execution.database.shared.durability, identity);
    if name == "all" {
        let are_the_engines = execution.settings.are_the_engines;
        *execution.settings = Settings { are_the_engines, ..fresh };
        return Ok(Outcome::command("RESET"));
    }
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
    let catalog = execution.names.catalog();
    let of_role = || role::session::setting(&catalog, execution.settings.identity, &name);
    let value = execution.settings.get(&name).or_else(of_role).or_else(of_engine);
    let value = value.ok_or_else(|| unrecognized(&name))?;
    texts(&[&name], vec![vec![value]])
}

fn show_all(execution: &Execution<'_>) -> Result<Outcome> {
    let rows = Settings::names().into_iter();
    let rows = rows.map(|name| (name.to_owned(), execution.settings.get(name).unwrap_or_default()));
    let (names, values) = rows.unzip();
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

/// Statements about DataFusion's own settings, which its session answers by itself.
async fn pass_on(execution: &Execution<'_>, parsed: &Parsed) -> Result<Outcome> {
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
