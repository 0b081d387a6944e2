mod model;
mod random;
mod shapes;
mod tpch;

use std::sync::Arc;

use arrow::array::{Array, AsArray, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Int64Type};
use datafusion::common::Result;
use datafusion::config::Dialect;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};

use self::model::{COLUMNS, Value};
use super::UnnestSubqueries;

fn context() -> SessionContext {
    let mut config = SessionConfig::new().with_target_partitions(1);
    config.options_mut().sql_parser.dialect = Dialect::PostgreSQL;
    config.options_mut().sql_parser.default_null_ordering = "nulls_max".to_owned();
    let state = SessionStateBuilder::new()
        .with_config(config)
        .with_default_features()
        .with_analyzer_rule(Arc::new(UnnestSubqueries::default()))
        .build();
    SessionContext::new_with_state(state)
}

/// Registers a table of `k, a, b`.
fn values(context: &SessionContext, name: &str, rows: &[[Value; 3]]) {
    let columns = COLUMNS.iter().enumerate().map(|(place, name)| {
        let column: Int64Array = rows.iter().map(|row| row[place]).collect();
        (*name, Arc::new(column) as Arc<dyn Array>, true)
    });
    let batch = RecordBatch::try_from_iter_with_nullable(columns).unwrap();
    context.register_batch(name, batch).unwrap();
}

/// The rows of a query whose columns are numbers and truth values.
async fn rows(context: &SessionContext, sql: &str) -> Result<Vec<Vec<Value>>> {
    let batches = context.sql(sql).await?.collect().await?;
    let mut rows = vec![];
    for batch in batches {
        let columns: Vec<Vec<Value>> =
            batch.columns().iter().map(|column| numbers(column)).collect();
        rows.extend(
            (0..batch.num_rows())
                .map(|row| columns.iter().map(|column| column[row]).collect::<Vec<_>>()),
        );
    }
    Ok(rows)
}

fn numbers(column: &dyn Array) -> Vec<Value> {
    if *column.data_type() == DataType::Boolean {
        return column.as_boolean().iter().map(|value| value.map(i64::from)).collect();
    }
    let column = arrow::compute::cast(column, &DataType::Int64).unwrap();
    column.as_primitive::<Int64Type>().iter().collect()
}
