//! Tables and columns that points need.

use std::collections::BTreeMap;

use thalweg_formats::line_protocol::{FieldValue, Point};
use thalweg_types::{DataType, Error, Result, SqlState, TableSchema};

use super::shapes::{TIME, check_name};
use crate::flight::quoted;

/// Maximum number of columns of a table that points create, the same as PostgreSQL's.
const COLUMNS_MAX: usize = 1_600;

/// The tags and fields of a measurement's points. Of a field's types, the first counts.
#[derive(Default)]
pub(super) struct Needed {
    tags: BTreeMap<String, ()>,
    fields: BTreeMap<String, &'static str>,
}

impl Needed {
    pub(super) fn add(&mut self, point: &Point<'_>) {
        for (name, _) in &point.tags {
            self.tags.entry(name.clone().into_owned()).or_default();
        }
        for (name, value) in &point.fields {
            self.fields.entry(name.clone().into_owned()).or_insert(type_of(value));
        }
    }

    /// The statement that creates the table.
    ///
    /// # Errors
    /// If a name cannot be a column's, or there are too many.
    pub(super) fn create(&self, table: &str) -> Result<String> {
        self.check(1)?;
        let mut parts = vec![format!("{} timestamptz NOT NULL", quoted(TIME))];
        parts.extend(self.tags.keys().map(|name| tag_column(name)));
        let fields = self.fields.iter().filter(|(name, _)| !self.tags.contains_key(*name));
        parts.extend(fields.map(|(name, data_type)| format!("{} {data_type}", quoted(name))));
        let key: Vec<String> =
            self.tags.keys().map(String::as_str).chain([TIME]).map(quoted).collect();
        parts.push(format!("PRIMARY KEY ({})", key.join(", ")));
        Ok(format!("CREATE TABLE IF NOT EXISTS {table} ({})", parts.join(", ")))
    }

    /// The statement that adds the missing columns; `None` if there are none. A tag joins the
    /// primary key, because points that differ in it alone would replace each other otherwise.
    ///
    /// # Errors
    /// If a tag cannot join the primary key, or there are too many columns.
    pub(super) fn alter(&self, table: &str, schema: &TableSchema) -> Result<Option<String>> {
        let is_missing = |name: &&String| schema.column_named(name).is_none();
        let tags: Vec<&String> = self.tags.keys().filter(is_missing).collect();
        let fields = self.fields.iter().filter(|(name, _)| is_missing(name));
        let fields: Vec<_> = fields.filter(|(name, _)| !self.tags.contains_key(*name)).collect();
        if tags.is_empty() && fields.is_empty() {
            return Ok(None);
        }
        self.check(schema.columns.len())?;
        let mut parts: Vec<String> =
            tags.iter().map(|name| format!("ADD COLUMN {}", tag_column(name))).collect();
        if !tags.is_empty() {
            parts.extend(with_tags(schema, &tags)?);
        }
        for (name, data_type) in fields {
            parts.push(format!("ADD COLUMN {} {data_type}", quoted(name)));
        }
        Ok(Some(format!("ALTER TABLE {table} {}", parts.join(", "))))
    }

    fn check(&self, columns: usize) -> Result<()> {
        self.tags.keys().chain(self.fields.keys()).try_for_each(|name| check_name(name))?;
        if columns + self.tags.len() + self.fields.len() <= COLUMNS_MAX {
            return Ok(());
        }
        let message = format!("tables can have at most {COLUMNS_MAX} columns");
        Err(Error::new(SqlState::TOO_MANY_COLUMNS, message))
    }
}

/// The parts of a statement by which tags join the primary key, before the time.
fn with_tags(schema: &TableSchema, tags: &[&String]) -> Result<[String; 2]> {
    let refused = || {
        let message = format!(
            "the tag \"{}\" cannot be added to the primary key of table \"{}\"",
            tags[0], schema.name
        );
        Error::new(SqlState::UNDEFINED_COLUMN, message)
            .with_hint("Add a text column of this name to the table, in its primary key or not.")
    };
    let key = schema.primary_key.as_ref().ok_or_else(refused)?;
    let columns: Vec<_> =
        schema.key_positions(key).into_iter().map(|place| &schema.columns[place]).collect();
    let is_tag = |data_type: &DataType| matches!(data_type, DataType::Text { .. });
    let has_time = columns.iter().any(|column| column.name == TIME);
    if !has_time || columns.iter().any(|c| c.name != TIME && !is_tag(&c.data_type)) {
        return Err(refused());
    }
    let known = columns.iter().map(|column| column.name.as_str()).filter(|name| *name != TIME);
    let all = known.chain(tags.iter().map(|name| name.as_str())).chain([TIME]).map(quoted);
    let (name, all) = (quoted(&key.name), all.collect::<Vec<_>>().join(", "));
    Ok([format!("DROP CONSTRAINT {name}"), format!("ADD CONSTRAINT {name} PRIMARY KEY ({all})")])
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

    fn needed(lines: &[&str]) -> Needed {
        let mut needed = Needed::default();
        for line in lines {
            needed.add(&Point::read(line.as_bytes()).unwrap().unwrap());
        }
        needed
    }

    #[test]
    fn a_table_has_the_tags_and_fields_of_all_points() {
        let needed = needed(&["m,b=x,a\"=y f=1", "m,c=x i=1i,s=\"\",t=t,f=2i"]);
        assert_eq!(
            needed.create("\"m\"").unwrap(),
            "CREATE TABLE IF NOT EXISTS \"m\" (\"time\" timestamptz NOT NULL, \
             \"a\"\"\" text NOT NULL DEFAULT '', \"b\" text NOT NULL DEFAULT '', \
             \"c\" text NOT NULL DEFAULT '', \"f\" double precision, \"i\" bigint, \"s\" text, \
             \"t\" boolean, PRIMARY KEY (\"a\"\"\", \"b\", \"c\", \"time\"))"
        );
    }

    #[test]
    fn names_and_numbers_of_columns_are_checked() {
        assert_eq!(needed(&["m time=1"]).create("m").unwrap_err().state().0, "42804");
        let fields: Vec<String> = (0..COLUMNS_MAX).map(|n| format!("f{n}=1")).collect();
        let line = format!("m {}", fields.join(","));
        assert_eq!(needed(&[&line]).create("m").unwrap_err().state().0, "54011");
    }
}
