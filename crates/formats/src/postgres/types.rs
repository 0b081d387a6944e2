//! Maps Arrow fields to PostgreSQL's types.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, IntervalUnit, TimeUnit};

use crate::columns::{JSON, JSONB, UUID, storable, tagged, type_tag};

/// A type in the form of `RowDescription`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Type {
    pub oid: u32,
    /// Bytes of a value, or -1 for a variable length.
    pub size: i16,
    /// The declared length, or precision and scale, in PostgreSQL's packing; -1 for none.
    pub modifier: i32,
}

/// A scalar type: its name under `TYPE_KEY` if Arrow's type is ambiguous, its object identifier,
/// that of its array, and the size of a value. From PostgreSQL 15's `pg_type`.
struct Known {
    name: &'static str,
    oid: u32,
    array: u32,
    size: i16,
}

/// The precision and scale that represent `numeric` without either.
const PLAIN_NUMERIC: (u8, i8) = (38, 10);

const fn known(name: &'static str, oid: u32, array: u32, size: i16) -> Known {
    Known { name, oid, array, size }
}

const KNOWN: [Known; 31] = [
    known("boolean", 16, 1000, 1),
    known("bytea", 17, 1001, -1),
    known("char", 18, 1002, 1),
    known("name", 19, 1003, 64),
    known("bigint", 20, 1016, 8),
    known("smallint", 21, 1005, 2),
    known("int2vector", 22, 1006, -1),
    known("integer", 23, 1007, 4),
    known("regproc", 24, 1008, 4),
    known("text", 25, 1009, -1),
    known("oid", 26, 1028, 4),
    known("xid", 28, 1011, 4),
    known("oidvector", 30, 1013, -1),
    known("json", 114, 199, -1),
    known("pg_node_tree", 194, 0, -1),
    known("real", 700, 1021, 4),
    known("double precision", 701, 1022, 8),
    known("unknown", 705, 0, -2),
    known("bpchar", 1042, 1014, -1),
    known("varchar", 1043, 1015, -1),
    known("date", 1082, 1182, 4),
    known("time", 1083, 1183, 8),
    known("timestamp", 1114, 1115, 8),
    known("timestamptz", 1184, 1185, 8),
    known("interval", 1186, 1187, 16),
    known("numeric", 1700, 1231, -1),
    known("regclass", 2205, 2210, 4),
    known("regtype", 2206, 2211, 4),
    known("record", 2249, 2287, -1),
    known("uuid", 2950, 2951, 16),
    known("jsonb", 3802, 3807, -1),
];

fn named(name: &str) -> &'static Known {
    KNOWN.iter().find(|known| known.name == name).unwrap_or(&KNOWN[9])
}

impl Type {
    /// The PostgreSQL type of a field. Types without a counterpart are described as text.
    #[must_use]
    pub fn of(field: &Field) -> Type {
        if let DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) =
            field.data_type()
        {
            return Type { oid: array_oid(item), size: -1, modifier: -1 };
        }
        let (known, modifier) = scalar(field);
        Type { oid: known.oid, size: known.size, modifier }
    }
}

/// The identifier of an array's type; arrays of arrays use that of their innermost items.
fn array_oid(item: &Field) -> u32 {
    match item.data_type() {
        DataType::List(inner) | DataType::LargeList(inner) | DataType::FixedSizeList(inner, _) => {
            array_oid(inner)
        }
        _ => scalar(item).0.array,
    }
}

fn scalar(field: &Field) -> (&'static Known, i32) {
    if let Some(tag) = type_tag(field) {
        if let Some(chars) = tag.strip_prefix("character varying(") {
            let chars: i32 = chars.trim_end_matches(')').parse().unwrap_or(-5);
            return (named("varchar"), chars + 4);
        }
        return (named(tag), -1);
    }
    let known = match field.data_type() {
        DataType::Boolean => "boolean",
        DataType::Int8 | DataType::UInt8 | DataType::Int16 => "smallint",
        DataType::UInt16 | DataType::Int32 => "integer",
        DataType::UInt32 | DataType::Int64 => "bigint",
        DataType::Float16 | DataType::Float32 => "real",
        DataType::Float64 => "double precision",
        DataType::Decimal32(precision, scale)
        | DataType::Decimal64(precision, scale)
        | DataType::Decimal128(precision, scale)
        | DataType::Decimal256(precision, scale) => {
            return (named("numeric"), numeric_modifier(*precision, *scale));
        }
        DataType::UInt64 => "numeric",
        DataType::Binary
        | DataType::LargeBinary
        | DataType::BinaryView
        | DataType::FixedSizeBinary(_) => "bytea",
        DataType::Date32 => "date",
        DataType::Time32(_) | DataType::Time64(_) => "time",
        DataType::Date64 | DataType::Timestamp(_, None) => "timestamp",
        DataType::Timestamp(_, Some(_)) => "timestamptz",
        DataType::Interval(_) | DataType::Duration(_) => "interval",
        DataType::Dictionary(_, _) | DataType::RunEndEncoded(_, _) => {
            return storable(field).map_or((named("text"), -1), |field| scalar(&field));
        }
        DataType::Struct(_) => "record",
        // PostgreSQL has no maps and no unions.
        _ => "text",
    };
    (named(known), -1)
}

/// Precision and scale in PostgreSQL's packing; -1 for plain `numeric`, and for scales that only
/// numbers with an exponent have.
fn numeric_modifier(precision: u8, scale: i8) -> i32 {
    if (precision, scale) == PLAIN_NUMERIC || scale < 0 {
        return -1;
    }
    ((i32::from(precision) << 16) | (i32::from(scale) & 0x7ff)) + 4
}

/// The field of a parameter of this type; `None` for an unsupported type, and for `unknown`, which
/// leaves the type open.
#[must_use]
pub fn field_of_oid(oid: u32) -> Option<FieldRef> {
    if let Some(known) = KNOWN.iter().find(|known| known.oid == oid) {
        return field_named(known.name).map(Arc::new);
    }
    let known = KNOWN.iter().find(|known| known.array == oid && known.array != 0)?;
    let item = field_named(known.name)?.with_name("item");
    Some(Arc::new(Field::new("", DataType::List(Arc::new(item)), true)))
}

/// The field with the name of the type that a client declares; `None` if values of that type have
/// another representation.
#[must_use]
pub fn field_declared(field: &FieldRef, oid: u32) -> Option<FieldRef> {
    if Type::of(field).oid == oid {
        return Some(FieldRef::clone(field));
    }
    if let DataType::List(_) = field.data_type() {
        let item = KNOWN.iter().find(|known| known.array == oid && known.array != 0)?.oid;
        let item = field_declared(innermost(field), item)?;
        return Some(nest(field, &item));
    }
    let known = KNOWN.iter().find(|known| known.oid == oid)?;
    let declared = field_named(known.name)?;
    let is_alike = match (field.data_type(), declared.data_type()) {
        (DataType::Decimal128(..) | DataType::Decimal256(..), DataType::Decimal128(..)) => true,
        (one, other) => one == other && plain_tag(field) == type_tag(&declared),
    };
    is_alike.then(|| Arc::new(tagged(field.as_ref().clone(), known.name)))
}

/// The field from which a field's columns are built. Drops the names of types that are only aliases
/// of others.
pub(super) fn built(field: &FieldRef) -> FieldRef {
    if let DataType::List(_) = field.data_type() {
        return nest(field, &built(innermost(field)));
    }
    let plain = match (plain_tag(field), type_tag(field)) {
        (plain, tag) if plain == tag => return FieldRef::clone(field),
        (Some(plain), _) => tagged(field.as_ref().clone(), plain),
        (None, _) => field.as_ref().clone().with_metadata([].into()),
    };
    Arc::new(plain)
}

/// A field's tag, if it constrains values and is not only a name.
fn plain_tag(field: &Field) -> Option<&str> {
    let tag = type_tag(field)?;
    let is_kept = [UUID, JSON, JSONB].contains(&tag) || tag.starts_with("character varying(");
    is_kept.then_some(tag)
}

/// The items of an array of arrays.
pub(super) fn innermost(field: &FieldRef) -> &FieldRef {
    match field.data_type() {
        DataType::List(item) => innermost(item),
        _ => field,
    }
}

/// Replaces the innermost items of nested arrays.
fn nest(field: &FieldRef, innermost: &FieldRef) -> FieldRef {
    match field.data_type() {
        DataType::List(item) => {
            let list = DataType::List(nest(item, innermost));
            Arc::new(field.as_ref().clone().with_data_type(list))
        }
        _ => Arc::clone(innermost),
    }
}

fn field_named(name: &str) -> Option<Field> {
    let plain = |data_type| Field::new("", data_type, true);
    Some(match name {
        "boolean" => plain(DataType::Boolean),
        "bytea" => plain(DataType::BinaryView),
        "smallint" => plain(DataType::Int16),
        "integer" => plain(DataType::Int32),
        "bigint" | "oid" | "regclass" | "regtype" | "regproc" | "xid" => plain(DataType::Int64),
        "real" => plain(DataType::Float32),
        "double precision" => plain(DataType::Float64),
        "numeric" => plain(DataType::Decimal128(PLAIN_NUMERIC.0, PLAIN_NUMERIC.1)),
        "date" => plain(DataType::Date32),
        "time" => plain(DataType::Time64(TimeUnit::Microsecond)),
        "timestamp" => plain(DataType::Timestamp(TimeUnit::Microsecond, None)),
        "timestamptz" => plain(DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()))),
        "interval" => plain(DataType::Interval(IntervalUnit::MonthDayNano)),
        "uuid" => tagged(plain(DataType::Utf8View), UUID),
        "json" => tagged(plain(DataType::Utf8View), JSON),
        "jsonb" => tagged(plain(DataType::Utf8View), JSONB),
        "text" | "bpchar" | "varchar" | "char" | "name" => plain(DataType::Utf8View),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_known_parameter_type_is_described_as_itself() {
        for (oid, described) in [
            (16, 16),
            (17, 17),
            (20, 20),
            (23, 23),
            (25, 25),
            (1043, 25),
            (1700, 1700),
            (2950, 2950),
            (114, 114),
            (3802, 3802),
            (3807, 3807),
            (1007, 1007),
            (2951, 2951),
            (1184, 1184),
        ] {
            let field = field_of_oid(oid).unwrap();
            assert_eq!(Type::of(&field).oid, described, "{oid}");
        }
        assert!(field_of_oid(705).is_none());
        assert!(field_of_oid(600).is_none());
    }

    #[test]
    fn parameters_are_called_what_clients_call_them() {
        for (oid, declared) in [
            (20, 26),
            (20, 2205),
            (25, 1043),
            (25, 1042),
            (25, 19),
            (3802, 3802),
            (1700, 1700),
            (1016, 1028),
            (1009, 1015),
            (3807, 3807),
        ] {
            let field = field_of_oid(oid).unwrap();
            let called = field_declared(&field, declared).unwrap();
            assert_eq!(Type::of(&called).oid, declared);
            assert_eq!(built(&called), built(&field));
            assert_eq!(built(&field), field);
        }
        for (oid, declared) in [
            (20, 23),
            (25, 2950),
            (25, 114),
            (114, 3802),
            (3807, 199),
            (1016, 26),
            (20, 1016),
            (25, 9),
        ] {
            assert!(field_declared(&field_of_oid(oid).unwrap(), declared).is_none());
        }
    }

    #[test]
    fn a_declared_length_is_told() {
        let field = tagged(Field::new("c", DataType::Utf8View, true), "character varying(7)");
        assert_eq!(Type::of(&field), Type { oid: 1043, size: -1, modifier: 11 });
        // Expects the value of `atttypmod` in PostgreSQL's `pg_attribute`.
        for (precision, scale, modifier) in [(5, 2, 327_686), (20, 0, 1_310_724), (38, 10, -1)] {
            let field = Field::new("c", DataType::Decimal128(precision, scale), true);
            assert_eq!(Type::of(&field), Type { oid: 1700, size: -1, modifier });
        }
    }
}
