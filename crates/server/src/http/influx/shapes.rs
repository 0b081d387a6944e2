//! Matches the tags and fields of points with the columns of tables.

use std::sync::Arc;

use thalweg_formats::line_protocol::{FieldValue, Point};
use thalweg_formats::rows::Value;
use thalweg_query::{RecordChange, RecordTable, Records};
use thalweg_types::{Column, DataType, Error, Result, SqlState, TableSchema};

use super::parameters::Moment;

/// The column of a point's timestamp.
pub(super) const TIME: &str = "time";
/// The column of the nanoseconds after the microseconds of [`TIME`]. Points that differ in them
/// alone are different points, and the types of timestamps have microseconds.
pub(super) const NANOSECONDS: &str = "time_ns";

/// How points with the same measurement, tags and fields become rows.
pub(super) struct Shape {
    pub(super) table: Arc<RecordTable>,
    /// The source of each column's value.
    sources: Vec<Source>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Time,
    Nanoseconds,
    Tag(usize),
    Field(usize),
    /// A tag that the points do not have.
    Empty,
}

/// Appends a text that is the same for points of one shape, and no others.
pub(super) fn append_key(point: &Point<'_>, has_nanoseconds: bool, key: &mut String) {
    // No name contains a newline.
    key.push_str(&point.measurement);
    if has_nanoseconds {
        key.push_str("\nn");
    }
    for (name, _) in &point.tags {
        key.push_str("\nt");
        key.push_str(name);
    }
    for (name, value) in &point.fields {
        key.push_str(match value {
            FieldValue::Float(_) => "\nf",
            FieldValue::Integer(_) => "\ni",
            FieldValue::Boolean(_) => "\nb",
            FieldValue::Text(_) => "\ns",
        });
        key.push_str(name);
    }
}

impl Shape {
    /// # Errors
    /// 42P01 and 42703 if the table or a column is missing, 42804 if a type does not match, 42501
    /// if the user may not write the table.
    pub(super) fn resolve(
        records: &Records,
        namespace: &str,
        point: &Point<'_>,
        has_nanoseconds: bool,
    ) -> Result<Shape> {
        let whole = records.table_in(namespace, &point.measurement, &[])?;
        whole.permit(RecordChange::Upsert)?;
        let (columns, sources) = sources(whole.schema(), point, has_nanoseconds)?;
        let table = records.table_in(namespace, &point.measurement, &columns)?;
        table.permit(RecordChange::Upsert)?;
        Ok(Shape { table: Arc::new(table), sources })
    }

    /// The values of a point's row.
    pub(super) fn values<'p>(
        &self,
        point: &'p Point<'_>,
        moment: Moment,
    ) -> impl Iterator<Item = Result<Value<'p>>> {
        self.sources.iter().map(move |source| {
            Ok(match *source {
                Source::Time => Value::Timestamp(moment.micros),
                Source::Nanoseconds => Value::Int(moment.nanos),
                Source::Tag(place) => Value::Text(&point.tags[place].1),
                Source::Empty => Value::Text(""),
                Source::Field(place) => match &point.fields[place].1 {
                    FieldValue::Float(value) => Value::Float(*value),
                    FieldValue::Integer(value) => Value::Int(*value),
                    FieldValue::Boolean(value) => Value::Bool(*value),
                    FieldValue::Text(value) => Value::Text(value),
                },
            })
        })
    }
}

/// The columns that a point has values for, and the source of each.
fn sources(
    schema: &TableSchema,
    point: &Point<'_>,
    has_nanoseconds: bool,
) -> Result<(Vec<String>, Vec<Source>)> {
    let key = schema.primary_key.as_ref().map(|key| key.columns.as_slice()).unwrap_or_default();
    let in_key = |column: &Column| key.contains(&column.id);
    let time = column_of(schema, TIME)?;
    if !matches!(time.data_type, DataType::Timestamptz | DataType::Timestamp) {
        return Err(conflict(schema, time, "the time of a point"));
    }
    let mut found = vec![(TIME.to_owned(), Source::Time)];
    if let Some(column) = nanoseconds_of(schema) {
        found.push((column.name.clone(), Source::Nanoseconds));
    } else if has_nanoseconds && in_key(time) && time.second_digits.is_none() {
        return Err(no_nanoseconds(schema));
    }
    for (place, (name, _)) in point.tags.iter().enumerate() {
        check_name(name)?;
        let column = column_of(schema, name)?;
        if !matches!(column.data_type, DataType::Text { .. }) {
            return Err(conflict(schema, column, "a tag"));
        }
        found.push((column.name.clone(), Source::Tag(place)));
    }
    for (place, (name, value)) in point.fields.iter().enumerate() {
        check_name(name)?;
        let column = column_of(schema, name)?;
        if in_key(column) || !takes(&column.data_type, value) {
            return Err(conflict(schema, column, kind_of(value)));
        }
        found.push((column.name.clone(), Source::Field(place)));
    }
    for column in schema.columns.iter().filter(|column| in_key(column)) {
        if found.iter().any(|(name, _)| *name == column.name) {
            continue;
        }
        if !matches!(column.data_type, DataType::Text { .. }) {
            let message = format!("the point has no value for the key column \"{}\"", column.name);
            return Err(Error::new(SqlState::NOT_NULL_VIOLATION, message));
        }
        found.push((column.name.clone(), Source::Empty));
    }
    Ok(found.into_iter().unzip())
}

/// The column of nanoseconds, which is an integer of the primary key.
pub(super) fn nanoseconds_of(schema: &TableSchema) -> Option<&Column> {
    let (_, column) = schema.column_named(NANOSECONDS)?;
    let is_in_key = schema.primary_key.as_ref().is_some_and(|key| key.columns.contains(&column.id));
    let is_integer = matches!(column.data_type, DataType::Int2 | DataType::Int4 | DataType::Int8);
    (is_in_key && is_integer).then_some(column)
}

/// The error for a time that the table would cut, so that the point might replace another one.
fn no_nanoseconds(schema: &TableSchema) -> Error {
    let name = &schema.name;
    let message = format!(
        "the time of the point has nanoseconds, and table \"{name}\" has no column \
         \"{NANOSECONDS}\" for them in its primary key"
    );
    Error::new(SqlState::UNDEFINED_COLUMN, message).with_hint(format!(
        "Send times in microseconds, declare \"{TIME}\" as timestamptz(6) to round them, add \
         \"{NANOSECONDS}\" smallint NOT NULL DEFAULT 0 to the primary key, or set \
         ingest.create_tables."
    ))
}

/// # Errors
/// 42804 for the name of the time column.
pub(super) fn check_name(name: &str) -> Result<()> {
    if name != TIME {
        return Ok(());
    }
    let message = "\"time\" is the column of timestamps, and cannot be a tag or a field";
    Err(Error::new(SqlState::DATATYPE_MISMATCH, message))
}

fn column_of<'s>(schema: &'s TableSchema, name: &str) -> Result<&'s Column> {
    let found = schema.column_named(name).map(|(_, column)| column);
    found.ok_or_else(|| {
        let message = format!("column \"{name}\" of table \"{}\" does not exist", schema.name);
        Error::new(SqlState::UNDEFINED_COLUMN, message)
    })
}

/// True if a column takes values of this kind without a loss.
fn takes(data_type: &DataType, value: &FieldValue<'_>) -> bool {
    use DataType::{Boolean, Decimal, Float4, Float8, Int2, Int4, Int8, Json, Jsonb, Text};
    match value {
        FieldValue::Float(_) => matches!(data_type, Float4 | Float8 | Decimal { .. }),
        FieldValue::Integer(_) => {
            matches!(data_type, Int2 | Int4 | Int8 | Float4 | Float8 | Decimal { .. })
        }
        FieldValue::Boolean(_) => matches!(data_type, Boolean),
        FieldValue::Text(_) => matches!(data_type, Text { .. } | Json | Jsonb),
    }
}

pub(super) fn kind_of(value: &FieldValue<'_>) -> &'static str {
    match value {
        FieldValue::Float(_) => "a float",
        FieldValue::Integer(_) => "an integer",
        FieldValue::Boolean(_) => "a boolean",
        FieldValue::Text(_) => "a string",
    }
}

fn conflict(schema: &TableSchema, column: &Column, kind: &str) -> Error {
    let key = schema.primary_key.as_ref();
    let of_key = match key.is_some_and(|key| key.columns.contains(&column.id)) {
        true => " of the primary key",
        false => "",
    };
    let (name, data_type) = (&column.name, &column.data_type);
    let message =
        format!("column \"{name}\"{of_key} is of type {data_type} but the value is {kind}");
    Error::new(SqlState::DATATYPE_MISMATCH, message)
}
