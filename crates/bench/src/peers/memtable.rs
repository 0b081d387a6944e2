//! DataFusion on its own tables in memory: a baseline for the cost of our storage.

use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::datasource::MemTable;
use datafusion::prelude::{ParquetReadOptions, SessionConfig, SessionContext};
use thalweg_types::Result;

use crate::data::TpchFiles;
use crate::errors::while_doing;
use crate::tpch::TABLES;

/// The TPC-H tables in a DataFusion context.
pub struct MemTables {
    context: SessionContext,
}

impl MemTables {
    /// Reads every TPC-H table into memory, spread over as many partitions as there are threads.
    pub async fn load(files: &TpchFiles, threads: usize) -> Result<MemTables> {
        let config = SessionConfig::new().with_target_partitions(threads);
        let context = SessionContext::new_with_config(config);
        for table in &TABLES {
            let path = files.path(table.name).display().to_string();
            MemTables::load_table(&context, table.name, &path)
                .await
                .map_err(while_doing(format!("loading {} into DataFusion", table.name)))?;
        }
        Ok(MemTables { context })
    }

    async fn load_table(
        context: &SessionContext,
        name: &str,
        path: &str,
    ) -> datafusion::error::Result<()> {
        let frame = context.read_parquet(path, ParquetReadOptions::default()).await?;
        let schema = Arc::new(frame.schema().as_arrow().clone());
        let partitions = frame.collect_partitioned().await?;
        let table = MemTable::try_new(schema, partitions)?;
        context.register_table(name, Arc::new(table))?;
        Ok(())
    }

    /// Runs a query and collects its result.
    pub async fn execute(&self, sql: &str) -> Result<Vec<RecordBatch>> {
        let frame = self.context.sql(sql).await.map_err(while_doing("DataFusion"))?;
        frame.collect().await.map_err(while_doing("DataFusion"))
    }
}
