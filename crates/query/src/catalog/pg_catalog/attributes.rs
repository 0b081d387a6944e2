//! `pg_attribute` and `pg_attrdef`: columns and their default values.

use std::sync::LazyLock;

use arrow::array::RecordBatch;
use arrow::datatypes::Field;
use arrow::error::ArrowError;
use thalweg_types::{Column, ColumnId, Identity, TableSchema};
use thalweg_values::system_types::{type_modifier, type_oid};
use thalweg_values::types::column_field;

use super::rows::Rows;
use super::{Inputs, relations, types};
use crate::catalog::CatalogLookup;
use crate::catalog::functions::shown_default;
use crate::catalog::information_schema;
use crate::catalog::objects::{Source, attribute_number, table_oid};

/// Columns of tables, views and indexes of this database.
pub(super) fn own(inputs: &Inputs<'_>, rows: &mut Rows) {
    for relation in &inputs.lookup.objects.relations {
        match &relation.source {
            Source::Table(table) => of_table(relation.oid, table, rows),
            Source::View(_) | Source::External => {
                let derived = inputs.derived.iter().find(|derived| derived.is(relation));
                let fields = derived.iter().flat_map(|derived| derived.schema.fields());
                for (field, number) in fields.zip(1..) {
                    Attribute::new(relation.oid, number, field).push(rows);
                }
            }
            Source::Index { table, index, .. } => {
                for (position, number) in table.key_positions(&index.key).into_iter().zip(1..) {
                    let column = &table.columns[position];
                    let field = column_field(column);
                    let mut attribute = Attribute::new(relation.oid, number, &field);
                    attribute.modifier = modifier(column, &field);
                    attribute.push(rows);
                }
            }
            Source::Sequence(_) => {
                let schema = super::sequences::schema();
                for (field, number) in schema.fields().iter().zip(1..) {
                    let mut attribute = Attribute::new(relation.oid, number, field);
                    attribute.not_null = true;
                    attribute.push(rows);
                }
            }
            Source::System { .. } => {}
        }
    }
}

fn of_table(oid: i64, table: &TableSchema, rows: &mut Rows) {
    for column in &table.columns {
        let field = column_field(column);
        let mut attribute = Attribute::new(oid, attribute_number(column.id), &field);
        attribute.modifier = modifier(column, &field);
        attribute.not_null = !column.nullable;
        attribute.has_default = column.declared_default().is_some();
        attribute.identity = match column.identity {
            Some(Identity::Always) => "a",
            Some(Identity::ByDefault) => "d",
            None => "",
        };
        attribute.push(rows);
    }
    dropped(oid, table, rows);
}

/// The columns that a table has no more. Programs that count columns by their numbers, as `pg_dump`
/// does, expect them.
fn dropped(oid: i64, table: &TableSchema, rows: &mut Rows) {
    let is_there = |id: ColumnId| table.columns.iter().any(|column| column.id == id);
    for id in (0..table.next_column_id).map(ColumnId).filter(|id| !is_there(*id)) {
        let number = attribute_number(id);
        rows.push([
            ("attrelid", oid.into()),
            ("attname", format!("........pg.dropped.{number}........").into()),
            ("atttypid", 0.into()),
            ("attnum", number.into()),
            ("attisdropped", true.into()),
            ("attislocal", true.into()),
            ("attcollation", 0.into()),
        ]);
    }
}

/// Type modifier of a column: for a time or timestamp, the digits of fractional seconds.
fn modifier(column: &Column, field: &Field) -> i32 {
    column.second_digits.map_or_else(|| type_modifier(field), i32::from)
}

/// The columns of `pg_catalog` and `information_schema` themselves.
pub(super) fn system() -> Result<RecordBatch, ArrowError> {
    static SYSTEM: LazyLock<RecordBatch> = LazyLock::new(|| {
        let mut rows = Rows::new(&relations::ALL["pg_attribute"].schema);
        let all = relations::ALL.values().chain(information_schema::ALL.values());
        for relation in all.filter(|relation| relation.kind != "-") {
            for (field, number) in relation.schema.fields().iter().zip(1..) {
                let mut attribute = Attribute::new(relation.oid, number, field);
                attribute.not_null = !field.is_nullable();
                attribute.push(&mut rows);
            }
        }
        rows.finish().expect("the columns of pg_catalog fit pg_attribute")
    });
    Ok(SYSTEM.clone())
}

struct Attribute<'a> {
    relation: i64,
    number: i64,
    field: &'a Field,
    modifier: i32,
    not_null: bool,
    has_default: bool,
    identity: &'static str,
}

impl<'a> Attribute<'a> {
    fn new(relation: i64, number: i64, field: &'a Field) -> Attribute<'a> {
        Attribute {
            relation,
            number,
            field,
            modifier: type_modifier(field),
            not_null: false,
            has_default: false,
            identity: "",
        }
    }

    fn push(self, rows: &mut Rows) {
        let type_oid = type_oid(self.field);
        let layout = types::layout(type_oid);
        rows.push([
            ("attrelid", self.relation.into()),
            ("attname", self.field.name().into()),
            ("atttypid", type_oid.into()),
            ("attstattarget", (-1).into()),
            ("attlen", layout.length.into()),
            ("attnum", self.number.into()),
            ("attndims", dimensions(self.field).into()),
            ("attcacheoff", (-1).into()),
            ("atttypmod", self.modifier.into()),
            ("attbyval", layout.by_value.into()),
            ("attalign", layout.alignment.into()),
            ("attstorage", layout.storage.into()),
            ("attnotnull", self.not_null.into()),
            ("atthasdef", self.has_default.into()),
            ("attidentity", self.identity.into()),
            ("attislocal", true.into()),
            ("attcollation", layout.collation.into()),
        ]);
    }
}

/// Nesting depth of arrays.
fn dimensions(field: &Field) -> i64 {
    use arrow::datatypes::DataType::List;
    match field.data_type() {
        List(item) => 1 + dimensions(item),
        _ => 0,
    }
}

/// The number of a column's default.
pub(super) fn default_oid(table: &TableSchema, column: &Column) -> i64 {
    /// Defaults have numbers in a range of their own, with room for this many columns a table.
    const DEFAULTS: i64 = 0x5000_0000;
    const COLUMNS_MAX: i64 = 1_600;
    const RANGE: i64 = 0x1000_0000;
    DEFAULTS + (i64::from(table.id.0) * COLUMNS_MAX + attribute_number(column.id)) % RANGE
}

pub(super) fn defaults(lookup: &CatalogLookup, rows: &mut Rows) {
    for table in lookup.objects.relations.iter().filter_map(|relation| relation.table()) {
        for column in &table.columns {
            let Some(default) = column.declared_default() else { continue };
            rows.push([
                ("oid", default_oid(table, column).into()),
                ("adrelid", table_oid(table).into()),
                ("adnum", attribute_number(column.id).into()),
                ("adbin", shown_default(default, lookup).into()),
            ]);
        }
    }
}
