//! Our own side of a comparison, through the interface for embedding.

use arrow::array::RecordBatch;
use futures::TryStreamExt;
use thalweg_query::Session;
use thalweg_types::Result;

use crate::data::TpchFiles;
use crate::tpch::Table;

/// Runs a statement and collects its rows.
pub async fn execute(session: &mut Session, sql: &str) -> Result<Vec<RecordBatch>> {
    let outcome = session.execute(sql).await?;
    match outcome.rows {
        Some(rows) => rows.try_collect().await,
        None => Ok(Vec::new()),
    }
}

/// Creates a TPC-H table with its key and fills it.
pub async fn load(session: &mut Session, files: &TpchFiles, table: &Table) -> Result<()> {
    execute(session, &table.create_with_key()).await?;
    execute(session, &copy(files, table.name)).await?;
    Ok(())
}

/// The statement that fills a table from its file, in syntax that DuckDB also accepts.
pub fn copy(files: &TpchFiles, table: &str) -> String {
    format!("COPY {table} FROM '{}' (FORMAT parquet)", files.path(table).display())
}
