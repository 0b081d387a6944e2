//! `RETURNING`: a query over the rows that a statement changed.

use std::ops::ControlFlow;
use std::sync::Arc;

use arrow::record_batch::RecordBatch;
use datafusion::datasource::MemTable;
use datafusion::sql::sqlparser::ast::{Ident, SelectItem};
use thalweg_dialect::walk;
use thalweg_types::{Error, Result};

use super::{Execution, Target, ast_tools, folded};
use crate::catalog::TEMPORARY;
use crate::outcome::{Outcome, Tag};
use crate::plan;

pub(super) async fn returning(
    execution: &Execution<'_>,
    target: &Target,
    alias: Option<&Ident>,
    rows: RecordBatch,
    items: &[SelectItem],
    tag: Tag,
) -> Result<Outcome> {
    refuse_own_rows(target, items)?;
    let table = MemTable::try_new(rows.schema(), vec![vec![rows]])
        .map_err(|error| Error::internal("changed rows cannot be shown").with_source(error))?;
    execution.names.register_temporary("changed", Arc::new(table));
    let own = Ident::with_quote('"', target.schema().name.as_str());
    let alias = alias.cloned().unwrap_or(own);
    let from = ast_tools::table(TEMPORARY, TEMPORARY, "changed", alias);
    let query = ast_tools::select(items.to_vec(), vec![from], None);
    let planned = execution.translate(plan::query(&execution.state, query).await)?;
    let (schema, batches) = plan::collect(&execution.state, planned, execution.sql).await?;
    Ok(Outcome::batches(schema, batches, tag))
}

/// Refuses subqueries over the table that the statement changes. In PostgreSQL they see its rows as
/// they were before; here they would see them changed.
fn refuse_own_rows(target: &Target, items: &[SelectItem]) -> Result<()> {
    let found = walk::visit_relations(&items.to_vec(), |name| {
        let name = name.0.last().and_then(|part| part.as_ident()).map(folded);
        match name.is_some_and(|name| name == target.schema().name) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    });
    match found {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => {
            let what = "a subquery over the changed table in RETURNING";
            Err(Error::unsupported(what).with_hint("Query the table in a statement of its own."))
        }
    }
}
