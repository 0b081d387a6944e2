//! Translates aggregate functions to the measures that are computed for each group.

use arrow::datatypes::DataType;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use thalweg_scan::{BitOperator, Lane, Measure, Number, Order, Picked, Predicate, Spread};

use super::expression::{Columns, Form, Value};
use super::output::Output;

/// The measures of each group. Aggregates that need the same measure share it.
#[derive(Default)]
pub(super) struct Measures {
    list: Vec<Measure>,
    /// `FILTER` of the aggregate that is being translated.
    filter: Option<Predicate>,
}

impl Measures {
    /// The measures, in the order that [`Output`] refers to them by.
    pub fn into_list(self) -> Vec<Measure> {
        self.list
    }

    fn measure_index(&mut self, measure: Measure) -> usize {
        let measure = match self.filter.clone() {
            Some(filter) => Measure::Filtered { filter, measure: Box::new(measure) },
            None => measure,
        };
        self.list.iter().position(|known| *known == measure).unwrap_or_else(|| {
            self.list.push(measure);
            self.list.len() - 1
        })
    }

    /// Translates an aggregate function over the rows of `filter` to an output column of type
    /// `data_type`.
    pub fn output(
        &mut self,
        function: &AggregateFunctionExpr,
        filter: Option<Predicate>,
        data_type: &DataType,
        columns: &Columns,
    ) -> Option<Output> {
        self.filter = filter;
        let arguments = function.expressions();
        let [argument] = arguments.as_slice() else { return None };
        let value = columns.translate(argument)?;
        if matches!(function.fun().name(), "first_value" | "last_value") {
            return self.first(function, &value, data_type, columns);
        }
        if function.ignore_nulls() || !function.order_bys().is_empty() {
            return None;
        }
        match (function.fun().name(), function.is_distinct()) {
            ("count", true) => self.count_distinct(&value, data_type),
            (_, true) => None,
            ("count", _) => self.count(&value, data_type),
            ("sum", _) => self.sum(&value, data_type),
            ("avg", _) => self.average(&value, data_type),
            ("min", _) => self.extreme(&value, data_type, false),
            ("max", _) => self.extreme(&value, data_type, true),
            ("var", _) => self.spread(&value, Spread::VarianceOfSample),
            ("var_pop", _) => self.spread(&value, Spread::VarianceOfPopulation),
            ("stddev", _) => self.spread(&value, Spread::DeviationOfSample),
            ("stddev_pop", _) => self.spread(&value, Spread::DeviationOfPopulation),
            ("bit_and" | "bool_and", _) => self.bits(&value, data_type, BitOperator::And),
            ("bit_or" | "bool_or", _) => self.bits(&value, data_type, BitOperator::Or),
            ("bit_xor", _) => self.bits(&value, data_type, BitOperator::Xor),
            _ => None,
        }
    }

    /// Translates an aggregate function over partial states, of one or more columns, to an output
    /// column of type `data_type`.
    pub fn of_states(
        &mut self,
        function: &AggregateFunctionExpr,
        states: &[Value],
        data_type: &DataType,
    ) -> Option<Output> {
        if function.is_distinct() || function.ignore_nulls() || !function.order_bys().is_empty() {
            return None;
        }
        match (function.fun().name(), states) {
            ("count" | "sum", [state]) => self.sum(state, data_type),
            ("min", [state]) => self.extreme(state, data_type, false),
            ("max", [state]) => self.extreme(state, data_type, true),
            ("avg", [count, sum]) => self.average_of(sum, sum_of(count)?, data_type),
            _ => None,
        }
    }

    fn count(&mut self, value: &Value, data_type: &DataType) -> Option<Output> {
        let measure = self.count_of(value)?;
        let place = self.measure_index(measure);
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
        let measure = sum_of(value)?;
        fits.then(|| Output::Measure(self.measure_index(measure)))
    }

    fn average(&mut self, value: &Value, data_type: &DataType) -> Option<Output> {
        let counted = self.count_of(value)?;
        self.average_of(value, counted, data_type)
    }

    /// The average of `value`; `counted` counts the values.
    fn average_of(
        &mut self,
        value: &Value,
        counted: Measure,
        data_type: &DataType,
    ) -> Option<Output> {
        let (lane, measure) = (value.lane()?, sum_of(value)?);
        let (sum, count) = (self.measure_index(measure), self.measure_index(counted));
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
        Some(Output::Measure(self.measure_index(measure)))
    }

    fn count_distinct(&mut self, value: &Value, data_type: &DataType) -> Option<Output> {
        let measure = match (&value.form, value.lane()) {
            (Form::Column(column), None) if value.data_type == DataType::Utf8View => {
                Measure::TextCountDistinct { column: *column }
            }
            (_, Some(lane @ (Lane::Int | Lane::Float))) => {
                Measure::CountDistinct { lane, number: value.to_number()? }
            }
            _ => return None,
        };
        (data_type == &DataType::Int64).then(|| Output::Measure(self.measure_index(measure)))
    }

    /// The value of the first or last row in an order by one number. Without an order it may be any
    /// row's.
    fn first(
        &mut self,
        function: &AggregateFunctionExpr,
        value: &Value,
        data_type: &DataType,
        columns: &Columns,
    ) -> Option<Output> {
        let [by] = function.order_bys() else { return None };
        if function.is_distinct() || value.data_type != *data_type {
            return None;
        }
        let key = columns.translate(&by.expr)?;
        let (descending, nulls_first) = (by.options.descending, by.options.nulls_first);
        let order = Order::by(key.lane()?, key.to_number()?, descending, nulls_first)?;
        let is_last = function.fun().name() == "last_value";
        let order = if is_last { order.reversed() } else { order };
        let value = match (&value.form, value.lane()) {
            (_, Some(lane)) => Picked::Number { lane, number: value.to_number()? },
            (Form::Column(column), None) if *data_type == DataType::Utf8View => {
                Picked::Text { column: *column }
            }
            _ => return None,
        };
        let measure = Measure::First { value, order, skips_nulls: function.ignore_nulls() };
        Some(Output::Measure(self.measure_index(measure)))
    }

    fn spread(&mut self, value: &Value, spread: Spread) -> Option<Output> {
        if value.data_type != DataType::Float64 {
            return None;
        }
        let number = value.to_number()?;
        Some(Output::Measure(self.measure_index(Measure::Spread { number, spread })))
    }

    /// Bitwise aggregates of integers, and logical ones of Booleans.
    fn bits(
        &mut self,
        value: &Value,
        data_type: &DataType,
        operator: BitOperator,
    ) -> Option<Output> {
        let is_fit = data_type.is_signed_integer() || *data_type == DataType::Boolean;
        if value.data_type != *data_type || !is_fit {
            return None;
        }
        let number = value.to_number()?;
        Some(Output::Measure(self.measure_index(Measure::Bits { number, operator })))
    }
}

/// The measure that sums values. Sums of integers are exact however large they get, so integers
/// need no conversion to `numeric` first.
fn sum_of(value: &Value) -> Option<Measure> {
    let (lane, number) = match (value.lane()?, value.to_number()?) {
        (_, Number::DecimalOfInt { operand, units: 1 }) => (Lane::Int, *operand),
        whole => whole,
    };
    Some(Measure::Sum { lane, number })
}
