//! The types that only PostgreSQL's own catalog uses, and the numbers of fields' types.
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
use thalweg_columns::{PostgresType, TEXT, postgres_type};
pub use thalweg_columns::{column_type_modifier, column_type_oid};

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

/// Each type with its name, under which `thalweg-columns` has its numbers.
const SYSTEM_TYPES: [(SystemType, &str); 22] = [
    (SystemType::Oid, "oid"),
    (SystemType::Xid, "xid"),
    (SystemType::Xid8, "xid8"),
    (SystemType::Cid, "cid"),
    (SystemType::Name, "name"),
    (SystemType::Char, "char"),
    (SystemType::NodeTree, "pg_node_tree"),
    (SystemType::AclItem, "aclitem"),
    (SystemType::AnyArray, "anyarray"),
    (SystemType::Inet, "inet"),
    (SystemType::Lsn, "pg_lsn"),
    (SystemType::Int2Vector, "int2vector"),
    (SystemType::OidVector, "oidvector"),
    (SystemType::Registered(Registered::Class), "regclass"),
    (SystemType::Registered(Registered::Type), "regtype"),
    (SystemType::Registered(Registered::Procedure), "regproc"),
    (SystemType::Registered(Registered::ProcedureWithArguments), "regprocedure"),
    (SystemType::Registered(Registered::Namespace), "regnamespace"),
    (SystemType::Registered(Registered::Role), "regrole"),
    (SystemType::Registered(Registered::Operator), "regoper"),
    (SystemType::Registered(Registered::OperatorWithArguments), "regoperator"),
    (SystemType::Registered(Registered::Collation), "regcollation"),
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
        let found = SYSTEM_TYPES.iter().find(|known| known.0 == self);
        found.expect("every type has its row in the table").1
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

    fn postgres_type(self) -> &'static PostgresType {
        PostgresType::named(self.name()).expect("every type has its numbers")
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
        return system.postgres_type().oid;
    }
    match field.data_type() {
        ArrowType::List(item) | ArrowType::LargeList(item) | ArrowType::FixedSizeList(item, _) => {
            array_oid(item)
        }
        _ => from_field(field).map_or(TEXT.oid, |data_type| column_type_oid(&data_type)),
    }
}

/// An array of arrays has the type of an array.
fn array_oid(item: &Field) -> u32 {
    if let Some(system) = SystemType::of(item) {
        return system.postgres_type().array_oid;
    }
    match item.data_type() {
        ArrowType::List(_) | ArrowType::LargeList(_) | ArrowType::FixedSizeList(_, _) => {
            type_oid(item)
        }
        _ => from_field(item).map_or(TEXT.array_oid, |of| postgres_type(&of).array_oid),
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

#[cfg(test)]
mod tests {
    use thalweg_types::DataType;

    use super::*;
    use crate::types::arrow_field;

    #[test]
    fn a_field_tells_its_type() {
        for (system, name) in SYSTEM_TYPES {
            let field = system.field("c", true);
            assert_eq!(SystemType::of(&field), Some(system), "{name}");
            assert_eq!(type_oid(&field), system.postgres_type().oid, "{name}");
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
