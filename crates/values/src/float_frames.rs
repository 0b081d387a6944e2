//! Aggregates of floating point numbers over window frames that slide.
//!
//! A value that leaves a frame cannot be taken from a sum of floats: `1e20 + 1 - 1e20` is 0. Like
//! PostgreSQL, which has no inverse transition functions for these, each frame is computed anew
//! from its values. A row costs as much as its frame has values. No upstream issue found.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType as ArrowType, Float64Type};
use datafusion::common::{Result as PlanResult, ScalarValue, internal_err};
use datafusion::functions_aggregate::stddev::{stddev_pop_udaf, stddev_udaf};
use datafusion::functions_aggregate::variance::{var_pop_udaf, var_samp_udaf};
use datafusion::logical_expr::function::AccumulatorArgs;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, GroupsAccumulator, ReversedUDAF,
};

/// Variances and standard deviations.
pub fn functions() -> Vec<Arc<AggregateUDF>> {
    [
        (var_samp_udaf(), &["variance"] as &[&str], Figure::Variance { of_sample: true }),
        (var_pop_udaf(), &[], Figure::Variance { of_sample: false }),
        (stddev_udaf(), &[], Figure::Deviation { of_sample: true }),
        (stddev_pop_udaf(), &[], Figure::Deviation { of_sample: false }),
    ]
    .into_iter()
    .map(|(inner, more, figure)| {
        let aliases = inner.aliases().iter().cloned();
        let aliases = aliases.chain(more.iter().map(|name| (*name).to_owned())).collect();
        Arc::new(AggregateUDF::from(Spread { inner, aliases, figure }))
    })
    .collect()
}

/// For frames that slide: the figure of floats; `None` for other types.
pub fn sliding(args: &AccumulatorArgs, figure: Figure) -> Option<Box<dyn Accumulator>> {
    let given = args.expr_fields.first()?.data_type();
    let is_float = matches!(given, ArrowType::Float32 | ArrowType::Float64);
    (is_float && !args.is_distinct).then(|| {
        let data_type = args.return_field.data_type().clone();
        Box::new(FloatFrame { values: VecDeque::new(), figure, data_type }) as _
    })
}

/// Aggregates of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Figure {
    Sum,
    Average,
    Variance { of_sample: bool },
    Deviation { of_sample: bool },
}

impl Figure {
    /// The figure of values in their order; `None` if there are too few.
    fn of(self, values: &VecDeque<f64>) -> Option<f64> {
        let count = values.len() as f64;
        if values.is_empty() {
            return None;
        }
        let sum = || values.iter().sum::<f64>();
        match self {
            Figure::Sum => Some(sum()),
            Figure::Average => Some(sum() / count),
            Figure::Variance { of_sample } => variance(values, of_sample),
            Figure::Deviation { of_sample } => variance(values, of_sample).map(f64::sqrt),
        }
    }
}

/// The method of Youngs and Cramer, which PostgreSQL uses too.
fn variance(values: &VecDeque<f64>, of_sample: bool) -> Option<f64> {
    let (mut count, mut sum, mut squares) = (0.0, 0.0, 0.0);
    for value in values {
        count += 1.0;
        sum += value;
        if count > 1.0 {
            let apart = value * count - sum;
            squares += apart * apart / (count * (count - 1.0));
        } else if !value.is_finite() {
            squares = f64::NAN;
        }
    }
    let divisor = if of_sample { count - 1.0 } else { count };
    (divisor > 0.0).then(|| squares / divisor)
}

/// The values of a frame that are not NULL, the oldest first.
#[derive(Debug)]
struct FloatFrame {
    values: VecDeque<f64>,
    figure: Figure,
    data_type: ArrowType,
}

impl Accumulator for FloatFrame {
    fn update_batch(&mut self, values: &[ArrayRef]) -> PlanResult<()> {
        let values = cast(&values[0], &ArrowType::Float64)?;
        self.values.extend(values.as_primitive::<Float64Type>().iter().flatten());
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> PlanResult<()> {
        let leaving = values[0].len() - values[0].null_count();
        self.values.drain(..leaving);
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> PlanResult<ScalarValue> {
        ScalarValue::Float64(self.figure.of(&self.values)).cast_to(&self.data_type)
    }

    fn size(&self) -> usize {
        size_of::<FloatFrame>() + self.values.capacity() * size_of::<f64>()
    }

    fn state(&mut self) -> PlanResult<Vec<ScalarValue>> {
        internal_err!("frames are not merged")
    }

    fn merge_batch(&mut self, _: &[ArrayRef]) -> PlanResult<()> {
        internal_err!("frames are not merged")
    }
}

/// DataFusion's own function, except for sliding frames.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Spread {
    inner: Arc<AggregateUDF>,
    aliases: Vec<String>,
    figure: Figure,
}

impl AggregateUDFImpl for Spread {
    crate::hands_on_to_inner!();

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn coerce_types(&self, arg_types: &[ArrowType]) -> PlanResult<Vec<ArrowType>> {
        self.inner.coerce_types(arg_types)
    }

    fn accumulator(&self, args: AccumulatorArgs) -> PlanResult<Box<dyn Accumulator>> {
        self.inner.accumulator(args)
    }

    fn create_groups_accumulator(
        &self,
        args: AccumulatorArgs,
    ) -> PlanResult<Box<dyn GroupsAccumulator>> {
        self.inner.create_groups_accumulator(args)
    }

    fn create_sliding_accumulator(
        &self,
        args: AccumulatorArgs,
    ) -> PlanResult<Box<dyn Accumulator>> {
        match sliding(&args, self.figure) {
            Some(frame) => Ok(frame),
            None => self.inner.create_sliding_accumulator(args),
        }
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        self.inner.reverse_udf()
    }
}
