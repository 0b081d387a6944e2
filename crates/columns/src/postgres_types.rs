//! The numbers, sizes and modifiers that PostgreSQL gives to types.

use thalweg_types::DataType;

use crate::NUMERIC_DEFAULT;

/// A scalar type of PostgreSQL 15's `pg_type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PostgresType {
    /// The name under [`TYPE_KEY`](crate::TYPE_KEY) if Arrow's type is ambiguous.
    pub name: &'static str,
    pub oid: u32,
    /// The number of the type's array, or 0 if there is none.
    pub array_oid: u32,
    /// Bytes of a value, -1 for a variable length and -2 for a C string. `None` if results describe
    /// values of the type as text.
    pub size: Option<i16>,
}

/// The type of texts, which also describes values of unsupported types.
pub const TEXT: PostgresType = sized("text", 25, 1009, -1);

const fn sized(name: &'static str, oid: u32, array_oid: u32, size: i16) -> PostgresType {
    PostgresType { name, oid, array_oid, size: Some(size) }
}

/// A type of the system catalog's columns that results describe as text.
const fn as_text(name: &'static str, oid: u32, array_oid: u32) -> PostgresType {
    PostgresType { name, oid, array_oid, size: None }
}

static POSTGRES_TYPES: [PostgresType; 43] = [
    sized("boolean", 16, 1000, 1),
    sized("bytea", 17, 1001, -1),
    sized("char", 18, 1002, 1),
    sized("name", 19, 1003, 64),
    sized("bigint", 20, 1016, 8),
    sized("smallint", 21, 1005, 2),
    sized("int2vector", 22, 1006, -1),
    sized("integer", 23, 1007, 4),
    sized("regproc", 24, 1008, 4),
    TEXT,
    sized("oid", 26, 1028, 4),
    sized("xid", 28, 1011, 4),
    as_text("cid", 29, 1012),
    sized("oidvector", 30, 1013, -1),
    sized("json", 114, 199, -1),
    sized("pg_node_tree", 194, 0, -1),
    sized("real", 700, 1021, 4),
    sized("double precision", 701, 1022, 8),
    sized("unknown", 705, 0, -2),
    as_text("inet", 869, 1041),
    as_text("aclitem", 1033, 1034),
    sized("bpchar", 1042, 1014, -1),
    sized("varchar", 1043, 1015, -1),
    sized("date", 1082, 1182, 4),
    sized("time", 1083, 1183, 8),
    sized("timestamp", 1114, 1115, 8),
    sized("timestamptz", 1184, 1185, 8),
    sized("interval", 1186, 1187, 16),
    sized("numeric", 1700, 1231, -1),
    as_text("regprocedure", 2202, 2207),
    as_text("regoper", 2203, 2208),
    as_text("regoperator", 2204, 2209),
    sized("regclass", 2205, 2210, 4),
    sized("regtype", 2206, 2211, 4),
    sized("record", 2249, 2287, -1),
    as_text("anyarray", 2277, 0),
    sized("uuid", 2950, 2951, 16),
    as_text("pg_lsn", 3220, 3221),
    sized("jsonb", 3802, 3807, -1),
    as_text("regnamespace", 4089, 4090),
    as_text("regrole", 4096, 4097),
    as_text("regcollation", 4191, 4192),
    as_text("xid8", 5069, 271),
];

impl PostgresType {
    #[must_use]
    pub fn named(name: &str) -> Option<&'static PostgresType> {
        POSTGRES_TYPES.iter().find(|known| known.name == name)
    }

    #[must_use]
    pub fn numbered(oid: u32) -> Option<&'static PostgresType> {
        POSTGRES_TYPES.iter().find(|known| known.oid == oid)
    }

    /// The type of the items of an array type.
    #[must_use]
    pub fn of_items(array_oid: u32) -> Option<&'static PostgresType> {
        POSTGRES_TYPES.iter().find(|known| known.array_oid == array_oid && array_oid != 0)
    }

    /// The column type that parameters of the type have; `None` for types without parameters.
    /// Lengths and digits are part of a column's type only.
    #[must_use]
    pub fn parameter_type(&self) -> Option<DataType> {
        Some(match self.name {
            "boolean" => DataType::Boolean,
            "bytea" => DataType::Bytea,
            "smallint" => DataType::Int2,
            "integer" => DataType::Int4,
            "bigint" | "oid" | "regclass" | "regtype" | "regproc" | "xid" => DataType::Int8,
            "real" => DataType::Float4,
            "double precision" => DataType::Float8,
            "numeric" => {
                let (precision, scale) = NUMERIC_DEFAULT;
                DataType::Decimal { precision, scale }
            }
            "date" => DataType::Date,
            "time" => DataType::Time,
            "timestamp" => DataType::Timestamp,
            "timestamptz" => DataType::Timestamptz,
            "interval" => DataType::Interval,
            "uuid" => DataType::Uuid,
            "json" => DataType::Json,
            "jsonb" => DataType::Jsonb,
            "text" | "bpchar" | "varchar" | "char" | "name" => DataType::Text { max_chars: None },
            _ => return None,
        })
    }
}

/// PostgreSQL's type of a column's values, or of the innermost items of an array.
#[must_use]
pub fn postgres_type(data_type: &DataType) -> &'static PostgresType {
    let name = match data_type {
        DataType::Boolean => "boolean",
        DataType::Int2 => "smallint",
        DataType::Int4 => "integer",
        DataType::Int8 => "bigint",
        DataType::Float4 => "real",
        DataType::Float8 => "double precision",
        DataType::Decimal { .. } => "numeric",
        DataType::Text { max_chars: None } => "text",
        DataType::Text { max_chars: Some(_) } => "varchar",
        DataType::Bytea => "bytea",
        DataType::Date => "date",
        DataType::Time => "time",
        DataType::Timestamp => "timestamp",
        DataType::Timestamptz => "timestamptz",
        DataType::Interval => "interval",
        DataType::Uuid => "uuid",
        DataType::Json => "json",
        DataType::Jsonb => "jsonb",
        DataType::Array(item) => return postgres_type(item),
    };
    PostgresType::named(name).expect("the table has every type that columns have")
}

/// The number that PostgreSQL gives to a type of columns. An array of arrays has the number of an
/// array.
#[must_use]
pub fn column_type_oid(data_type: &DataType) -> u32 {
    match data_type {
        DataType::Array(_) => postgres_type(data_type).array_oid,
        _ => postgres_type(data_type).oid,
    }
}

/// A modifier contains the length of a value's header.
const HEADER: i32 = 4;

/// The modifier of `varchar(chars)`; -1 if the length is too large for one.
#[must_use]
pub fn varchar_modifier(chars: u32) -> i32 {
    i32::try_from(chars).ok().and_then(|chars| chars.checked_add(HEADER)).unwrap_or(-1)
}

/// The modifier of `numeric(precision, scale)`. The scale must not be negative.
#[must_use]
pub fn numeric_modifier(precision: u8, scale: i8) -> i32 {
    ((i32::from(precision) << 16) | i32::from(scale)) + HEADER
}

/// The modifier of a column's type, from its length or its digits; -1 if the type has none. An
/// array has the modifier of its items.
#[must_use]
pub fn column_type_modifier(data_type: &DataType) -> i32 {
    match data_type {
        DataType::Text { max_chars: Some(chars) } => varchar_modifier(*chars),
        DataType::Decimal { precision, scale } => numeric_modifier(*precision, *scale),
        DataType::Array(item) => column_type_modifier(item),
        _ => -1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_are_unique() {
        for known in &POSTGRES_TYPES {
            assert_eq!(PostgresType::named(known.name), Some(known));
            assert_eq!(PostgresType::numbered(known.oid), Some(known));
            if known.array_oid != 0 {
                assert_eq!(PostgresType::of_items(known.array_oid), Some(known));
                assert_eq!(PostgresType::numbered(known.array_oid), None);
            }
        }
        assert_eq!(PostgresType::of_items(0), None);
    }

    #[test]
    fn a_parameter_of_a_columns_type_has_that_type() {
        for known in &POSTGRES_TYPES {
            let Some(data_type) = known.parameter_type() else { continue };
            let own = postgres_type(&data_type).name;
            let is_alias = matches!(
                known.name,
                "oid"
                    | "regclass"
                    | "regtype"
                    | "regproc"
                    | "xid"
                    | "bpchar"
                    | "varchar"
                    | "char"
                    | "name"
            );
            assert!(own == known.name || is_alias, "{}", known.name);
            let array = DataType::Array(Box::new(DataType::Array(Box::new(data_type))));
            assert_eq!(column_type_oid(&array), postgres_type(&array).array_oid);
        }
    }

    #[test]
    fn modifiers_are_those_of_postgres() {
        assert_eq!(varchar_modifier(40), 44);
        assert_eq!(varchar_modifier(u32::MAX), -1);
        assert_eq!(numeric_modifier(12, 2), 786_438);
        assert_eq!(column_type_modifier(&DataType::Int4), -1);
    }
}
