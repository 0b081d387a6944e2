//! Decodes aggregations. All parts are checked against the types of the table's columns and against
//! the limits of the evaluation, which does not check again.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::datatypes::{DECIMAL128_MAX_PRECISION, DECIMAL128_MAX_SCALE, DataType, TimeUnit};
use thalweg_types::Result;

use super::bytes::Input;
use super::codes::{Code, KeyCode, MeasureCode, NumberCode, PredicateCode, TypeCode};
use super::{DEPTH_MAX, FORM, KEY_SETS_MAX, KEYS_MAX, MEASURES_MAX, malformed};
use crate::aggregate::{
    Aggregation, BitOperator, Comparison, Key, KeySet, KeyValue, Lane, Measure, Number, Operator,
    Order, Pattern, Picked, Predicate, Spread, TextTest, Width,
};

pub(super) fn decode(bytes: &[u8], types: &[DataType]) -> Result<Aggregation> {
    let mut input = Input::new(bytes);
    if input.byte()? != FORM {
        return Err(malformed("it is of a form that is not known here"));
    }
    let mut reader = Reader { input, types: Vec::new(), depth: 0, key_sets: 0 };
    let columns = reader.list(usize::MAX, |reader| reader.input.number())?;
    let column_types = columns.iter().map(|column| types.get(*column));
    reader.types = column_types
        .collect::<Option<_>>()
        .ok_or_else(|| malformed("it reads a column that the table does not have"))?;
    let filter = reader.optional(Reader::predicate)?;
    let keys = reader.list(KEYS_MAX, Reader::key)?;
    let measures = reader.list(MEASURES_MAX, Reader::measure)?;
    reader.input.end()?;
    Aggregation::new(columns, filter, keys, measures)
        .ok_or_else(|| malformed("rows cannot be grouped by its keys"))
}

struct Reader<'a> {
    input: Input<'a>,
    /// The types of the columns that the aggregation reads.
    types: Vec<&'a DataType>,
    /// The nesting depth of the part that is being read.
    depth: usize,
    key_sets: usize,
}

impl Reader<'_> {
    fn code<T: Code>(&mut self) -> Result<T> {
        T::read(&mut self.input)
    }

    fn list<T>(
        &mut self,
        most: usize,
        mut each: impl FnMut(&mut Self) -> Result<T>,
    ) -> Result<Vec<T>> {
        let length = self.input.length()?;
        if length > most {
            return Err(malformed("it has too many parts"));
        }
        (0..length).map(|_| each(self)).collect()
    }

    fn optional<T>(&mut self, read: impl Fn(&mut Self) -> Result<T>) -> Result<Option<T>> {
        if self.input.truth()? { read(self).map(Some) } else { Ok(None) }
    }

    /// Reads a nested part; fails beyond the maximum depth.
    fn within<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.depth == DEPTH_MAX {
            return Err(malformed("it is too deep"));
        }
        self.depth += 1;
        let read = read(self);
        self.depth -= 1;
        read
    }

    /// Reads a column whose type passes the test.
    fn column(&mut self, passes: impl Fn(&DataType) -> bool) -> Result<usize> {
        let column = self.input.number()?;
        match self.types.get(column) {
            Some(data_type) if passes(data_type) => Ok(column),
            Some(_) => Err(malformed("a column has another type")),
            None => Err(malformed("it has no such column")),
        }
    }

    fn text_column(&mut self) -> Result<usize> {
        self.column(|data_type| *data_type == DataType::Utf8View)
    }

    fn key(&mut self) -> Result<Key> {
        let data_type = self.data_type()?;
        let value = match self.code()? {
            KeyCode::Column => KeyValue::Column(self.column(|of| *of == data_type)?),
            KeyCode::Int if Lane::of(&data_type) == Some(Lane::Int) => {
                KeyValue::Int(self.number(Lane::Int)?)
            }
            KeyCode::Int => return Err(malformed("a key has another type")),
        };
        Ok(Key { value, data_type })
    }

    fn data_type(&mut self) -> Result<DataType> {
        let code: TypeCode = self.code()?;
        Ok(match code {
            TypeCode::Boolean => DataType::Boolean,
            TypeCode::Int16 => DataType::Int16,
            TypeCode::Int32 => DataType::Int32,
            TypeCode::Int64 => DataType::Int64,
            TypeCode::Float32 => DataType::Float32,
            TypeCode::Float64 => DataType::Float64,
            TypeCode::Text => DataType::Utf8View,
            TypeCode::Date => DataType::Date32,
            TypeCode::Time => DataType::Time64(TimeUnit::Microsecond),
            TypeCode::Decimal => {
                let (precision, scale) = (self.input.byte()?, self.input.byte()?.cast_signed());
                let fits = (1..=DECIMAL128_MAX_PRECISION).contains(&precision)
                    && scale.unsigned_abs() <= DECIMAL128_MAX_SCALE.unsigned_abs();
                if !fits {
                    return Err(malformed("no decimals have as many digits"));
                }
                DataType::Decimal128(precision, scale)
            }
            TypeCode::Micros | TypeCode::Nanos => {
                let is_micros = code == TypeCode::Micros;
                let unit = if is_micros { TimeUnit::Microsecond } else { TimeUnit::Nanosecond };
                DataType::Timestamp(unit, self.optional(|reader| Ok(reader.input.text()?.into()))?)
            }
        })
    }

    fn measure(&mut self) -> Result<Measure> {
        let code: MeasureCode = self.code()?;
        if code != MeasureCode::Filtered {
            return self.plain_measure(code);
        }
        let filter = self.predicate()?;
        let code = self.code()?;
        let measure = Box::new(self.plain_measure(code)?);
        Ok(Measure::Filtered { filter, measure })
    }

    fn plain_measure(&mut self, code: MeasureCode) -> Result<Measure> {
        Ok(match code {
            MeasureCode::Rows => Measure::Rows,
            MeasureCode::Count => Measure::Count { column: self.column(|_| true)? },
            MeasureCode::CountNumber => {
                let (lane, number) = self.number_of_lane()?;
                Measure::CountNumber { lane, number }
            }
            MeasureCode::Sum => {
                let (lane, number) = self.number_of_lane()?;
                Measure::Sum { lane, number }
            }
            MeasureCode::Extreme => {
                let greatest = self.input.truth()?;
                let (lane, number) = self.number_of_lane()?;
                Measure::Extreme { lane, number, greatest }
            }
            MeasureCode::TextExtreme => {
                let greatest = self.input.truth()?;
                Measure::TextExtreme { column: self.text_column()?, greatest }
            }
            MeasureCode::CountDistinct => match self.number_of_lane()? {
                (Lane::Decimal, _) => return Err(malformed("distinct decimals are not counted")),
                (lane, number) => Measure::CountDistinct { lane, number },
            },
            MeasureCode::TextCountDistinct => {
                Measure::TextCountDistinct { column: self.text_column()? }
            }
            MeasureCode::Spread => {
                let spread: Spread = self.code()?;
                Measure::Spread { number: self.number(Lane::Float)?, spread }
            }
            MeasureCode::Bits => {
                let operator: BitOperator = self.code()?;
                Measure::Bits { number: self.number(Lane::Int)?, operator }
            }
            MeasureCode::First => {
                let skips_nulls = self.input.truth()?;
                Measure::First { value: self.picked()?, order: self.order()?, skips_nulls }
            }
            MeasureCode::Filtered => return Err(malformed("a measure has two filters")),
        })
    }

    fn picked(&mut self) -> Result<Picked> {
        if self.input.truth()? {
            return Ok(Picked::Text { column: self.text_column()? });
        }
        let (lane, number) = self.number_of_lane()?;
        Ok(Picked::Number { lane, number })
    }

    fn order(&mut self) -> Result<Order> {
        let (descending, nulls_first) = (self.input.truth()?, self.input.truth()?);
        let from_end = self.input.truth()?;
        let (lane, number) = self.number_of_lane()?;
        let mut order = Order::by(lane, number, descending, nulls_first)
            .ok_or_else(|| malformed("rows are not ordered by decimals"))?;
        order.direction.from_end = from_end;
        Ok(order)
    }

    fn predicate(&mut self) -> Result<Predicate> {
        self.within(Reader::predicate_here)
    }

    fn predicate_here(&mut self) -> Result<Predicate> {
        let code: PredicateCode = self.code()?;
        Ok(match code {
            PredicateCode::And => Predicate::And(self.list(usize::MAX, Reader::predicate)?),
            PredicateCode::Or => Predicate::Or(self.list(usize::MAX, Reader::predicate)?),
            PredicateCode::Compare => {
                let (comparison, lane): (Comparison, Lane) = (self.code()?, self.code()?);
                Predicate::Compare { lane, comparison, operands: self.operands(lane)? }
            }
            PredicateCode::Among => {
                let (inside, list) = (self.input.truth()?, self.input.ints()?);
                if !list.is_sorted() {
                    return Err(malformed("a list is not sorted"));
                }
                Predicate::Among { number: self.number(Lane::Int)?, list, inside }
            }
            PredicateCode::AmongKeys => {
                self.key_sets += 1;
                if self.key_sets > KEY_SETS_MAX {
                    return Err(malformed("it has too many sets of keys"));
                }
                let keys = Arc::new(KeySet::new(&self.input.ints()?));
                Predicate::AmongKeys { number: self.number(Lane::Int)?, keys }
            }
            PredicateCode::TextCompare | PredicateCode::TextAmong | PredicateCode::TextLike => {
                let test = self.text_test(code)?;
                Predicate::Text { column: self.text_column()?, test }
            }
            PredicateCode::IsNull => {
                let null = self.input.truth()?;
                Predicate::IsNull { column: self.column(|_| true)?, null }
            }
            PredicateCode::Always => Predicate::Always(self.input.truth()?),
        })
    }

    fn text_test(&mut self, code: PredicateCode) -> Result<TextTest> {
        Ok(match code {
            PredicateCode::TextCompare => {
                TextTest::Compare(self.code()?, self.input.text()?.to_owned())
            }
            PredicateCode::TextAmong => {
                let inside = self.input.truth()?;
                let list = self.list(usize::MAX, |reader| Ok(reader.input.text()?.to_owned()))?;
                TextTest::Among { list: HashSet::from_iter(list), inside }
            }
            _ => {
                let matches = self.input.truth()?;
                let pattern = Pattern::like(self.input.text()?)
                    .ok_or_else(|| malformed("a pattern is not understood"))?;
                TextTest::Like { pattern, matches }
            }
        })
    }

    fn number_of_lane(&mut self) -> Result<(Lane, Number)> {
        let lane = self.code()?;
        Ok((lane, self.number(lane)?))
    }

    fn operands(&mut self, lane: Lane) -> Result<Box<(Number, Number)>> {
        Ok(Box::new((self.number(lane)?, self.number(lane)?)))
    }

    fn boxed(&mut self, lane: Lane) -> Result<Box<Number>> {
        self.number(lane).map(Box::new)
    }

    /// Reads a number of the given lane.
    fn number(&mut self, lane: Lane) -> Result<Number> {
        self.within(|reader| reader.number_here(lane))
    }

    fn number_here(&mut self, lane: Lane) -> Result<Number> {
        let code: NumberCode = self.code()?;
        match code {
            NumberCode::Column => {
                Ok(Number::Column(self.column(|data_type| Lane::of(data_type) == Some(lane))?))
            }
            NumberCode::Choice => {
                let cases = self.list(usize::MAX, |reader| {
                    Ok((reader.predicate()?, reader.optional(|reader| reader.number(lane))?))
                })?;
                let otherwise = self.optional(|reader| reader.boxed(lane))?;
                Ok(Number::Choice { cases, otherwise })
            }
            code => match lane {
                Lane::Int => self.int(code),
                Lane::Float => self.float(code),
                Lane::Decimal => self.decimal(code),
            },
        }
    }

    fn int(&mut self, code: NumberCode) -> Result<Number> {
        Ok(match code {
            NumberCode::Int => Number::Int(self.input.int()?),
            NumberCode::Integers => {
                let (operator, width): (Operator, Width) = (self.code()?, self.code()?);
                Number::Integers { operator, width, operands: self.operands(Lane::Int)? }
            }
            NumberCode::Narrowed => {
                let width = self.code()?;
                Number::Narrowed { operand: self.boxed(Lane::Int)?, width }
            }
            NumberCode::IntOfFloat => {
                let width = self.code()?;
                Number::IntOfFloat { operand: self.boxed(Lane::Float)?, width }
            }
            NumberCode::Bucket => {
                let (unit, origin) = (self.input.int()?, self.input.int()?);
                if unit <= 0 {
                    return Err(malformed("a unit is not above zero"));
                }
                Number::Bucket { operand: self.boxed(Lane::Int)?, unit, origin }
            }
            _ => return Err(malformed("a number is no whole one")),
        })
    }

    fn float(&mut self, code: NumberCode) -> Result<Number> {
        Ok(match code {
            NumberCode::Float => Number::Float(self.input.float()?),
            NumberCode::Floats => {
                let operator = self.code()?;
                if operator == Operator::Modulo {
                    return Err(malformed("floats leave no rest"));
                }
                Number::Floats { operator, operands: self.operands(Lane::Float)? }
            }
            NumberCode::FloatOfInt => Number::FloatOfInt(self.boxed(Lane::Int)?),
            NumberCode::Real => Number::Real(self.boxed(Lane::Float)?),
            NumberCode::FloatOfDecimal => {
                let units = self.input.wide()?;
                Number::FloatOfDecimal { operand: self.boxed(Lane::Decimal)?, units }
            }
            _ => return Err(malformed("a number is no float")),
        })
    }

    fn decimal(&mut self, code: NumberCode) -> Result<Number> {
        Ok(match code {
            NumberCode::Decimal => Number::Decimal(self.input.wide()?),
            NumberCode::Decimals => {
                let operator = self.code()?;
                if matches!(operator, Operator::Divide | Operator::Modulo) {
                    return Err(malformed("decimals are not divided"));
                }
                Number::Decimals { operator, operands: self.operands(Lane::Decimal)? }
            }
            NumberCode::DecimalOfInt => {
                let units = self.input.wide()?;
                Number::DecimalOfInt { operand: self.boxed(Lane::Int)?, units }
            }
            NumberCode::Rescaled => {
                let units = self.input.wide()?;
                Number::Rescaled { operand: self.boxed(Lane::Decimal)?, units }
            }
            _ => return Err(malformed("a number is no decimal")),
        })
    }
}
