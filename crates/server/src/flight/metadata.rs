//! Flight SQL's metadata queries: catalogs, schemas, tables and keys. The answers come from
//! `information_schema` and reflect committed state.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int32Array, RecordBatch, StringArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Int32Type, Schema, SchemaRef};
use arrow_flight::error::FlightError;
use arrow_flight::sql::{
    Command, CommandGetCatalogs, CommandGetDbSchemas, CommandGetPrimaryKeys, CommandGetTables,
};
use futures::StreamExt;
use thalweg_query::Session;
use thalweg_types::{Error, Result};

use super::Flight;
use super::wire::wire_schema;

/// The name of the only catalog.
pub(super) const DATABASE: &str = "thalweg";

/// Table types in `information_schema`, and their names in Flight SQL.
const TABLE_TYPES: [(&str, &str); 3] =
    [("BASE TABLE", "TABLE"), ("VIEW", "VIEW"), ("FOREIGN", "FOREIGN TABLE")];

impl Flight {
    /// The schema of the answer to a metadata command; `None` for any other command.
    pub(super) fn metadata_schema(&self, command: &Command) -> Option<SchemaRef> {
        Some(match command.clone() {
            Command::CommandGetCatalogs(command) => command.into_builder().schema(),
            Command::CommandGetDbSchemas(command) => command.into_builder().schema(),
            Command::CommandGetTables(command) => command.into_builder().schema(),
            Command::CommandGetTableTypes(command) => command.into_builder().schema(),
            Command::CommandGetSqlInfo(command) => command.into_builder(&self.sql_info).schema(),
            Command::CommandGetXdbcTypeInfo(command) => {
                command.into_builder(&self.xdbc_types).schema()
            }
            Command::CommandGetPrimaryKeys(_) => primary_keys_schema(),
            Command::CommandGetExportedKeys(_)
            | Command::CommandGetImportedKeys(_)
            | Command::CommandGetCrossReference(_) => foreign_keys_schema(),
            _ => return None,
        })
    }

    /// The answer to a metadata command that [`Flight::metadata_schema`] knows.
    pub(super) async fn metadata(
        &self,
        command: Command,
        session: &mut Session,
    ) -> Result<RecordBatch> {
        match command {
            Command::CommandGetCatalogs(command) => catalogs(command, session).await,
            Command::CommandGetDbSchemas(command) => schemas(command, session).await,
            Command::CommandGetTables(command) => tables(command, session).await,
            Command::CommandGetTableTypes(command) => {
                let mut types = command.into_builder();
                TABLE_TYPES.iter().for_each(|(_, name)| types.append(name));
                types.build().map_err(unbuilt)
            }
            Command::CommandGetSqlInfo(command) => {
                command.into_builder(&self.sql_info).build().map_err(unbuilt)
            }
            Command::CommandGetXdbcTypeInfo(command) => {
                command.into_builder(&self.xdbc_types).build().map_err(unbuilt)
            }
            Command::CommandGetPrimaryKeys(command) => primary_keys(command, session).await,
            // The database has no foreign keys.
            _ => Ok(RecordBatch::new_empty(foreign_keys_schema())),
        }
    }
}

async fn catalogs(command: CommandGetCatalogs, session: &mut Session) -> Result<RecordBatch> {
    let mut catalogs = command.into_builder();
    let sql = "SELECT DISTINCT catalog_name FROM information_schema.schemata";
    for row in texts(session, sql).await? {
        catalogs.append(&row[0]);
    }
    catalogs.build().map_err(unbuilt)
}

async fn schemas(command: CommandGetDbSchemas, session: &mut Session) -> Result<RecordBatch> {
    let mut schemas = command.into_builder();
    let sql = "SELECT catalog_name, schema_name FROM information_schema.schemata";
    for row in texts(session, sql).await? {
        schemas.append(&row[0], &row[1]);
    }
    schemas.build().map_err(unbuilt)
}

async fn tables(command: CommandGetTables, session: &mut Session) -> Result<RecordBatch> {
    let mut tables = command.into_builder();
    let sql = "SELECT table_catalog, table_schema, table_name, table_type \
               FROM information_schema.tables";
    for row in texts(session, sql).await? {
        let [catalog, namespace, table, kind] = row.as_slice() else { continue };
        let known = TABLE_TYPES.iter().find(|(known, _)| known == kind);
        let kind = known.map_or(kind.as_str(), |(_, name)| name);
        let schema = match tables.include_schema() {
            true => table_schema(session, namespace, table).await,
            false => Schema::empty(),
        };
        tables.append(catalog, namespace, table, kind, &schema).map_err(unbuilt)?;
    }
    tables.build().map_err(unbuilt)
}

/// The columns of a table as clients get them from a query. Empty if they cannot be determined, for
/// example because the file of an external table is gone.
async fn table_schema(session: &mut Session, namespace: &str, table: &str) -> Schema {
    let sql = format!("SELECT * FROM {}.{}", quoted(namespace), quoted(table));
    match session.prepare(&sql, &[]).await {
        Ok(described) => {
            described.schema().map_or_else(Schema::empty, |s| wire_schema(s).as_ref().clone())
        }
        Err(_) => Schema::empty(),
    }
}

async fn primary_keys(
    command: CommandGetPrimaryKeys,
    session: &mut Session,
) -> Result<RecordBatch> {
    let mut sql = format!(
        "SELECT c.table_catalog, c.table_schema, c.table_name, k.column_name, \
         k.ordinal_position, c.constraint_name \
         FROM information_schema.table_constraints c \
         JOIN information_schema.key_column_usage k \
         ON k.constraint_schema = c.constraint_schema AND k.constraint_name = c.constraint_name \
         AND k.table_name = c.table_name \
         WHERE c.constraint_type = 'PRIMARY KEY' AND c.table_name = {}",
        literal(&command.table)
    );
    if let Some(namespace) = &command.db_schema {
        sql.push_str(&format!(" AND c.table_schema = {}", literal(namespace)));
    }
    if let Some(catalog) = &command.catalog {
        sql.push_str(&format!(" AND c.table_catalog = {}", literal(catalog)));
    }
    sql.push_str(" ORDER BY 1, 2, 3, 5");
    let rows = rows(session, &sql).await?;
    let column = |index: usize| rows.iter().flat_map(move |batch| text_values(batch, index));
    let sequence: Vec<i32> = rows
        .iter()
        .flat_map(|batch| batch.column(4).as_primitive::<Int32Type>().values().to_vec())
        .collect();
    let columns: Vec<ArrayRef> = vec![
        Arc::new(column(0).collect::<StringArray>()),
        Arc::new(column(1).collect::<StringArray>()),
        Arc::new(column(2).collect::<StringArray>()),
        Arc::new(column(3).collect::<StringArray>()),
        Arc::new(Int32Array::from(sequence)),
        Arc::new(column(5).collect::<StringArray>()),
    ];
    RecordBatch::try_new(primary_keys_schema(), columns).map_err(|error| unbuilt(error.into()))
}

fn primary_keys_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("catalog_name", DataType::Utf8, true),
        Field::new("db_schema_name", DataType::Utf8, true),
        Field::new("table_name", DataType::Utf8, false),
        Field::new("column_name", DataType::Utf8, false),
        Field::new("key_sequence", DataType::Int32, false),
        Field::new("key_name", DataType::Utf8, true),
    ]))
}

fn foreign_keys_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("pk_catalog_name", DataType::Utf8, true),
        Field::new("pk_db_schema_name", DataType::Utf8, true),
        Field::new("pk_table_name", DataType::Utf8, false),
        Field::new("pk_column_name", DataType::Utf8, false),
        Field::new("fk_catalog_name", DataType::Utf8, true),
        Field::new("fk_db_schema_name", DataType::Utf8, true),
        Field::new("fk_table_name", DataType::Utf8, false),
        Field::new("fk_column_name", DataType::Utf8, false),
        Field::new("key_sequence", DataType::Int32, false),
        Field::new("fk_key_name", DataType::Utf8, true),
        Field::new("pk_key_name", DataType::Utf8, true),
        Field::new("update_rule", DataType::UInt8, false),
        Field::new("delete_rule", DataType::UInt8, false),
    ]))
}

/// The rows of a query, with all columns converted to text.
async fn texts(session: &mut Session, sql: &str) -> Result<Vec<Vec<String>>> {
    let mut all = Vec::new();
    for batch in rows(session, sql).await? {
        let columns: Vec<Vec<Option<String>>> =
            (0..batch.num_columns()).map(|index| text_values(&batch, index)).collect();
        for row in 0..batch.num_rows() {
            all.push(
                columns.iter().map(|column| column[row].clone().unwrap_or_default()).collect(),
            );
        }
    }
    Ok(all)
}

async fn rows(session: &mut Session, sql: &str) -> Result<Vec<RecordBatch>> {
    let outcome = session.execute(sql).await?;
    let mut rows = outcome.rows.ok_or_else(|| Error::internal("a query gives rows"))?;
    let mut batches = Vec::new();
    while let Some(batch) = rows.next().await {
        batches.push(batch?);
    }
    Ok(batches)
}

fn text_values(batch: &RecordBatch, index: usize) -> Vec<Option<String>> {
    let texts = cast(batch.column(index), &DataType::Utf8).expect("everything has a text");
    texts.as_string::<i32>().iter().map(|text| text.map(str::to_owned)).collect()
}

pub(crate) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

fn unbuilt(error: FlightError) -> Error {
    Error::internal("the answer cannot be built").with_source(error)
}
