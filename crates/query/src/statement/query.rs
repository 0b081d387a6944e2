//! `SELECT`, `VALUES`, `EXPLAIN`: whatever gives rows and changes nothing.

use thalweg_dialect::parse::Parsed;
use thalweg_types::Result;

use super::Execution;
use crate::outcome::{Outcome, Tag};
use crate::plan;

pub(super) async fn run(execution: &Execution<'_>, parsed: &Parsed) -> Result<Outcome> {
    let statement = parsed.statement.clone();
    let planned = execution.told(plan::statement(&execution.state, statement).await)?;
    let (schema, rows) = plan::stream(&execution.state, planned, execution.sql).await?;
    Ok(Outcome::rows(schema, rows, Tag::Select))
}
