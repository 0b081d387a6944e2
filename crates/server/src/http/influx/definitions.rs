//! Tables and columns that points need.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use thalweg_formats::line_protocol::{FieldValue, PARTS_MAX, Point};
use thalweg_types::{DataType, Error, Result, SqlState, TableSchema};

use super::shapes::{NANOSECONDS, TIME, check_name, nanoseconds_of};
use crate::flight::quoted;

/// Maximum number of columns of a table that points create, the same as PostgreSQL's.
const COLUMNS_MAX: usize = PARTS_MAX;
/// Columns of each table that points create, besides tags and fields.
const TIME_COLUMNS: usize = 2;

/// The tags and fields of a measurement's points. Of a field's types, the first counts.
#[derive(Default)]
pub(super) struct Needed {
    /// The table of the measurement, if there is one.
    existing: Option<Arc<TableSchema>>,
    tags: BTreeSet<String>,
    fields: BTreeMap<String, &'static str>,
    has_nanoseconds: bool,
}

impl Needed {
    pub(super) fn new(existing: Option<Arc<TableSchema>>) -> Needed {
        Needed { existing, ..Needed::default() }
    }

    /// Adds the tags and fields of a point. Points that cannot be rows are not added, so that they
    /// do not affect the others.
    ///
    /// # Errors
    /// If a name cannot be a column's, or there are too many.
    pub(super) fn add(&mut self, point: &Point<'_>, has_nanoseconds: bool) -> Result<()> {
        let fields = point.fields.iter().map(|(name, _)| name);
        let names = || point.tags.iter().map(|(name, _)| name).chain(fields.clone());
        names().try_for_each(|name| check_name(name))?;
        let has_column =
            self.existing.as_ref().is_some_and(|table| nanoseconds_of(table).is_some());
        let has_nanoseconds = self.has_nanoseconds || has_nanoseconds && !has_column;
        if has_nanoseconds && (self.names(NANOSECONDS) || names().any(|name| name == NANOSECONDS)) {
            return Err(reserved());
        }
        let existing = self.existing.as_ref().map_or(0, |schema| schema.columns.len());
        let added = names().filter(|name| !self.names(name)).count();
        if existing + self.tags.len() + self.fields.len() + added + TIME_COLUMNS > COLUMNS_MAX {
            let message = format!("tables can have at most {COLUMNS_MAX} columns");
            return Err(Error::new(SqlState::TOO_MANY_COLUMNS, message));
        }
        self.has_nanoseconds = has_nanoseconds;
        for (name, _) in &point.tags {
            if !self.exists(name) {
                self.tags.insert(name.clone().into_owned());
            }
        }
        for (name, value) in &point.fields {
            if !self.exists(name) {
                self.fields.entry(name.clone().into_owned()).or_insert(type_of(value));
            }
        }
        Ok(())
    }

    /// True if nothing is missing.
    pub(super) fn is_empty(&self) -> bool {
        self.tags.is_empty() && self.fields.is_empty() && !self.has_nanoseconds
    }

    /// True if the table has a column of this name, or will have.
    fn names(&self, name: &str) -> bool {
        self.exists(name) || self.tags.contains(name) || self.fields.contains_key(name)
    }

    fn exists(&self, name: &str) -> bool {
        self.existing.as_ref().is_some_and(|schema| schema.column_named(name).is_some())
    }

    /// The statement that creates the table.
    pub(super) fn create(&self, table: &str) -> String {
        let mut parts = vec![format!("{} timestamptz NOT NULL", quoted(TIME))];
        parts.extend(self.has_nanoseconds.then(nanoseconds_column));
        parts.extend(self.tags.iter().map(|name| tag_column(name)));
        let fields = self.fields.iter().filter(|(name, _)| !self.tags.contains(*name));
        parts.extend(fields.map(|(name, data_type)| format!("{} {data_type}", quoted(name))));
        let tags = self.tags.iter().map(String::as_str);
        let nanoseconds = self.has_nanoseconds.then_some(NANOSECONDS);
        let key: Vec<String> = tags.chain([TIME]).chain(nanoseconds).map(quoted).collect();
        parts.push(format!("PRIMARY KEY ({})", key.join(", ")));
        format!("CREATE TABLE IF NOT EXISTS {table} ({})", parts.join(", "))
    }

    /// The statement that adds the missing columns; `None` if there are none. A tag joins the
    /// primary key, because points that differ in it alone would replace each other otherwise. So
    /// do the nanoseconds.
    ///
    /// # Errors
    /// If a column cannot join the primary key.
    pub(super) fn alter(&self, table: &str, schema: &TableSchema) -> Result<Option<String>> {
        let is_missing = |name: &&String| schema.column_named(name).is_none();
        let tags: Vec<&String> = self.tags.iter().filter(is_missing).collect();
        let fields = self.fields.iter().filter(|(name, _)| is_missing(name));
        let fields: Vec<_> = fields.filter(|(name, _)| !self.tags.contains(*name)).collect();
        let nanoseconds = self.has_nanoseconds && nanoseconds_of(schema).is_none();
        if tags.is_empty() && fields.is_empty() && !nanoseconds {
            return Ok(None);
        }
        let mut parts: Vec<String> =
            tags.iter().map(|name| format!("ADD COLUMN {}", tag_column(name))).collect();
        if nanoseconds {
            parts.push(format!("ADD COLUMN {}", nanoseconds_column()));
        }
        if !tags.is_empty() || nanoseconds {
            parts.extend(with_longer_key(schema, &tags, nanoseconds)?);
        }
        for (name, data_type) in fields {
            parts.push(format!("ADD COLUMN {} {data_type}", quoted(name)));
        }
        Ok(Some(format!("ALTER TABLE {table} {}", parts.join(", "))))
    }
}

/// The parts of a statement by which tags and the nanoseconds join the primary key: tags before the
/// time, nanoseconds behind it.
fn with_longer_key(
    schema: &TableSchema,
    tags: &[&String],
    nanoseconds: bool,
) -> Result<[String; 2]> {
    let refused = || {
        let name = tags.first().map_or(NANOSECONDS, |name| name.as_str());
        let message = format!(
            "the column \"{name}\" cannot be added to the primary key of table \"{}\"",
            schema.name
        );
        Error::new(SqlState::UNDEFINED_COLUMN, message).with_hint(match tags {
            [] => {
                "Send times in microseconds, or make the table's primary key of text columns \
                   and the time."
            }
            _ => "Add a text column of this name to the table, in its primary key or not.",
        })
    };
    let key = schema.primary_key.as_ref().ok_or_else(refused)?;
    let columns: Vec<_> =
        schema.key_positions(key).into_iter().map(|place| &schema.columns[place]).collect();
    let is_tag = |data_type: &DataType| matches!(data_type, DataType::Text { .. });
    let of_time = |name: &str| name == TIME || name == NANOSECONDS;
    let has_time = columns.iter().any(|column| column.name == TIME);
    if !has_time || columns.iter().any(|c| !of_time(&c.name) && !is_tag(&c.data_type)) {
        return Err(refused());
    }
    let has_nanoseconds = nanoseconds || nanoseconds_of(schema).is_some();
    let known = columns.iter().map(|column| column.name.as_str()).filter(|name| !of_time(name));
    let tags = tags.iter().map(|name| name.as_str());
    let all = known.chain(tags).chain([TIME]).chain(has_nanoseconds.then_some(NANOSECONDS));
    let (name, all) = (quoted(&key.name), all.map(quoted).collect::<Vec<_>>().join(", "));
    Ok([format!("DROP CONSTRAINT {name}"), format!("ADD CONSTRAINT {name} PRIMARY KEY ({all})")])
}

fn reserved() -> Error {
    let message = format!(
        "\"{NANOSECONDS}\" is the column of the nanoseconds of times, and cannot be a tag or \
         a field"
    );
    Error::new(SqlState::DATATYPE_MISMATCH, message).with_hint("Send times in microseconds.")
}

fn nanoseconds_column() -> String {
    format!("{} smallint NOT NULL DEFAULT 0", quoted(NANOSECONDS))
}

fn tag_column(name: &str) -> String {
    format!("{} text NOT NULL DEFAULT ''", quoted(name))
}

fn type_of(value: &FieldValue<'_>) -> &'static str {
    match value {
        FieldValue::Float(_) => "double precision",
        FieldValue::Integer(_) => "bigint",
        FieldValue::Boolean(_) => "boolean",
        FieldValue::Text(_) => "text",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(needed: &mut Needed, line: &str, has_nanoseconds: bool) -> Result<()> {
        needed.add(&Point::read(line.as_bytes()).unwrap().unwrap(), has_nanoseconds)
    }

    fn needed(lines: &[&str]) -> Needed {
        let mut needed = Needed::default();
        lines.iter().for_each(|line| add(&mut needed, line, false).unwrap());
        needed
    }

    #[test]
    fn a_table_has_the_tags_and_fields_of_all_points() {
        let needed = needed(&["m,b=x,a\"=y f=1", "m,c=x i=1i,s=\"\",t=t,f=2i"]);
        assert_eq!(
            needed.create("\"m\""),
            "CREATE TABLE IF NOT EXISTS \"m\" (\"time\" timestamptz NOT NULL, \
             \"a\"\"\" text NOT NULL DEFAULT '', \"b\" text NOT NULL DEFAULT '', \
             \"c\" text NOT NULL DEFAULT '', \"f\" double precision, \"i\" bigint, \"s\" text, \
             \"t\" boolean, PRIMARY KEY (\"a\"\"\", \"b\", \"c\", \"time\"))"
        );
    }

    #[test]
    fn names_and_numbers_of_columns_are_checked() {
        let refused = |lines: &[&str], line: &str, has_nanoseconds: bool| {
            add(&mut needed(lines), line, has_nanoseconds).unwrap_err().state().0
        };
        assert_eq!(refused(&["m v=1"], "m time=1", false), "42804");
        assert_eq!(refused(&["m time_ns=1"], "m v=1", true), "42804");
        assert_eq!(refused(&[], "m,time_ns=a v=1", true), "42804");
        let line = |range: std::ops::Range<usize>| {
            let fields: Vec<String> = range.map(|n| format!("f{n}=1")).collect();
            format!("m {}", fields.join(","))
        };
        assert_eq!(refused(&[], &line(0..COLUMNS_MAX), false), "54011");
        assert_eq!(refused(&[&line(0..1_000)], &line(900..1_700), false), "54011");
    }

    #[test]
    fn nanoseconds_have_a_column_behind_the_time() {
        let mut needed = Needed::default();
        add(&mut needed, "m,a=x f=1", true).unwrap();
        assert_eq!(
            needed.create("m"),
            "CREATE TABLE IF NOT EXISTS m (\"time\" timestamptz NOT NULL, \
             \"time_ns\" smallint NOT NULL DEFAULT 0, \"a\" text NOT NULL DEFAULT '', \
             \"f\" double precision, PRIMARY KEY (\"a\", \"time\", \"time_ns\"))"
        );
    }
}
