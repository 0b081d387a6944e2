//! Statements run as a session would run them, for tests.

use arrow::datatypes::Schema;
use arrow::record_batch::RecordBatch;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::prelude::SessionContext;
use thalweg_types::{Error, Result};
use thalweg_values::cast::to_text;
use thalweg_values::errors;

use crate::passes::{PASSES, Passes};
use crate::{configure, parse};

/// A session with this crate's functions and passes.
pub(crate) fn context() -> SessionContext {
    SessionContext::new_with_state(with_passes(configure(SessionStateBuilder::new())).build())
}

pub(crate) fn with_passes(builder: SessionStateBuilder) -> SessionStateBuilder {
    let passes = Passes::assemble(PASSES.iter().filter_map(|pass| pass.placed(&(), false)));
    passes.expect("all passes have positions").install(builder)
}

/// Runs a statement, and returns its batches.
pub(crate) fn run(sql: &str) -> Result<Vec<RecordBatch>> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime of one thread");
    runtime.block_on(async {
        let context = context();
        let parsed = parse::parse_single(sql)?;
        let error_text = |error| errors::from_datafusion(error, sql);
        let plan = context.state().statement_to_plan(parsed.statement).await.map_err(error_text)?;
        let frame = context.execute_logical_plan(plan).await.map_err(error_text)?;
        frame.collect().await.map_err(error_text)
    })
}

/// The rows as `psql -At` shows them: values separated by bars, NULL as nothing.
pub(crate) fn rows(sql: &str) -> Result<Vec<String>> {
    let mut rows = Vec::new();
    for batch in run(sql)? {
        let columns: Vec<_> = batch
            .columns()
            .iter()
            .map(|column| to_text(column).expect("every result has a text"))
            .collect();
        for row in 0..batch.num_rows() {
            let values = columns.iter().map(|column| {
                let column = arrow::array::AsArray::as_string_view(column);
                match arrow::array::Array::is_null(column, row) {
                    true => "",
                    false => column.value(row),
                }
            });
            rows.push(values.collect::<Vec<_>>().join("|"));
        }
    }
    Ok(rows)
}

/// Each query gives one value.
#[track_caller]
pub(crate) fn expect_values(cases: &[(&str, &str)]) {
    for (sql, expected) in cases {
        match rows(sql) {
            Ok(rows) => assert_eq!(rows.join("\n"), *expected, "{sql}"),
            Err(error) => panic!("{sql}: {error:?}"),
        }
    }
}

/// Each query fails with a code and a message.
#[track_caller]
pub(crate) fn expect_errors(cases: &[(&str, &str, &str)]) {
    for (sql, state, message) in cases {
        let error: Error = match run(sql) {
            Ok(_) => panic!("{sql}: no error"),
            Err(error) => error,
        };
        assert_eq!((error.state().0, error.message()), (*state, *message), "{sql}");
    }
}

/// The schema of a query's result.
pub(crate) fn schema(sql: &str) -> Schema {
    run(sql).expect("the query runs")[0].schema().as_ref().clone()
}
