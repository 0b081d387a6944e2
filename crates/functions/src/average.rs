//! `avg`: exact for whole numbers, numerics and intervals; DataFusion's own for floats.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Decimal128Array, Int64Array, ListArray, PrimitiveArray,
    UInt64Array,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::cast;
use arrow::datatypes::{
    DataType as ArrowType, Decimal128Type, Field, FieldRef, Int16Type, Int32Type, Int64Type,
    IntervalMonthDayNano, IntervalMonthDayNanoType, UInt64Type,
};
use datafusion::common::{Result as PlanResult, ScalarValue};
use datafusion::error::DataFusionError;
use datafusion::functions_aggregate::average::avg_udaf;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, EmitTo, GroupsAccumulator, ReversedUDAF,
    Signature, Volatility,
};
use thalweg_types::{DataType, Error, Result, SqlState};
use thalweg_values::arithmetic::numeric::{QUOTIENT_SCALE, decimal_of, quotient};
use thalweg_values::arithmetic::scale_interval;
use thalweg_values::arithmetic::sum::Total;
use thalweg_values::errors::external;
use thalweg_values::float_frames::{self, Figure};
use thalweg_values::types::{arrow_type, display_name};

const SUM_PRECISION: u8 = 38;

pub(super) fn function() -> Arc<AggregateUDF> {
    Arc::new(AggregateUDF::from(Average::default()))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Average {
    /// For floats.
    inner: Arc<AggregateUDF>,
    signature: Signature,
    aliases: Vec<String>,
}

impl Default for Average {
    fn default() -> Average {
        Average {
            inner: avg_udaf(),
            signature: Signature::user_defined(Volatility::Immutable),
            aliases: vec!["mean".to_owned()],
        }
    }
}

/// The scale of the values, and that of their average; nothing for floats and intervals.
fn scales_of(data_type: &ArrowType) -> Option<(i8, i8)> {
    let (_, scale) = decimal_of(data_type)?;
    Some((scale, scale.max(QUOTIENT_SCALE)))
}

fn is_interval(data_type: &ArrowType) -> bool {
    matches!(data_type, ArrowType::Interval(_))
}

impl AggregateUDFImpl for Average {
    fn name(&self) -> &str {
        "avg"
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arg_types: &[ArrowType]) -> PlanResult<Vec<ArrowType>> {
        let coerced = match arg_types {
            [
                ArrowType::Int16
                | ArrowType::Int32
                | ArrowType::Int64
                | ArrowType::Decimal128(_, _),
            ] => arg_types[0].clone(),
            [integer] if integer.is_integer() => ArrowType::Decimal128(20, 0),
            [ArrowType::Decimal32(digits, scale) | ArrowType::Decimal64(digits, scale)] => {
                ArrowType::Decimal128(*digits, *scale)
            }
            [ArrowType::Decimal256(_, scale)] => ArrowType::Decimal128(SUM_PRECISION, *scale),
            [ArrowType::Interval(_) | ArrowType::Duration(_)] => arrow_type(&DataType::Interval),
            [ArrowType::Float16 | ArrowType::Float32 | ArrowType::Float64 | ArrowType::Null] => {
                ArrowType::Float64
            }
            _ => return Err(no_such_function(arg_types)),
        };
        Ok(vec![coerced])
    }

    fn return_type(&self, arg_types: &[ArrowType]) -> PlanResult<ArrowType> {
        Ok(match scales_of(&arg_types[0]) {
            Some((_, scale)) => ArrowType::Decimal128(SUM_PRECISION, scale),
            None => arg_types[0].clone(),
        })
    }

    fn accumulator(&self, args: AccumulatorArgs) -> PlanResult<Box<dyn Accumulator>> {
        let data_type = args.expr_fields[0].data_type();
        if is_interval(data_type) && args.is_distinct {
            return Ok(Box::<DistinctIntervalAverage>::default());
        }
        if is_interval(data_type) {
            return Ok(Box::new(IntervalAverage::new()));
        }
        let Some((scale, target)) = scales_of(data_type) else {
            return self.inner.accumulator(args);
        };
        Ok(match args.is_distinct {
            true => Box::new(DistinctAverage { values: HashSet::new(), scale, target }),
            false => Box::new(NumericAverage { sum: Sum::default(), scale, target }),
        })
    }

    fn state_fields(&self, args: StateFieldsArgs) -> PlanResult<Vec<FieldRef>> {
        let data_type = args.input_fields[0].data_type();
        let field = |what: &str, data_type| {
            Arc::new(Field::new(format!("{}[{what}]", args.name), data_type, true))
        };
        if is_interval(data_type) && args.is_distinct {
            return Ok(vec![field("values", ArrowType::List(interval_item()))]);
        }
        if is_interval(data_type) {
            let sum = field("sum", data_type.clone());
            return Ok(vec![field("count", ArrowType::UInt64), sum]);
        }
        let Some((scale, _)) = scales_of(data_type) else { return self.inner.state_fields(args) };
        let sum = ArrowType::Decimal128(SUM_PRECISION, scale);
        Ok(match args.is_distinct {
            true => vec![field("values", ArrowType::List(item_field(scale)))],
            false => vec![field("count", ArrowType::UInt64), field("sum", sum)],
        })
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        match scales_of(args.expr_fields[0].data_type()) {
            Some(_) => !args.is_distinct,
            None if is_interval(args.expr_fields[0].data_type()) => false,
            None => self.inner.groups_accumulator_supported(args),
        }
    }

    fn create_groups_accumulator(
        &self,
        args: AccumulatorArgs,
    ) -> PlanResult<Box<dyn GroupsAccumulator>> {
        match scales_of(args.expr_fields[0].data_type()) {
            Some((scale, target)) => {
                Ok(Box::new(NumericAverages { sums: Vec::new(), scale, target }))
            }
            None => self.inner.create_groups_accumulator(args),
        }
    }

    fn create_sliding_accumulator(
        &self,
        args: AccumulatorArgs,
    ) -> PlanResult<Box<dyn Accumulator>> {
        match scales_of(args.expr_fields[0].data_type()) {
            None if !is_interval(args.expr_fields[0].data_type()) => {
                match float_frames::sliding(&args, Figure::Average) {
                    Some(frame) => Ok(frame),
                    None => self.inner.create_sliding_accumulator(args),
                }
            }
            _ => self.accumulator(args),
        }
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }
}

fn no_such_function(arg_types: &[ArrowType]) -> DataFusionError {
    let names = arg_types.iter().map(|given| display_name(&Field::new("", given.clone(), true)));
    let error_text =
        format!("function avg({}) does not exist", names.collect::<Vec<_>>().join(", "));
    let error = Error::new(SqlState::UNDEFINED_FUNCTION, error_text)
        .with_hint("You might need to add explicit type casts.");
    external(error)
}

fn out_of_digits() -> Error {
    Error::new(SqlState::NUMERIC_OUT_OF_RANGE, "value overflows numeric format")
}

fn overflow() -> DataFusionError {
    external(out_of_digits())
}

fn item_field(scale: i8) -> FieldRef {
    Arc::new(Field::new("item", ArrowType::Decimal128(SUM_PRECISION, scale), true))
}

/// The state of an average.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    low: i128,
    /// Multiple of 2^128 to add to `low`.
    carry: i32,
    rows: u64,
}

impl Sum {
    fn add(&mut self, value: i128) {
        let (sum, wrapped) = self.low.overflowing_add(value);
        self.low = sum;
        if wrapped {
            self.carry += value.signum() as i32;
        }
    }

    fn subtract(&mut self, value: i128) {
        let (sum, wrapped) = self.low.overflowing_sub(value);
        self.low = sum;
        if wrapped {
            self.carry -= value.signum() as i32;
        }
    }

    fn total(self) -> PlanResult<i128> {
        if self.carry == 0 { Ok(self.low) } else { Err(overflow()) }
    }

    fn average(self, scale: i8, target: i8) -> PlanResult<Option<i128>> {
        if self.rows == 0 {
            return Ok(None);
        }
        let shift = i32::from(target) - i32::from(scale);
        quotient(self.total()?, i128::from(self.rows), shift).map(Some).ok_or_else(overflow)
    }
}

/// Averages of sums and numbers of rows, as `avg` gives them.
///
/// # Errors
/// If one has more digits than a `numeric` has room for.
pub fn exact_averages(
    sums: &Decimal128Array,
    counts: &Int64Array,
    data_type: &ArrowType,
) -> Result<ArrayRef> {
    let target = decimal_of(data_type).map_or(QUOTIENT_SCALE, |(_, scale)| scale);
    let pairs = sums.iter().zip(counts.values());
    let averages = pairs.map(|(total, rows)| {
        // Without values some states hold a total of 0.
        let Some(total) = total.filter(|_| *rows > 0) else { return Ok(None) };
        let shift = i32::from(target) - i32::from(sums.scale());
        quotient(total, i128::from(*rows), shift).map(Some).ok_or_else(out_of_digits)
    });
    let averages = averages.collect::<Result<Decimal128Array>>()?;
    Ok(Arc::new(averages.with_data_type(data_type.clone())))
}

/// Calls `take` with each value that is not NULL, and its row.
fn each_value(values: &ArrayRef, mut take: impl FnMut(usize, i128)) {
    macro_rules! each {
        ($arrow:ty) => {{
            let values = values.as_primitive::<$arrow>();
            match values.nulls().filter(|nulls| nulls.null_count() > 0) {
                None => {
                    let rows = values.values().iter().enumerate();
                    rows.for_each(|(row, value)| take(row, i128::from(*value)));
                }
                Some(nulls) => {
                    nulls.valid_indices().for_each(|row| take(row, i128::from(values.value(row))));
                }
            }
        }};
    }
    match values.data_type() {
        ArrowType::Int16 => each!(Int16Type),
        ArrowType::Int32 => each!(Int32Type),
        ArrowType::Int64 => each!(Int64Type),
        _ => each!(Decimal128Type),
    }
}

/// The average of one group, or of a sliding window frame.
#[derive(Debug)]
struct NumericAverage {
    sum: Sum,
    scale: i8,
    target: i8,
}

impl Accumulator for NumericAverage {
    fn update_batch(&mut self, values: &[ArrayRef]) -> PlanResult<()> {
        let mut sum = self.sum;
        each_value(&values[0], |_, value| {
            sum.add(value);
            sum.rows += 1;
        });
        self.sum = sum;
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> PlanResult<()> {
        each_value(&values[0], |_, value| {
            self.sum.subtract(value);
            self.sum.rows -= 1;
        });
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> PlanResult<ScalarValue> {
        let average = self.sum.average(self.scale, self.target)?;
        Ok(ScalarValue::Decimal128(average, SUM_PRECISION, self.target))
    }

    fn size(&self) -> usize {
        size_of::<NumericAverage>()
    }

    fn state(&mut self) -> PlanResult<Vec<ScalarValue>> {
        let total = Some(self.sum.total()?);
        Ok(vec![
            ScalarValue::UInt64(Some(self.sum.rows)),
            ScalarValue::Decimal128(total, SUM_PRECISION, self.scale),
        ])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> PlanResult<()> {
        let rows = states[0].as_primitive::<UInt64Type>();
        self.sum.rows += rows.iter().flatten().sum::<u64>();
        each_value(&states[1], |_, total| self.sum.add(total));
        Ok(())
    }
}

/// The average of the distinct values.
#[derive(Debug)]
struct DistinctAverage {
    values: HashSet<i128>,
    scale: i8,
    target: i8,
}

impl Accumulator for DistinctAverage {
    fn update_batch(&mut self, values: &[ArrayRef]) -> PlanResult<()> {
        each_value(&values[0], |_, value| {
            self.values.insert(value);
        });
        Ok(())
    }

    fn evaluate(&mut self) -> PlanResult<ScalarValue> {
        let mut sum = Sum { rows: self.values.len() as u64, ..Sum::default() };
        self.values.iter().for_each(|value| sum.add(*value));
        let average = sum.average(self.scale, self.target)?;
        Ok(ScalarValue::Decimal128(average, SUM_PRECISION, self.target))
    }

    fn size(&self) -> usize {
        size_of::<DistinctAverage>() + self.values.capacity() * size_of::<i128>()
    }

    fn state(&mut self) -> PlanResult<Vec<ScalarValue>> {
        let values = self.values.iter().copied().collect::<Vec<i128>>();
        let offsets = OffsetBuffer::from_lengths([values.len()]);
        let field = item_field(self.scale);
        let values = Decimal128Array::from(values).with_data_type(field.data_type().clone());
        let list = ListArray::try_new(field, offsets, Arc::new(values), None)?;
        Ok(vec![ScalarValue::List(Arc::new(list))])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> PlanResult<()> {
        for list in states[0].as_list::<i32>().iter().flatten() {
            self.update_batch(&[list])?;
        }
        Ok(())
    }
}

/// The averages of many groups.
struct NumericAverages {
    sums: Vec<Sum>,
    scale: i8,
    target: i8,
}

impl GroupsAccumulator for NumericAverages {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        group_indices: &[usize],
        filter: Option<&BooleanArray>,
        groups: usize,
    ) -> PlanResult<()> {
        self.sums.resize(groups, Sum::default());
        each_value(&values[0], |row, value| {
            if filter.is_none_or(|filter| filter.is_valid(row) && filter.value(row)) {
                let sum = &mut self.sums[group_indices[row]];
                sum.add(value);
                sum.rows += 1;
            }
        });
        Ok(())
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> PlanResult<ArrayRef> {
        let sums = emit_to.take_needed(&mut self.sums);
        let averages = sums.into_iter().map(|sum| sum.average(self.scale, self.target));
        let averages = averages.collect::<PlanResult<Decimal128Array>>()?;
        Ok(Arc::new(averages.with_data_type(ArrowType::Decimal128(SUM_PRECISION, self.target))))
    }

    fn state(&mut self, emit_to: EmitTo) -> PlanResult<Vec<ArrayRef>> {
        let sums = emit_to.take_needed(&mut self.sums);
        let rows = UInt64Array::from_iter_values(sums.iter().map(|sum| sum.rows));
        let totals = sums.into_iter().map(Sum::total).collect::<PlanResult<Vec<i128>>>()?;
        let totals = Decimal128Array::from(totals);
        let data_type = ArrowType::Decimal128(SUM_PRECISION, self.scale);
        Ok(vec![Arc::new(rows), Arc::new(totals.with_data_type(data_type))])
    }

    fn merge_batch(
        &mut self,
        states: &[ArrayRef],
        group_indices: &[usize],
        groups: usize,
    ) -> PlanResult<()> {
        self.sums.resize(groups, Sum::default());
        let rows = states[0].as_primitive::<UInt64Type>();
        each_value(&states[1], |row, total| {
            let sum = &mut self.sums[group_indices[row]];
            sum.add(total);
            sum.rows += rows.value(row);
        });
        Ok(())
    }

    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        filter: Option<&BooleanArray>,
    ) -> PlanResult<Vec<ArrayRef>> {
        let data_type = ArrowType::Decimal128(SUM_PRECISION, self.scale);
        let totals = cast(&values[0], &data_type)?;
        let counted = |row: usize| {
            totals.is_valid(row) && filter.is_none_or(|f| f.is_valid(row) && f.value(row))
        };
        let valid: NullBuffer = (0..totals.len()).map(counted).collect::<Vec<_>>().into();
        let rows = UInt64Array::from_iter_values(valid.iter().map(u64::from));
        let totals = totals.as_primitive::<Decimal128Type>();
        let totals = Decimal128Array::new(totals.values().clone(), Some(valid));
        Ok(vec![Arc::new(rows), Arc::new(totals.with_data_type(data_type))])
    }

    fn size(&self) -> usize {
        self.sums.capacity() * size_of::<Sum>()
    }
}

fn interval_item() -> FieldRef {
    Arc::new(Field::new("item", arrow_type(&DataType::Interval), true))
}

/// The average of the distinct intervals. They compare with 30 days a month and 24 hours a day.
#[derive(Debug, Default)]
struct DistinctIntervalAverage {
    /// By their lengths in nanoseconds.
    values: BTreeMap<i128, IntervalMonthDayNano>,
}

impl DistinctIntervalAverage {
    fn column(&self) -> PrimitiveArray<IntervalMonthDayNanoType> {
        PrimitiveArray::from_iter_values(self.values.values().copied())
    }
}

impl Accumulator for DistinctIntervalAverage {
    fn update_batch(&mut self, values: &[ArrayRef]) -> PlanResult<()> {
        const NANOS_PER_DAY: i128 = 86_400_000_000_000;
        for value in values[0].as_primitive::<IntervalMonthDayNanoType>().iter().flatten() {
            let days = i128::from(value.months) * 30 + i128::from(value.days);
            let length = days * NANOS_PER_DAY + i128::from(value.nanoseconds);
            self.values.entry(length).or_insert(value);
        }
        Ok(())
    }

    fn evaluate(&mut self) -> PlanResult<ScalarValue> {
        let mut average = IntervalAverage::new();
        average.update_batch(&[Arc::new(self.column())])?;
        average.evaluate()
    }

    fn size(&self) -> usize {
        size_of::<DistinctIntervalAverage>()
            + self.values.len() * size_of::<(i128, IntervalMonthDayNano)>()
    }

    fn state(&mut self) -> PlanResult<Vec<ScalarValue>> {
        let values = self.column();
        let offsets = OffsetBuffer::from_lengths([values.len()]);
        let list = ListArray::try_new(interval_item(), offsets, Arc::new(values), None)?;
        Ok(vec![ScalarValue::List(Arc::new(list))])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> PlanResult<()> {
        let lists = states[0].as_list::<i32>();
        lists.iter().flatten().try_for_each(|values| self.update_batch(&[values]))
    }
}

#[derive(Debug)]
struct IntervalAverage {
    sum: Total<IntervalMonthDayNanoType>,
}

impl IntervalAverage {
    fn new() -> IntervalAverage {
        IntervalAverage { sum: Total::new(&arrow_type(&DataType::Interval)) }
    }
}

impl Accumulator for IntervalAverage {
    fn update_batch(&mut self, values: &[ArrayRef]) -> PlanResult<()> {
        self.sum.update_batch(values)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> PlanResult<()> {
        self.sum.retract_batch(values)
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> PlanResult<ScalarValue> {
        let Some(sum) = self.sum.sum()? else {
            return Ok(ScalarValue::IntervalMonthDayNano(None));
        };
        let rows = self.sum.rows() as f64;
        let average = scale_interval(sum, |part| part / rows).map_err(external)?;
        Ok(ScalarValue::IntervalMonthDayNano(Some(average)))
    }

    fn size(&self) -> usize {
        self.sum.size()
    }

    fn state(&mut self) -> PlanResult<Vec<ScalarValue>> {
        Ok(vec![ScalarValue::UInt64(Some(self.sum.rows())), self.sum.evaluate()?])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> PlanResult<()> {
        let rows = states[0].as_primitive::<UInt64Type>();
        self.sum.merge_counted(&states[1], rows.iter().flatten().sum());
        Ok(())
    }
}
