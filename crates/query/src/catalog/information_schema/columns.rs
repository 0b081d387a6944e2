//! `columns` and `element_types`.

use thalweg_txn::SequenceOptions;
use thalweg_types::{Column, DataType, Identity};
use thalweg_values::system_types::type_oid;
use thalweg_values::types::{arrow_field, from_field};

use super::role_visibility::RoleVisibility;
use super::yes_or_no;
use crate::catalog::DATABASE;
use crate::catalog::functions::shown_default;
use crate::catalog::objects::{PG_CATALOG, attribute_number, own_counter_options};
use crate::catalog::pg_catalog::Inputs;
use crate::catalog::pg_catalog::rows::{Rows, Value};
use crate::catalog::pg_catalog::types::BASE;
use crate::sequences::identity_sequence;

/// The longest text that PostgreSQL reports, in bytes.
const TEXT_BYTES_MAX: i64 = 1 << 30;

/// Bytes that one character may take.
const BYTES_PER_CHARACTER: i64 = 4;

/// One column of a table, a view or an external table.
struct Shown<'a> {
    namespace: &'a str,
    relation: &'a str,
    kind: &'static str,
    number: i64,
    name: &'a str,
    data_type: DataType,
    second_digits: Option<u8>,
    nullable: bool,
    default: Option<String>,
    identity: Option<&'a Column>,
}

/// Every column that the role may see, except those of `pg_catalog`.
fn every<'a>(inputs: &'a Inputs<'_>, visibility: &RoleVisibility<'_>) -> Vec<Shown<'a>> {
    let mut shown = Vec::new();
    for entry in inputs.lookup.catalog.tables() {
        let table = &entry.schema;
        shown.extend(table.columns.iter().map(|column| Shown {
            namespace: &table.namespace,
            relation: &table.name,
            kind: "TABLE",
            number: attribute_number(column.id),
            name: &column.name,
            data_type: column.data_type.clone(),
            second_digits: column.second_digits,
            nullable: column.nullable,
            default: column.declared_default().map(|text| shown_default(text, inputs.lookup)),
            identity: column.identity.map(|_| column),
        }));
    }
    for derived in inputs.derived {
        for (field, number) in derived.schema.fields().iter().zip(1..) {
            let Ok(data_type) = from_field(field) else { continue };
            shown.push(Shown {
                namespace: &derived.namespace,
                relation: &derived.name,
                kind: "TABLE",
                number,
                name: field.name(),
                data_type,
                second_digits: None,
                nullable: true,
                default: None,
                identity: None,
            });
        }
    }
    shown.retain(|column| visibility.columns(column.namespace, column.relation));
    shown
}

/// The options of an identity column's sequence.
fn identity_options(inputs: &Inputs<'_>, column: &Column) -> SequenceOptions {
    let sequence = identity_sequence(column).and_then(|id| inputs.lookup.catalog.sequence(id));
    match sequence {
        Some((_, _, sequence)) => sequence.options.clone(),
        None => own_counter_options(column),
    }
}

pub(super) fn columns(inputs: &Inputs<'_>, visibility: &RoleVisibility<'_>, rows: &mut Rows) {
    for column in every(inputs, visibility) {
        let Sizes { characters, bytes, digits, radix, scale, fraction } =
            Sizes::of(&column.data_type);
        let counter = column.identity;
        let always = |column: &Column| match column.identity {
            Some(Identity::Always) => "ALWAYS",
            _ => "BY DEFAULT",
        };
        let options = counter.map(|column| identity_options(inputs, column));
        let number = |of: fn(&SequenceOptions) -> i64| options.as_ref().map(of);
        let text = |number: Option<i64>| number.map(|number| number.to_string());
        rows.push([
            ("table_catalog", DATABASE.into()),
            ("table_schema", column.namespace.to_owned().into()),
            ("table_name", column.relation.to_owned().into()),
            ("column_name", column.name.to_owned().into()),
            ("ordinal_position", column.number.into()),
            ("column_default", column.default.into()),
            ("is_nullable", yes_or_no(column.nullable)),
            ("data_type", type_name(&column.data_type).into()),
            ("character_maximum_length", characters.into()),
            ("character_octet_length", bytes.into()),
            ("numeric_precision", digits.into()),
            ("numeric_precision_radix", radix.into()),
            ("numeric_scale", scale.into()),
            ("datetime_precision", column.second_digits.map(i64::from).or(fraction).into()),
            ("udt_catalog", DATABASE.into()),
            ("udt_schema", PG_CATALOG.into()),
            ("udt_name", internal_name(&column.data_type)),
            ("dtd_identifier", column.number.to_string().into()),
            ("is_self_referencing", yes_or_no(false)),
            ("is_identity", yes_or_no(counter.is_some())),
            ("identity_generation", counter.map(always).into()),
            ("identity_start", text(number(|options| options.start)).into()),
            ("identity_increment", text(number(|options| options.increment)).into()),
            ("identity_maximum", text(number(|options| options.max)).into()),
            ("identity_minimum", text(number(|options| options.min)).into()),
            ("identity_cycle", yes_or_no(options.as_ref().is_some_and(|options| options.cycles))),
            ("is_generated", "NEVER".into()),
            ("is_updatable", yes_or_no(true)),
        ]);
    }
}

/// The types of the items of arrays.
pub(super) fn element_types(inputs: &Inputs<'_>, visibility: &RoleVisibility<'_>, rows: &mut Rows) {
    for column in every(inputs, visibility) {
        let DataType::Array(item) = &column.data_type else { continue };
        rows.push([
            ("object_catalog", DATABASE.into()),
            ("object_schema", column.namespace.to_owned().into()),
            ("object_name", column.relation.to_owned().into()),
            ("object_type", column.kind.into()),
            ("collection_type_identifier", column.number.to_string().into()),
            ("data_type", type_name(item).into()),
            ("udt_catalog", DATABASE.into()),
            ("udt_schema", PG_CATALOG.into()),
            ("udt_name", internal_name(item)),
            ("dtd_identifier", format!("a{}", column.number).into()),
        ]);
    }
}

/// PostgreSQL's own name of the type: `int4`.
fn internal_name(data_type: &DataType) -> Value {
    let oid = i64::from(type_oid(&arrow_field("", data_type, true)));
    BASE.iter().find(|base| base.oid == oid).map(|base| base.name).into()
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

/// Size limits of a type's values.
#[derive(Default)]
struct Sizes {
    characters: Option<i64>,
    bytes: Option<i64>,
    digits: Option<i64>,
    /// Base in which the digits are counted: 2 for bits.
    radix: Option<i64>,
    scale: Option<i64>,
    /// Digits of fractional seconds.
    fraction: Option<i64>,
}

impl Sizes {
    fn of(data_type: &DataType) -> Sizes {
        let number = |digits: i64, radix: i64, scale: Option<i64>| Sizes {
            digits: Some(digits),
            radix: Some(radix),
            scale,
            ..Sizes::default()
        };
        let time = |fraction| Sizes { fraction: Some(fraction), ..Sizes::default() };
        match data_type {
            DataType::Text { max_chars: None } => {
                Sizes { bytes: Some(TEXT_BYTES_MAX), ..Sizes::default() }
            }
            DataType::Text { max_chars: Some(chars) } => Sizes {
                characters: Some(i64::from(*chars)),
                bytes: Some(i64::from(*chars) * BYTES_PER_CHARACTER),
                ..Sizes::default()
            },
            DataType::Int2 => number(16, 2, Some(0)),
            DataType::Int4 => number(32, 2, Some(0)),
            DataType::Int8 => number(64, 2, Some(0)),
            DataType::Float4 => number(24, 2, None),
            DataType::Float8 => number(53, 2, None),
            DataType::Decimal { precision, scale } => {
                number(i64::from(*precision), 10, Some(i64::from(*scale)))
            }
            DataType::Date => time(0),
            DataType::Time | DataType::Timestamp | DataType::Timestamptz | DataType::Interval => {
                time(6)
            }
            _ => Sizes::default(),
        }
    }
}
