//! Reads the calls and their keys from a statement about locks.

use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, StringViewArray};
use arrow::datatypes::{Schema, SchemaRef};
use arrow::record_batch::{RecordBatch, RecordBatchOptions};
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result as PlanResult, ScalarValue};
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{ColumnarValue, Expr, LogicalPlan};
use datafusion::sql::parser::Statement as Tree;
use thalweg_execution::optimization::optimize;
use thalweg_types::{Error, Result};

use super::functions::{Act, act_of};
use super::table::Key;
use crate::parameters::refuse_unbound;
use crate::plan;
use crate::privileges;
use crate::statement::Execution;

/// The calls of a statement about locks, from left to right.
pub(crate) struct Wanted {
    pub(super) calls: Vec<Call>,
    pub(super) schema: SchemaRef,
}

#[derive(Clone, Copy)]
pub(super) struct Call {
    pub(super) act: Act,
    /// `None` if an argument is NULL, or there are no arguments.
    pub(super) key: Option<Key>,
}

impl Wanted {
    /// True if the statement takes locks, and does not only release them.
    pub(crate) fn takes(&self) -> bool {
        self.calls.iter().any(|call| call.act.takes())
    }
}

impl Call {
    /// The result column of a call. `answer` is `None` if the call did nothing because an argument
    /// is NULL.
    pub(super) fn column(self, answer: Option<bool>) -> ArrayRef {
        match self.act.gives_nothing() {
            true => {
                let nothing = std::iter::once(answer.map(|_| ""));
                Arc::new(nothing.collect::<StringViewArray>())
            }
            false => Arc::new(BooleanArray::from(vec![answer])),
        }
    }
}

/// Reads a statement for which [`super::is_alone`] is true.
///
/// # Errors
/// If the functions do not take these arguments.
pub(crate) async fn read(execution: &Execution<'_>, tree: &Tree) -> Result<Wanted> {
    privileges::check_names(execution.names, tree)?;
    refuse_unbound(tree)?;
    let state = &execution.state;
    let planned = execution.translate(plan::statement(state, tree.clone()).await)?;
    let schema = execution.translate(plan::schema(state, &planned).await)?;
    let optimized = execution.translate(optimize(state, &planned.plan))?;
    let functions = execution.translate(functions_in(&optimized))?;
    let calls = functions.iter().map(|function| call(execution, function));
    let calls = calls.collect::<Result<Vec<Call>>>()?;
    match calls.len() == schema.fields().len() {
        true => Ok(Wanted { calls, schema }),
        false => Err(Error::internal("a call of a statement about locks was not found")),
    }
}

/// The calls in a plan, in the order of its columns.
fn functions_in(plan: &LogicalPlan) -> PlanResult<Vec<ScalarFunction>> {
    let mut found = Vec::new();
    plan.apply(|node| {
        node.apply_expressions(|expr| {
            expr.apply(|expr| {
                if let Expr::ScalarFunction(function) = expr
                    && act_of(function.func.name()).is_some()
                {
                    found.push(function.clone());
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    Ok(found)
}

fn call(execution: &Execution<'_>, function: &ScalarFunction) -> Result<Call> {
    let act = act_of(function.func.name());
    let act = act.ok_or_else(|| Error::internal("a function for locks is unknown"))?;
    let values = function.args.iter().map(|argument| value_of(&execution.state, argument));
    let values = execution.translate(values.collect::<PlanResult<Vec<ScalarValue>>>())?;
    Ok(Call { act, key: key(&values)? })
}

/// The value of a constant expression.
fn value_of(state: &SessionState, expr: &Expr) -> PlanResult<ScalarValue> {
    let compiled = state.create_physical_expr(expr.clone(), &DFSchema::empty())?;
    let options = RecordBatchOptions::new().with_row_count(Some(1));
    let nothing = Arc::new(Schema::empty());
    let row = RecordBatch::try_new_with_options(nothing, Vec::new(), &options)?;
    match compiled.evaluate(&row)? {
        ColumnarValue::Scalar(value) => Ok(value),
        ColumnarValue::Array(values) => ScalarValue::try_from_array(&values, 0),
    }
}

fn key(values: &[ScalarValue]) -> Result<Option<Key>> {
    match values {
        [] => Ok(None),
        [ScalarValue::Int64(number)] => Ok(number.map(Key::One)),
        [ScalarValue::Int32(first), ScalarValue::Int32(second)] => {
            Ok(first.zip(*second).map(|(first, second)| Key::Two(first, second)))
        }
        _ => Err(Error::internal("a lock has one number or two")),
    }
}
