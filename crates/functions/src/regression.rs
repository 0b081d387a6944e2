//! `regr_count` and `regr_r2`: DataFusion's own, but `regr_count` is a `bigint`, and `regr_r2`
//! handles values that are all equal.

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType as ArrowType, FieldRef};
use datafusion::common::{Result as PlanResult, ScalarValue};
use datafusion::functions_aggregate::regr::{regr_count_udaf, regr_r2_udaf};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Documentation, Signature,
};

pub(super) fn functions() -> [Arc<AggregateUDF>; 2] {
    let regression = |inner, kind| Arc::new(AggregateUDF::from(Regression { inner, kind }));
    [regression(regr_count_udaf(), Kind::Count), regression(regr_r2_udaf(), Kind::Determination)]
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Count,
    Determination,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Regression {
    inner: Arc<AggregateUDF>,
    kind: Kind,
}

impl AggregateUDFImpl for Regression {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, _arg_types: &[ArrowType]) -> PlanResult<ArrowType> {
        Ok(match self.kind {
            Kind::Count => ArrowType::Int64,
            Kind::Determination => ArrowType::Float64,
        })
    }

    fn default_value(&self, _data_type: &ArrowType) -> PlanResult<ScalarValue> {
        Ok(match self.kind {
            Kind::Count => ScalarValue::Int64(Some(0)),
            Kind::Determination => ScalarValue::Float64(None),
        })
    }

    fn is_nullable(&self) -> bool {
        self.inner.is_nullable()
    }

    fn state_fields(&self, args: StateFieldsArgs) -> PlanResult<Vec<FieldRef>> {
        self.inner.state_fields(args)
    }

    fn accumulator(&self, args: AccumulatorArgs) -> PlanResult<Box<dyn Accumulator>> {
        Ok(Box::new(Pairs { inner: self.inner.accumulator(args)?, kind: self.kind }))
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }
}

#[derive(Debug)]
struct Pairs {
    inner: Box<dyn Accumulator>,
    kind: Kind,
}

impl Pairs {
    /// True if a line without a slope goes through all points, and their x differ.
    fn are_level(&mut self) -> PlanResult<bool> {
        let state = self.inner.state()?;
        let [_, _, _, ScalarValue::Float64(Some(x)), ScalarValue::Float64(Some(y)), _] =
            state.as_slice()
        else {
            return Ok(false);
        };
        Ok(*x > 0.0 && *y == 0.0)
    }
}

impl Accumulator for Pairs {
    fn update_batch(&mut self, values: &[ArrayRef]) -> PlanResult<()> {
        self.inner.update_batch(values)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> PlanResult<()> {
        self.inner.retract_batch(values)
    }

    fn supports_retract_batch(&self) -> bool {
        self.inner.supports_retract_batch()
    }

    fn evaluate(&mut self) -> PlanResult<ScalarValue> {
        match self.kind {
            Kind::Count => self.inner.evaluate()?.cast_to(&ArrowType::Int64),
            Kind::Determination => match self.are_level()? {
                true => Ok(ScalarValue::Float64(Some(1.0))),
                false => self.inner.evaluate(),
            },
        }
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.inner.size()
    }

    fn state(&mut self) -> PlanResult<Vec<ScalarValue>> {
        self.inner.state()
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> PlanResult<()> {
        self.inner.merge_batch(states)
    }
}
