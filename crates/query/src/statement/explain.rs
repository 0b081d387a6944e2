//! `EXPLAIN`: how a statement is done. Of one that changes rows it shows how these are found, and
//! changes nothing.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, RecordBatch, StringArray};
use datafusion::sql::parser::Statement as Tree;
use datafusion::sql::sqlparser::ast::Statement;
use futures::StreamExt as _;
use thalweg_dialect::parse::Parsed;
use thalweg_types::{Error, Result};

use super::{Execution, Target, delete, insert, query, update};
use crate::outcome::{BatchStream, Outcome};

pub(super) async fn run(execution: &Execution<'_>, parsed: &Parsed) -> Result<Outcome> {
    let Some(Explained { tree, change }) = of_change(execution, &parsed.statement)? else {
        return query::run(execution, parsed).await;
    };
    let mut outcome = query::run(execution, &Parsed { statement: tree, ..parsed.clone() }).await?;
    outcome.rows = outcome
        .rows
        .map(|rows| Box::pin(rows.map(move |batch| Ok(beneath(&change, &batch?)))) as BatchStream);
    Ok(outcome)
}

/// `EXPLAIN` of the query that finds what a statement changes.
pub(super) struct Explained {
    pub(super) tree: Tree,
    /// What becomes of the rows.
    change: String,
}

/// `None` where it explains something that changes nothing.
///
/// # Errors
/// What is wrong with the statement; and where it would have to be done to be explained.
pub(super) fn of_change(execution: &Execution<'_>, tree: &Tree) -> Result<Option<Explained>> {
    let Tree::Explain(explain) = tree else { return Ok(None) };
    let Tree::Statement(inner) = explain.statement.as_ref() else { return Ok(None) };
    let told = |what: &str, target: &Target| format!("{what}: {}", target.schema().name);
    let (query, change) = match inner.as_ref() {
        Statement::Insert(insert) => {
            let (target, query) = insert::found(execution, insert)?;
            (query, told("Insert", &target))
        }
        Statement::Update(update) => {
            let found = update::found(execution, update)?;
            (found.query, told("Update", &found.target))
        }
        Statement::Delete(delete) => {
            let found = delete::found(execution, delete)?;
            (found.query, told("Delete", &found.target))
        }
        _ => return Ok(None),
    };
    if explain.options.analyze {
        return Err(Error::unsupported("EXPLAIN ANALYZE of a statement that changes rows")
            .with_hint("EXPLAIN shows its plan and changes nothing."));
    }
    let mut explain = explain.clone();
    *explain.statement = Tree::Statement(Box::new(Statement::Query(Box::new(query))));
    Ok(Some(Explained { tree: Tree::Explain(explain), change }))
}

/// The lines of plans beneath what becomes of their rows.
fn beneath(change: &str, batch: &RecordBatch) -> RecordBatch {
    let mut columns = batch.columns().to_vec();
    // The first column tells the kinds of plans, where there are several.
    if let Some(last) = columns.last_mut()
        && let Some(plans) = last.as_string_opt::<i32>()
    {
        let indented = |plan: &str| {
            let lines = plan.lines().map(|line| format!("  {line}\n"));
            format!("{change}\n{}", lines.collect::<String>())
        };
        let plans = plans.iter().map(|plan| plan.map(indented));
        *last = Arc::new(plans.collect::<StringArray>()) as ArrayRef;
    }
    let told = RecordBatch::try_new(batch.schema(), columns);
    told.expect("the columns are of the types and the length that they were of")
}
