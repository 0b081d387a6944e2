//! The types that only PostgreSQL's own catalog uses, and the numbers that it gives to all types.
//!
//! Arrow has none of them. A column of such a type has a plain Arrow type, and its field names the
//! type under [`TYPE_KEY`], as for `uuid` and `json`:
//!
//! | type | in Arrow |
//! | --- | --- |
//! | `oid`, `xid`, `cid`, `xid8` | `Int64` |
//! | `regclass`, `regtype`, `regproc`, … | `Int64`, the object's number, while a query runs |
//! | `name`, `"char"` (as `char`), `pg_node_tree`, `aclitem`, … | `Utf8View` |
//! | `int2vector`, `oidvector` | `List` of `Int16`, of `Int64`, while a query runs |
//!
//! A finished result holds `reg…` types and vectors as the text that PostgreSQL shows for them; the
//! field still names the type. Encoders of results for PostgreSQL's clients call [`type_oid`] and
//! [`type_modifier`] for each field.

use std::sync::Arc;

use arrow::datatypes::{DataType as ArrowType, Field};
use datafusion::sql::sqlparser::ast::{ArrayElemTypeDef, DataType as SqlType, ObjectName};
use thalweg_types::DataType;

use crate::types::{TYPE_KEY, column_type, from_field, respelled, sql_type};

/// A type of `pg_catalog`'s columns that no table can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SystemType {
    Oid,
    Xid,
    Xid8,
    Cid,
    Name,
    Char,
    NodeTree,
    AclItem,
    AnyArray,
    Inet,
    Lsn,
    Int2Vector,
    OidVector,
    Registered(Registered),
}

/// The kind of object that a number shown by its name refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Registered {
    Class,
    Type,
    Procedure,
    ProcedureWithArguments,
    Namespace,
    Role,
    Operator,
    OperatorWithArguments,
    Collation,
}

/// Each type with its name, its number and the number of its array.
const SYSTEM_TYPES: [(SystemType, &str, u32, u32); 22] = [
    (SystemType::Oid, "oid", 26, 1028),
    (SystemType::Xid, "xid", 28, 1011),
    (SystemType::Xid8, "xid8", 5069, 271),
    (SystemType::Cid, "cid", 29, 1012),
    (SystemType::Name, "name", 19, 1003),
    (SystemType::Char, "char", 18, 1002),
    (SystemType::NodeTree, "pg_node_tree", 194, 0),
    (SystemType::AclItem, "aclitem", 1033, 1034),
    (SystemType::AnyArray, "anyarray", 2277, 0),
    (SystemType::Inet, "inet", 869, 1041),
    (SystemType::Lsn, "pg_lsn", 3220, 3221),
    (SystemType::Int2Vector, "int2vector", 22, 1006),
    (SystemType::OidVector, "oidvector", 30, 1013),
    (SystemType::Registered(Registered::Class), "regclass", 2205, 2210),
    (SystemType::Registered(Registered::Type), "regtype", 2206, 2211),
    (SystemType::Registered(Registered::Procedure), "regproc", 24, 1008),
    (SystemType::Registered(Registered::ProcedureWithArguments), "regprocedure", 2202, 2207),
    (SystemType::Registered(Registered::Namespace), "regnamespace", 4089, 4090),
    (SystemType::Registered(Registered::Role), "regrole", 4096, 4097),
    (SystemType::Registered(Registered::Operator), "regoper", 2203, 2208),
    (SystemType::Registered(Registered::OperatorWithArguments), "regoperator", 2204, 2209),
    (SystemType::Registered(Registered::Collation), "regcollation", 4191, 4192),
];

impl SystemType {
    /// The type of this name, as [`name`](SystemType::name) gives it.
    #[must_use]
    pub fn named(name: &str) -> Option<SystemType> {
        SYSTEM_TYPES.iter().find(|known| known.1 == name).map(|known| known.0)
    }

    /// The type that an SQL type name stands for.
    #[must_use]
    pub fn from_sql(sql: &SqlType) -> Option<SystemType> {
        match sql {
            SqlType::Regclass => Some(SystemType::Registered(Registered::Class)),
            SqlType::Custom(name, modifiers) if modifiers.is_empty() => from_name(name),
            _ => None,
        }
    }

    /// The type of a field, if it is one of these.
    #[must_use]
    pub fn of(field: &Field) -> Option<SystemType> {
        SystemType::named(field.metadata().get(TYPE_KEY)?)
    }

    /// PostgreSQL's name of the type.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.row().1
    }

    /// The name as SQL spells it.
    #[must_use]
    pub fn display_name(self) -> &'static str {
        match self {
            SystemType::Char => "\"char\"",
            other => other.name(),
        }
    }

    /// A field whose values are of the type.
    #[must_use]
    pub fn field(self, name: &str, nullable: bool) -> Field {
        let metadata = [(TYPE_KEY.to_owned(), self.name().to_owned())];
        Field::new(name, self.arrow_type(), nullable).with_metadata(metadata.into())
    }

    /// The type of its values in Arrow, while a query runs.
    #[must_use]
    pub fn arrow_type(self) -> ArrowType {
        match self {
            SystemType::Oid
            | SystemType::Xid
            | SystemType::Xid8
            | SystemType::Cid
            | SystemType::Registered(_) => ArrowType::Int64,
            SystemType::Int2Vector => ArrowType::new_list(ArrowType::Int16, true),
            SystemType::OidVector => ArrowType::List(Arc::new(
                SystemType::Oid.field(Field::LIST_FIELD_DEFAULT_NAME, true),
            )),
            _ => ArrowType::Utf8View,
        }
    }

    /// True if Arrow holds values as clients send and read them: as numbers and texts, neither of
    /// which stands for something else.
    #[must_use]
    pub fn is_plain(self) -> bool {
        !self.is_vector()
            && !matches!(
                self,
                SystemType::Registered(_) | SystemType::AnyArray | SystemType::NodeTree
            )
    }

    /// True if the type is an array that counts from 0 and is written without braces.
    #[must_use]
    pub fn is_vector(self) -> bool {
        matches!(self, SystemType::Int2Vector | SystemType::OidVector)
    }

    fn row(self) -> &'static (SystemType, &'static str, u32, u32) {
        let found = SYSTEM_TYPES.iter().find(|known| known.0 == self);
        found.expect("every type has its row in the table")
    }
}

/// `char` is another type where it is quoted: the parser leaves only the quoted one to us.
fn from_name(name: &ObjectName) -> Option<SystemType> {
    let last = name.0.last()?.as_ident()?;
    match last.value.to_ascii_lowercase().as_str() {
        "char" => Some(SystemType::Char),
        other => SystemType::named(other),
    }
}

/// The field that a cast to one of these types, or to an array of one, is planned with.
#[must_use]
pub fn planned_field(sql: &SqlType) -> Option<Field> {
    if let Some(plain) = respelled(sql) {
        return planned_field(&plain);
    }
    if let Some(system) = SystemType::from_sql(sql) {
        return Some(system.field("", true));
    }
    let SqlType::Array(
        ArrayElemTypeDef::SquareBracket(item, _)
        | ArrayElemTypeDef::AngleBracket(item)
        | ArrayElemTypeDef::Parenthesis(item),
    ) = sql
    else {
        return None;
    };
    let item = SystemType::from_sql(item)?.field(Field::LIST_FIELD_DEFAULT_NAME, true);
    Some(Field::new("", ArrowType::List(Arc::new(item)), true))
}

/// The number of the type that SQL spells so: `character varying(20)[]`; `None` if none is.
#[must_use]
pub fn named_type_oid(text: &str) -> Option<u32> {
    let sql = sql_type(text)?;
    match planned_field(&sql) {
        Some(field) => Some(type_oid(&field)),
        None => column_type(&sql).ok().map(|data_type| column_type_oid(&data_type)),
    }
}

/// PostgreSQL's number for the type of a field; the number of `text` for types that it does not
/// have.
#[must_use]
pub fn type_oid(field: &Field) -> u32 {
    if let Some(system) = SystemType::of(field) {
        return system.row().2;
    }
    match field.data_type() {
        ArrowType::List(item) | ArrowType::LargeList(item) | ArrowType::FixedSizeList(item, _) => {
            array_oid(item)
        }
        _ => from_field(field).map_or(TEXT, |data_type| numbers(&data_type).0),
    }
}

/// An array of arrays has the type of an array.
fn array_oid(item: &Field) -> u32 {
    if let Some(system) = SystemType::of(item) {
        return system.row().3;
    }
    match item.data_type() {
        ArrowType::List(_) | ArrowType::LargeList(_) | ArrowType::FixedSizeList(_, _) => {
            type_oid(item)
        }
        _ => from_field(item).map_or(TEXT_ARRAY, |data_type| numbers(&data_type).1),
    }
}

const TEXT: u32 = 25;
const TEXT_ARRAY: u32 = 1009;

/// The number that PostgreSQL gives to a type of columns.
#[must_use]
pub fn column_type_oid(data_type: &DataType) -> u32 {
    match data_type {
        DataType::Array(item) => match item.as_ref() {
            DataType::Array(_) => column_type_oid(item),
            item => numbers(item).1,
        },
        plain => numbers(plain).0,
    }
}

/// The numbers of a type, and of an array of it.
fn numbers(data_type: &DataType) -> (u32, u32) {
    match data_type {
        DataType::Boolean => (16, 1000),
        DataType::Int2 => (21, 1005),
        DataType::Int4 => (23, 1007),
        DataType::Int8 => (20, 1016),
        DataType::Float4 => (700, 1021),
        DataType::Float8 => (701, 1022),
        DataType::Decimal { .. } => (1700, 1231),
        DataType::Text { max_chars: None } => (TEXT, TEXT_ARRAY),
        DataType::Text { max_chars: Some(_) } => (1043, 1015),
        DataType::Bytea => (17, 1001),
        DataType::Date => (1082, 1182),
        DataType::Time => (1083, 1183),
        DataType::Timestamp => (1114, 1115),
        DataType::Timestamptz => (1184, 1185),
        DataType::Interval => (1186, 1187),
        DataType::Uuid => (2950, 2951),
        DataType::Json => (114, 199),
        DataType::Jsonb => (3802, 3807),
        DataType::Array(item) => {
            let array = column_type_oid(&DataType::Array(item.clone()));
            (array, array)
        }
    }
}

/// PostgreSQL's modifier of a field's type: the length of `varchar(n)`, the digits of
/// `numeric(p,s)`; -1 if the type has none.
#[must_use]
pub fn type_modifier(field: &Field) -> i32 {
    match SystemType::of(field) {
        Some(_) => -1,
        None => from_field(field).map_or(-1, |data_type| column_type_modifier(&data_type)),
    }
}

/// As [`type_modifier`], for a type of columns.
#[must_use]
pub fn column_type_modifier(data_type: &DataType) -> i32 {
    /// The length of a value's header counts in.
    const HEADER: i32 = 4;
    match data_type {
        DataType::Text { max_chars: Some(chars) } => {
            i32::try_from(*chars).map_or(-1, |chars| chars + HEADER)
        }
        DataType::Decimal { precision, scale } => {
            ((i32::from(*precision) << 16) | i32::from(*scale)) + HEADER
        }
        DataType::Array(item) => column_type_modifier(item),
        _ => -1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::arrow_field;

    #[test]
    fn a_field_tells_its_type() {
        for (system, name, oid, _) in SYSTEM_TYPES {
            let field = system.field("c", true);
            assert_eq!(SystemType::of(&field), Some(system), "{name}");
            assert_eq!(type_oid(&field), oid, "{name}");
            assert_eq!(type_modifier(&field), -1, "{name}");
        }
    }

    #[test]
    fn arrays_have_numbers_of_their_own() {
        let items = Arc::new(SystemType::Oid.field("item", true));
        assert_eq!(type_oid(&Field::new("c", ArrowType::List(items), true)), 1028);
        let text = DataType::Text { max_chars: None };
        let texts = DataType::Array(Box::new(text));
        assert_eq!(type_oid(&arrow_field("c", &texts, true)), 1009);
        let nested = DataType::Array(Box::new(texts));
        assert_eq!(type_oid(&arrow_field("c", &nested, true)), 1009);
        assert_eq!(column_type_oid(&nested), 1009);
    }

    #[test]
    fn modifiers_are_those_of_postgres() {
        let varchar = DataType::Text { max_chars: Some(40) };
        assert_eq!(type_modifier(&arrow_field("c", &varchar, true)), 44);
        let numeric = DataType::Decimal { precision: 12, scale: 2 };
        assert_eq!(type_modifier(&arrow_field("c", &numeric, true)), 786_438);
        assert_eq!(type_modifier(&arrow_field("c", &DataType::Int4, true)), -1);
    }
}
