//! Bulk ingestion: writes a client's batches to a table in one transaction, which also creates the
//! table if requested.

use arrow::datatypes::{Field, Schema};
use arrow_flight::sql::{CommandStatementIngest, TableExistsOption, TableNotExistOption};
use futures::StreamExt;
use thalweg_query::{Copy, CopyIn, Session};
use thalweg_types::{Error, Result, SqlState};
use thalweg_values::types::from_field;

use super::Flight;
use super::identity::Caller;
use super::metadata::{DATABASE, quoted};
use super::statements::changed_by;
use super::upload::{Batches, Upload, unreadable};
use crate::connections::FrontEnd;
use crate::values::check_column;

impl Flight {
    pub(super) async fn ingest(
        &self,
        caller: &Caller,
        command: CommandStatementIngest,
        upload: Upload,
    ) -> Result<i64> {
        let table = table_name(&command)?;
        let call_session = self.call_session(caller, command.transaction_id.as_deref())?;
        let schema = upload.schema().ok_or_else(no_columns)?;
        if schema.fields().is_empty() {
            return Err(no_columns());
        }
        let (before, copy) = statements(&command, &table, &schema)?;
        let watch =
            self.shared.observer.begin(FrontEnd::Flight, &call_session.user, &copy.as_str().into());
        let ingested = call_session
            .all_or_none(&self.shared, async |session| {
                for statement in &before {
                    session.execute(statement).await?;
                }
                copy_in(session, &copy, upload).await
            })
            .await;
        watch.end(ingested.as_ref().err());
        ingested
    }
}

/// Batches are decoded only after the check that the caller may write the table.
async fn copy_in(session: &mut Session, copy: &str, upload: Upload) -> Result<i64> {
    let Some(Copy::In(copy)) = session.execute(copy).await?.copy else {
        return Err(Error::internal("a copy takes rows"));
    };
    let batches = upload.into_batches(copy.room());
    let pushed = push_all(copy, batches).await;
    let outcome = session.finish_copy(pushed.map(|copy| *copy)).await?;
    Ok(changed_by(&outcome.tag))
}

async fn push_all(mut copy: Box<CopyIn>, mut batches: Batches) -> Result<Box<CopyIn>> {
    while let Some(batch) = batches.next().await.transpose().map_err(unreadable)? {
        // Building chunks and encoding them for the log takes long, so it runs on a blocking
        // thread.
        let pushed = tokio::task::spawn_blocking(move || {
            batch.columns().iter().try_for_each(check_column)?;
            copy.push(&batch)?;
            Ok::<_, Error>(copy)
        });
        copy = pushed
            .await
            .map_err(|panic| Error::internal("the rows could not be taken").with_source(panic))??;
    }
    Ok(copy)
}

/// The statements that prepare the table, and the COPY into it.
fn statements(
    command: &CommandStatementIngest,
    table: &str,
    schema: &Schema,
) -> Result<(Vec<String>, String)> {
    let options = command.table_definition_options.unwrap_or_default();
    let missing = TableNotExistOption::try_from(options.if_not_exist).unwrap_or_default();
    let there = TableExistsOption::try_from(options.if_exists).unwrap_or_default();
    let create = missing == TableNotExistOption::Create;
    let before = match there {
        TableExistsOption::Append if create => vec![create_table(table, schema, "IF NOT EXISTS ")?],
        TableExistsOption::Append => Vec::new(),
        TableExistsOption::Replace => {
            let exists = if create { "IF EXISTS " } else { "" };
            vec![format!("DROP TABLE {exists}{table}"), create_table(table, schema, "")?]
        }
        _ if create => vec![create_table(table, schema, "")?],
        _ => {
            let message = "the table may neither exist nor be created";
            return Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, message));
        }
    };
    let names: Vec<String> = schema.fields().iter().map(|field| quoted(field.name())).collect();
    Ok((before, format!("COPY {table} ({}) FROM STDIN", names.join(", "))))
}

fn create_table(table: &str, schema: &Schema, exists: &str) -> Result<String> {
    let columns: Result<Vec<String>> = schema.fields().iter().map(|field| column(field)).collect();
    Ok(format!("CREATE TABLE {exists}{table} ({})", columns?.join(", ")))
}

fn column(field: &Field) -> Result<String> {
    let nullable = if field.is_nullable() { "" } else { " NOT NULL" };
    Ok(format!("{} {}{nullable}", quoted(field.name()), from_field(field)?))
}

fn table_name(command: &CommandStatementIngest) -> Result<String> {
    if command.temporary {
        return Err(Error::unsupported("ingestion into a temporary table"));
    }
    if let Some(catalog) = command.catalog.as_deref().filter(|catalog| *catalog != DATABASE) {
        let message = format!("database \"{catalog}\" does not exist");
        return Err(Error::new(SqlState::INVALID_CATALOG_NAME, message));
    }
    let table = quoted(&command.table);
    Ok(match &command.schema {
        Some(namespace) => format!("{}.{table}", quoted(namespace)),
        None => table,
    })
}

fn no_columns() -> Error {
    Error::new(SqlState::PROTOCOL_VIOLATION, "rows without columns cannot be ingested")
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::DataType;
    use arrow_flight::sql::TableDefinitionOptions;

    use super::*;

    fn before(missing: TableNotExistOption, there: TableExistsOption) -> Result<Vec<String>> {
        let options =
            TableDefinitionOptions { if_not_exist: missing as i32, if_exists: there as i32 };
        let command = CommandStatementIngest {
            table_definition_options: Some(options),
            table: "a\"b".to_owned(),
            schema: Some("s".to_owned()),
            ..CommandStatementIngest::default()
        };
        let schema = Schema::new(vec![
            Field::new("n", DataType::Int64, false),
            Field::new("d", DataType::Decimal128(15, 2), true),
        ]);
        let (before, copy) = statements(&command, &table_name(&command)?, &schema)?;
        assert_eq!(copy, "COPY \"s\".\"a\"\"b\" (\"n\", \"d\") FROM STDIN");
        Ok(before)
    }

    #[test]
    fn each_mode_prepares_the_table_in_its_way() {
        use {TableExistsOption as There, TableNotExistOption as Missing};
        let columns = "\"s\".\"a\"\"b\" (\"n\" bigint NOT NULL, \"d\" numeric(15,2))";
        let create = format!("CREATE TABLE {columns}");
        let drop = |exists| format!("DROP TABLE {exists}\"s\".\"a\"\"b\"");
        assert_eq!(before(Missing::Create, There::Fail).unwrap(), std::slice::from_ref(&create));
        assert!(before(Missing::Fail, There::Append).unwrap().is_empty());
        let maybe = format!("CREATE TABLE IF NOT EXISTS {columns}");
        assert_eq!(before(Missing::Create, There::Append).unwrap(), [maybe]);
        let replaced = [drop("IF EXISTS "), create.clone()];
        assert_eq!(before(Missing::Create, There::Replace).unwrap(), replaced);
        assert_eq!(before(Missing::Fail, There::Replace).unwrap(), [drop(""), create]);
        assert_eq!(before(Missing::Fail, There::Fail).unwrap_err().state().0, "22023");
    }
}
