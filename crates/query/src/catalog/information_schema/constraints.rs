//! Keys, checks and foreign keys.

use thalweg_types::{ColumnId, Key, TableSchema};

use super::role_visibility::RoleVisibility;
use super::yes_or_no;
use crate::catalog::DATABASE;
use crate::catalog::definitions::{action_words, mentions};
use crate::catalog::objects::{Constraint, ForeignKeyConstraint, Objects, Source};
use crate::catalog::pg_catalog::rows::{Rows, Value};

type Columns = [(&'static str, Value); 3];

/// The columns that name a constraint of a table.
fn constraint_columns(table: &TableSchema, name: &String) -> Columns {
    [
        ("constraint_catalog", DATABASE.into()),
        ("constraint_schema", (&table.namespace).into()),
        ("constraint_name", name.into()),
    ]
}

/// The columns that name a table.
fn table_columns(table: &TableSchema) -> Columns {
    [
        ("table_catalog", DATABASE.into()),
        ("table_schema", (&table.namespace).into()),
        ("table_name", (&table.name).into()),
    ]
}

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
    let mut push = |table: &TableSchema, name: &String, kind: &'static str, times: (bool, bool)| {
        if !visibility.more_than_rows(&table.namespace, &table.name) {
            return;
        }
        let columns = constraint_columns(table, name).into_iter().chain(table_columns(table));
        rows.push(columns.chain([
            ("constraint_type", kind.into()),
            ("is_deferrable", yes_or_no(times.0)),
            ("initially_deferred", yes_or_no(times.1)),
            ("enforced", yes_or_no(true)),
            ("nulls_distinct", (kind == "UNIQUE").then_some("YES").into()),
        ]));
    };
    for (table, key, primary) in every_key(objects) {
        push(table, &key.name, if primary { "PRIMARY KEY" } else { "UNIQUE" }, (false, false));
    }
    for check in &objects.checks {
        push(&check.table, &check.name, "CHECK", (false, false));
    }
    for ForeignKeyConstraint { table, key, .. } in &objects.foreign_keys {
        let times = (key.deferrable, key.initially_deferred);
        push(table, &key.name, "FOREIGN KEY", times);
    }
}

/// The foreign keys, with the keys that they refer to.
pub(super) fn referential(objects: &Objects, visibility: &RoleVisibility<'_>, rows: &mut Rows) {
    for constraint in &objects.foreign_keys {
        let ForeignKeyConstraint { table, key, parent, .. } = constraint;
        if !visibility.more_than_rows(&table.namespace, &table.name) {
            continue;
        }
        let columns = constraint_columns(table, &key.name).into_iter();
        rows.push(columns.chain([
            ("unique_constraint_catalog", DATABASE.into()),
            ("unique_constraint_schema", (&parent.namespace).into()),
            ("unique_constraint_name", constraint.parent_key().map(|key| &key.name).into()),
            ("match_option", "NONE".into()),
            ("update_rule", action_words(key.on_update).into()),
            ("delete_rule", action_words(key.on_delete).into()),
        ]));
    }
}

pub(super) fn keys(objects: &Objects, visibility: &RoleVisibility<'_>, rows: &mut Rows) {
    let seen = |table: &TableSchema| visibility.columns(&table.namespace, &table.name);
    for (table, key, _) in every_key(objects).filter(|(table, ..)| seen(table)) {
        for (position, place) in table.key_positions(key).into_iter().zip(1_i64..) {
            let columns =
                constraint_columns(table, &key.name).into_iter().chain(table_columns(table));
            rows.push(columns.chain([
                ("column_name", (&table.columns[position].name).into()),
                ("ordinal_position", place.into()),
            ]));
        }
    }
    for constraint in objects.foreign_keys.iter().filter(|found| seen(&found.table)) {
        let ForeignKeyConstraint { table, key, parent, .. } = constraint;
        let of_parent = |column: &ColumnId| {
            let columns = &constraint.parent_key()?.columns;
            Some(columns.iter().position(|known| known == column)? as i64 + 1)
        };
        let pairs = key.columns.iter().zip(&key.parent_columns).zip(1_i64..);
        for ((column, referenced), place) in pairs {
            let Some(position) = table.position(*column) else { continue };
            debug_assert!(parent.position(*referenced).is_some());
            let columns =
                constraint_columns(table, &key.name).into_iter().chain(table_columns(table));
            rows.push(columns.chain([
                ("column_name", (&table.columns[position].name).into()),
                ("ordinal_position", place.into()),
                ("position_in_unique_constraint", of_parent(referenced).into()),
            ]));
        }
    }
}

pub(super) fn checks(objects: &Objects, visibility: &RoleVisibility<'_>, rows: &mut Rows) {
    let owned = |table: &TableSchema| visibility.owns(&table.namespace, &table.name);
    for check in objects.checks.iter().filter(|check| owned(&check.table)) {
        let columns = constraint_columns(&check.table, &check.name).into_iter();
        rows.push(columns.chain([("check_clause", (&check.expression).into())]));
    }
}

/// The columns of keys and checks.
pub(super) fn columns(objects: &Objects, visibility: &RoleVisibility<'_>, rows: &mut Rows) {
    let mut push = |(table, column): (&TableSchema, &String),
                    of: &TableSchema,
                    constraint: &String| {
        if !visibility.owns(&table.namespace, &table.name) {
            return;
        }
        let columns = table_columns(table).into_iter().chain(constraint_columns(of, constraint));
        rows.push(columns.chain([("column_name", column.into())]));
    };
    for (table, key, _) in every_key(objects) {
        for position in table.key_positions(key) {
            push((table, &table.columns[position].name), table, &key.name);
        }
    }
    for check in &objects.checks {
        let columns = check.table.columns.iter();
        for column in columns.filter(|column| mentions(&check.expression, &column.name)) {
            push((&check.table, &column.name), &check.table, &check.name);
        }
    }
    for ForeignKeyConstraint { table, key, parent, .. } in &objects.foreign_keys {
        for position in key.parent_columns.iter().filter_map(|id| parent.position(*id)) {
            push((parent, &parent.columns[position].name), table, &key.name);
        }
    }
}

/// The tables of constraints.
pub(super) fn tables(objects: &Objects, visibility: &RoleVisibility<'_>, rows: &mut Rows) {
    let owned = |table: &TableSchema| visibility.owns(&table.namespace, &table.name);
    for (table, key, _) in every_key(objects).filter(|(table, ..)| owned(table)) {
        rows.push(table_columns(table).into_iter().chain(constraint_columns(table, &key.name)));
    }
    for ForeignKeyConstraint { table, key, parent, .. } in &objects.foreign_keys {
        if owned(parent) {
            rows.push(
                table_columns(parent).into_iter().chain(constraint_columns(table, &key.name)),
            );
        }
    }
}
