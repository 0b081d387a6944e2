//! Keys and checks.

use thalweg_types::{Key, TableSchema};

use super::role_visibility::RoleVisibility;
use super::yes_or_no;
use crate::catalog::DATABASE;
use crate::catalog::definitions::mentions;
use crate::catalog::objects::{Constraint, Objects, Source};
use crate::catalog::pg_catalog::rows::Rows;

/// Every key with its table; the flag is true for a primary key.
fn every_key(objects: &Objects) -> impl Iterator<Item = (&TableSchema, &Key, bool)> {
    objects.relations.iter().filter_map(|relation| match &relation.source {
        Source::Index { table, index, constraint: Some(constraint) } => {
            Some((table.as_ref(), &index.key, *constraint == Constraint::PrimaryKey))
        }
        _ => None,
    })
}

pub(super) fn constraints(objects: &Objects, visibility: &RoleVisibility<'_>, rows: &mut Rows) {
    let mut push = |table: &TableSchema, name: &String, kind: &'static str| {
        if !visibility.more_than_rows(&table.namespace, &table.name) {
            return;
        }
        rows.push([
            ("constraint_catalog", DATABASE.into()),
            ("constraint_schema", (&table.namespace).into()),
            ("constraint_name", name.into()),
            ("table_catalog", DATABASE.into()),
            ("table_schema", (&table.namespace).into()),
            ("table_name", (&table.name).into()),
            ("constraint_type", kind.into()),
            ("is_deferrable", yes_or_no(false)),
            ("initially_deferred", yes_or_no(false)),
            ("enforced", yes_or_no(true)),
            ("nulls_distinct", (kind == "UNIQUE").then_some("YES").into()),
        ]);
    };
    for (table, key, primary) in every_key(objects) {
        push(table, &key.name, if primary { "PRIMARY KEY" } else { "UNIQUE" });
    }
    for check in &objects.checks {
        push(&check.table, &check.name, "CHECK");
    }
}

pub(super) fn keys(objects: &Objects, visibility: &RoleVisibility<'_>, rows: &mut Rows) {
    let seen = |table: &TableSchema| visibility.columns(&table.namespace, &table.name);
    for (table, key, _) in every_key(objects).filter(|(table, ..)| seen(table)) {
        for (position, place) in table.key_positions(key).into_iter().zip(1_i64..) {
            rows.push([
                ("constraint_catalog", DATABASE.into()),
                ("constraint_schema", (&table.namespace).into()),
                ("constraint_name", (&key.name).into()),
                ("table_catalog", DATABASE.into()),
                ("table_schema", (&table.namespace).into()),
                ("table_name", (&table.name).into()),
                ("column_name", (&table.columns[position].name).into()),
                ("ordinal_position", place.into()),
            ]);
        }
    }
}

pub(super) fn checks(objects: &Objects, visibility: &RoleVisibility<'_>, rows: &mut Rows) {
    let owned = |table: &TableSchema| visibility.owns(&table.namespace, &table.name);
    for check in objects.checks.iter().filter(|check| owned(&check.table)) {
        rows.push([
            ("constraint_catalog", DATABASE.into()),
            ("constraint_schema", (&check.table.namespace).into()),
            ("constraint_name", (&check.name).into()),
            ("check_clause", (&check.expression).into()),
        ]);
    }
}

/// The columns of keys and checks.
pub(super) fn columns(objects: &Objects, visibility: &RoleVisibility<'_>, rows: &mut Rows) {
    let mut push = |table: &TableSchema, column: &String, constraint: &String| {
        if !visibility.owns(&table.namespace, &table.name) {
            return;
        }
        rows.push([
            ("table_catalog", DATABASE.into()),
            ("table_schema", (&table.namespace).into()),
            ("table_name", (&table.name).into()),
            ("column_name", column.into()),
            ("constraint_catalog", DATABASE.into()),
            ("constraint_schema", (&table.namespace).into()),
            ("constraint_name", constraint.into()),
        ]);
    };
    for (table, key, _) in every_key(objects) {
        for position in table.key_positions(key) {
            push(table, &table.columns[position].name, &key.name);
        }
    }
    for check in &objects.checks {
        let columns = check.table.columns.iter();
        for column in columns.filter(|column| mentions(&check.expression, &column.name)) {
            push(&check.table, &column.name, &check.name);
        }
    }
}

/// The tables of constraints.
pub(super) fn tables(objects: &Objects, visibility: &RoleVisibility<'_>, rows: &mut Rows) {
    let owned = |table: &TableSchema| visibility.owns(&table.namespace, &table.name);
    for (table, key, _) in every_key(objects).filter(|(table, ..)| owned(table)) {
        rows.push([
            ("table_catalog", DATABASE.into()),
            ("table_schema", (&table.namespace).into()),
            ("table_name", (&table.name).into()),
            ("constraint_catalog", DATABASE.into()),
            ("constraint_schema", (&table.namespace).into()),
            ("constraint_name", (&key.name).into()),
        ]);
    }
}
