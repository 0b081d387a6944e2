//! Objects by name, and names by number: `regclass` and its relatives, `format_type`.

use thalweg_txn::RoleId;
use thalweg_types::{Error, Result, SqlState};
use thalweg_values::system_types::{Registered, SystemType, named_type_oid};

use super::define::{Call, Definition, Returns};
use crate::catalog::CatalogLookup;
use crate::catalog::definitions::{name_parts, quoted};
use crate::catalog::objects::{PG_CATALOG, ROW_ARRAYS, ROW_TYPES, Relation};
use crate::catalog::pg_catalog::Procedures;
use crate::catalog::pg_catalog::procedures::Procedure;
use crate::catalog::pg_catalog::rows::Value;
use crate::catalog::pg_catalog::types::BASE;

/// Each kind of object with its type's name and the function that returns NULL if the object is
/// missing.
const KINDS: [(Registered, &str, &str); 9] = [
    (Registered::Class, "regclass", "to_regclass"),
    (Registered::Type, "regtype", "to_regtype"),
    (Registered::Procedure, "regproc", "to_regproc"),
    (Registered::ProcedureWithArguments, "regprocedure", "to_regprocedure"),
    (Registered::Namespace, "regnamespace", "to_regnamespace"),
    (Registered::Role, "regrole", "to_regrole"),
    (Registered::Operator, "regoper", "to_regoper"),
    (Registered::OperatorWithArguments, "regoperator", "to_regoperator"),
    (Registered::Collation, "regcollation", "to_regcollation"),
];

/// The function that implements the cast of `regclass` and its relatives to `text`.
pub(in crate::catalog) const SHOWN: &str = "registered_name";

pub(super) fn functions() -> Vec<Definition> {
    let mut functions = vec![
        Definition::new("format_type", 2..=2, Returns::Text, |call| {
            let Some(oid) = call.number(0) else { return Ok(Value::Null) };
            Ok(format_type(call.lookup, oid, call.number(1)).into())
        })
        .takes_null(),
        registered_name(),
    ];
    for (kind, cast, lookup) in KINDS {
        let returns = Returns::System(SystemType::Registered(kind));
        let by_name = move |call: &Call<'_>| Ok(call.object(0, kind)?.into());
        functions.push(Definition::new(cast, 1..=1, returns, by_name));
        let if_known = move |call: &Call<'_>| Ok(call.object(0, kind).ok().flatten().into());
        functions.push(Definition::new(lookup, 1..=1, returns, if_known));
    }
    functions
}

/// `registered_name(number, 'regclass')`
pub(super) fn registered_name() -> Definition {
    Definition::new(SHOWN, 2..=2, Returns::Text, |call| {
        let kind = KINDS.iter().find(|kind| call.text(1) == Some(kind.1));
        let (Some(kind), Some(oid)) = (kind, call.number(0)) else { return Ok(Value::Null) };
        Ok(shown(kind.0, oid, call).into())
    })
}

/// The number of the object of this name.
///
/// # Errors
/// If there is no such object, or the name is ambiguous.
pub(super) fn resolve(kind: Registered, text: &str, call: &Call<'_>) -> Result<i64> {
    if text == "-" {
        return Ok(0);
    }
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        let number = text.parse().ok().filter(|number| *number <= i64::from(u32::MAX));
        return number.ok_or_else(|| {
            let message = format!("value \"{text}\" is out of range for type oid");
            Error::new(SqlState::NUMERIC_OUT_OF_RANGE, message)
        });
    }
    let parts = name_parts(text);
    let parts: Vec<&str> = parts.iter().flatten().map(String::as_str).collect();
    let (namespace, name) = match parts.as_slice() {
        [name] => (None, *name),
        [namespace, name] => (Some(*namespace), *name),
        [_, namespace, name] => (Some(*namespace), *name),
        _ => (None, text),
    };
    let missing =
        |state, what: &str| Err(Error::new(state, format!("{what} \"{text}\" does not exist")));
    match kind {
        Registered::Class => match call.lookup.relation_named(namespace, name) {
            Some(relation) => Ok(relation.oid),
            None => missing(SqlState::UNDEFINED_TABLE, "relation"),
        },
        Registered::Type => match type_number(text, namespace, name, call.lookup) {
            Some(oid) => Ok(oid),
            None => missing(SqlState::UNDEFINED_OBJECT, "type"),
        },
        Registered::Procedure => one_procedure(text, namespace, name),
        Registered::ProcedureWithArguments => procedure_with_arguments(text, call),
        Registered::Namespace => match call.lookup.objects.namespace(name) {
            Some(oid) => Ok(oid),
            None => missing(SqlState::INVALID_SCHEMA_NAME, "schema"),
        },
        Registered::Role => match call.lookup.catalog.roles().named(name) {
            Some(role) => Ok(i64::from(role.id.0)),
            None => missing(SqlState::UNDEFINED_OBJECT, "role"),
        },
        Registered::Operator | Registered::OperatorWithArguments => {
            missing(SqlState::UNDEFINED_FUNCTION, "operator")
        }
        Registered::Collation => match COLLATIONS.iter().find(|known| known.1 == name) {
            Some(collation) => Ok(collation.0),
            None => missing(SqlState::UNDEFINED_OBJECT, "collation"),
        },
    }
}

const COLLATIONS: [(i64, &str); 2] = [(100, "default"), (950, "C")];

/// A type by PostgreSQL's internal name, by a table's name, or by its SQL name.
fn type_number(
    text: &str,
    namespace: Option<&str>,
    name: &str,
    lookup: &CatalogLookup,
) -> Option<i64> {
    if namespace.is_none_or(|namespace| namespace == PG_CATALOG)
        && let Some(base) = BASE.iter().find(|base| base.name == name)
    {
        return Some(base.oid);
    }
    let (item, is_array) = match name.strip_suffix("[]") {
        Some(item) => (item, true),
        None => (name, false),
    };
    let relation = lookup.relation_named(namespace, item).filter(|found| found.has_row_type());
    if let Some(relation) = relation {
        return Some(relation.oid + if is_array { ROW_ARRAYS } else { ROW_TYPES });
    }
    named_type_oid(text).map(i64::from)
}

fn one_procedure(text: &str, namespace: Option<&str>, name: &str) -> Result<i64> {
    let known = namespace.is_none_or(|namespace| namespace == PG_CATALOG);
    let mut found = Procedures::get().named(name).filter(|_| known);
    match (found.next(), found.next()) {
        (Some(procedure), None) => Ok(procedure.oid),
        (Some(_), Some(_)) => {
            let message = format!("more than one function named \"{text}\"");
            Err(Error::new(SqlState::AMBIGUOUS_FUNCTION, message))
        }
        (None, _) => {
            let message = format!("function \"{text}\" does not exist");
            Err(Error::new(SqlState::UNDEFINED_FUNCTION, message))
        }
    }
}

/// `lower(text)`
fn procedure_with_arguments(text: &str, call: &Call<'_>) -> Result<i64> {
    let missing = || {
        let message = format!("function \"{text}\" does not exist");
        Error::new(SqlState::UNDEFINED_FUNCTION, message)
    };
    let (name, arguments) =
        text.strip_suffix(')').and_then(|t| t.split_once('(')).ok_or_else(missing)?;
    let parts = name_parts(name).ok_or_else(missing)?;
    let name = parts.last().ok_or_else(missing)?;
    let arguments = arguments.split(',').map(str::trim).filter(|argument| !argument.is_empty());
    let types = arguments.map(|argument| resolve(Registered::Type, argument, call));
    let types = types.collect::<Result<Vec<i64>>>()?;
    let found = Procedures::get().named(name).find(|procedure| procedure.arguments == types);
    found.map(|procedure| procedure.oid).ok_or_else(missing)
}

/// The shortest name of a numbered object, as PostgreSQL writes it.
pub(in crate::catalog) fn shown(kind: Registered, oid: i64, call: &Call<'_>) -> String {
    if oid == 0 {
        return "-".to_owned();
    }
    let objects = call.lookup.objects.as_ref();
    let name = match kind {
        Registered::Class => {
            objects.relation(oid).map(|relation| relation_name(relation, call.lookup))
        }
        Registered::Type => match format_type(call.lookup, oid, None) {
            unknown if unknown == UNKNOWN_TYPE => None,
            known => Some(known),
        },
        Registered::Procedure => {
            Procedures::get().numbered(oid).map(|procedure| quoted(procedure.name))
        }
        Registered::ProcedureWithArguments => {
            Procedures::get().numbered(oid).map(|procedure| signature(procedure, call.lookup))
        }
        Registered::Namespace => objects.namespace_name(oid).map(quoted),
        Registered::Role => {
            let role = u32::try_from(oid).ok().map(RoleId);
            let role = role.and_then(|id| call.lookup.catalog.roles().get(id));
            role.map(|role| quoted(&role.name))
        }
        Registered::Operator | Registered::OperatorWithArguments => None,
        Registered::Collation => {
            COLLATIONS.iter().find(|known| known.0 == oid).map(|known| quoted(known.1))
        }
    };
    name.unwrap_or_else(|| oid.to_string())
}

fn signature(procedure: &Procedure, lookup: &CatalogLookup) -> String {
    let arguments = procedure.arguments.iter().map(|oid| format_type(lookup, *oid, None));
    format!("{}({})", quoted(procedure.name), arguments.collect::<Vec<_>>().join(","))
}

fn relation_name(relation: &Relation, lookup: &CatalogLookup) -> String {
    match lookup.is_visible(relation) {
        true => quoted(&relation.name),
        false => format!("{}.{}", quoted(&relation.namespace), quoted(&relation.name)),
    }
}

/// A stored default as PostgreSQL shows it: with names of sequences, not their numbers.
pub(in crate::catalog) fn shown_default(text: &str, lookup: &CatalogLookup) -> String {
    const CALL: &str = "val(";
    let (mut shown, mut rest) = (String::new(), text);
    while let Some(at) = rest.find(CALL) {
        let (before, after) = rest.split_at(at + CALL.len());
        let digits = after.find(|c: char| !c.is_ascii_digit()).unwrap_or(after.len());
        let sequence = after[..digits].parse().ok().and_then(|oid| lookup.objects.relation(oid));
        shown.push_str(before);
        match sequence.filter(|relation| relation.is_own_sequence()) {
            Some(relation) => {
                let name = relation_name(relation, lookup).replace('\'', "''");
                shown.push_str(&format!("'{name}'::regclass"));
            }
            None => shown.push_str(&after[..digits]),
        }
        rest = &after[digits..];
    }
    shown + rest
}

const UNKNOWN_TYPE: &str = "???";

/// A type's SQL name, with its length or digits if there are any.
pub(in crate::catalog) fn format_type(
    lookup: &CatalogLookup,
    oid: i64,
    modifier: Option<i64>,
) -> String {
    if oid == 0 {
        return "-".to_owned();
    }
    if let Some(base) = BASE.iter().find(|base| base.oid == oid) {
        // Vector types have items too, but names of their own.
        if base.item != 0 && base.name.starts_with('_') {
            return format!("{}[]", format_type(lookup, base.item, modifier));
        }
        return base_type_name(base.name, modifier);
    }
    let (relation, suffix) = match oid {
        ROW_ARRAYS.. => (oid - ROW_ARRAYS, "[]"),
        _ => (oid - ROW_TYPES, ""),
    };
    match lookup.objects.relation(relation) {
        Some(relation) => format!("{}{suffix}", relation_name(relation, lookup)),
        None => UNKNOWN_TYPE.to_owned(),
    }
}

/// The name of one of PostgreSQL's own types.
pub(in crate::catalog) fn base_type_name(name: &str, modifier: Option<i64>) -> String {
    let plain = match name {
        "bool" => "boolean",
        "int2" => "smallint",
        "int4" => "integer",
        "int8" => "bigint",
        "float4" => "real",
        "float8" => "double precision",
        "bpchar" => "character",
        "varchar" => "character varying",
        "timestamp" => "timestamp without time zone",
        "timestamptz" => "timestamp with time zone",
        "time" => "time without time zone",
        "timetz" => "time with time zone",
        "char" => "\"char\"",
        "any" => "\"any\"",
        other => other,
    };
    let second_digits = modifier.filter(|digits| *digits >= 0);
    if let ("timestamp" | "timestamptz" | "time" | "timetz", Some(digits)) = (name, second_digits)
        && let Some((short, zone)) = plain.split_once(' ')
    {
        return format!("{short}({digits}) {zone}");
    }
    let modifier = modifier.filter(|modifier| *modifier >= HEADER).map(|given| given - HEADER);
    match (name, modifier) {
        ("varchar" | "bpchar", Some(chars)) => format!("{plain}({chars})"),
        ("numeric", Some(packed)) => format!("{plain}({},{})", packed >> 16, packed & 0xffff),
        _ => plain.to_owned(),
    }
}

/// Type modifiers of lengths include the header of a value.
const HEADER: i64 = 4;
