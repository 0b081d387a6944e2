//! Privilege checks: `has_table_privilege` and its relatives.

use std::borrow::Cow;

use thalweg_txn::{Privilege, Privileges, RoleId, Securable};
use thalweg_types::{Error, Result, SqlState};
use thalweg_values::system_types::{Registered, SystemType};

use super::define::{Answer, Call, Definition, Returns};
use super::names::resolve;
use crate::catalog::objects::Source;
use crate::catalog::pg_catalog::rows::Value;

pub(super) fn functions() -> Vec<Definition> {
    let asks =
        |name, arguments, answer: Answer| Definition::new(name, arguments, Returns::Flag, answer);
    let mut functions = vec![
        asks("has_table_privilege", 2..=3, |call| on_relation(call, 0)),
        asks("has_any_column_privilege", 2..=3, |call| on_relation(call, 0)),
        asks("has_sequence_privilege", 2..=3, |call| on_relation(call, 0)),
        asks("has_column_privilege", 3..=4, |call| on_relation(call, 1)),
        asks("has_schema_privilege", 2..=3, on_namespace),
        asks("has_database_privilege", 2..=3, |call| held(call, 0, &Securable::Database)),
        asks("pg_has_role", 2..=3, has_role),
        Definition::new("pg_get_userbyid", 1..=1, Returns::System(SystemType::Name), |call| {
            Ok(call.number(0).map(|oid| call.lookup.role_name(oid)).into())
        }),
        Definition::new("acldefault", 2..=2, Returns::ListOf(SystemType::AclItem), default_list),
    ];
    // PostgreSQL grants these to everybody by default, so they are always true.
    functions.extend(
        [
            "has_foreign_data_wrapper_privilege",
            "has_function_privilege",
            "has_language_privilege",
            "has_parameter_privilege",
            "has_server_privilege",
            "has_tablespace_privilege",
            "has_type_privilege",
        ]
        .map(|name| asks(name, 2..=3, |_| Ok(Value::Flag(true)))),
    );
    functions
}

/// The access list of an object of this kind on which nothing was granted or revoked: the
/// privileges of everybody, then those of the owner.
fn default_list(call: &Call<'_>) -> Result<Value> {
    let (Some(kind), Some(owner)) = (call.text(0), call.number(1)) else { return Ok(Value::Null) };
    let (public, own) = match kind {
        "c" => ("", ""),
        "r" => ("", "arwdDxt"),
        "s" => ("", "rwU"),
        "d" => ("Tc", "CTc"),
        "f" => ("X", "X"),
        "l" | "T" => ("U", "U"),
        "L" => ("", "rw"),
        "n" => ("", "UC"),
        "p" => ("", "sA"),
        "t" => ("", "C"),
        "F" | "S" => ("", "U"),
        other => {
            let message = format!("unrecognized objtype abbreviation: {other}");
            return Err(Error::new(SqlState::INTERNAL_ERROR, message));
        }
    };
    let owner = call.lookup.role_name(owner);
    let mut items = Vec::new();
    if !public.is_empty() {
        items.push(format!("={public}/{owner}"));
    }
    if !own.is_empty() {
        items.push(format!("{owner}={own}/{owner}"));
    }
    Ok(items.into())
}

/// The role in question, and the number of arguments that name it. After it come the object, `more`
/// arguments, and the privileges.
fn role(call: &Call<'_>, more: usize) -> Result<(RoleId, usize)> {
    if call.count() < 3 + more {
        return Ok((call.lookup.identity().current, 0));
    }
    let oid = match call.text(0) {
        Some(name) => resolve(Registered::Role, name, call)?,
        None => call.number(0).unwrap_or(0),
    };
    Ok((RoleId(u32::try_from(oid).unwrap_or(0)), 1))
}

fn on_relation(call: &Call<'_>, more: usize) -> Result<Value> {
    let (_, named) = role(call, more)?;
    let oid = call.object(named, Registered::Class)?;
    let Some(relation) = oid.and_then(|oid| call.lookup.objects.relation(oid)) else {
        return Ok(Value::Null);
    };
    let name = match &relation.source {
        Source::System { .. } => return Ok(Value::Flag(true)),
        Source::Index { table, .. } => &table.name,
        Source::Sequence(source) => match (&source.sequence, &source.owner) {
            (None, Some((table, _))) => &table.name,
            _ => &relation.name,
        },
        _ => &relation.name,
    };
    held(call, more, &Securable::relation(&relation.namespace, name))
}

fn on_namespace(call: &Call<'_>) -> Result<Value> {
    let (_, named) = role(call, 0)?;
    let oid = call.object(named, Registered::Namespace)?;
    let Some(name) = oid.and_then(|oid| call.lookup.objects.namespace_name(oid)) else {
        return Ok(Value::Null);
    };
    held(call, 0, &Securable::Namespace(name.to_owned()))
}

/// True if the role has one of the privileges that the last argument names.
fn held(call: &Call<'_>, more: usize, object: &Securable) -> Result<Value> {
    let (role, _) = role(call, more)?;
    let catalog = &call.lookup.catalog;
    let wanted = call.text(call.count() - 1).unwrap_or_default();
    let held = catalog.privileges(role, object);
    let is_superuser = catalog.roles().is_superuser(role);
    let mut any = false;
    for word in wanted.split(',') {
        let privilege = privilege(word)?;
        any |= is_superuser || privilege.is_some_and(|wanted| held.contains(wanted.into()));
    }
    Ok(Value::Flag(any))
}

/// The privilege of this name; `None` for one that no object here supports.
fn privilege(word: &str) -> Result<Option<Privilege>> {
    let upper = word.trim().to_uppercase();
    let name = upper.strip_suffix(" WITH GRANT OPTION").unwrap_or(&upper);
    let name: Cow<'_, str> = match name {
        "TEMP" => "TEMPORARY".into(),
        other => other.into(),
    };
    let all = Privileges::RELATION.and(Privileges::NAMESPACE).and(Privileges::DATABASE);
    if let Some(privilege) = all.iter().find(|privilege| privilege.name() == name) {
        return Ok(Some(privilege));
    }
    if matches!(name.as_ref(), "RULE" | "MAINTAIN") {
        return Ok(None);
    }
    let message = format!("unrecognized privilege type: \"{}\"", word.trim());
    Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, message))
}

fn has_role(call: &Call<'_>) -> Result<Value> {
    let (role, named) = role(call, 0)?;
    let Some(other) = call.object(named, Registered::Role)? else { return Ok(Value::Null) };
    let other = RoleId(u32::try_from(other).unwrap_or(0));
    let roles = call.lookup.catalog.roles();
    let wanted = call.text(call.count() - 1).unwrap_or_default();
    let any = wanted.split(',').any(|word| match word.trim().to_uppercase().as_str() {
        "USAGE" => roles.has_privileges_of(role, other),
        word if word.ends_with("OPTION") => roles.is_admin_of(role, other),
        _ => roles.is_member_of(role, other),
    });
    Ok(Value::Flag(any))
}
