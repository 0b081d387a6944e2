//! `EXPLAIN`: the plan of a statement. For a statement that changes rows it shows how these are
//! found, and changes nothing.

use std::fmt::Write as _;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, RecordBatch, StringArray};
use datafusion::physical_plan::displayable;
use datafusion::sql::parser::Statement as Tree;
use datafusion::sql::sqlparser::ast::Statement;
use futures::StreamExt as _;
use thalweg_dialect::parse::Parsed;
use thalweg_types::{BoundedText, Error, Result};
use thalweg_values::column_marks::without_marks;

use super::{Execution, Target, delete, insert, query, update};
use crate::outcome::{BatchStream, Outcome};
use crate::parameters::refuse_unbound;
use crate::plan;

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

/// The text of the executable plan of an `EXPLAIN`. Writing stops after this many bytes.
pub(crate) async fn plan_text(
    execution: &Execution<'_>,
    tree: &Tree,
    bytes_max: usize,
) -> Result<String> {
    refuse_unbound(tree)?;
    let (tree, change) = match of_change(execution, tree)? {
        Some(Explained { tree, change }) => (tree, Some(change)),
        None => (tree.clone(), None),
    };
    let Tree::Explain(explain) = tree else { return Err(Error::unsupported("such an EXPLAIN")) };
    let planned = plan::statement(&execution.state, *explain.statement).await;
    let planned = execution.translate(planned)?;
    let physical = execution.translate(plan::physical(&execution.state, &planned.plan).await)?;
    let mut text = BoundedText::new(bytes_max);
    let written = match change {
        Some(change) => writeln!(text, "{change}"),
        None => Ok(()),
    };
    // Writing fails when the text is cut; the end of the text shows it.
    let _ = written.and_then(|()| write!(text, "{}", displayable(physical.as_ref()).indent(false)));
    Ok(without_marks(&text.finish()))
}

/// `EXPLAIN` of the query that finds the rows to change.
pub(super) struct Explained {
    pub(super) tree: Tree,
    /// The line for the change of the rows.
    change: String,
}

/// `None` if the explained statement changes nothing.
///
/// # Errors
/// Errors of the statement; and if it would have to run to be explained.
pub(super) fn of_change(execution: &Execution<'_>, tree: &Tree) -> Result<Option<Explained>> {
    let Tree::Explain(explain) = tree else { return Ok(None) };
    let Tree::Statement(inner) = explain.statement.as_ref() else { return Ok(None) };
    let description = |what: &str, target: &Target| format!("{what}: {}", target.schema().name);
    let (query, change) = match inner.as_ref() {
        Statement::Insert(insert) => {
            let (target, query) = insert::found(execution, insert)?;
            (query, description("Insert", &target))
        }
        Statement::Update(update) => {
            let found = update::found(execution, update)?;
            (found.query, description("Update", &found.target))
        }
        Statement::Delete(delete) => {
            let found = delete::found(execution, delete)?;
            (found.query, description("Delete", &found.target))
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

/// The lines of plans, indented below the line of the change.
fn beneath(change: &str, batch: &RecordBatch) -> RecordBatch {
    let mut columns = batch.columns().to_vec();
    // If there are several kinds of plans, the first column names them.
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
    let description = RecordBatch::try_new(batch.schema(), columns);
    description.expect("the columns are of the types and the length that they were of")
}
