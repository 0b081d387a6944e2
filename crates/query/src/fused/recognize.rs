//! Which aggregates of a plan can be fused into the scan.

use std::sync::Arc;

use arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::internal_err;
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::ProjectionExec;
use thalweg_scan::{Aggregation, Key, KeyValue, Lane, Measure, Predicate};
use thalweg_store::ChunkView;

use super::expression::{Columns, Form, Value};
use super::output::Output;
use crate::scan::ShardScan;

/// An aggregate over the scan of one table.
pub(super) struct Question {
    pub table: Arc<str>,
    pub aggregation: Aggregation,
    /// What stands behind the keys, column by column.
    pub outputs: Vec<Output>,
    pub chunks: Arc<Vec<ChunkView>>,
    pub chunks_in_table: usize,
    /// The columns of the answer.
    pub schema: SchemaRef,
    /// The same in words.
    pub told: String,
}

/// What lies between an aggregate and its scan, seen from the scan.
struct Input<'a> {
    scan: &'a ShardScan,
    filters: Vec<Predicate>,
    filters_told: Vec<String>,
    columns: Columns,
}

/// An aggregate that can be fused; `None` where only DataFusion's operators are sure to be right.
pub(super) fn recognize(aggregate: &AggregateExec) -> Option<Question> {
    let lower = lower(aggregate)?;
    let limited = aggregate.limit_options().is_some() || lower.limit_options().is_some();
    let filtered = lower.filter_expr().iter().any(Option::is_some);
    if limited || filtered || !lower.group_expr().is_single() {
        return None;
    }
    let input = input(lower.input())?;
    let schema = aggregate.schema();
    let keys = lower.group_expr().expr();
    let mut measures = Measures::default();
    let mut outputs = Vec::with_capacity(lower.aggr_expr().len());
    for (function, field) in lower.aggr_expr().iter().zip(&schema.fields()[keys.len()..]) {
        outputs.push(measures.output(function, field.data_type(), &input.columns)?);
    }
    let key_fields = keys.iter().zip(schema.fields());
    let keys: Option<Vec<Key>> =
        key_fields.map(|((key, _), field)| self::key(key, field.data_type(), &input)).collect();
    let told = told(lower, &input.filters_told);
    let filter = match input.filters.len() {
        0 => None,
        _ => Some(Predicate::And(input.filters)),
    };
    let columns = input.scan.projection().to_vec();
    let aggregation = Aggregation::new(columns, filter, keys?, measures.0)?;
    Some(Question {
        table: Arc::clone(input.scan.table()),
        aggregation,
        outputs,
        chunks: Arc::clone(input.scan.chunks()),
        chunks_in_table: input.scan.chunks_in_table(),
        schema,
        told,
    })
}

/// The part of an aggregate that sees the rows.
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

/// What was recognized once, in one step on one thread: DataFusion's operators go to disk where
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
        return Some(Input { scan, filters: Vec::new(), filters_told: Vec::new(), columns });
    }
    if let Some(filter) = plan.downcast_ref::<FilterExec>() {
        if filter.fetch().is_some() {
            return None;
        }
        let mut input = input(filter.input())?;
        input.filters.push(input.columns.predicate(filter.predicate(), true)?);
        input.filters_told.push(filter.predicate().to_string());
        if let Some(projection) = filter.projection() {
            let values = &input.columns.values;
            let values = projection.iter().map(|place| values[*place].clone()).collect();
            input.columns = Columns { values, schema: filter.schema() };
        }
        return Some(input);
    }
    let projection = plan.downcast_ref::<ProjectionExec>()?;
    let mut input = input(projection.input())?;
    let values = projection.expr().iter().map(|item| input.columns.translate(&item.expr));
    input.columns = Columns { values: values.collect(), schema: projection.schema() };
    Some(input)
}

fn scan_columns(scan: &ShardScan) -> Option<Columns> {
    if scan.fetch().is_some() || scan.reads_row_ids() {
        return None;
    }
    let schema = scan.schema();
    let fields = schema.fields().iter().enumerate();
    let values = fields.map(|(index, field)| Some(Value::column(index, field.data_type().clone())));
    Some(Columns { values: values.collect(), schema: Arc::clone(&schema) })
}

fn key(expression: &Arc<dyn PhysicalExpr>, data_type: &DataType, input: &Input<'_>) -> Option<Key> {
    let value = input.columns.translate(expression)?;
    if value.data_type != *data_type {
        return None;
    }
    let value = match value.form {
        Form::Column(column) => KeyValue::Column(column),
        Form::Number(number) if value.data_type.is_integer() => KeyValue::Int(number),
        _ => return None,
    };
    Some(Key { value, data_type: data_type.clone() })
}

/// What is found for each group; each thing once, whoever asks for it.
#[derive(Default)]
struct Measures(Vec<Measure>);

impl Measures {
    fn place(&mut self, measure: Measure) -> usize {
        self.0.iter().position(|known| *known == measure).unwrap_or_else(|| {
            self.0.push(measure);
            self.0.len() - 1
        })
    }

    /// What becomes of an aggregate function, as a column of a type.
    fn output(
        &mut self,
        function: &AggregateFunctionExpr,
        data_type: &DataType,
        columns: &Columns,
    ) -> Option<Output> {
        if function.is_distinct() || function.ignore_nulls() || !function.order_bys().is_empty() {
            return None;
        }
        let arguments = function.expressions();
        let [argument] = arguments.as_slice() else { return None };
        let value = columns.translate(argument)?;
        match function.fun().name() {
            "count" => self.count(&value, data_type),
            "sum" => self.sum(&value, data_type),
            "avg" => self.average(&value, data_type),
            "min" => self.extreme(&value, data_type, false),
            "max" => self.extreme(&value, data_type, true),
            _ => None,
        }
    }

    fn count(&mut self, value: &Value, data_type: &DataType) -> Option<Output> {
        let measure = self.count_of(value)?;
        let place = self.place(measure);
        (data_type == &DataType::Int64).then_some(Output::Measure(place))
    }

    fn count_of(&self, value: &Value) -> Option<Measure> {
        match &value.form {
            Form::Literal(literal) => (!literal.is_null()).then_some(Measure::Rows),
            Form::Column(column) => Some(Measure::Count { column: *column }),
            Form::Number(number) => {
                Some(Measure::CountNumber { lane: value.lane()?, number: number.clone() })
            }
        }
    }

    fn sum(&mut self, value: &Value, data_type: &DataType) -> Option<Output> {
        let fits = match (&value.data_type, data_type) {
            (DataType::Int64, DataType::Int64) | (DataType::Float64, DataType::Float64) => true,
            (DataType::Decimal128(_, from), DataType::Decimal128(_, to)) => from == to,
            _ => false,
        };
        let measure = Measure::Sum { lane: value.lane()?, number: value.to_number()? };
        fits.then(|| Output::Measure(self.place(measure)))
    }

    fn average(&mut self, value: &Value, data_type: &DataType) -> Option<Output> {
        let (lane, number) = (value.lane()?, value.to_number()?);
        let counted = self.count_of(value)?;
        let (sum, count) = (self.place(Measure::Sum { lane, number }), self.place(counted));
        let scale = match &value.data_type {
            DataType::Int16 | DataType::Int32 | DataType::Int64 => 0,
            DataType::Decimal128(_, scale) => *scale,
            DataType::Float64 if lane == Lane::Float && data_type == &DataType::Float64 => {
                return Some(Output::FloatAverage { sum, count });
            }
            _ => return None,
        };
        let DataType::Decimal128(_, _) = data_type else { return None };
        Some(Output::Average { sum, count, scale })
    }

    fn extreme(&mut self, value: &Value, data_type: &DataType, greatest: bool) -> Option<Output> {
        if value.data_type != *data_type || *data_type == DataType::Boolean {
            return None;
        }
        let measure = match (&value.form, value.lane()) {
            (_, Some(lane)) => Measure::Extreme { lane, number: value.to_number()?, greatest },
            (Form::Column(column), None) if *data_type == DataType::Utf8View => {
                Measure::TextExtreme { column: *column, greatest }
            }
            _ => return None,
        };
        Some(Output::Measure(self.place(measure)))
    }
}

/// The question in words.
fn told(lower: &AggregateExec, filters: &[String]) -> String {
    let keys: Vec<&str> = lower.group_expr().expr().iter().map(|(_, name)| name.as_str()).collect();
    let functions: Vec<&str> = lower.aggr_expr().iter().map(|function| function.name()).collect();
    let mut told = format!("keys=[{}] aggregates=[{}]", keys.join(", "), functions.join(", "));
    if !filters.is_empty() {
        told.push_str(&format!(" filter=[{}]", filters.join(" AND ")));
    }
    told
}
