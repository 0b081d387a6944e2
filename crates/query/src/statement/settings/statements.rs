//! `SET`, `RESET` and `SHOW`.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringViewArray};
use arrow::datatypes::{DataType, Field, Schema};
use datafusion::sql::parser::ResetStatement;
use datafusion::sql::sqlparser::ast::{
    ContextModifier, Expr, Ident, ObjectName, Set, SetSessionParamGeneric, SetSessionParamKind,
    Value,
};
use thalweg_txn::{Catalog, ConstraintTime};
use thalweg_types::{Error, Result, SqlState, TableId};

use super::super::{Execution, folded, less_isolated, role};
use super::{Definition, Scope, Setter, checks, unrecognized};
use crate::outcome::{Outcome, Tag};
use crate::plan;

pub(in crate::statement) fn set(execution: &mut Execution<'_>, set: &Set) -> Result<Outcome> {
    let outcome = Outcome::command("SET");
    let is_local = match set {
        Set::SingleAssignment { scope, .. } => *scope == Some(ContextModifier::Local),
        Set::SetTimeZone { local, .. } => *local,
        Set::SetRole { context_modifier, .. } => *context_modifier == Some(ContextModifier::Local),
        Set::SetSessionAuthorization(to) => to.scope == ContextModifier::Local,
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
            let name = dotted(variable);
            let value = assigned(&name, values)?;
            return assign(execution, scope, &name, value.as_deref());
        }
        Set::SetRole { role_name, .. } => {
            role::session::set_role(execution, scope, role_name.as_ref())?;
        }
        Set::SetSessionAuthorization(to) => {
            role::session::set_authorization(execution, scope, to)?;
        }
        Set::SetTimeZone { value, .. } => {
            let value = assigned("timezone", std::slice::from_ref(value))?;
            let value = value.filter(|value| !value.eq_ignore_ascii_case("local"));
            return assign(execution, scope, "timezone", value.as_deref());
        }
        Set::SetTransaction { snapshot: Some(_), .. } => {
            return Err(Error::unsupported("SET TRANSACTION SNAPSHOT"));
        }
        Set::SetTransaction { modes, session: true, .. } => {
            execution.settings.default_modes = execution.settings.default_modes.with(modes)?;
            let on_gateway = execution.database.shared.cluster().is_present();
            let notice = less_isolated(modes, on_gateway);
            return Ok(notice.into_iter().fold(outcome, Outcome::with_notice));
        }
        Set::SetTransaction { modes, .. } => {
            let changed = execution.settings.modes().with(modes)?;
            execution.change_modes(changed)?;
            let on_gateway = execution.database.shared.cluster().is_present();
            let notice = less_isolated(modes, on_gateway);
            return Ok(notice.into_iter().fold(outcome, Outcome::with_notice));
        }
        Set::SetNames { charset_name, .. } => {
            return assign(execution, scope, "client_encoding", Some(&charset_name.value));
        }
        Set::SetNamesDefault {} => return assign(execution, scope, "client_encoding", None),
        Set::SetSessionParam(SetSessionParamKind::Generic(parameter)) => {
            return constraints(execution, parameter);
        }
        other => return Err(Error::unsupported(format!("{other}"))),
    }
    Ok(outcome)
}

/// `SET CONSTRAINTS`: sets the time at which deferrable foreign keys are checked, until the end of
/// the transaction. Constraints that are no longer deferred are checked at once for all of its
/// statements so far.
fn constraints(execution: &Execution<'_>, parameter: &SetSessionParamGeneric) -> Result<Outcome> {
    let [kind, names @ ..] = parameter.names.as_slice() else {
        return Err(Error::unsupported("SET of this parameter"));
    };
    if kind != "CONSTRAINTS" {
        return Err(Error::unsupported(format!("SET {kind}")));
    }
    let catalog = execution.names.catalog();
    let deferred = parameter.value == "DEFERRED";
    let mut found = Vec::new();
    for name in names {
        found.extend(deferrable_named(&catalog, name)?);
    }
    let outcome = Outcome::command("SET CONSTRAINTS");
    if !execution.in_block {
        return Ok(outcome.with_warning(
            SqlState::NO_ACTIVE_TRANSACTION,
            "SET CONSTRAINTS can only be used in transaction blocks",
        ));
    }
    execution.names.with(|t| {
        if names.is_empty() {
            t.set_deferred(None, deferred);
        }
        found.into_iter().for_each(|constraint| t.set_deferred(Some(constraint), deferred));
        if deferred || !catalog.has_foreign_keys() {
            return Ok(());
        }
        t.check_removed_keys(0, ConstraintTime::Statement, &|| execution.check_cancelled())?;
        t.check_new_references(None)
    })?;
    Ok(outcome)
}

/// The deferrable constraints of a name, with their tables.
///
/// # Errors
/// If there is no constraint of the name, or one is not deferrable.
fn deferrable_named(catalog: &Catalog, name: &str) -> Result<Vec<(TableId, String)>> {
    let (mut found, mut is_known) = (Vec::new(), false);
    for table in catalog.tables() {
        let schema = &table.schema;
        is_known |= schema.constraints().any(|key| key.name == *name)
            || schema.checks.iter().any(|check| check.name == *name);
        for key in schema.foreign_keys.iter().filter(|key| key.name == *name) {
            is_known |= !key.deferrable;
            found.push((schema.id, key.name.clone()));
        }
    }
    if is_known {
        let message = format!("constraint \"{name}\" is not deferrable");
        return Err(Error::new(SqlState::WRONG_OBJECT_TYPE, message));
    }
    if found.is_empty() {
        let message = format!("constraint \"{name}\" does not exist");
        return Err(Error::new(SqlState::UNDEFINED_OBJECT, message));
    }
    Ok(found)
}

/// `SET name = value`; without a value, the one from the beginning of the session.
fn assign(
    execution: &mut Execution<'_>,
    scope: Scope,
    name: &str,
    value: Option<&str>,
) -> Result<Outcome> {
    let outcome = Outcome::command("SET");
    if role::session::assign(execution, scope, name, value)? {
        return Ok(outcome);
    }
    let setter = Setter::role(execution.is_superuser());
    if Definition::named(name).is_some() && name.starts_with("transaction_") {
        let mut settings = execution.settings.clone();
        settings.set_modes(execution.settings.modes());
        settings.set(name, value, setter)?;
        if execution.in_block {
            execution.change_modes(settings.modes())?;
        }
        return Ok(outcome);
    }
    match execution.settings.set_for(scope, name, value, setter)? {
        true => Ok(outcome),
        false => Err(unrecognized(name)),
    }
}

/// Resets a setting to its value from the beginning of the session.
pub(in crate::statement) fn reset(
    execution: &mut Execution<'_>,
    reset: &ResetStatement,
) -> Result<Outcome> {
    let ResetStatement::Variable(name) = reset;
    let outcome = Outcome::command("RESET");
    let name = reset_name(name);
    if name == "all" {
        execution.settings.reset_all();
        return Ok(outcome);
    }
    assign(execution, Scope::Session, &name, None).map(|_| outcome)
}

/// The setting that `RESET` names, which may be several words.
pub(in crate::statement) fn reset_name(name: &ObjectName) -> String {
    match dotted(name).as_str() {
        "time.zone" => "timezone".to_owned(),
        "session.authorization" => "session_authorization".to_owned(),
        "transaction.isolation.level" => "transaction_isolation".to_owned(),
        name => name.to_owned(),
    }
}

pub(in crate::statement) fn dotted(name: &ObjectName) -> String {
    let parts: Vec<String> = name.0.iter().filter_map(|part| part.as_ident()).map(folded).collect();
    parts.join(".")
}

/// The text of an assignment's values; `None` for `DEFAULT`.
///
/// # Errors
/// 22023 if the setting takes one value only.
pub(in crate::statement) fn assigned(name: &str, values: &[Expr]) -> Result<Option<String>> {
    if let [Expr::Identifier(word)] = values
        && word.quote_style.is_none()
        && word.value.eq_ignore_ascii_case("default")
    {
        return Ok(None);
    }
    let definition = Definition::named(name);
    if let [_, _, ..] = values
        && !definition.is_some_and(Definition::is_list)
    {
        let message = format!("SET {name} takes only one argument");
        return Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, message));
    }
    let texts = values.iter().map(value_text);
    Ok(Some(match definition.is_some_and(Definition::is_list_of_names) {
        true => texts.map(|text| checks::quoted_name(&text)).collect::<Vec<_>>().join(", "),
        false => texts.collect::<Vec<_>>().join(", "),
    }))
}

fn value_text(value: &Expr) -> String {
    match value {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text)
            | Value::DoubleQuotedString(text)
            | Value::EscapedStringLiteral(text)
            | Value::UnicodeStringLiteral(text) => text.clone(),
            Value::DollarQuotedString(text) => text.value.clone(),
            other => other.to_string(),
        },
        Expr::Identifier(ident) => folded(ident),
        Expr::Interval(interval) => format!("INTERVAL '{}'", value_text(&interval.value)),
        other => other.to_string(),
    }
}

pub(in crate::statement) async fn show(
    execution: &Execution<'_>,
    variable: &[Ident],
) -> Result<Outcome> {
    let words: Vec<String> = variable.iter().map(folded).collect();
    let name = match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["all"] => return show_all(execution),
        ["time", "zone"] => "timezone".to_owned(),
        ["session", "authorization"] => "session_authorization".to_owned(),
        ["transaction", "isolation", "level"] => "transaction_isolation".to_owned(),
        words => words.join("."),
    };
    let catalog = execution.names.catalog();
    let of_role = || role::session::setting(&catalog, execution.settings.identity, &name);
    let value = execution.settings.get(&name).or_else(of_role);
    let value = value.ok_or_else(|| unrecognized(&name))?;
    let title = Definition::named(&name).map_or(name.as_str(), |definition| definition.name);
    texts(&[title], vec![vec![value]])
}

fn show_all(execution: &Execution<'_>) -> Result<Outcome> {
    let mut columns = vec![Vec::new(), Vec::new(), Vec::new()];
    for definition in Definition::listed() {
        let value = execution.settings.get(&definition.key).unwrap_or_default();
        columns[0].push(definition.name.to_owned());
        columns[1].push(value);
        columns[2].push(definition.description.to_owned());
    }
    texts(&["name", "setting", "description"], columns)
}

pub(in crate::statement) async fn show_tables(execution: &Execution<'_>) -> Result<Outcome> {
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
