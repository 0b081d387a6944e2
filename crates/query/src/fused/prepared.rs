//! Prepared statements that are one fused aggregate: run again without parsing or planning.
//!
//! What was planned is kept without the rows that it was planned over, and takes those of each
//! transaction's own snapshot. A statement is kept only if nothing in it was answered while it was
//! planned: no function but aggregates, no cast, no parameter. Whatever this way can't be sure of -
//! a table that was altered since, rights that are missing, memory that is short - it leaves
//! to the ordinary one.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::error::DataFusionError;
use datafusion::execution::memory_pool::MemoryPool;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::sql::parser::Statement as Tree;
use datafusion::sql::sqlparser::ast::{
    Expr, Query, SetExpr, Statement, TableFactor, Value, ValueWithSpan, visit_expressions,
};
use thalweg_dialect::errors::from_datafusion;
use thalweg_txn::{Catalog, Privilege, Privileges, RoleId, Transaction};
use thalweg_types::{Result, TableSchema};

use super::execution::{FusedAggregate, Work, watch};
use crate::outcome::{Outcome, Tag};
use crate::plan;
use crate::privileges::Rights;
use crate::statement::{Description, Execution, Target, folded};

const AGGREGATES: [&str; 5] = ["sum", "count", "avg", "min", "max"];

/// An aggregate over one table, planned when its statement was prepared.
pub(crate) struct PreparedAggregate {
    table: Arc<TableSchema>,
    work: Work,
    /// The columns of the result among those of the aggregate.
    columns: Vec<usize>,
    answered: SchemaRef,
    schema: SchemaRef,
    sql: String,
}

impl PreparedAggregate {
    /// The statement as one that is a fused aggregate and nothing else, if it is one.
    pub async fn recognize(
        execution: &Execution<'_>,
        tree: &Tree,
        description: &Description,
    ) -> Option<PreparedAggregate> {
        let Tree::Statement(statement) = tree else { return None };
        let Statement::Query(query) = statement.as_ref() else { return None };
        let schema = description.schema.clone()?;
        if !description.parameters.is_empty() || !is_plain(query) {
            return None;
        }
        let table = table(execution, query)?;
        let planned = plan::statement(&execution.state, tree.clone()).await.ok()?;
        let physical = plan::physical(&execution.state, &planned.plan).await.ok()?;
        let (fused, columns) = unwrapped(&physical)?;
        let answered = fused.schema();
        let same = columns
            .iter()
            .zip(schema.fields())
            .all(|(column, field)| answered.field(*column).data_type() == field.data_type());
        let work = fused.work().without_rows();
        let sql = execution.sql.to_owned();
        (same && columns.len() == schema.fields().len()).then_some(PreparedAggregate {
            table,
            work,
            columns,
            answered,
            schema,
            sql,
        })
    }

    /// Whether a role may read the table.
    pub fn is_permitted(&self, catalog: &Arc<Catalog>, role: RoleId) -> bool {
        let needs: Privileges = [Privilege::Select].into_iter().collect();
        let rights = Rights::new(Arc::clone(catalog), role);
        catalog.roles().is_superuser(role)
            || rights.on_relation(&self.table.namespace, &self.table.name, needs).is_ok()
    }

    /// Answers over what a transaction sees; `None` where the ordinary way must.
    ///
    /// # Errors
    /// Where a number cannot be computed.
    pub async fn run(
        &self,
        transaction: &mut Transaction,
        memory: &Arc<dyn MemoryPool>,
    ) -> Result<Option<Outcome>> {
        let catalog = transaction.catalog();
        let same = catalog.table(self.table.id).is_some_and(|now| now.schema == self.table);
        if !same {
            return Ok(None);
        }
        let state = transaction.state(self.table.id)?;
        let work = self.work.over(state.chunks().collect());
        let stop = Arc::new(AtomicBool::new(false));
        let _guard = StopWhenDropped(Arc::clone(&stop));
        let is_stopped = move || stop.load(Ordering::Relaxed);
        let watch = watch(is_stopped, memory, work.scheduler().workers());
        match work.answer(&self.answered, watch).await {
            Ok((batches, _)) => {
                let batches = batches.iter().map(|batch| self.shown(batch));
                let batches = batches.collect::<Result<Vec<RecordBatch>>>()?;
                Ok(Some(Outcome::batches(Arc::clone(&self.schema), batches, Tag::Select)))
            }
            Err(DataFusionError::ResourcesExhausted(_)) => Ok(None),
            Err(error) => Err(from_datafusion(error, &self.sql)),
        }
    }

    fn shown(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let columns = self.columns.iter().map(|column| Arc::clone(batch.column(*column)));
        let shown = RecordBatch::try_new(Arc::clone(&self.schema), columns.collect());
        shown.map_err(|error| from_datafusion(error.into(), &self.sql))
    }
}

/// Ends work that several do when nobody waits for it any more.
struct StopWhenDropped(Arc<AtomicBool>);

impl Drop for StopWhenDropped {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Whether nothing in a query is answered before it runs.
fn is_plain(query: &Query) -> bool {
    let refused = visit_expressions(query, |expression| match is_plain_expression(expression) {
        true => ControlFlow::Continue(()),
        false => ControlFlow::Break(()),
    });
    query.with.is_none() && query.limit_clause.is_none() && refused.is_continue()
}

fn is_plain_expression(expression: &Expr) -> bool {
    match expression {
        Expr::Identifier(_)
        | Expr::CompoundIdentifier(_)
        | Expr::BinaryOp { .. }
        | Expr::Between { .. }
        | Expr::InList { .. }
        | Expr::IsNull(_)
        | Expr::IsNotNull(_)
        | Expr::Nested(_) => true,
        Expr::Value(ValueWithSpan { value, .. }) => {
            matches!(value, Value::Number(..) | Value::Boolean(_)) || is_plain_text(value)
        }
        Expr::Function(function) => {
            let [name] = function.name.0.as_slice() else { return false };
            let name = name.as_ident().map(folded);
            name.is_some_and(|name| AGGREGATES.contains(&name.as_str()))
        }
        _ => false,
    }
}

/// A text without a word for a time: `'today'` gets its meaning when it is planned.
fn is_plain_text(value: &Value) -> bool {
    let Value::SingleQuotedString(text) = value else { return false };
    let words = ["now", "today", "tomorrow", "yesterday", "allballs"];
    let text = text.to_lowercase();
    !words.iter().any(|word| text.contains(word))
}

/// The one table that a query reads, if it names it itself.
fn table(execution: &Execution<'_>, query: &Query) -> Option<Arc<TableSchema>> {
    let SetExpr::Select(select) = query.body.as_ref() else { return None };
    let [from] = select.from.as_slice() else { return None };
    let TableFactor::Table { name, .. } = &from.relation else { return None };
    let target = Target::find(&execution.names.catalog(), name).ok()?;
    from.joins.is_empty().then(|| Arc::clone(target.schema()))
}

/// The aggregate that a plan consists of, and which of its columns are shown.
fn unwrapped(plan: &Arc<dyn ExecutionPlan>) -> Option<(&FusedAggregate, Vec<usize>)> {
    if let Some(fused) = plan.downcast_ref::<FusedAggregate>() {
        return Some((fused, (0..fused.schema().fields().len()).collect()));
    }
    if let Some(cooperative) = plan.downcast_ref::<CooperativeExec>() {
        return unwrapped(cooperative.input());
    }
    let projection = plan.downcast_ref::<ProjectionExec>()?;
    let (fused, columns) = unwrapped(projection.input())?;
    let places = projection.expr().iter().map(|item| {
        let column = item.expr.downcast_ref::<Column>()?;
        columns.get(column.index()).copied()
    });
    Some((fused, places.collect::<Option<_>>()?))
}
