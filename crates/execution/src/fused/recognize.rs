//! Recognizes aggregates that can be fused into the scan.

use std::sync::Arc;

use arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::internal_err;
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::ProjectionExec;
use thalweg_scan::{Aggregation, Key, KeyValue, Lane, Number, Operator, Predicate};
use thalweg_store::ChunkView;

use super::expression::{Columns, Form, Value};
use super::measures::Measures;
use super::output::Output;
use crate::scan::ShardScan;

/// An aggregate over the scan of one table.
pub(super) struct Question {
    pub table: Arc<str>,
    pub aggregation: Aggregation,
    /// The columns after the keys.
    pub outputs: Vec<Output>,
    pub chunks: Arc<Vec<ChunkView>>,
    pub chunks_in_table: usize,
    /// The columns of the answer.
    pub schema: SchemaRef,
    /// Description for `EXPLAIN`.
    pub description: String,
}

/// The filters and projections between an aggregate and its scan, in terms of the scan's columns.
struct Input<'a> {
    scan: &'a ShardScan,
    filters: Vec<Predicate>,
    filter_texts: Vec<String>,
    columns: Columns,
}

/// Recognizes an aggregate that can be fused; `None` if only DataFusion's operators are certain to
/// be right.
pub(super) fn recognize(aggregate: &AggregateExec) -> Option<Question> {
    let lower = lower(aggregate)?;
    let limited = aggregate.limit_options().is_some() || lower.limit_options().is_some();
    if limited || !lower.group_expr().is_single() {
        return None;
    }
    let input = input(lower.input())?;
    let schema = aggregate.schema();
    let keys = lower.group_expr().expr();
    let mut measures = Measures::default();
    let mut outputs = Vec::with_capacity(lower.aggr_expr().len());
    let functions = lower.aggr_expr().iter().zip(lower.filter_expr());
    for ((function, filter), field) in functions.zip(&schema.fields()[keys.len()..]) {
        let filter = match filter {
            Some(filter) => Some(input.columns.predicate(filter, true)?),
            None => None,
        };
        outputs.push(measures.output(function, filter, field.data_type(), &input.columns)?);
    }
    let key_fields = keys.iter().zip(schema.fields());
    let keys: Option<Vec<Key>> =
        key_fields.map(|((key, _), field)| self::key(key, field.data_type(), &input)).collect();
    let description = description(lower, &input.filter_texts);
    let filter = match input.filters.len() {
        0 => None,
        _ => Some(Predicate::And(input.filters)),
    };
    let columns = input.scan.projection().to_vec();
    let aggregation = Aggregation::new(columns, filter, keys?, measures.into_list())?;
    Some(Question {
        table: Arc::clone(input.scan.table()),
        aggregation,
        outputs,
        chunks: Arc::clone(input.scan.chunks()),
        chunks_in_table: input.scan.chunks_in_table(),
        schema,
        description,
    })
}

/// The step of an aggregate that reads rows.
fn lower(aggregate: &AggregateExec) -> Option<&AggregateExec> {
    match aggregate.mode() {
        AggregateMode::Final | AggregateMode::FinalPartitioned => {
            let lower = aggregate.input().downcast_ref::<AggregateExec>()?;
            (lower.mode() == &AggregateMode::Partial).then_some(lower)
        }
        AggregateMode::Single => Some(aggregate),
        _ => None,
    }
}

/// The recognized aggregate as DataFusion's single-step operator on one thread, which spills if
/// memory is short.
pub(super) fn spilling(source: &Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let lower = source.downcast_ref::<AggregateExec>().and_then(lower);
    let Some(lower) = lower else { return internal_err!("no aggregate was recognized") };
    let input = Arc::new(CoalescePartitionsExec::new(Arc::clone(lower.input())));
    let single = AggregateExec::try_new(
        AggregateMode::Single,
        lower.group_expr().clone(),
        lower.aggr_expr().to_vec(),
        lower.filter_expr().to_vec(),
        input,
        lower.input_schema(),
    );
    Ok(Arc::new(single?))
}

/// Follows a plan down to the scan of a table.
fn input(plan: &Arc<dyn ExecutionPlan>) -> Option<Input<'_>> {
    if let Some(scan) = plan.downcast_ref::<ShardScan>() {
        let columns = scan_columns(scan)?;
        return Some(Input { scan, filters: Vec::new(), filter_texts: Vec::new(), columns });
    }
    if let Some(filter) = plan.downcast_ref::<FilterExec>() {
        if filter.fetch().is_some() {
            return None;
        }
        let mut input = input(filter.input())?;
        input.filters.push(input.columns.predicate(filter.predicate(), true)?);
        input.filter_texts.push(filter.predicate().to_string());
        if let Some(projection) = filter.projection() {
            input.columns = input.columns.selected(projection, filter.schema());
        }
        return Some(input);
    }
    let projection = plan.downcast_ref::<ProjectionExec>()?;
    let mut input = input(projection.input())?;
    let items = projection.expr().iter().map(|item| &item.expr);
    input.columns = input.columns.projected(items, projection.schema());
    Some(input)
}

fn scan_columns(scan: &ShardScan) -> Option<Columns> {
    if scan.fetch().is_some() || scan.reads_row_ids() {
        return None;
    }
    let schema = scan.schema();
    let fields = schema.fields().iter().enumerate();
    let values = fields.map(|(index, field)| Some(Value::column(index, field.data_type().clone())));
    Some(Columns::of_table(values.collect(), Arc::clone(&schema)))
}

fn key(expression: &Arc<dyn PhysicalExpr>, data_type: &DataType, input: &Input<'_>) -> Option<Key> {
    let value = input.columns.translate(expression)?;
    if value.data_type != *data_type {
        return None;
    }
    let value = match (value.lane(), value.form) {
        (_, Form::Column(column)) => KeyValue::Column(column),
        (Some(Lane::Int), Form::Number(number)) => KeyValue::Int(number),
        (Some(Lane::Float), Form::Number(number)) => {
            let column = with_one_zero(&number)?;
            // Keys are read as stored, so a `real` that is cast to `double precision` cannot be a
            // key.
            let is_same = input.scan.schema().field(column).data_type() == data_type;
            KeyValue::Column(is_same.then_some(column)?)
        }
        _ => return None,
    };
    Some(Key { value, data_type: data_type.clone() })
}

/// The column `x` of a float key `x + 0.0`. Adding zero maps both zeros to one, and so do keys.
fn with_one_zero(number: &Number) -> Option<usize> {
    let Number::Floats { operator: Operator::Add, operands } = number else { return None };
    match operands.as_ref() {
        (Number::Column(column), Number::Float(zero)) if *zero == 0.0 => Some(*column),
        _ => None,
    }
}

/// The aggregate's description for `EXPLAIN`.
fn description(lower: &AggregateExec, filters: &[String]) -> String {
    let keys: Vec<&str> = lower.group_expr().expr().iter().map(|(_, name)| name.as_str()).collect();
    let functions: Vec<&str> = lower.aggr_expr().iter().map(|function| function.name()).collect();
    let mut description =
        format!("keys=[{}] aggregates=[{}]", keys.join(", "), functions.join(", "));
    if !filters.is_empty() {
        description.push_str(&format!(" filter=[{}]", filters.join(" AND ")));
    }
    description
}
