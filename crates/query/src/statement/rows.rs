//! Shapes the rows that a statement gives into rows of their table.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int16Array, Int32Array, Int64Array, new_null_array};
use arrow::datatypes::{Field, Schema, SchemaRef};
use arrow::record_batch::{RecordBatch, RecordBatchOptions};
use datafusion::common::DFSchema;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use datafusion::physical_expr::PhysicalExpr;
use thalweg_dialect::guards::guarded_expression;
use thalweg_dialect::{in_session_zone, with_operand_types};
use thalweg_formats::text::style::within;
use thalweg_store::{Identities, arrow_schema};
use thalweg_types::{Column, DataType, Error, Result, SqlState, TableSchema};
use thalweg_values::assign::assign;
use thalweg_values::cast::is_text;
use thalweg_values::errors::from_datafusion;
use thalweg_values::types::column_field;

use super::stored_moments;
use crate::sequences::{DefaultNumbers, number_of_default};
use crate::workers::NumberedElsewhere;

/// The source of a column's values.
enum Source {
    /// The given column at this position.
    Given(usize),
    /// An expression, evaluated for each row.
    Default(Arc<dyn PhysicalExpr>),
    /// The next numbers of a sequence.
    Sequence(DefaultNumbers),
    /// The column's counter.
    Counter,
    /// Another gateway's counter; the error says why this one cannot count.
    CountedElsewhere(Error),
    Null,
}

/// Makes whole rows of one table: applies casts, defaults, numbers, and the constraints on single
/// rows.
pub(crate) struct Shaper {
    table: Arc<TableSchema>,
    schema: SchemaRef,
    /// The table's columns that are given, in the given order.
    given: Vec<usize>,
    given_schema: SchemaRef,
    sources: Vec<Source>,
    checks: Vec<(String, Arc<dyn PhysicalExpr>)>,
    counters: Arc<Identities>,
}

impl Shaper {
    /// A shaper of rows with the columns at `given`, in that order.
    pub(crate) fn new(
        state: &SessionState,
        table: &Arc<TableSchema>,
        given: &[usize],
        counters: Arc<Identities>,
    ) -> Result<Shaper> {
        let schema = arrow_schema(table);
        let elsewhere = state.config().get_extension::<NumberedElsewhere>();
        let mut sources = Vec::with_capacity(table.columns.len());
        for (position, column) in table.columns.iter().enumerate() {
            let source = match given.iter().position(|given| *given == position) {
                Some(place) => Source::Given(place),
                None if column.has_own_counter() => match &elsewhere {
                    None => Source::Counter,
                    Some(elsewhere) => Source::CountedElsewhere(elsewhere.0.clone()),
                },
                None => match &column.default {
                    Some(text) => default_source(state, column, text)?,
                    None => Source::Null,
                },
            };
            sources.push(source);
        }
        let whole = DFSchema::try_from(Arc::clone(&schema)).map_err(translate_error)?;
        let mut checks = Vec::with_capacity(table.checks.len());
        for check in &table.checks {
            checks.push((check.name.clone(), compile(state, &check.expression, &whole)?));
        }
        let (table, given) = (Arc::clone(table), given.to_vec());
        let fields = given.iter().map(|place| Arc::clone(&schema.fields()[*place]));
        let given_schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        Ok(Shaper { table, schema, given, given_schema, sources, checks, counters })
    }

    /// True if these counters are the ones that number the rows.
    pub(crate) fn counts_with(&self, counters: &Arc<Identities>) -> bool {
        Arc::ptr_eq(&self.counters, counters)
    }

    /// The rows of a batch, completed, cast and checked.
    ///
    /// # Errors
    /// The first value that does not fit, or constraint that does not hold.
    pub(crate) fn shape(&self, given: &RecordBatch) -> Result<RecordBatch> {
        let rows = given.num_rows();
        let mut columns = Vec::with_capacity(self.sources.len());
        for (source, column) in self.sources.iter().zip(&self.table.columns) {
            columns.push(match source {
                Source::Given(place) => {
                    assign(given.column(*place), given.schema().field(*place), column)?
                }
                Source::Default(expression) => evaluate_default(expression, column, rows)?,
                Source::Sequence(numbers) => {
                    let numbers = numbers.take(rows)?;
                    let field = Field::new(&column.name, numbers.data_type().clone(), true);
                    assign(&(Arc::new(numbers) as ArrayRef), &field, column)?
                }
                Source::Counter => {
                    let first = reserve(&self.counters, column, rows)?;
                    numbers(first, rows, &column.data_type)?
                }
                Source::CountedElsewhere(refusal) => return Err(refusal.clone()),
                Source::Null => new_null_array(column_field(column).data_type(), rows),
            });
        }
        for (index, column) in self.table.columns.iter().enumerate() {
            if !column.nullable && columns[index].null_count() > 0 {
                return Err(self.null_in(index, &columns, index));
            }
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)
            .map_err(|error| translate_error(error.into()))?;
        self.check(&batch)?;
        Ok(batch)
    }

    /// Only the given columns, cast: for rows that keep the values of the others.
    ///
    /// # Errors
    /// The first value that does not fit.
    pub(crate) fn shape_given(&self, given: &RecordBatch) -> Result<RecordBatch> {
        let mut columns = Vec::with_capacity(self.given.len());
        for (place, position) in self.given.iter().enumerate() {
            let column = &self.table.columns[*position];
            columns.push(assign(given.column(place), given.schema().field(place), column)?);
        }
        for (place, position) in self.given.iter().enumerate() {
            if !self.table.columns[*position].nullable && columns[place].null_count() > 0 {
                return Err(self.null_in(*position, &columns, place));
            }
        }
        let options = RecordBatchOptions::new().with_row_count(Some(given.num_rows()));
        RecordBatch::try_new_with_options(Arc::clone(&self.given_schema), columns, &options)
            .map_err(|error| translate_error(error.into()))
    }

    /// The schema of the result of [`shape_given`](Self::shape_given).
    pub(crate) fn given_schema(&self) -> &SchemaRef {
        &self.given_schema
    }

    pub(crate) fn has_checks(&self) -> bool {
        !self.checks.is_empty()
    }

    /// # Errors
    /// The first constraint that does not hold for whole rows.
    pub(crate) fn check(&self, batch: &RecordBatch) -> Result<()> {
        for (name, expression) in &self.checks {
            let value = expression.evaluate(batch).map_err(translate_error)?;
            let holds = value.into_array(batch.num_rows()).map_err(translate_error)?;
            let holds = holds.as_boolean();
            // NULL passes: a check refuses only false.
            let broken = (0..holds.len()).find(|row| holds.is_valid(*row) && !holds.value(*row));
            if let Some(row) = broken {
                let table = &self.table.name;
                let message = format!(
                    "new row for relation \"{table}\" violates check constraint \"{name}\""
                );
                return Err(Error::new(SqlState::CHECK_VIOLATION, message)
                    .with_detail(failing_row(batch.columns(), row))
                    .with_constraint(&self.table, name));
            }
        }
        Ok(())
    }

    /// The error for a NULL in the table's column `index`, which is at `place` among `columns`.
    fn null_in(&self, index: usize, columns: &[ArrayRef], place: usize) -> Error {
        let (column, table) = (&self.table.columns[index].name, &self.table.name);
        let row = (0..columns[place].len()).find(|row| columns[place].is_null(*row)).unwrap_or(0);
        let message = format!(
            "null value in column \"{column}\" of relation \"{table}\" violates not-null constraint"
        );
        Error::new(SqlState::NOT_NULL_VIOLATION, message)
            .with_detail(failing_row(columns, row))
            .with_column(&self.table, column)
    }
}

/// Compiles an expression over a schema and folds constants.
pub(super) fn compile(
    state: &SessionState,
    text: &str,
    schema: &DFSchema,
) -> Result<Arc<dyn PhysicalExpr>> {
    let expression = state.create_logical_expr(text, schema).map_err(translate_error)?;
    let expression = with_operand_types(expression, schema).map_err(translate_error)?;
    // `now()` and similar functions are constant within a statement. Only the simplifier replaces
    // them.
    let context = SimplifyContext::builder()
        .with_schema(Arc::new(schema.clone()))
        .with_config_options(Arc::clone(state.config_options()))
        .with_query_execution_start_time(state.execution_props().query_execution_start_time)
        .build();
    let simplifier = ExprSimplifier::new(context);
    let expression = simplifier
        .coerce(expression, schema)
        .and_then(stored_moments::read)
        .and_then(|expression| in_session_zone(expression, schema))
        .and_then(|expression| simplifier.simplify(expression))
        .and_then(|expression| guarded_expression(expression, schema))
        .map_err(translate_error)?;
    state.create_physical_expr(expression, schema).map_err(translate_error)
}

fn default_source(state: &SessionState, column: &Column, text: &str) -> Result<Source> {
    let Some(numbers) = number_of_default(state, column)? else {
        return default_expression(state, column, text).map(Source::Default);
    };
    Ok(match state.config().get_extension::<NumberedElsewhere>() {
        None => Source::Sequence(numbers),
        Some(elsewhere) => Source::CountedElsewhere(elsewhere.0.clone()),
    })
}

fn default_expression(
    state: &SessionState,
    column: &Column,
    text: &str,
) -> Result<Arc<dyn PhysicalExpr>> {
    compile(state, text, &DFSchema::empty()).map_err(|error| {
        let detail = format!("It is the default of column \"{}\".", column.name);
        if error.detail().is_none() { error.with_detail(detail) } else { error }
    })
}

pub(super) fn evaluate_default(
    expression: &Arc<dyn PhysicalExpr>,
    column: &Column,
    rows: usize,
) -> Result<ArrayRef> {
    let nothing = Arc::new(Schema::empty());
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    let input = RecordBatch::try_new_with_options(Arc::clone(&nothing), Vec::new(), &options)
        .map_err(|error| translate_error(error.into()))?;
    let value = expression.evaluate(&input).and_then(|value| value.into_array(rows));
    let value = value.map_err(translate_error)?;
    let field = Field::new(&column.name, value.data_type().clone(), true);
    match is_text(value.data_type()) {
        // A literal means the same to all writers.
        true => within(None, || assign(&value, &field, column)),
        false => assign(&value, &field, column),
    }
}

/// Reserves the next numbers of an auto-numbered column.
pub(super) fn reserve(counters: &Identities, column: &Column, rows: usize) -> Result<i64> {
    let count = u32::try_from(rows).ok();
    count.and_then(|count| counters.reserve(column.id, count)).ok_or_else(exhausted)
}

fn exhausted() -> Error {
    let message = "the numbers of an auto-numbered column are exhausted";
    Error::new(SqlState::NUMERIC_OUT_OF_RANGE, message)
}

fn numbers(first: i64, rows: usize, data_type: &DataType) -> Result<ArrayRef> {
    let last = i64::try_from(rows).ok().and_then(|rows| first.checked_add(rows));
    let range = first..last.ok_or_else(exhausted)?;
    Ok(match data_type {
        DataType::Int2 => {
            let numbers = range.map(|n| i16::try_from(n).map_err(|_| exhausted()));
            Arc::new(Int16Array::from(numbers.collect::<Result<Vec<_>>>()?))
        }
        DataType::Int4 => {
            let numbers = range.map(|n| i32::try_from(n).map_err(|_| exhausted()));
            Arc::new(Int32Array::from(numbers.collect::<Result<Vec<_>>>()?))
        }
        _ => Arc::new(Int64Array::from_iter_values(range)),
    })
}

fn failing_row(columns: &[ArrayRef], row: usize) -> String {
    format!("Failing row contains ({}).", values_of(columns, row))
}

/// A row's values as text for messages.
pub(super) fn values_of(columns: &[ArrayRef], row: usize) -> String {
    let values: Vec<String> = columns
        .iter()
        .map(|column| {
            if column.is_null(row) {
                return "null".to_owned();
            }
            let mut text = String::new();
            match thalweg_formats::text::format_value(column, row, &mut text) {
                Ok(()) => text,
                Err(_) => "...".to_owned(),
            }
        })
        .collect();
    values.join(", ")
}

fn translate_error(error: datafusion::error::DataFusionError) -> Error {
    from_datafusion(error, "")
}
