//! The longest and the shortest of some intervals.

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::sync::{Arc, LazyLock};

use arrow::array::{Array, ArrayRef, AsArray, PrimitiveArray};
use arrow::datatypes::{
    DataType as ArrowType, IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit,
};
use datafusion::common::{Result as PlanResult, ScalarValue};
use datafusion::logical_expr::function::AccumulatorArgs;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Expr, ScalarUDF, Signature, TypeSignature,
    Volatility,
};
use thalweg_types::Result;
use thalweg_values::interval_length::micros_of;
use thalweg_values::scalar_function::Function;

const INTERVAL: ArrowType = ArrowType::Interval(IntervalUnit::MonthDayNano);

type Intervals = PrimitiveArray<IntervalMonthDayNanoType>;

static LONGEST: LazyLock<Arc<AggregateUDF>> =
    LazyLock::new(|| Extreme::udaf("max", Wanted::Longest));
static SHORTEST: LazyLock<Arc<AggregateUDF>> =
    LazyLock::new(|| Extreme::udaf("min", Wanted::Shortest));
static FIRST: LazyLock<Arc<AggregateUDF>> =
    LazyLock::new(|| Extreme::udaf("first_interval", Wanted::First));
static GREATEST: LazyLock<Arc<ScalarUDF>> =
    LazyLock::new(|| chooser("greatest", |columns| Ok(chosen(columns, Ordering::Greater))));
static LEAST: LazyLock<Arc<ScalarUDF>> =
    LazyLock::new(|| chooser("least", |columns| Ok(chosen(columns, Ordering::Less))));

/// The aggregate for intervals that replaces an aggregate of other values.
pub(super) fn of_name(name: &str) -> Option<Arc<AggregateUDF>> {
    match name {
        "max" => Some(Arc::clone(&LONGEST)),
        "min" => Some(Arc::clone(&SHORTEST)),
        _ => None,
    }
}

/// The first one of intervals that all have the same length.
pub(super) fn first_of_equal(interval: Expr) -> Expr {
    FIRST.call(vec![interval])
}

pub(super) fn greatest(intervals: Vec<Expr>) -> Expr {
    GREATEST.call(intervals)
}

pub(super) fn least(intervals: Vec<Expr>) -> Expr {
    LEAST.call(intervals)
}

fn chooser(name: &'static str, compute: fn(&[ArrayRef]) -> Result<ArrayRef>) -> Arc<ScalarUDF> {
    Function::signed(name, TypeSignature::VariadicAny, INTERVAL, compute).into_udf()
}

fn compare(one: IntervalMonthDayNano, other: IntervalMonthDayNano) -> Ordering {
    micros_of(one).cmp(&micros_of(other))
}

/// The interval that an aggregate looks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Wanted {
    /// The last one of the longest intervals.
    Longest,
    /// The last one of the shortest intervals.
    Shortest,
    /// The first one, of intervals that are all equal.
    First,
}

impl Wanted {
    /// True if `other`, which came later, replaces `kept`.
    fn replaces(self, other: IntervalMonthDayNano, kept: IntervalMonthDayNano) -> bool {
        match self {
            Wanted::Longest => compare(other, kept).is_ge(),
            Wanted::Shortest => compare(other, kept).is_le(),
            Wanted::First => false,
        }
    }
}

/// The wanted interval of each row; NULLs are skipped.
fn chosen(columns: &[ArrayRef], wanted: Ordering) -> ArrayRef {
    let columns: Vec<&Intervals> = columns.iter().map(|column| column.as_primitive()).collect();
    let rows = columns.first().map_or(0, |column| column.len());
    let chosen = (0..rows).map(|row| {
        let given = columns.iter().filter(|column| column.is_valid(row));
        given
            .map(|column| column.value(row))
            .reduce(|kept, other| if compare(other, kept) == wanted { other } else { kept })
    });
    Arc::new(chosen.collect::<Intervals>())
}

/// `max`, `min`, or the aggregate that picks one of a group of equal intervals.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Extreme {
    name: &'static str,
    wanted: Wanted,
    signature: Signature,
}

impl Extreme {
    fn udaf(name: &'static str, wanted: Wanted) -> Arc<AggregateUDF> {
        let signature = Signature::exact(vec![INTERVAL], Volatility::Immutable);
        Arc::new(AggregateUDF::from(Extreme { name, wanted, signature }))
    }
}

impl AggregateUDFImpl for Extreme {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arg_types: &[ArrowType]) -> PlanResult<ArrowType> {
        Ok(INTERVAL)
    }

    fn accumulator(&self, _args: AccumulatorArgs) -> PlanResult<Box<dyn Accumulator>> {
        Ok(Box::new(Best { wanted: self.wanted, best: None }))
    }

    fn create_sliding_accumulator(&self, _: AccumulatorArgs) -> PlanResult<Box<dyn Accumulator>> {
        let candidates = VecDeque::new();
        Ok(Box::new(Sliding { wanted: self.wanted, candidates, entered: 0, left: 0 }))
    }
}

/// The best interval so far.
#[derive(Debug)]
struct Best {
    wanted: Wanted,
    best: Option<IntervalMonthDayNano>,
}

impl Accumulator for Best {
    fn update_batch(&mut self, values: &[ArrayRef]) -> PlanResult<()> {
        let values: &Intervals = values[0].as_primitive();
        for value in values.iter().flatten() {
            if self.best.is_none_or(|best| self.wanted.replaces(value, best)) {
                self.best = Some(value);
            }
        }
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> PlanResult<()> {
        self.update_batch(states)
    }

    fn state(&mut self) -> PlanResult<Vec<ScalarValue>> {
        Ok(vec![self.evaluate()?])
    }

    fn evaluate(&mut self) -> PlanResult<ScalarValue> {
        Ok(ScalarValue::IntervalMonthDayNano(self.best))
    }

    fn size(&self) -> usize {
        size_of::<Best>()
    }
}

/// The best interval of a window that rows enter and leave in order.
#[derive(Debug)]
struct Sliding {
    wanted: Wanted,
    /// The values that may still become the best one, best first, each with the number of values
    /// that entered before it.
    candidates: VecDeque<(u64, IntervalMonthDayNano)>,
    entered: u64,
    left: u64,
}

impl Accumulator for Sliding {
    fn update_batch(&mut self, values: &[ArrayRef]) -> PlanResult<()> {
        let values: &Intervals = values[0].as_primitive();
        for value in values {
            if let Some(value) = value {
                while self
                    .candidates
                    .back()
                    .is_some_and(|(_, last)| self.wanted.replaces(value, *last))
                {
                    self.candidates.pop_back();
                }
                self.candidates.push_back((self.entered, value));
            }
            self.entered += 1;
        }
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> PlanResult<()> {
        self.left += values[0].len() as u64;
        while self.candidates.front().is_some_and(|(place, _)| *place < self.left) {
            self.candidates.pop_front();
        }
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> PlanResult<()> {
        self.update_batch(states)
    }

    fn state(&mut self) -> PlanResult<Vec<ScalarValue>> {
        Ok(vec![self.evaluate()?])
    }

    fn evaluate(&mut self) -> PlanResult<ScalarValue> {
        Ok(ScalarValue::IntervalMonthDayNano(self.candidates.front().map(|(_, best)| *best)))
    }

    fn size(&self) -> usize {
        size_of::<Sliding>() + self.candidates.capacity() * size_of::<(u64, IntervalMonthDayNano)>()
    }
}
