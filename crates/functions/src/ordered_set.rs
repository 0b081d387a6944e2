//! `mode()` and `percentile_disc(fraction)`, both `WITHIN GROUP (ORDER BY …)`, and the fractions of
//! percentiles: one of them, or an array.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListArray, new_empty_array};
use arrow::buffer::OffsetBuffer;
use arrow::compute::{SortOptions, cast, filter, is_not_null, sort_to_indices, take};
use arrow::datatypes::{DataType as ArrowType, Field, FieldRef, Float64Type, Schema};
use arrow::record_batch::{RecordBatch, RecordBatchOptions};
use datafusion::common::{Result as PlanResult, ScalarValue};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility,
};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Literal;
use datafusion::physical_expr::utils::collect_columns;
use thalweg_types::{Error, SqlState};
use thalweg_values::errors::external;
use thalweg_values::interval_length::lengths;
use thalweg_values::statement_control::check_cancelled;

use super::group_values::GroupValues;

pub(super) fn functions() -> Vec<Arc<AggregateUDF>> {
    [Kind::Mode, Kind::PercentileDisc]
        .map(|kind| Arc::new(AggregateUDF::from(OrderedSet::new(kind))))
        .into()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Mode,
    PercentileDisc,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct OrderedSet {
    kind: Kind,
    signature: Signature,
}

impl OrderedSet {
    fn new(kind: Kind) -> OrderedSet {
        let arguments = if kind == Kind::Mode { 1 } else { 2 };
        OrderedSet { kind, signature: Signature::any(arguments, Volatility::Immutable) }
    }
}

/// The requested fractions; `None` stands for NULL.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Fractions {
    One(Option<f64>),
    /// The fractions of an array, or `None` for an array that is NULL.
    Many(Option<Vec<Option<f64>>>),
}

impl Fractions {
    pub(super) fn of(args: &AccumulatorArgs) -> PlanResult<Fractions> {
        if args.is_distinct {
            return Err(refused(SqlState::SYNTAX_ERROR, "cannot use DISTINCT with WITHIN GROUP"));
        }
        let [_, fraction, ..] = args.exprs else { return Ok(Fractions::One(Some(0.0))) };
        Ok(match constant(fraction)? {
            ScalarValue::List(list) => {
                let fractions = list.is_valid(0).then(|| in_range(&list.value(0)));
                Fractions::Many(fractions.transpose()?)
            }
            value => Fractions::One(in_range(&value.to_array()?)?.first().copied().flatten()),
        })
    }

    /// The result where there are no values.
    pub(super) fn of_nothing(&self, data_type: &ArrowType) -> PlanResult<ScalarValue> {
        match self {
            Fractions::One(_) => ScalarValue::try_from(data_type),
            Fractions::Many(_) => Ok(ScalarValue::new_null_list(data_type.clone(), true, 1)),
        }
    }

    /// The value at the fraction, or an array of the values at all fractions.
    pub(super) fn each(
        &self,
        data_type: &ArrowType,
        mut value: impl FnMut(f64) -> PlanResult<ScalarValue>,
    ) -> PlanResult<ScalarValue> {
        let mut value = |fraction: Option<f64>| match fraction {
            Some(fraction) => value(fraction),
            None => ScalarValue::try_from(data_type),
        };
        match self {
            Fractions::One(fraction) => value(*fraction),
            Fractions::Many(Some(fractions)) => {
                let values =
                    fractions.iter().copied().map(value).collect::<PlanResult<Vec<_>>>()?;
                Ok(ScalarValue::List(ScalarValue::new_list(&values, data_type, true)))
            }
            Fractions::Many(None) => self.of_nothing(data_type),
        }
    }
}

/// The type of a result: the type of a value, or an array of it for an array of fractions.
pub(super) fn percentile_type(value: &ArrowType, fractions: &ArrowType) -> PlanResult<ArrowType> {
    let is_fraction = |given: &ArrowType| given.is_numeric() || given.is_null();
    match fractions {
        ArrowType::List(item) if is_fraction(item.data_type()) => {
            Ok(ArrowType::List(item_field(value)))
        }
        ArrowType::List(_) => {
            let error_text = "percentiles are of fractions that are numbers";
            Err(refused(SqlState::UNDEFINED_FUNCTION, error_text))
        }
        _ => Ok(value.clone()),
    }
}

fn in_range(fractions: &ArrayRef) -> PlanResult<Vec<Option<f64>>> {
    let fractions = cast(fractions, &ArrowType::Float64)?;
    let checked = fractions.as_primitive::<Float64Type>().iter().map(|fraction| match fraction {
        Some(fraction) if !(0.0..=1.0).contains(&fraction) => {
            let error_text = format!("percentile value {fraction} is not between 0 and 1");
            Err(refused(SqlState::NUMERIC_OUT_OF_RANGE, error_text))
        }
        fraction => Ok(fraction),
    });
    checked.collect()
}

/// The value of an expression without columns. A literal, which is the usual case, is not
/// evaluated: each group calls this.
fn constant(expr: &Arc<dyn PhysicalExpr>) -> PlanResult<ScalarValue> {
    if let Some(literal) = expr.downcast_ref::<Literal>() {
        return Ok(literal.value().clone());
    }
    if !collect_columns(expr).is_empty() {
        let error_text = "a percentile value that is not a constant is not supported";
        return Err(refused(SqlState::FEATURE_NOT_SUPPORTED, error_text));
    }
    let options = RecordBatchOptions::new().with_row_count(Some(1));
    let schema = Arc::new(Schema::empty());
    let batch = RecordBatch::try_new_with_options(schema, Vec::new(), &options)?;
    let value = expr.evaluate(&batch)?.into_array(1)?;
    ScalarValue::try_from_array(&value, 0)
}

fn refused(state: SqlState, error_text: impl Into<String>) -> DataFusionError {
    external(Error::new(state, error_text))
}

impl AggregateUDFImpl for OrderedSet {
    fn name(&self) -> &str {
        match self.kind {
            Kind::Mode => "mode",
            Kind::PercentileDisc => "percentile_disc",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arg_types: &[ArrowType]) -> PlanResult<ArrowType> {
        match arg_types {
            [value, fractions, ..] => percentile_type(value, fractions),
            _ => Ok(arg_types[0].clone()),
        }
    }

    fn supports_within_group_clause(&self) -> bool {
        true
    }

    fn state_fields(&self, args: StateFieldsArgs) -> PlanResult<Vec<FieldRef>> {
        let items = ArrowType::List(item_field(args.input_fields[0].data_type()));
        Ok(vec![Arc::new(Field::new(format!("{}[values]", args.name), items, true))])
    }

    fn accumulator(&self, args: AccumulatorArgs) -> PlanResult<Box<dyn Accumulator>> {
        let descending = args.order_bys.first().is_some_and(|order| order.options.descending);
        Ok(Box::new(Values {
            kind: self.kind,
            fractions: Fractions::of(&args)?,
            descending,
            data_type: args.expr_fields[0].data_type().clone(),
            pieces: GroupValues::default(),
        }))
    }
}

pub(super) fn item_field(data_type: &ArrowType) -> FieldRef {
    Arc::new(Field::new("item", data_type.clone(), true))
}

/// All values of a group but NULLs, sorted when the result is asked for.
#[derive(Debug)]
struct Values {
    kind: Kind,
    fractions: Fractions,
    descending: bool,
    data_type: ArrowType,
    pieces: GroupValues,
}

impl Values {
    fn all(&mut self) -> PlanResult<ArrayRef> {
        // Many groups are evaluated one after the other, so each checks for cancellation.
        check_cancelled().map_err(external)?;
        Ok(self.pieces.all()?.unwrap_or_else(|| new_empty_array(&self.data_type)))
    }
}

impl Accumulator for Values {
    fn update_batch(&mut self, values: &[ArrayRef]) -> PlanResult<()> {
        let values = &values[0];
        let kept = match values.null_count() {
            0 => values.clone(),
            _ => filter(values, &is_not_null(values)?)?,
        };
        Ok(self.pieces.push(&kept)?)
    }

    fn evaluate(&mut self) -> PlanResult<ScalarValue> {
        let options = SortOptions { descending: self.descending, nulls_first: false };
        let values = self.all()?;
        if values.is_empty() {
            return self.fractions.of_nothing(&self.data_type);
        }
        let keys = match self.data_type {
            ArrowType::Interval(_) => lengths(&values),
            _ => Arc::clone(&values),
        };
        let order = sort_to_indices(&keys, Some(options), None)?;
        let (sorted, keys) = (take(&values, &order, None)?, take(&keys, &order, None)?);
        self.fractions.each(&self.data_type, |fraction| {
            let place = match self.kind {
                // The first value whose share of the rows reaches the fraction.
                Kind::PercentileDisc => {
                    let place = (fraction * sorted.len() as f64).ceil() as usize;
                    place.clamp(1, sorted.len()) - 1
                }
                Kind::Mode => start_of_longest_run(&keys)?,
            };
            ScalarValue::try_from_array(&sorted, place)
        })
    }

    fn size(&self) -> usize {
        size_of::<Values>() + self.pieces.size()
    }

    fn state(&mut self) -> PlanResult<Vec<ScalarValue>> {
        let values = self.all()?;
        let offsets = OffsetBuffer::from_lengths([values.len()]);
        let list = ListArray::try_new(item_field(&self.data_type), offsets, values, None)?;
        Ok(vec![ScalarValue::List(Arc::new(list))])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> PlanResult<()> {
        for list in states[0].as_list::<i32>().iter().flatten() {
            self.update_batch(&[list])?;
        }
        Ok(())
    }
}

fn start_of_longest_run(sorted: &ArrayRef) -> PlanResult<usize> {
    let runs = arrow::compute::partition(std::slice::from_ref(sorted))?.ranges();
    // The first one of several longest runs wins.
    let longest = runs.into_iter().rev().max_by_key(|run| run.len());
    Ok(longest.map_or(0, |run| run.start))
}
