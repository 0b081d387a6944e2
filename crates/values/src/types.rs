//! Three vocabularies of types and the ways between them: SQL's names as the parser gives them,
//! Thalweg's [`DataType`], and Arrow's.
//!
//! The map between [`DataType`] and Arrow is `thalweg-columns`. Casts and literals read the type
//! that a field names under [`TYPE_KEY`], since Arrow has none for `uuid`, `json` and `varchar(n)`.

use std::sync::Arc;

use arrow::datatypes::{DataType as ArrowType, Field, FieldRef};
use datafusion::common::Result as PlanResult;
use datafusion::logical_expr::planner::TypePlanner;
use datafusion::sql::sqlparser::ast::{
    ArrayElemTypeDef, CharacterLength, DataType as SqlType, ExactNumberInfo, ObjectName,
    TimezoneInfo,
};
pub use thalweg_columns::{
    NUMERIC_DEFAULT, TYPE_KEY, arrow_field, arrow_type, column_field, from_arrow, from_field,
    named_type,
};
use thalweg_types::{DataType, Error, Result, SqlState};

use crate::errors::external;
use crate::sql_parts::parse_type;
use crate::system_types::{self, SystemType};

/// Digits of a second that a value keeps: microseconds. More digits count as this many.
const SECOND_DIGITS_MAX: u64 = 6;

/// PostgreSQL's greatest length of `varchar(n)`.
const VARCHAR_CHARS_MAX: u64 = 10_485_760;

/// The column type that an SQL type name stands for.
pub fn column_type(sql: &SqlType) -> Result<DataType> {
    if let Some(plain) = respelled(sql) {
        return column_type(&plain);
    }
    if let Some(data_type) = number_type(sql)? {
        return Ok(data_type);
    }
    if let Some(data_type) = text_type(sql)? {
        return Ok(data_type);
    }
    match sql {
        SqlType::Bool | SqlType::Boolean => Ok(DataType::Boolean),
        SqlType::Bytea | SqlType::Blob(_) | SqlType::Binary(_) | SqlType::Varbinary(_) => {
            Ok(DataType::Bytea)
        }
        SqlType::Date | SqlType::Date32 => Ok(DataType::Date),
        SqlType::Time(_, TimezoneInfo::None | TimezoneInfo::WithoutTimeZone) => Ok(DataType::Time),
        SqlType::Time(_, _) => Err(Error::unsupported("time with time zone")),
        SqlType::Datetime(_) | SqlType::TimestampNtz(_) => Ok(DataType::Timestamp),
        SqlType::Timestamp(_, TimezoneInfo::None | TimezoneInfo::WithoutTimeZone) => {
            Ok(DataType::Timestamp)
        }
        SqlType::Timestamp(_, _) => Ok(DataType::Timestamptz),
        SqlType::Interval { .. } => Ok(DataType::Interval),
        SqlType::Uuid => Ok(DataType::Uuid),
        SqlType::JSON => Ok(DataType::Json),
        SqlType::JSONB => Ok(DataType::Jsonb),
        SqlType::Array(
            ArrayElemTypeDef::SquareBracket(item, _)
            | ArrayElemTypeDef::AngleBracket(item)
            | ArrayElemTypeDef::Parenthesis(item),
        ) => Ok(DataType::Array(Box::new(column_type(item)?))),
        SqlType::Custom(name, _) => Err(unknown_type(&shown(name))),
        other => Err(unknown_type(&other.to_string().to_ascii_lowercase())),
    }
}

/// The number of digits of a second that values of the type keep, if the type's name contains it.
#[must_use]
pub fn second_digits(sql: &SqlType) -> Option<u8> {
    if let Some(plain) = respelled(sql) {
        return second_digits(&plain);
    }
    match sql {
        SqlType::Time(digits, _)
        | SqlType::Timestamp(digits, _)
        | SqlType::Datetime(digits)
        | SqlType::TimestampNtz(digits) => digits.map(|digits| digits.min(SECOND_DIGITS_MAX) as u8),
        _ => None,
    }
}

/// [`second_digits`] of a column.
///
/// # Errors
/// If a column would have to take something away from intervals, or from the items of arrays.
pub fn kept_digits(sql: &SqlType) -> Result<Option<u8>> {
    if let Some(plain) = respelled(sql) {
        return kept_digits(&plain);
    }
    match sql {
        SqlType::Interval { fields, precision } if fields.is_some() || precision.is_some() => {
            Err(Error::unsupported("a column of intervals with fields or digits")
                .with_hint("Make it a column of type interval, and cast its values."))
        }
        SqlType::Array(
            ArrayElemTypeDef::SquareBracket(item, _)
            | ArrayElemTypeDef::AngleBracket(item)
            | ArrayElemTypeDef::Parenthesis(item),
        ) => match kept_digits(item)? {
            Some(digits) if u64::from(digits) < SECOND_DIGITS_MAX => {
                Err(Error::unsupported("a column of arrays whose items keep some digits"))
            }
            _ => Ok(None),
        },
        _ => Ok(second_digits(sql)),
    }
}

/// The names of `pg_type` that SQL spells without quotes too. The parser takes a quoted name for a
/// type that it has no variant for.
const TYPE_NAMES: [&str; 21] = [
    "bool",
    "bpchar",
    "bytea",
    "date",
    "float4",
    "float8",
    "int2",
    "int4",
    "int8",
    "interval",
    "json",
    "jsonb",
    "name",
    "numeric",
    "oid",
    "text",
    "time",
    "timestamp",
    "timestamptz",
    "uuid",
    "varchar",
];

/// Names as `pg_type` has them in SQL's spelling: `pg_catalog.int4` and `"int4"` are `int4`, and
/// `_int4` is `int4[]`.
pub(crate) fn respelled(sql: &SqlType) -> Option<SqlType> {
    let SqlType::Custom(name, modifiers) = sql else { return None };
    let modifiers = match modifiers.as_slice() {
        [] => String::new(),
        given => format!("({})", given.join(",")),
    };
    let last = name.0.last()?.as_ident()?;
    let is_known = |name: &str| TYPE_NAMES.contains(&name);
    let plain = match last.quote_style {
        Some(_) => last.value.clone(),
        None => last.value.to_ascii_lowercase(),
    };
    if let Some(item) = plain.strip_prefix('_').filter(|item| is_known(item)) {
        return sql_type(&format!("{item}{modifiers}[]"));
    }
    match name.0.as_slice() {
        [_] if last.quote_style.is_some() && is_known(&plain) => {
            sql_type(&format!("{plain}{modifiers}"))
        }
        [namespace, _] if namespace.as_ident()?.value.eq_ignore_ascii_case("pg_catalog") => {
            let bare = if is_known(&plain) { plain } else { last.to_string() };
            sql_type(&format!("{bare}{modifiers}"))
        }
        _ => None,
    }
}

/// The parser's tree of a type's name; `None` if it is none.
pub fn sql_type(text: &str) -> Option<SqlType> {
    parse_type(text).ok()
}

/// True if the type is one of `serial`'s spellings: an integer that numbers itself and is never
/// NULL.
#[must_use]
pub fn is_serial(sql: &SqlType) -> bool {
    custom_name(sql).is_some_and(|name| serial_type(&name).is_some())
}

fn serial_type(name: &str) -> Option<DataType> {
    match name {
        "smallserial" | "serial2" => Some(DataType::Int2),
        "serial" | "serial4" => Some(DataType::Int4),
        "bigserial" | "serial8" => Some(DataType::Int8),
        _ => None,
    }
}

/// The name of a type that the parser has no variant for, without the schema it may live in.
fn custom_name(sql: &SqlType) -> Option<String> {
    let SqlType::Custom(name, _) = sql else { return None };
    let last = name.0.last()?.as_ident()?;
    Some(last.value.to_ascii_lowercase())
}

fn number_type(sql: &SqlType) -> Result<Option<DataType>> {
    Ok(Some(match sql {
        SqlType::SmallInt(_) | SqlType::Int2(_) | SqlType::TinyInt(_) => DataType::Int2,
        SqlType::Int(_) | SqlType::Int4(_) | SqlType::Integer(_) | SqlType::MediumInt(_) => {
            DataType::Int4
        }
        SqlType::BigInt(_) | SqlType::Int8(_) | SqlType::Int64 => DataType::Int8,
        SqlType::Real | SqlType::Float4 => DataType::Float4,
        SqlType::Float(ExactNumberInfo::Precision(bits)) if *bits <= 24 => DataType::Float4,
        SqlType::Float(_)
        | SqlType::Float8
        | SqlType::Float64
        | SqlType::Double(_)
        | SqlType::DoublePrecision => DataType::Float8,
        SqlType::Numeric(info) | SqlType::Decimal(info) | SqlType::Dec(info) => numeric(*info)?,
        SqlType::Custom(_, _) => {
            return Ok(custom_name(sql).and_then(|name| match name.as_str() {
                "oid" => Some(DataType::Int8),
                name => serial_type(name),
            }));
        }
        _ => return Ok(None),
    }))
}

fn numeric(info: ExactNumberInfo) -> Result<DataType> {
    let (precision, scale) = match info {
        ExactNumberInfo::None => {
            return Ok(DataType::Decimal {
                precision: NUMERIC_DEFAULT.0,
                scale: NUMERIC_DEFAULT.1,
            });
        }
        ExactNumberInfo::Precision(precision) => (precision, 0),
        ExactNumberInfo::PrecisionAndScale(precision, scale) => (precision, scale),
    };
    let out_of_range = |what: &str, value: i64, least: i64, most: u64| {
        Error::new(
            SqlState::INVALID_PARAMETER_VALUE,
            format!("NUMERIC {what} {value} must be between {least} and {most}"),
        )
    };
    let digits = i64::try_from(precision).unwrap_or(i64::MAX);
    let precision = u8::try_from(precision)
        .ok()
        .filter(|digits| (1..=76).contains(digits))
        .ok_or_else(|| out_of_range("precision", digits, 1, 76))?;
    let scale = i8::try_from(scale)
        .ok()
        .filter(|places| (0..=i16::from(precision)).contains(&i16::from(*places)))
        .ok_or_else(|| out_of_range("scale", scale, 0, u64::from(precision)))?;
    Ok(DataType::Decimal { precision, scale })
}

fn text_type(sql: &SqlType) -> Result<Option<DataType>> {
    let length = match sql {
        SqlType::Text
        | SqlType::String(None)
        | SqlType::TinyText
        | SqlType::MediumText
        | SqlType::LongText
        | SqlType::Clob(None) => None,
        SqlType::String(Some(chars)) | SqlType::Clob(Some(chars)) => Some(*chars),
        SqlType::Varchar(length)
        | SqlType::CharacterVarying(length)
        | SqlType::CharVarying(length)
        | SqlType::Nvarchar(length) => chars_of(length.as_ref()),
        // Blanks at the end are not padded: `char(n)` limits the length and no more.
        SqlType::Char(length) | SqlType::Character(length) => {
            Some(chars_of(length.as_ref()).unwrap_or(1))
        }
        SqlType::Custom(_, modifiers) => match custom_name(sql).as_deref() {
            Some("bpchar" | "name" | "citext") => {
                modifiers.first().and_then(|chars| chars.parse().ok())
            }
            _ => return Ok(None),
        },
        _ => return Ok(None),
    };
    let max_chars = match length {
        None => None,
        Some(chars @ 1..=VARCHAR_CHARS_MAX) => u32::try_from(chars).ok(),
        Some(0) => {
            return Err(Error::new(
                SqlState::INVALID_PARAMETER_VALUE,
                "length for type varchar must be at least 1",
            ));
        }
        Some(_) => {
            return Err(Error::new(
                SqlState::INVALID_PARAMETER_VALUE,
                format!("length for type varchar cannot exceed {VARCHAR_CHARS_MAX}"),
            ));
        }
    };
    Ok(Some(DataType::Text { max_chars }))
}

fn chars_of(length: Option<&CharacterLength>) -> Option<u64> {
    match length {
        Some(CharacterLength::IntegerLength { length, .. }) => Some(*length),
        Some(CharacterLength::Max) | None => None,
    }
}

fn unknown_type(name: &str) -> Error {
    Error::new(SqlState::UNDEFINED_OBJECT, format!("type \"{name}\" does not exist"))
}

/// A name as it is looked up.
fn shown(name: &ObjectName) -> String {
    let parts = name.0.iter().filter_map(|part| part.as_ident());
    let parts = parts.map(|part| match part.quote_style {
        Some(_) => part.value.clone(),
        None => part.value.to_ascii_lowercase(),
    });
    parts.collect::<Vec<_>>().join(".")
}

/// The field of a parameter's values of this type; `None` for types that parameters cannot have.
#[must_use]
pub fn parameter_field(sql: &SqlType) -> Option<Field> {
    let Some(field) = system_types::planned_field(sql) else {
        return column_type(sql).ok().map(|data_type| arrow_field("", &data_type, true));
    };
    let item = match field.data_type() {
        ArrowType::List(item) if SystemType::of(&field).is_none() => item.as_ref(),
        _ => &field,
    };
    SystemType::of(item).is_some_and(SystemType::is_plain).then_some(field)
}

/// The type of a field as SQL spells it in a cast.
pub fn sql_name(field: &Field) -> Result<String> {
    if let Some(system) = SystemType::of(field) {
        return Ok(system.display_name().to_owned());
    }
    match field.data_type() {
        ArrowType::List(item) => Ok(format!("{}[]", sql_name(item)?)),
        _ => from_field(field).map(|data_type| data_type.to_string()),
    }
}

/// PostgreSQL's name for the type of a field, for messages and for `pg_typeof`.
#[must_use]
pub fn display_name(field: &Field) -> String {
    if let Some(system) = SystemType::of(field) {
        return system.display_name().to_string();
    }
    if let ArrowType::List(item) = field.data_type() {
        return match item.data_type() {
            ArrowType::List(_) => display_name(item),
            _ => format!("{}[]", display_name(item)),
        };
    }
    match from_field(field) {
        Ok(_) if field.data_type() == &ArrowType::Null => "unknown".to_string(),
        Ok(DataType::Decimal { .. }) => "numeric".to_string(),
        Ok(DataType::Text { max_chars: Some(_) }) => "character varying".to_string(),
        Ok(data_type) => data_type.to_string(),
        Err(_) => "record".to_string(),
    }
}

/// Makes the type names above known to DataFusion's planner, for casts and for typed literals.
#[derive(Debug, Default)]
pub struct PostgresTypePlanner;

impl TypePlanner for PostgresTypePlanner {
    fn plan_type_field(&self, sql: &SqlType) -> PlanResult<Option<FieldRef>> {
        // DataFusion's own structures are planned elsewhere.
        if matches!(sql, SqlType::Struct(_, _) | SqlType::Map(_, _)) {
            return Ok(None);
        }
        if let Some(field) = system_types::planned_field(sql) {
            return Ok(Some(Arc::new(field)));
        }
        let data_type = column_type(sql).map_err(external)?;
        Ok(Some(Arc::new(arrow_field("", &data_type, true))))
    }
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
    use datafusion::sql::sqlparser::parser::Parser;

    use super::*;

    fn named(name: &str) -> Result<DataType> {
        let mut parser = Parser::new(&PostgreSqlDialect {}).try_with_sql(name).unwrap();
        column_type(&parser.parse_data_type().unwrap())
    }

    #[test]
    fn sql_names_give_the_types_that_postgres_gives() {
        for (name, expected) in [
            ("int", "integer"),
            ("int4", "integer"),
            ("integer", "integer"),
            ("smallint", "smallint"),
            ("int2", "smallint"),
            ("bigint", "bigint"),
            ("int8", "bigint"),
            ("serial", "integer"),
            ("bigserial", "bigint"),
            ("real", "real"),
            ("float4", "real"),
            ("float(24)", "real"),
            ("float(25)", "double precision"),
            ("float", "double precision"),
            ("float8", "double precision"),
            ("double precision", "double precision"),
            ("numeric", "numeric(38,10)"),
            ("decimal(10)", "numeric(10,0)"),
            ("numeric(15, 2)", "numeric(15,2)"),
            ("text", "text"),
            ("string", "text"),
            ("bpchar", "text"),
            ("varchar", "text"),
            ("varchar(3)", "character varying(3)"),
            ("character varying(3)", "character varying(3)"),
            ("char(2)", "character varying(2)"),
            ("char", "character varying(1)"),
            ("bytea", "bytea"),
            ("blob", "bytea"),
            ("date", "date"),
            ("time", "time without time zone"),
            ("timestamp", "timestamp without time zone"),
            ("timestamp(3)", "timestamp without time zone"),
            ("timestamptz", "timestamp with time zone"),
            ("timestamp with time zone", "timestamp with time zone"),
            ("datetime", "timestamp without time zone"),
            ("interval", "interval"),
            ("uuid", "uuid"),
            ("json", "json"),
            ("jsonb", "jsonb"),
            ("int[]", "integer[]"),
            ("text[][]", "text[][]"),
            ("bool", "boolean"),
            ("boolean", "boolean"),
            ("\"int4\"", "integer"),
            ("pg_catalog.\"int8\"", "bigint"),
            ("pg_catalog.varchar(3)", "character varying(3)"),
            ("\"varchar\"(3)", "character varying(3)"),
            ("_int4", "integer[]"),
            ("pg_catalog._text", "text[]"),
            ("\"_uuid\"", "uuid[]"),
        ] {
            assert_eq!(named(name).unwrap().to_string(), expected, "{name}");
        }
    }

    #[test]
    fn names_say_how_many_digits_seconds_keep() {
        for (name, digits) in [
            ("timestamp", None),
            ("timestamp(0)", Some(0)),
            ("timestamp(3) with time zone", Some(3)),
            ("timestamptz(9)", Some(6)),
            ("time(2)", Some(2)),
            ("pg_catalog.timestamp(1)", Some(1)),
            ("varchar(3)", None),
        ] {
            let mut parser = Parser::new(&PostgreSqlDialect {}).try_with_sql(name).unwrap();
            assert_eq!(second_digits(&parser.parse_data_type().unwrap()), digits, "{name}");
        }
    }

    #[test]
    fn columns_keep_digits_of_times_alone() {
        for (name, kept) in [
            ("timestamp(2)", Ok(Some(2))),
            ("\"time\"(1)", Ok(Some(1))),
            ("interval", Ok(None)),
            ("timestamp[]", Ok(None)),
            ("timestamp(6)[]", Ok(None)),
            ("varchar(3)[]", Ok(None)),
            ("interval(3)", Err("0A000")),
            ("interval day to hour", Err("0A000")),
            ("interval second(2)", Err("0A000")),
            ("interval(3)[]", Err("0A000")),
            ("timestamp(0)[]", Err("0A000")),
            ("_time(2)", Err("0A000")),
        ] {
            let mut parser = Parser::new(&PostgreSqlDialect {}).try_with_sql(name).unwrap();
            let found = kept_digits(&parser.parse_data_type().unwrap());
            assert_eq!(found.map_err(|error| error.state().0), kept, "{name}");
        }
    }

    #[test]
    fn unknown_and_impossible_types_are_refused() {
        for (name, state, message) in [
            ("wibble", "42704", "type \"wibble\" does not exist"),
            ("\"INT4\"", "42704", "type \"INT4\" does not exist"),
            ("varchar(0)", "22023", "length for type varchar must be at least 1"),
            ("numeric(77)", "22023", "NUMERIC precision 77 must be between 1 and 76"),
            ("numeric(5, 6)", "22023", "NUMERIC scale 6 must be between 0 and 5"),
            ("timetz", "0A000", "time with time zone is not supported"),
        ] {
            let error = named(name).unwrap_err();
            assert_eq!((error.state().0, error.message()), (state, message), "{name}");
        }
    }

    #[test]
    fn a_parameter_is_spelled_as_the_type_that_it_has() {
        for (name, spelled) in [
            ("oid[]", Some("oid[]")),
            ("name", Some("name")),
            ("\"char\"[]", Some("\"char\"[]")),
            ("uuid[]", Some("uuid[]")),
            ("varchar(3)", Some("character varying(3)")),
            ("int4[]", Some("integer[]")),
            // Clients send values of these types as text, or not at all.
            ("regclass", None),
            ("oidvector", None),
            ("regtype[]", None),
        ] {
            let mut parser = Parser::new(&PostgreSqlDialect {}).try_with_sql(name).unwrap();
            let field = parameter_field(&parser.parse_data_type().unwrap());
            let found = field.map(|field| sql_name(&field).unwrap());
            assert_eq!(found.as_deref(), spelled, "{name}");
        }
    }

    #[test]
    fn types_survive_the_way_through_arrow() {
        for name in [
            "uuid",
            "json",
            "jsonb",
            "varchar(7)",
            "numeric(50,3)",
            "uuid[]",
            "timestamptz",
            "bytea",
        ] {
            let data_type = named(name).unwrap();
            assert_eq!(from_field(&arrow_field("c", &data_type, true)).unwrap(), data_type);
        }
    }
}
