//! `information_schema`: the catalog as tables, with the columns that clients ask for.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int32Array, RecordBatch, StringViewArray};
use arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::catalog::TableProvider;
use datafusion::datasource::MemTable;
use datafusion::error::Result;
use thalweg_dialect::types::from_arrow;
use thalweg_txn::{Catalog, Object};
use thalweg_types::{Column, DataType, Identity, Key, TableSchema};

use super::DATABASE;

pub(super) const TABLES: [&str; 7] = [
    "check_constraints",
    "columns",
    "key_column_usage",
    "schemata",
    "table_constraints",
    "tables",
    "views",
];

/// Rows of text and numbers, gathered one at a time.
struct Rows {
    columns: Vec<(&'static str, Values)>,
}

enum Values {
    Text(Vec<Option<String>>),
    Number(Vec<Option<i32>>),
}

impl Rows {
    fn new(text: &[&'static str], numbers: &[&'static str]) -> Rows {
        let text = text.iter().map(|name| (*name, Values::Text(Vec::new())));
        let numbers = numbers.iter().map(|name| (*name, Values::Number(Vec::new())));
        Rows { columns: text.chain(numbers).collect() }
    }

    fn push(&mut self, text: Vec<Option<String>>, numbers: Vec<Option<i32>>) {
        let (mut text, mut numbers) = (text.into_iter(), numbers.into_iter());
        for (name, values) in &mut self.columns {
            match values {
                Values::Text(values) => values.push(text.next().unwrap_or_else(|| missing(name))),
                Values::Number(values) => {
                    values.push(numbers.next().unwrap_or_else(|| missing(name)));
                }
            }
        }
    }

    fn into_table(self) -> Result<Arc<dyn TableProvider>> {
        let (mut fields, mut arrays): (Vec<Field>, Vec<ArrayRef>) = (Vec::new(), Vec::new());
        for (name, values) in self.columns {
            let array: ArrayRef = match values {
                Values::Text(values) => Arc::new(StringViewArray::from_iter(values)),
                Values::Number(values) => Arc::new(Int32Array::from(values)),
            };
            fields.push(Field::new(name, array.data_type().clone(), true));
            arrays.push(array);
        }
        let schema = Arc::new(Schema::new(fields));
        let batch = RecordBatch::try_new(Arc::clone(&schema), arrays)?;
        Ok(Arc::new(MemTable::try_new(schema, vec![vec![batch]])?))
    }
}

fn missing<T>(name: &str) -> T {
    unreachable!("a row of information_schema lacks a value for {name}")
}

fn some(text: impl ToString) -> Option<String> {
    Some(text.to_string())
}

fn yes(is: bool) -> Option<String> {
    some(if is { "YES" } else { "NO" })
}

/// One of [`TABLES`]. `derived` are the columns of views and external tables.
pub(super) fn table(
    name: &str,
    catalog: &Catalog,
    derived: &[(String, String, SchemaRef)],
) -> Result<Option<Arc<dyn TableProvider>>> {
    let rows = match name {
        "tables" => tables(catalog),
        "columns" => columns(catalog, derived),
        "schemata" => schemata(catalog),
        "views" => views(catalog),
        "table_constraints" => table_constraints(catalog),
        "key_column_usage" => key_column_usage(catalog),
        "check_constraints" => check_constraints(catalog),
        _ => return Ok(None),
    };
    rows.into_table().map(Some)
}

fn tables(catalog: &Catalog) -> Rows {
    let names = ["table_catalog", "table_schema", "table_name", "table_type"];
    let mut rows = Rows::new(&names, &[]);
    for namespace in catalog.namespaces() {
        for (name, object) in catalog.objects(namespace) {
            let kind = match object {
                Object::Table(_) => "BASE TABLE",
                Object::View(_) => "VIEW",
                Object::External(_) => "FOREIGN",
            };
            rows.push(vec![some(DATABASE), some(namespace), some(name), some(kind)], vec![]);
        }
    }
    for name in TABLES {
        let namespace = super::INFORMATION_SCHEMA;
        rows.push(vec![some(DATABASE), some(namespace), some(name), some("VIEW")], vec![]);
    }
    rows
}

fn columns(catalog: &Catalog, derived: &[(String, String, SchemaRef)]) -> Rows {
    let mut rows = Rows::new(
        &[
            "table_catalog",
            "table_schema",
            "table_name",
            "column_name",
            "column_default",
            "is_nullable",
            "data_type",
            "is_identity",
            "identity_generation",
        ],
        &[
            "ordinal_position",
            "character_maximum_length",
            "numeric_precision",
            "numeric_scale",
            "datetime_precision",
        ],
    );
    for entry in catalog.tables() {
        let table = &entry.schema;
        for (index, column) in table.columns.iter().enumerate() {
            push_column(&mut rows, (&table.namespace, &table.name), index, column);
        }
    }
    for (namespace, name, schema) in derived {
        for (index, field) in schema.fields().iter().enumerate() {
            let Ok(data_type) = from_arrow(field.data_type()) else { continue };
            let column = Column {
                id: thalweg_types::ColumnId(index as u32),
                name: field.name().clone(),
                data_type,
                nullable: field.is_nullable(),
                default: None,
                identity: None,
            };
            push_column(&mut rows, (namespace, name), index, &column);
        }
    }
    rows
}

fn push_column(rows: &mut Rows, (namespace, table): (&str, &str), index: usize, column: &Column) {
    let text = vec![
        some(DATABASE),
        some(namespace),
        some(table),
        some(&column.name),
        column.default.clone(),
        yes(column.nullable),
        some(type_name(&column.data_type)),
        yes(column.identity.is_some()),
        column.identity.map(|identity| match identity {
            Identity::Always => "ALWAYS".to_owned(),
            Identity::ByDefault => "BY DEFAULT".to_owned(),
        }),
    ];
    let (length, precision, scale, fraction) = sizes(&column.data_type);
    rows.push(text, vec![Some(index as i32 + 1), length, precision, scale, fraction]);
}

/// The type's name without the sizes, which have columns of their own.
fn type_name(data_type: &DataType) -> String {
    match data_type {
        DataType::Decimal { .. } => "numeric".to_owned(),
        DataType::Text { max_chars: Some(_) } => "character varying".to_owned(),
        DataType::Array(_) => "ARRAY".to_owned(),
        other => other.to_string(),
    }
}

type Sizes = (Option<i32>, Option<i32>, Option<i32>, Option<i32>);

/// Greatest length, numeric precision and scale, digits of fractional seconds.
fn sizes(data_type: &DataType) -> Sizes {
    match data_type {
        DataType::Text { max_chars } => (max_chars.map(|n| n as i32), None, None, None),
        DataType::Int2 => (None, Some(16), Some(0), None),
        DataType::Int4 => (None, Some(32), Some(0), None),
        DataType::Int8 => (None, Some(64), Some(0), None),
        DataType::Float4 => (None, Some(24), None, None),
        DataType::Float8 => (None, Some(53), None, None),
        DataType::Decimal { precision, scale } => {
            (None, Some(i32::from(*precision)), Some(i32::from(*scale)), None)
        }
        DataType::Date => (None, None, None, Some(0)),
        DataType::Time | DataType::Timestamp | DataType::Timestamptz | DataType::Interval => {
            (None, None, None, Some(6))
        }
        _ => (None, None, None, None),
    }
}

fn schemata(catalog: &Catalog) -> Rows {
    let mut rows = Rows::new(&["catalog_name", "schema_name", "schema_owner"], &[]);
    for namespace in catalog.namespaces().chain([super::INFORMATION_SCHEMA]) {
        rows.push(vec![some(DATABASE), some(namespace), some(DATABASE)], vec![]);
    }
    rows
}

fn views(catalog: &Catalog) -> Rows {
    let names = ["table_catalog", "table_schema", "table_name", "view_definition"];
    let mut rows = Rows::new(&names, &[]);
    for namespace in catalog.namespaces() {
        for (name, object) in catalog.objects(namespace) {
            if let Object::View(view) = object {
                let text = vec![some(DATABASE), some(namespace), some(name), some(&view.query)];
                rows.push(text, vec![]);
            }
        }
    }
    rows
}

/// Each key with the table it belongs to and whether it is the primary one.
fn keys(catalog: &Catalog) -> impl Iterator<Item = (&TableSchema, &Key, bool)> {
    catalog.tables().flat_map(|entry| {
        let table = entry.schema.as_ref();
        table.keys().map(move |key| (table, key, table.primary_key.as_ref() == Some(key)))
    })
}

fn table_constraints(catalog: &Catalog) -> Rows {
    let mut rows = Rows::new(
        &[
            "constraint_catalog",
            "constraint_schema",
            "constraint_name",
            "table_catalog",
            "table_schema",
            "table_name",
            "constraint_type",
            "is_deferrable",
            "initially_deferred",
        ],
        &[],
    );
    let mut push = |table: &TableSchema, name: &str, kind: &str| {
        let text = vec![
            some(DATABASE),
            some(&table.namespace),
            some(name),
            some(DATABASE),
            some(&table.namespace),
            some(&table.name),
            some(kind),
            yes(false),
            yes(false),
        ];
        rows.push(text, vec![]);
    };
    for (table, key, primary) in keys(catalog) {
        push(table, &key.name, if primary { "PRIMARY KEY" } else { "UNIQUE" });
    }
    for entry in catalog.tables() {
        for check in &entry.schema.checks {
            push(&entry.schema, &check.name, "CHECK");
        }
    }
    rows
}

fn key_column_usage(catalog: &Catalog) -> Rows {
    let mut rows = Rows::new(
        &[
            "constraint_catalog",
            "constraint_schema",
            "constraint_name",
            "table_catalog",
            "table_schema",
            "table_name",
            "column_name",
        ],
        &["ordinal_position"],
    );
    for (table, key, _) in keys(catalog) {
        for (index, position) in table.key_positions(key).into_iter().enumerate() {
            let text = vec![
                some(DATABASE),
                some(&table.namespace),
                some(&key.name),
                some(DATABASE),
                some(&table.namespace),
                some(&table.name),
                some(&table.columns[position].name),
            ];
            rows.push(text, vec![Some(index as i32 + 1)]);
        }
    }
    rows
}

fn check_constraints(catalog: &Catalog) -> Rows {
    let names = ["constraint_catalog", "constraint_schema", "constraint_name", "check_clause"];
    let mut rows = Rows::new(&names, &[]);
    for entry in catalog.tables() {
        for check in &entry.schema.checks {
            let namespace = &entry.schema.namespace;
            let text =
                vec![some(DATABASE), some(namespace), some(&check.name), some(&check.expression)];
            rows.push(text, vec![]);
        }
    }
    rows
}
