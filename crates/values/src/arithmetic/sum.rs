//! `sum` that fails when the total overflows its type, and never wraps around.
//!
//! PostgreSQL's `sum(bigint)` is a `numeric`, which has room for every total. Here it stays
//! `bigint`, which takes a third of the work and is the type that programs bind to; a total that
//! does not fit is an error, never a wrong number. Numerics, whose digits are limited by their
//! bits, and intervals follow this rule too. Floats use DataFusion's own `sum`.

mod groups;
mod summed;
mod totals;

use std::sync::Arc;

use arrow::datatypes::{
    DataType as ArrowType, Decimal128Type, Decimal256Type, Int64Type, IntervalMonthDayNanoType,
    IntervalUnit,
};
use datafusion::common::{Result as PlanResult, ScalarValue};
use datafusion::functions_aggregate::sum::sum_udaf;
use datafusion::logical_expr::function::AccumulatorArgs;
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, GroupsAccumulator, ReversedUDAF, SetMonotonicity,
    StatisticsArgs,
};

use self::totals::DistinctTotal;
pub use self::totals::Total;
use crate::float_frames::{self, Figure};

/// DataFusion's `sum`, with accumulators of its own for all that could wrap around.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct CheckedSum {
    inner: Arc<AggregateUDF>,
}

impl Default for CheckedSum {
    fn default() -> CheckedSum {
        CheckedSum { inner: sum_udaf() }
    }
}

/// Expands to the first expression, with `$type` as the Arrow type, for data types whose sums are
/// checked, and to the other expression for the rest.
macro_rules! by_type {
    ($data_type:expr, $type:ident => $checked:expr, $other:expr) => {
        match $data_type {
            ArrowType::Int64 => {
                type $type = Int64Type;
                $checked
            }
            ArrowType::Decimal128(_, _) => {
                type $type = Decimal128Type;
                $checked
            }
            ArrowType::Decimal256(_, _) => {
                type $type = Decimal256Type;
                $checked
            }
            ArrowType::Interval(IntervalUnit::MonthDayNano) => {
                type $type = IntervalMonthDayNanoType;
                $checked
            }
            _ => $other,
        }
    };
}

/// For one group, and for window frames that slide.
fn checked_total(args: &AccumulatorArgs) -> Option<Box<dyn Accumulator>> {
    let data_type = args.return_field.data_type();
    by_type!(data_type, T => Some(match args.is_distinct {
        true => Box::new(DistinctTotal::<T>::new(data_type)) as Box<dyn Accumulator>,
        false => Box::new(Total::<T>::new(data_type)),
    }), None)
}

impl AggregateUDFImpl for CheckedSum {
    crate::hands_on_to_inner!();

    fn accumulator(&self, args: AccumulatorArgs) -> PlanResult<Box<dyn Accumulator>> {
        match checked_total(&args) {
            Some(total) => Ok(total),
            None => self.inner.accumulator(args),
        }
    }

    fn create_groups_accumulator(
        &self,
        args: AccumulatorArgs,
    ) -> PlanResult<Box<dyn GroupsAccumulator>> {
        let field = Arc::clone(&args.return_field);
        let data_type = field.data_type();
        by_type!(data_type, T => Ok(groups::sums::<T>(data_type)), {
            self.inner.create_groups_accumulator(args)
        })
    }

    fn create_sliding_accumulator(
        &self,
        args: AccumulatorArgs,
    ) -> PlanResult<Box<dyn Accumulator>> {
        match checked_total(&args) {
            Some(total) => Ok(total),
            None => match float_frames::sliding(&args, Figure::Sum) {
                Some(frame) => Ok(frame),
                None => self.inner.create_sliding_accumulator(args),
            },
        }
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }

    fn set_monotonicity(&self, data_type: &ArrowType) -> SetMonotonicity {
        self.inner.inner().set_monotonicity(data_type)
    }

    fn value_from_stats(&self, statistics: &StatisticsArgs) -> Option<ScalarValue> {
        self.inner.value_from_stats(statistics)
    }
}
