//! `array_agg`: DataFusion's own for many groups at once. Otherwise values are concatenated in
//! pieces, and distinct values of most types are sorted (`distinct_values.rs`).

mod cached_size;
mod concat_arrays;
mod distinct;
mod distinct_values;
mod frames;
mod groups;
mod ordered;
mod runs;
mod unordered;

use std::sync::Arc;

use datafusion::common::Result as PlanResult;
use datafusion::functions_aggregate::array_agg::array_agg_udaf;
use datafusion::logical_expr::function::AccumulatorArgs;
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Documentation, GroupsAccumulator, ReversedUDAF,
};

pub use self::frames::WindowFrames;

use self::distinct::Sorted;
use self::distinct_values::DistinctValues;
use self::groups::Groups;
use self::ordered::{InOrder, Order};
use self::unordered::Unordered;

pub(super) fn function() -> Arc<AggregateUDF> {
    Arc::new(AggregateUDF::from(ArrayAgg { inner: array_agg_udaf() }))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct ArrayAgg {
    inner: Arc<AggregateUDF>,
}

impl AggregateUDFImpl for ArrayAgg {
    thalweg_values::hands_on_to_inner!();

    fn accumulator(&self, args: AccumulatorArgs) -> PlanResult<Box<dyn Accumulator>> {
        if args.is_distinct {
            let is_ordered = !args.order_bys.is_empty();
            if !is_ordered && DistinctValues::takes(&args) {
                return Ok(Box::new(DistinctValues::new(&args)));
            }
            let inner = self.inner.accumulator(args)?;
            return Ok(if is_ordered { inner } else { Box::new(Sorted::new(inner)) });
        }
        if args.order_bys.is_empty() {
            return Ok(Box::new(Unordered::new(&args)));
        }
        let order = Order::of(&args)?;
        Ok(Box::new(InOrder::new(self.inner.accumulator(args)?, order)))
    }

    fn create_sliding_accumulator(
        &self,
        args: AccumulatorArgs,
    ) -> PlanResult<Box<dyn Accumulator>> {
        match args.is_distinct && args.order_bys.is_empty() {
            true => Ok(Box::new(Sorted::new(self.inner.accumulator(args)?))),
            false => self.accumulator(args),
        }
    }

    fn create_groups_accumulator(
        &self,
        args: AccumulatorArgs,
    ) -> PlanResult<Box<dyn GroupsAccumulator>> {
        let item = args.expr_fields[0].data_type().clone();
        Ok(Box::new(Groups::new(self.inner.create_groups_accumulator(args)?, item)))
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        self.inner.order_sensitivity()
    }

    fn with_beneficial_ordering(
        self: Arc<Self>,
        is_given: bool,
    ) -> PlanResult<Option<Arc<dyn AggregateUDFImpl>>> {
        let inner = Arc::clone(self.inner.inner()).with_beneficial_ordering(is_given)?;
        Ok(inner.map(|inner| {
            let inner = Arc::new(AggregateUDF::new_from_shared_impl(inner));
            Arc::new(ArrayAgg { inner }) as Arc<dyn AggregateUDFImpl>
        }))
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Reversed(function())
    }

    fn supports_null_handling_clause(&self) -> bool {
        self.inner.supports_null_handling_clause()
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }
}
