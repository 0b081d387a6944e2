//! `pg_class`: everything that has columns, and indexes.

use super::rows::{Rows, Value};
use super::{Inputs, relations};
use crate::catalog::information_schema;
use crate::catalog::objects::{ROW_TYPES, Relation, Source};

/// The access methods that tables and indexes are shown to have.
const HEAP: i64 = 2;
const BTREE: i64 = 403;

pub(super) fn classes(inputs: &Inputs<'_>, rows: &mut Rows) {
    for relation in &inputs.lookup.objects.relations {
        let row_type = if relation.has_row_type() { ROW_TYPES + relation.oid } else { 0 };
        let access_method = match relation.kind() {
            "r" => HEAP,
            "i" => BTREE,
            _ => 0,
        };
        let shape = Shape::of(relation, inputs);
        rows.push([
            ("oid", relation.oid.into()),
            ("relname", (&relation.name).into()),
            ("relnamespace", relation.namespace_oid.into()),
            ("reltype", row_type.into()),
            ("relowner", relation.access.owner.into()),
            ("relam", access_method.into()),
            ("relfilenode", relation.oid.into()),
            ("reltuples", shape.tuples),
            ("relhasindex", shape.has_index.into()),
            ("relpersistence", if relation.is_temporary() { "t" } else { "p" }.into()),
            ("relkind", relation.kind().into()),
            ("relacl", own_grants(relation)),
            ("relnatts", shape.columns.into()),
            ("relchecks", shape.checks.into()),
            // psql looks for foreign keys where this is true.
            ("relhastriggers", has_foreign_keys(relation, inputs).into()),
            ("relhasrules", (relation.kind() == "v").into()),
            ("relispopulated", true.into()),
            ("relreplident", if relation.kind() == "r" { "d" } else { "n" }.into()),
        ]);
    }
}

/// True for a table that has a foreign key or is referenced by one.
fn has_foreign_keys(relation: &Relation, inputs: &Inputs<'_>) -> bool {
    relation.table().is_some_and(|table| {
        !table.foreign_keys.is_empty() || inputs.lookup.catalog.is_referenced(table.id)
    })
}

/// Grants on the relation itself.
fn own_grants(relation: &Relation) -> Value {
    if !relation.has_row_type() && !relation.is_own_sequence() {
        return Value::Null;
    }
    relation.access.grants.clone().into()
}

struct Shape {
    columns: i64,
    checks: i64,
    has_index: bool,
    /// The number of rows; -1 if it is unknown.
    tuples: Value,
}

impl Shape {
    fn of(relation: &Relation, inputs: &Inputs<'_>) -> Shape {
        let mut shape =
            Shape { columns: 0, checks: 0, has_index: false, tuples: Value::Number(-1) };
        shape.columns = match &relation.source {
            Source::Table(table) => {
                shape.checks = table.checks.len() as i64;
                shape.has_index = table.index_names().next().is_some();
                if let Some(rows) = inputs.lookup.rows_of(table.id) {
                    shape.tuples = rows.into();
                }
                i64::from(table.next_column_id)
            }
            Source::View(_) | Source::External => {
                let derived = inputs.derived.iter().find(|derived| derived.is(relation));
                derived.map_or(0, |derived| derived.schema.fields().len() as i64)
            }
            Source::Index { index, .. } => index.key.columns.len() as i64,
            Source::Sequence(_) => 3,
            Source::System { .. } => {
                let system = relations::ALL.get(relation.name.as_str());
                let system = system.or_else(|| information_schema::ALL.get(relation.name.as_str()));
                system.map_or(0, |system| system.schema.fields().len() as i64)
            }
        };
        shape
    }
}
