//! `pg_index` and `pg_constraint`: keys, checks and foreign keys.

use thalweg_types::{DataType, Key, ReferentialAction, TableSchema, ValueOrder};
use thalweg_values::system_types::column_type_oid;

use super::fixed::operator_class;
use super::rows::{Rows, Value};
use super::types::layout;
use crate::catalog::objects::Constraint as Backed;
use crate::catalog::objects::{
    KEY_CONSTRAINTS, Objects, Source, attribute_number, column_numbers, key_numbers, table_oid,
};

/// Lists indexes. As in PostgreSQL, every key is an index, too.
pub(super) fn indexes(objects: &Objects, rows: &mut Rows) {
    for relation in &objects.relations {
        let Source::Index { table, index, constraint } = &relation.source else { continue };
        let key = &index.key;
        let types: Vec<&DataType> = types_of(table, key).collect();
        let collation = |data_type: &&DataType| layout(column_type_oid(data_type)).collation;
        let collations: Vec<i64> = types.iter().map(collation).collect();
        let classes: Vec<i64> = types.iter().map(|data_type| operator_class(data_type)).collect();
        let width = key.columns.len();
        rows.push([
            ("indexrelid", relation.oid.into()),
            ("indrelid", table_oid(table).into()),
            ("indnatts", width.into()),
            ("indnkeyatts", width.into()),
            ("indisunique", index.unique.into()),
            ("indisprimary", (*constraint == Some(Backed::PrimaryKey)).into()),
            ("indimmediate", true.into()),
            ("indisvalid", true.into()),
            ("indisready", true.into()),
            ("indislive", true.into()),
            ("indkey", key_numbers(key).into()),
            ("indcollation", collations.into()),
            ("indclass", classes.into()),
            ("indoption", index.orders.iter().map(options).collect::<Vec<i64>>().into()),
        ]);
    }
}

/// PostgreSQL's bits for the order of an index column.
fn options(order: &ValueOrder) -> i64 {
    i64::from(order.descending) | (i64::from(order.nulls_first) << 1)
}

fn types_of<'a>(table: &'a TableSchema, key: &Key) -> impl Iterator<Item = &'a DataType> {
    table.key_positions(key).into_iter().map(|position| &table.columns[position].data_type)
}

pub(super) fn constraints(objects: &Objects, rows: &mut Rows) {
    for relation in &objects.relations {
        let Source::Index { table, index, constraint: Some(backed) } = &relation.source else {
            continue;
        };
        let constraint = Constraint {
            oid: KEY_CONSTRAINTS + relation.oid,
            name: &relation.name,
            namespace: relation.namespace_oid,
            kind: if *backed == Backed::PrimaryKey { "p" } else { "u" },
            table: table_oid(table),
            index: relation.oid,
            columns: key_numbers(&index.key).into(),
            expression: Value::Null,
        };
        constraint.push(rows);
    }
    foreign_keys(objects, rows);
    for check in &objects.checks {
        let named = check.table.columns.iter().filter(|column| {
            crate::catalog::definitions::mentions(&check.expression, &column.name)
        });
        let columns: Vec<i64> = named.map(|column| attribute_number(column.id)).collect();
        let constraint = Constraint {
            oid: check.oid,
            name: &check.name,
            namespace: objects.namespace(&check.table.namespace).unwrap_or(0),
            kind: "c",
            table: table_oid(&check.table),
            index: 0,
            columns: columns.into(),
            expression: (&check.expression).into(),
        };
        constraint.push(rows);
    }
}

fn foreign_keys(objects: &Objects, rows: &mut Rows) {
    for constraint in &objects.foreign_keys {
        let (table, key, parent) = (&constraint.table, &constraint.key, &constraint.parent);
        let name = constraint.parent_key().map_or("", |key| key.name.as_str());
        let index = objects.relation_named(&parent.namespace, name);
        rows.push([
            ("oid", constraint.oid.into()),
            ("conname", (&key.name).into()),
            ("connamespace", objects.namespace(&table.namespace).unwrap_or(0).into()),
            ("contype", "f".into()),
            ("condeferrable", key.deferrable.into()),
            ("condeferred", key.initially_deferred.into()),
            ("convalidated", (!key.unvalidated).into()),
            ("conrelid", table_oid(table).into()),
            ("conindid", index.map_or(0, |index| index.oid).into()),
            ("confrelid", table_oid(parent).into()),
            ("confupdtype", letter(key.on_update).into()),
            ("confdeltype", letter(key.on_delete).into()),
            ("confmatchtype", "s".into()),
            ("conislocal", true.into()),
            ("connoinherit", true.into()),
            ("conkey", column_numbers(&key.columns).into()),
            ("confkey", column_numbers(&key.parent_columns).into()),
        ]);
    }
}

/// PostgreSQL's letter of an action.
fn letter(action: ReferentialAction) -> &'static str {
    match action {
        ReferentialAction::NoAction => "a",
        ReferentialAction::Restrict => "r",
        ReferentialAction::Cascade => "c",
        ReferentialAction::SetNull => "n",
        ReferentialAction::SetDefault => "d",
    }
}

struct Constraint<'a> {
    oid: i64,
    name: &'a String,
    namespace: i64,
    kind: &'static str,
    table: i64,
    index: i64,
    columns: Value,
    expression: Value,
}

impl Constraint<'_> {
    fn push(self, rows: &mut Rows) {
        rows.push([
            ("oid", self.oid.into()),
            ("conname", self.name.into()),
            ("connamespace", self.namespace.into()),
            ("contype", self.kind.into()),
            ("convalidated", true.into()),
            ("conrelid", self.table.into()),
            ("conindid", self.index.into()),
            ("confupdtype", " ".into()),
            ("confdeltype", " ".into()),
            ("confmatchtype", " ".into()),
            ("conislocal", true.into()),
            ("connoinherit", (self.kind != "c").into()),
            ("conkey", self.columns),
            ("conbin", self.expression),
        ]);
    }
}
