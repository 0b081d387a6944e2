//! The relations of `pg_catalog` with their columns: those of PostgreSQL 15, and a few of Thalweg's
//! own.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use arrow::datatypes::{DataType as ArrowType, Field, Schema, SchemaRef};
use thalweg_types::DataType;
use thalweg_values::system_types::SystemType;
use thalweg_values::types::arrow_field;

/// A relation a line, `name oid kind`, and its columns in the indented lines below: `name type`,
/// with `?` behind the type of a column that may be NULL.
const RELATIONS: &str = include_str!("relations.txt");

/// Relations without a counterpart in PostgreSQL, in the same form.
const OWN: &str = include_str!("own.txt");

pub(in crate::catalog) struct Relation {
    pub(in crate::catalog) name: &'static str,
    pub(in crate::catalog) oid: i64,
    /// `r` for a table, `v` for a view, `-` for a function's result, which no table lists.
    pub(in crate::catalog) kind: &'static str,
    pub(in crate::catalog) schema: SchemaRef,
}

/// Every relation of `pg_catalog` by name.
pub(in crate::catalog) static ALL: LazyLock<BTreeMap<&'static str, Relation>> =
    LazyLock::new(|| {
        let mut all = parse(RELATIONS);
        all.append(&mut parse(OWN));
        all
    });

/// Reads relations in the form of [`RELATIONS`].
pub(in crate::catalog) fn parse(text: &'static str) -> BTreeMap<&'static str, Relation> {
    let mut relations = BTreeMap::new();
    let mut lines = text.lines().peekable();
    while let Some(head) = lines.next() {
        let mut columns = String::new();
        while let Some(line) = lines.next_if(|line| line.starts_with(' ')) {
            columns.push_str(line);
        }
        let relation = relation(head, &columns);
        relations.insert(relation.name, relation);
    }
    relations
}

fn relation(head: &'static str, columns: &str) -> Relation {
    let mut parts = head.split(' ');
    let mut part = || parts.next().expect("a relation has a name, a number and a kind");
    let (name, oid, kind) = (part(), part(), part());
    let oid = oid.parse().expect("a relation's number is a number");
    let fields: Vec<Field> = columns.split(',').map(|column| field(column.trim())).collect();
    Relation { name, oid, kind, schema: Arc::new(Schema::new(fields)) }
}

/// The field of `name type`.
fn field(column: &str) -> Field {
    let mut words = column.split_whitespace();
    let name = words.next().expect("a column has a name");
    let type_name = words.next().expect("a column has a type");
    let plain = type_name.trim_end_matches('?');
    let nullable = plain.len() < type_name.len();
    match plain.strip_suffix("[]") {
        Some(item) => {
            let item = typed(Field::LIST_FIELD_DEFAULT_NAME, item, true);
            Field::new(name, ArrowType::List(Arc::new(item)), nullable)
        }
        None => typed(name, plain, nullable),
    }
}

fn typed(name: &str, type_name: &str, nullable: bool) -> Field {
    if let Some(system) = SystemType::named(type_name) {
        return system.field(name, nullable);
    }
    let data_type = match type_name {
        "bool" => DataType::Boolean,
        "int2" => DataType::Int2,
        "int4" => DataType::Int4,
        "int8" => DataType::Int8,
        "float4" => DataType::Float4,
        "float8" => DataType::Float8,
        "numeric" => DataType::Decimal { precision: 38, scale: 10 },
        "text" => DataType::Text { max_chars: None },
        "bytea" => DataType::Bytea,
        "timestamptz" => DataType::Timestamptz,
        "interval" => DataType::Interval,
        other => unreachable!("{name} has the type {other}, which no relation uses"),
    };
    arrow_field(name, &data_type, nullable)
}
