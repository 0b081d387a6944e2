//! Maps Arrow fields to PostgreSQL's types.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef};
use thalweg_columns::{NUMERIC_DEFAULT, PostgresType, TEXT, arrow_field, numeric_modifier};

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

/// The type of this name, if results describe it as itself; otherwise `text`.
fn named(name: &str) -> &'static PostgresType {
    static TEXT_TYPE: PostgresType = TEXT;
    PostgresType::named(name).filter(|known| known.size.is_some()).unwrap_or(&TEXT_TYPE)
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
        Type { oid: known.oid, size: known.size.unwrap_or(-1), modifier }
    }
}

/// The identifier of an array's type; arrays of arrays use that of their innermost items.
fn array_oid(item: &Field) -> u32 {
    match item.data_type() {
        DataType::List(inner) | DataType::LargeList(inner) | DataType::FixedSizeList(inner, _) => {
            array_oid(inner)
        }
        _ => scalar(item).0.array_oid,
    }
}

fn scalar(field: &Field) -> (&'static PostgresType, i32) {
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
            return (named("numeric"), modifier_of_digits(*precision, *scale));
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
fn modifier_of_digits(precision: u8, scale: i8) -> i32 {
    match (precision, scale) == NUMERIC_DEFAULT || scale < 0 {
        true => -1,
        false => numeric_modifier(precision, scale),
    }
}

/// The field of a parameter of this type; `None` for an unsupported type, and for `unknown`, which
/// leaves the type open.
#[must_use]
pub fn field_of_oid(oid: u32) -> Option<FieldRef> {
    if let Some(known) = PostgresType::numbered(oid) {
        return field_of(known).map(Arc::new);
    }
    let item = field_of(PostgresType::of_items(oid)?)?.with_name("item");
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
        let item = PostgresType::of_items(oid)?.oid;
        let item = field_declared(innermost(field), item)?;
        return Some(nest(field, &item));
    }
    let known = PostgresType::numbered(oid)?;
    let declared = field_of(known)?;
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

/// The field of parameters of this type.
fn field_of(known: &PostgresType) -> Option<Field> {
    known.parameter_type().map(|data_type| arrow_field("", &data_type, true))
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
