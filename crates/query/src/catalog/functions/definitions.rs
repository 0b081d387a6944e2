//! Objects as SQL text: `pg_get_indexdef`, `pg_get_constraintdef` and their kind.

use thalweg_types::Result;
use thalweg_values::system_types::{Registered, SystemType};

use super::define::{Answer, Call, Definition, Returns};
use super::names::{self, format_type};
use crate::catalog::definitions::{self, quoted};
use crate::catalog::objects::{Constraint, KEY_CONSTRAINTS, Relation, Source};
use crate::catalog::pg_catalog::Procedures;
use crate::catalog::pg_catalog::procedures::Procedure;
use crate::catalog::pg_catalog::rows::Value;
use crate::catalog::view_definition;
use crate::temporary_objects::shown_namespace;

pub(super) fn functions() -> Vec<Definition> {
    let text =
        |name, arguments, answer: Answer| Definition::new(name, arguments, Returns::Text, answer);
    let mut functions = vec![
        // Expressions are stored as their original text.
        text("pg_get_expr", 2..=3, |call| Ok(call.text(0).map(str::to_owned).into())),
        text("pg_get_indexdef", 1..=3, index),
        text("pg_get_constraintdef", 1..=2, constraint),
        text("pg_get_viewdef", 1..=2, view),
        text("pg_get_serial_sequence", 2..=2, serial_sequence),
        text("pg_get_function_result", 1..=1, |call| {
            Ok(procedure(call).map(|found| result(found, call)).into())
        }),
        text("pg_get_function_arguments", 1..=1, arguments),
        text("pg_get_function_identity_arguments", 1..=1, arguments),
        // `pg_partition_ancestors` gives these as rows; no table has partitions.
        Definition::new(
            "partition_ancestors",
            1..=1,
            Returns::ListOf(SystemType::Registered(Registered::Class)),
            |_| Ok(Value::Null),
        ),
    ];
    // These kinds of object do not exist here, so no number is valid.
    functions.extend(
        [
            ("pg_get_ruledef", 2),
            ("pg_get_triggerdef", 2),
            ("pg_get_functiondef", 1),
            ("pg_get_function_sqlbody", 1),
            ("pg_get_function_arg_default", 2),
            ("pg_get_partkeydef", 1),
            ("pg_get_partition_constraintdef", 1),
            ("pg_get_statisticsobjdef", 1),
            ("pg_get_statisticsobjdef_columns", 1),
            ("pg_get_statisticsobjdef_expressions", 1),
            ("pg_tablespace_location", 1),
        ]
        .map(|(name, most)| text(name, 1..=most, |_| Ok(Value::Null))),
    );
    functions
}

/// The definition of an index, or of one of its columns if a position is given.
fn index(call: &Call<'_>) -> Result<Value> {
    let relation =
        call.object(0, Registered::Class)?.and_then(|oid| call.lookup.objects.relation(oid));
    let Some(Source::Index { table, index, .. }) = relation.map(|relation| &relation.source) else {
        return Ok(Value::Null);
    };
    Ok(match call.number(1).filter(|_| call.count() > 1).unwrap_or(0) {
        0 => {
            let is_short = call.flag(2) == Some(true)
                && relation.is_some_and(|relation| call.lookup.is_visible(relation));
            definitions::index(table, index, !is_short).into()
        }
        place => {
            let positions = table.key_positions(&index.key);
            let position = usize::try_from(place - 1).ok().and_then(|place| positions.get(place));
            match position {
                Some(position) => quoted(&table.columns[*position].name).into(),
                None => "".into(),
            }
        }
    })
}

fn constraint(call: &Call<'_>) -> Result<Value> {
    let Some(oid) = call.number(0) else { return Ok(Value::Null) };
    if let Some(check) = call.lookup.objects.checks.iter().find(|check| check.oid == oid) {
        let expression = &check.expression;
        let is_pretty = call.flag(1) == Some(true);
        let text = match is_pretty {
            true => format!("CHECK ({expression})"),
            false => format!("CHECK (({expression}))"),
        };
        return Ok(text.into());
    }
    if let Some(found) = call.lookup.objects.foreign_keys.iter().find(|found| found.oid == oid) {
        let parent = &found.parent;
        let relation = call.lookup.objects.relation_of(parent.id);
        let is_visible = relation.is_some_and(|relation| call.lookup.is_visible(relation));
        let name = match is_visible {
            true => quoted(&parent.name),
            false => format!("{}.{}", quoted(&parent.namespace), quoted(&parent.name)),
        };
        return Ok(definitions::foreign_key(&found.table, &found.key, parent, &name).into());
    }
    let relation = call.lookup.objects.relation(oid - KEY_CONSTRAINTS);
    Ok(match relation.map(|relation| &relation.source) {
        Some(Source::Index { table, index, constraint: Some(constraint) }) => {
            let primary = *constraint == Constraint::PrimaryKey;
            definitions::key(table, &index.key, primary).into()
        }
        _ => Value::Null,
    })
}

fn view(call: &Call<'_>) -> Result<Value> {
    let relation =
        call.object(0, Registered::Class)?.and_then(|oid| call.lookup.objects.relation(oid));
    Ok(match relation.map(|relation| &relation.source) {
        Some(Source::View(view)) => view_definition::definition(view, &call.lookup.catalog).into(),
        _ => Value::Null,
    })
}

/// The sequence that numbers a column.
fn serial_sequence(call: &Call<'_>) -> Result<Value> {
    let (Some(name), Some(column_name)) = (call.text(0), call.text(1)) else {
        return Ok(Value::Null);
    };
    let table = names::resolve(Registered::Class, name, call)?;
    let sequence = call.lookup.objects.relations.iter().find(|relation| match &relation.source {
        Source::Sequence(source) => source.owner.as_ref().is_some_and(|(owner, column)| {
            crate::catalog::objects::table_oid(owner) == table && column.name == column_name
        }),
        _ => false,
    });
    let namespace = |found: &Relation| quoted(shown_namespace(&found.namespace));
    let name = sequence.map(|found| format!("{}.{}", namespace(found), quoted(&found.name)));
    Ok(name.into())
}

fn procedure(call: &Call<'_>) -> Option<&'static Procedure> {
    Procedures::get().numbered(call.number(0)?)
}

fn result(procedure: &Procedure, call: &Call<'_>) -> String {
    let result = format_type(call.lookup, procedure.result, None);
    if procedure.returns_set { format!("SETOF {result}") } else { result }
}

fn arguments(call: &Call<'_>) -> Result<Value> {
    let Some(procedure) = procedure(call) else { return Ok(Value::Null) };
    let last = procedure.arguments.len().wrapping_sub(1);
    let types = procedure.arguments.iter().enumerate().map(|(place, oid)| {
        let name = format_type(call.lookup, *oid, None);
        let is_variadic = procedure.variadic != 0 && place == last;
        if is_variadic { format!("VARIADIC {name}") } else { name }
    });
    Ok(types.collect::<Vec<_>>().join(", ").into())
}
