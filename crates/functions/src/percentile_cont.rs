//! `percentile_cont(fraction) WITHIN GROUP (ORDER BY …)`, and of arrays of fractions.
//!
//! DataFusion's own keeps only the first of several states of a group that are merged at once, and
//! truncates the interpolation between two values after six digits.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Float64Array, ListArray};
use arrow::buffer::OffsetBuffer;
use arrow::compute::cast;
use arrow::datatypes::{DataType as ArrowType, Field, FieldRef, Float64Type};
use datafusion::common::types::{NativeType, logical_float64};
use datafusion::common::{Result as PlanResult, ScalarValue};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Coercion, Signature, TypeSignature,
    TypeSignatureClass, Volatility,
};
use thalweg_types::{Error, SqlState};
use thalweg_values::errors::external;

use super::ordered_set::{Fractions, item_field, percentile_type};

pub(super) fn function() -> Arc<AggregateUDF> {
    Arc::new(AggregateUDF::from(PercentileCont::default()))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct PercentileCont {
    signature: Signature,
    aliases: Vec<String>,
}

impl Default for PercentileCont {
    fn default() -> PercentileCont {
        let float = Coercion::new_implicit(
            TypeSignatureClass::Native(logical_float64()),
            vec![TypeSignatureClass::Numeric],
            NativeType::Float64,
        );
        let array = Coercion::new_exact(TypeSignatureClass::Any);
        let lists = [vec![float.clone(), float.clone()], vec![float, array]];
        let lists = lists.map(TypeSignature::Coercible).into();
        PercentileCont {
            signature: Signature::one_of(lists, Volatility::Immutable),
            aliases: vec!["quantile_cont".to_owned()],
        }
    }
}

impl PercentileCont {
    fn values(args: &AccumulatorArgs, slides: bool) -> PlanResult<Box<dyn Accumulator>> {
        let descending = args.order_bys.first().is_some_and(|order| order.options.descending);
        let fractions = Fractions::of(args)?;
        Ok(Box::new(Values { fractions, descending, slides, values: Vec::new() }))
    }
}

impl AggregateUDFImpl for PercentileCont {
    fn name(&self) -> &str {
        "percentile_cont"
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arg_types: &[ArrowType]) -> PlanResult<ArrowType> {
        match arg_types {
            [_, given] if !given.is_numeric() && !matches!(given, ArrowType::List(_)) => {
                let error_text =
                    "function percentile_cont does not exist for the given argument types";
                Err(external(Error::new(SqlState::UNDEFINED_FUNCTION, error_text)))
            }
            [_, fractions] => percentile_type(&ArrowType::Float64, fractions),
            _ => Ok(ArrowType::Float64),
        }
    }

    fn supports_within_group_clause(&self) -> bool {
        true
    }

    fn state_fields(&self, args: StateFieldsArgs) -> PlanResult<Vec<FieldRef>> {
        let items = ArrowType::List(item_field(&ArrowType::Float64));
        Ok(vec![Arc::new(Field::new(format!("{}[values]", args.name), items, true))])
    }

    fn accumulator(&self, args: AccumulatorArgs) -> PlanResult<Box<dyn Accumulator>> {
        PercentileCont::values(&args, false)
    }

    fn create_sliding_accumulator(
        &self,
        args: AccumulatorArgs,
    ) -> PlanResult<Box<dyn Accumulator>> {
        PercentileCont::values(&args, true)
    }
}

/// All values of a group but NULLs.
#[derive(Debug)]
struct Values {
    fractions: Fractions,
    descending: bool,
    /// True if values leave again, in the order in which they came.
    slides: bool,
    values: Vec<f64>,
}

impl Accumulator for Values {
    fn update_batch(&mut self, values: &[ArrayRef]) -> PlanResult<()> {
        let values = cast(&values[0], &ArrowType::Float64)?;
        let values = values.as_primitive::<Float64Type>();
        match values.null_count() {
            0 => self.values.extend_from_slice(values.values()),
            _ => self.values.extend(values.iter().flatten()),
        }
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> PlanResult<()> {
        let gone = values[0].len() - values[0].logical_null_count();
        self.values.drain(..gone);
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        self.slides
    }

    fn evaluate(&mut self) -> PlanResult<ScalarValue> {
        if self.values.is_empty() {
            return self.fractions.of_nothing(&ArrowType::Float64);
        }
        let mut copied = Vec::new();
        let values = match self.slides {
            true => {
                copied.clone_from(&self.values);
                &mut copied
            }
            false => &mut self.values,
        };
        self.fractions.each(&ArrowType::Float64, |fraction| {
            Ok(ScalarValue::Float64(percentile(values, fraction, self.descending)))
        })
    }

    fn size(&self) -> usize {
        size_of::<Values>() + self.values.capacity() * size_of::<f64>()
    }

    fn state(&mut self) -> PlanResult<Vec<ScalarValue>> {
        let values = std::mem::take(&mut self.values);
        let offsets = OffsetBuffer::from_lengths([values.len()]);
        let values = Arc::new(Float64Array::from(values));
        let list = ListArray::try_new(item_field(&ArrowType::Float64), offsets, values, None)?;
        Ok(vec![ScalarValue::List(Arc::new(list))])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> PlanResult<()> {
        for list in states[0].as_list::<i32>().iter().flatten() {
            self.update_batch(&[list])?;
        }
        Ok(())
    }
}

/// The value at this fraction of the way from the first value to the last one, in their order.
fn percentile(values: &mut [f64], fraction: f64, descending: bool) -> Option<f64> {
    let compare = |a: &f64, b: &f64| {
        let order = in_order(*a, *b);
        if descending { order.reverse() } else { order }
    };
    let place = fraction * values.len().checked_sub(1)? as f64;
    let before = place.floor();
    let (_, first, behind) = values.select_nth_unstable_by(before as usize, compare);
    if place == before {
        return Some(*first);
    }
    let second = behind.iter().copied().min_by(compare)?;
    Some(*first + (place - before) * (second - *first))
}

/// PostgreSQL's order, in which NaN is greater than all others, and both zeros are equal.
fn in_order(a: f64, b: f64) -> Ordering {
    a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &[f64], fraction: f64, descending: bool) -> Option<f64> {
        percentile(&mut values.to_vec(), fraction, descending)
    }

    #[test]
    fn results_lie_between_values_as_far_as_they_should() {
        let values = [16.0, 1.0, 4.0, 8.0, 2.0];
        let ascending = [0.0, 0.25, 0.3, 0.99, 1.0].map(|fraction| of(&values, fraction, false));
        assert_eq!(ascending, [1.0, 2.0, 2.4, 15.68, 16.0].map(Some));
        let descending = [0.0, 0.3, 1.0].map(|fraction| of(&values, fraction, true));
        assert_eq!(descending, [16.0, 7.2, 1.0].map(Some));
        assert_eq!((of(&[], 0.5, false), of(&[3.0], 0.5, false)), (None, Some(3.0)));
    }

    #[test]
    fn nan_is_the_greatest_whatever_its_sign() {
        for nan in [f64::NAN, -f64::NAN] {
            let values = [nan, f64::INFINITY, 1.0];
            assert_eq!(of(&values, 0.5, false), Some(f64::INFINITY));
            assert!(of(&values, 0.0, true).is_some_and(f64::is_nan));
        }
    }

    #[test]
    fn all_states_of_a_group_are_merged() {
        let values = |slides| {
            let values = Vec::new();
            Values { fractions: Fractions::One(Some(0.5)), descending: false, slides, values }
        };
        let column = |rows: &[Option<f64>]| Arc::new(Float64Array::from(rows.to_vec())) as ArrayRef;
        let mut merged = values(false);
        let states = [[Some(1.0), None], [Some(2.0), Some(9.0)]].map(|rows| {
            let mut part = values(false);
            part.update_batch(&[column(&rows)]).unwrap();
            part.state().unwrap().remove(0)
        });
        merged.merge_batch(&[ScalarValue::iter_to_array(states).unwrap()]).unwrap();
        assert_eq!(merged.evaluate().unwrap(), ScalarValue::Float64(Some(2.0)));
        // The oldest values go first, however often the others were asked for in between.
        let mut frame = values(true);
        frame.update_batch(&[column(&[Some(9.0), None, Some(1.0), Some(2.0)])]).unwrap();
        assert_eq!(frame.evaluate().unwrap(), ScalarValue::Float64(Some(2.0)));
        frame.retract_batch(&[column(&[Some(9.0), None])]).unwrap();
        assert_eq!(frame.evaluate().unwrap(), ScalarValue::Float64(Some(1.5)));
    }
}
