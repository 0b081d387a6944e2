//! `SET` and `SHOW`: the settings of a session.
//!
//! A setting is one of Thalweg's own, a time limit, a mode of transactions, a text that is checked
//! and stored, mostly without an effect ([`stored`]), or a custom one with a dot in its name. `SET
//! LOCAL` hides values until the transaction ends.

mod modes;
mod stored;
mod units;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{ArrayRef, RecordBatch, StringViewArray};
use arrow::datatypes::{DataType, Field, Schema};
use datafusion::sql::parser::ResetStatement;
use datafusion::sql::sqlparser::ast::{ContextModifier, Expr, Ident, ObjectName, Set, Value};
use thalweg_types::{Error, Result, SqlState};

use self::modes::LEVELS;
pub(crate) use self::modes::Modes;
use self::stored::{QUERY_MEMORY, REMEMBERED};
use super::{Execution, folded, less_isolated, role};
use crate::Durability;
use crate::outcome::{Outcome, Tag};
use crate::plan;
use crate::privileges::Identity;
use crate::workers::Gathering;

/// The settings of a session.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) identity: Identity,
    pub(crate) durability: Durability,
    /// The way in which rows are gathered from workers.
    pub(crate) gathering: Gathering,
    /// The initial settings of sessions of this database.
    defaults: Defaults,
    /// Times in milliseconds, 0 for none, in the order of [`TIMES`].
    times: [u64; TIMES.len()],
    /// Texts that are only stored, in the order of [`REMEMBERED`].
    remembered: Arc<[String; REMEMBERED.len()]>,
    /// The modes of new transactions.
    default_modes: Modes,
    /// The modes of the open transaction block.
    modes: Option<Modes>,
    /// The values that `SET LOCAL` hides until the transaction ends, by name.
    hidden: Vec<(String, String)>,
    /// Custom settings of users, which have a dot in their names.
    custom: Arc<BTreeMap<String, String>>,
}

/// The initial settings that depend on the database.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Defaults {
    pub(crate) durability: Durability,
    pub(crate) gathering: Gathering,
}

/// The lifetime of a setting's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    Session,
    Transaction,
}

/// Time limits, with PostgreSQL's names.
const TIMES: [&str; 4] = [
    "idle_in_transaction_session_timeout",
    "idle_session_timeout",
    "lock_timeout",
    "statement_timeout",
];

/// Settings that clients read, or send when they connect, and that have a fixed value here.
const FIXED: [(&str, &str); 25] = [
    ("array_nulls", "on"),
    ("backslash_quote", "safe_encoding"),
    ("block_size", "8192"),
    ("bytea_output", "hex"),
    ("client_encoding", "UTF8"),
    ("datestyle", "ISO, MDY"),
    ("default_table_access_method", "heap"),
    ("default_tablespace", ""),
    ("in_hot_standby", "off"),
    ("integer_datetimes", "on"),
    ("intervalstyle", "postgres"),
    ("lc_collate", "C"),
    ("lc_ctype", "C"),
    ("max_function_args", "100"),
    ("max_identifier_length", "63"),
    ("max_index_keys", "32"),
    ("max_prepared_transactions", "0"),
    ("password_encryption", "scram-sha-256"),
    ("quote_all_identifiers", "off"),
    ("search_path", "\"$user\", public"),
    ("server_encoding", "UTF8"),
    ("server_version", "15.0"),
    ("server_version_num", "150000"),
    ("standard_conforming_strings", "on"),
    ("transform_null_equals", "off"),
];

/// Other accepted spellings of some fixed values.
const SPELLINGS: [(&str, &[&str]); 2] = [
    ("datestyle", &["iso", "iso, ymd", "iso, dmy"]),
    ("search_path", &["public", "\"$user\",public", "$user, public", "public, pg_catalog"]),
];

/// Settings of [`Modes`], for future transactions and for the open one.
const MODES: [&str; 6] = [
    "default_transaction_deferrable",
    "default_transaction_isolation",
    "default_transaction_read_only",
    "transaction_deferrable",
    "transaction_isolation",
    "transaction_read_only",
];

const UTC_NAMES: [&str; 7] = ["utc", "etc/utc", "gmt", "etc/gmt", "zulu", "uct", "z"];

impl Settings {
    pub(crate) fn new(defaults: Defaults, identity: Identity) -> Settings {
        Settings {
            identity,
            durability: defaults.durability,
            gathering: defaults.gathering,
            defaults,
            times: [0; TIMES.len()],
            remembered: Arc::new(REMEMBERED.map(|setting| setting.first.to_owned())),
            default_modes: Modes::default(),
            modes: None,
            hidden: Vec::new(),
            custom: Arc::default(),
        }
    }

    /// Time limit of a statement.
    pub(crate) fn statement_timeout(&self) -> Option<Duration> {
        self.time("statement_timeout")
    }

    /// Memory limit of a statement for sorting, joining and grouping, in bytes.
    pub(crate) fn query_memory(&self) -> Option<usize> {
        let kilobytes = stored::kilobytes(&self.get(QUERY_MEMORY)?)?;
        (kilobytes > 0).then(|| usize::try_from(kilobytes * 1024).unwrap_or(usize::MAX))
    }

    pub(crate) fn time(&self, name: &str) -> Option<Duration> {
        let at = TIMES.iter().position(|known| *known == name)?;
        (self.times[at] > 0).then(|| Duration::from_millis(self.times[at]))
    }

    /// The modes of the open transaction, or of the next one.
    pub(crate) fn modes(&self) -> Modes {
        self.modes.unwrap_or(self.default_modes)
    }

    /// Sets the modes of the transaction that begins or is open.
    pub(crate) fn set_modes(&mut self, modes: Modes) {
        self.modes = Some(modes);
    }

    /// Reverts the settings that were set for this transaction only.
    pub(crate) fn end_transaction(&mut self) {
        self.modes = None;
        for (name, value) in std::mem::take(&mut self.hidden) {
            let kept = self.set(&name, &value);
            debug_assert!(matches!(kept, Ok(true)), "a setting takes the value that it had");
        }
    }

    /// Like [`set`](Settings::set), for the open transaction only, or permanently.
    pub(crate) fn set_for(&mut self, scope: Scope, name: &str, value: &str) -> Result<bool> {
        let name = name.to_lowercase();
        let hidden = self.hidden.iter().position(|(known, _)| *known == name);
        let before = self.get(&name);
        if !self.set(&name, value)? {
            return Ok(false);
        }
        match (scope, hidden, before) {
            (Scope::Session, Some(at), _) => drop(self.hidden.remove(at)),
            (Scope::Transaction, None, Some(before)) => self.hidden.push((name, before)),
            _ => {}
        }
        Ok(true)
    }

    pub(crate) fn get(&self, name: &str) -> Option<String> {
        let name = name.to_lowercase();
        if let Some(at) = TIMES.iter().position(|known| *known == name) {
            return Some(units::text_of(self.times[at]));
        }
        if let Some(at) = REMEMBERED.iter().position(|known| known.name == name) {
            return Some(self.remembered[at].clone());
        }
        if let Some(mode) = name.strip_prefix("default_transaction_") {
            return self.default_modes.get(mode);
        }
        if let Some(mode) = name.strip_prefix("transaction_") {
            return self.modes().get(mode);
        }
        if is_custom(&name) {
            return self.custom.get(&name).cloned();
        }
        Some(match name.as_str() {
            "durability" => match self.durability {
                Durability::Fsync => "fsync".to_owned(),
                Durability::Write => "write".to_owned(),
                Durability::None => "none".to_owned(),
            },
            "fan_in" => self.gathering.fan_in.to_string(),
            "relay" => on_or_off(self.gathering.relays),
            "together" => on_or_off(self.gathering.together),
            "stages" => self.gathering.stages.to_string(),
            "timezone" => "UTC".to_owned(),
            _ => FIXED.iter().find(|(fixed, _)| *fixed == name)?.1.to_owned(),
        })
    }

    /// Returns false if there is no such setting.
    pub(crate) fn set(&mut self, name: &str, value: &str) -> Result<bool> {
        let name = name.to_lowercase();
        if is_custom(&name) {
            let value = if value.eq_ignore_ascii_case("default") { "" } else { value };
            Arc::make_mut(&mut self.custom).insert(name, value.to_owned());
            return Ok(true);
        }
        if value.eq_ignore_ascii_case("default") {
            let fresh = Settings::new(self.defaults, self.identity);
            let Some(value) = fresh.get(&name) else { return Ok(false) };
            return self.set(&name, &value);
        }
        if let Some(at) = TIMES.iter().position(|known| *known == name) {
            let times = "a number of milliseconds, or a time such as 5s, 2min and 1h";
            self.times[at] =
                units::milliseconds(value).ok_or_else(|| invalid(&name, value, times))?;
            return Ok(true);
        }
        if let Some(at) = REMEMBERED.iter().position(|known| known.name == name) {
            Arc::make_mut(&mut self.remembered)[at] = REMEMBERED[at].read(value)?;
            return Ok(true);
        }
        if MODES.contains(&name.as_str()) {
            return self.set_mode(&name, value).map(|()| true);
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
            "fan_in" => {
                let fan_in = value.parse();
                self.gathering.fan_in =
                    fan_in.map_err(|()| invalid(&name, value, "sync, async and hybrid"))?;
            }
            "relay" => {
                let flag = stored::flag(value).ok_or_else(|| no_flag(&name))?;
                self.gathering.relays = flag == "on";
            }
            "together" => {
                let flag = stored::flag(value).ok_or_else(|| no_flag(&name))?;
                self.gathering.together = flag == "on";
            }
            "stages" => {
                let stages = value.parse();
                self.gathering.stages =
                    stages.map_err(|()| invalid(&name, value, "off, auto and on"))?;
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

    fn set_mode(&mut self, name: &str, value: &str) -> Result<()> {
        let (mode, modes) = match name.strip_prefix("default_transaction_") {
            Some(mode) => (mode, &mut self.default_modes),
            // Outside of a block, the setting belongs to a transaction that ends at once.
            None => match &mut self.modes {
                Some(modes) => (name.trim_start_matches("transaction_"), modes),
                None => return Ok(()),
            },
        };
        if modes.set(mode, value) {
            return Ok(());
        }
        Err(match mode {
            "isolation" => invalid(name, value, &LEVELS.join(", ")),
            _ => no_flag(name),
        })
    }

    pub(crate) fn names() -> Vec<&'static str> {
        let mut names = vec!["durability", "fan_in", "relay", "stages", "timezone", "together"];
        names.extend(TIMES);
        names.extend(MODES);
        names.extend(REMEMBERED.iter().map(|setting| setting.name));
        names.extend(FIXED.iter().map(|(name, _)| *name));
        names.sort_unstable();
        names
    }
}

/// True for a custom setting, which users may invent. DataFusion's own have dots as well.
fn is_custom(name: &str) -> bool {
    name.contains('.') && !name.starts_with("datafusion.")
}

/// True if a value equals the fixed value of a setting.
fn means(name: &str, value: &str, only: &str) -> bool {
    if name == "client_encoding" {
        // PostgreSQL reads only letters and digits of an encoding's name: asyncpg sends `'utf-8'`,
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

fn on_or_off(flag: bool) -> String {
    if flag { "on" } else { "off" }.to_owned()
}

fn no_flag(name: &str) -> Error {
    let message = format!("parameter \"{name}\" requires a Boolean value");
    Error::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

pub(crate) fn unrecognized(name: &str) -> Error {
    let message = format!("unrecognized configuration parameter \"{name}\"");
    Error::new(SqlState::UNDEFINED_OBJECT, message)
}

pub(super) fn set(execution: &mut Execution<'_>, set: &Set) -> Result<Outcome> {
    let outcome = Outcome::command("SET");
    let is_local = match set {
        Set::SingleAssignment { scope, .. } => *scope == Some(ContextModifier::Local),
        Set::SetTimeZone { local, .. } => *local,
        Set::SetTransaction { session, .. } => !session,
        _ => false,
    };
    if is_local && !execution.in_block {
        let what = if matches!(set, Set::SetTransaction { .. }) { "TRANSACTION" } else { "LOCAL" };
        let warning = format!("SET {what} can only be used in transaction blocks");
        return Ok(outcome.with_warning(SqlState::NO_ACTIVE_TRANSACTION, warning));
    }
    let scope = if is_local { Scope::Transaction } else { Scope::Session };
    match set {
        Set::SingleAssignment { variable, values, .. } => {
            let value = values.iter().map(value_text).collect::<Vec<_>>().join(", ");
            return assign(execution, scope, &dotted(variable), &value);
        }
        Set::SetRole { context_modifier, role_name } => {
            return role::session::set_role(execution, *context_modifier, role_name.as_ref());
        }
        Set::SetSessionAuthorization(to) => {
            return role::session::set_authorization(execution, to);
        }
        Set::SetTimeZone { value, .. } => {
            execution.settings.set_for(scope, "timezone", &value_text(value))?;
        }
        Set::SetTransaction { snapshot: Some(_), .. } => {
            return Err(Error::unsupported("SET TRANSACTION SNAPSHOT"));
        }
        Set::SetTransaction { modes, session: true, .. } => {
            execution.settings.default_modes = execution.settings.default_modes.with(modes)?;
            return Ok(less_isolated(modes).into_iter().fold(outcome, Outcome::with_notice));
        }
        Set::SetTransaction { modes, .. } => {
            let changed = execution.settings.modes().with(modes)?;
            execution.change_modes(changed)?;
            return Ok(less_isolated(modes).into_iter().fold(outcome, Outcome::with_notice));
        }
        Set::SetNames { .. } => {}
        other => return Err(Error::unsupported(format!("{other}"))),
    }
    Ok(outcome)
}

/// `SET name = value`
fn assign(execution: &mut Execution<'_>, scope: Scope, name: &str, value: &str) -> Result<Outcome> {
    let outcome = Outcome::command("SET");
    if name.contains('.') && !is_custom(name) {
        return Err(unrecognized(name));
    }
    if let Some(outcome) = role::session::assign(execution, name, value)? {
        return Ok(outcome);
    }
    if let Some(mode) = name.strip_prefix("transaction_") {
        let mut settings = execution.settings.clone();
        settings.set_modes(execution.settings.modes());
        if !settings.set(&format!("transaction_{mode}"), value)? {
            return Err(unrecognized(name));
        }
        if execution.in_block {
            execution.change_modes(settings.modes())?;
        }
        return Ok(outcome);
    }
    match execution.settings.set_for(scope, name, value)? {
        true => Ok(outcome),
        false => Err(unrecognized(name)),
    }
}

/// Resets a setting to its initial value.
pub(super) fn reset(execution: &mut Execution<'_>, reset: &ResetStatement) -> Result<Outcome> {
    let ResetStatement::Variable(name) = reset;
    let name = dotted(name);
    if role::session::reset(execution, &name) {
        return Ok(Outcome::command("RESET"));
    }
    if is_custom(&name) {
        execution.settings.set_for(Scope::Session, &name, "")?;
        return Ok(Outcome::command("RESET"));
    }
    if name.contains('.') {
        return Err(unrecognized(&name));
    }
    let identity = execution.settings.identity;
    let fresh = Settings::new(execution.database.shared.defaults(), identity);
    if name == "all" {
        let modes = execution.settings.modes;
        *execution.settings = Settings { modes, ..fresh };
        return Ok(Outcome::command("RESET"));
    }
    let value = fresh.get(&name).ok_or_else(|| unrecognized(&name))?;
    execution.settings.set_for(Scope::Session, &name, &value)?;
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
    let catalog = execution.names.catalog();
    let of_role = || role::session::setting(&catalog, execution.settings.identity, &name);
    let value = execution.settings.get(&name).or_else(of_role);
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
    let planned = execution.translate(plan::query_text(&execution.state, text).await)?;
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
