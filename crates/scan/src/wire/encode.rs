//! Encodes aggregations.

use arrow::datatypes::{DataType, TimeUnit};

use super::bytes::Output;
use super::codes::{Code, KeyCode, MeasureCode, NumberCode, PredicateCode, TypeCode};
use super::{DEPTH_MAX, FORM, KEY_SETS_MAX, KEYS_MAX, MEASURES_MAX};
use crate::aggregate::{
    Aggregation, Key, KeyValue, Measure, Number, Order, Picked, Predicate, TextTest,
};

/// `None` if the aggregation exceeds the limits of the decoder.
type Written = Option<()>;

pub(super) fn encode(aggregation: &Aggregation) -> Option<Vec<u8>> {
    let Aggregation { columns, filter, keys, measures, .. } = aggregation;
    if keys.len() > KEYS_MAX || measures.len() > MEASURES_MAX {
        return None;
    }
    let mut writer = Writer::default();
    writer.out.byte(FORM);
    writer.list(columns, |writer, column| writer.out.number(*column))?;
    writer.optional(filter.as_ref(), Writer::predicate)?;
    writer.list(keys, Writer::key)?;
    writer.list(measures, Writer::measure)?;
    Some(writer.out.0)
}

#[derive(Default)]
struct Writer {
    out: Output,
    /// The nesting depth of the part that is being written.
    depth: usize,
    key_sets: usize,
}

impl Writer {
    fn code(&mut self, code: impl Code) {
        self.out.byte(code.code());
    }

    fn list<T>(&mut self, list: &[T], each: impl Fn(&mut Writer, &T) -> Written) -> Written {
        self.out.number(list.len())?;
        list.iter().try_for_each(|element| each(self, element))
    }

    fn optional<T>(
        &mut self,
        value: Option<&T>,
        write: impl Fn(&mut Writer, &T) -> Written,
    ) -> Written {
        self.out.truth(value.is_some());
        value.map_or(Some(()), |value| write(self, value))
    }

    /// Writes a nested part; `None` beyond the maximum depth.
    fn within(&mut self, write: impl FnOnce(&mut Writer) -> Written) -> Written {
        if self.depth == DEPTH_MAX {
            return None;
        }
        self.depth += 1;
        let written = write(self);
        self.depth -= 1;
        written
    }

    fn key(&mut self, key: &Key) -> Written {
        self.data_type(&key.data_type)?;
        match &key.value {
            KeyValue::Column(column) => {
                self.code(KeyCode::Column);
                self.out.number(*column)
            }
            KeyValue::Int(number) => {
                self.code(KeyCode::Int);
                self.number(number)
            }
        }
    }

    /// Writes the type of a key.
    fn data_type(&mut self, data_type: &DataType) -> Written {
        let code = match data_type {
            DataType::Boolean => TypeCode::Boolean,
            DataType::Int16 => TypeCode::Int16,
            DataType::Int32 => TypeCode::Int32,
            DataType::Int64 => TypeCode::Int64,
            DataType::Float32 => TypeCode::Float32,
            DataType::Float64 => TypeCode::Float64,
            DataType::Utf8View => TypeCode::Text,
            DataType::Date32 => TypeCode::Date,
            DataType::Time64(TimeUnit::Microsecond) => TypeCode::Time,
            DataType::Decimal128(precision, scale) => {
                self.code(TypeCode::Decimal);
                self.out.byte(*precision);
                self.out.byte(scale.cast_unsigned());
                return Some(());
            }
            DataType::Timestamp(unit @ (TimeUnit::Microsecond | TimeUnit::Nanosecond), zone) => {
                let is_micros = *unit == TimeUnit::Microsecond;
                self.code(if is_micros { TypeCode::Micros } else { TypeCode::Nanos });
                return self.optional(zone.as_ref(), |writer, zone| writer.out.text(zone));
            }
            _ => return None,
        };
        self.code(code);
        Some(())
    }

    fn measure(&mut self, measure: &Measure) -> Written {
        match measure {
            Measure::Rows => self.code(MeasureCode::Rows),
            Measure::Count { column } => {
                self.code(MeasureCode::Count);
                self.out.number(*column)?;
            }
            Measure::CountNumber { lane, number } => {
                self.code(MeasureCode::CountNumber);
                self.code(*lane);
                self.number(number)?;
            }
            Measure::Sum { lane, number } => {
                self.code(MeasureCode::Sum);
                self.code(*lane);
                self.number(number)?;
            }
            Measure::Extreme { lane, number, greatest } => {
                self.code(MeasureCode::Extreme);
                self.out.truth(*greatest);
                self.code(*lane);
                self.number(number)?;
            }
            Measure::TextExtreme { column, greatest } => {
                self.code(MeasureCode::TextExtreme);
                self.out.truth(*greatest);
                self.out.number(*column)?;
            }
            Measure::CountDistinct { lane, number } => {
                self.code(MeasureCode::CountDistinct);
                self.code(*lane);
                self.number(number)?;
            }
            Measure::TextCountDistinct { column } => {
                self.code(MeasureCode::TextCountDistinct);
                self.out.number(*column)?;
            }
            Measure::Spread { number, spread } => {
                self.code(MeasureCode::Spread);
                self.code(*spread);
                self.number(number)?;
            }
            Measure::Bits { number, operator } => {
                self.code(MeasureCode::Bits);
                self.code(*operator);
                self.number(number)?;
            }
            Measure::First { value, order, skips_nulls } => {
                self.code(MeasureCode::First);
                self.out.truth(*skips_nulls);
                self.picked(value)?;
                self.order(order)?;
            }
            Measure::Filtered { filter, measure } => {
                self.code(MeasureCode::Filtered);
                self.predicate(filter)?;
                self.within(|writer| writer.measure(measure))?;
            }
        }
        Some(())
    }

    fn picked(&mut self, value: &Picked) -> Written {
        match value {
            Picked::Number { lane, number } => {
                self.out.truth(false);
                self.code(*lane);
                self.number(number)
            }
            Picked::Text { column } => {
                self.out.truth(true);
                self.out.number(*column)
            }
        }
    }

    fn order(&mut self, order: &Order) -> Written {
        let Order { lane, number, direction } = order;
        self.out.truth(direction.descending);
        self.out.truth(direction.nulls_first);
        self.out.truth(direction.from_end);
        self.code(*lane);
        self.number(number)
    }

    fn predicate(&mut self, predicate: &Predicate) -> Written {
        self.within(|writer| writer.predicate_here(predicate))
    }

    fn predicate_here(&mut self, predicate: &Predicate) -> Written {
        match predicate {
            Predicate::And(parts) => {
                self.code(PredicateCode::And);
                self.list(parts, Writer::predicate)
            }
            Predicate::Or(parts) => {
                self.code(PredicateCode::Or);
                self.list(parts, Writer::predicate)
            }
            Predicate::Compare { lane, comparison, operands } => {
                self.code(PredicateCode::Compare);
                self.code(*comparison);
                self.code(*lane);
                self.operands(operands)
            }
            Predicate::Among { number, list, inside } => {
                self.code(PredicateCode::Among);
                self.out.truth(*inside);
                self.out.ints(list)?;
                self.number(number)
            }
            Predicate::AmongKeys { number, keys } => {
                self.key_sets += 1;
                if self.key_sets > KEY_SETS_MAX {
                    return None;
                }
                self.code(PredicateCode::AmongKeys);
                self.out.ints(&keys.numbers())?;
                self.number(number)
            }
            Predicate::Text { column, test } => self.text_test(*column, test),
            Predicate::IsNull { column, null } => {
                self.code(PredicateCode::IsNull);
                self.out.truth(*null);
                self.out.number(*column)
            }
            Predicate::Always(answer) => {
                self.code(PredicateCode::Always);
                self.out.truth(*answer);
                Some(())
            }
        }
    }

    fn text_test(&mut self, column: usize, test: &TextTest) -> Written {
        match test {
            TextTest::Compare(comparison, text) => {
                self.code(PredicateCode::TextCompare);
                self.code(*comparison);
                self.out.text(text)?;
            }
            TextTest::Among { list, inside } => {
                self.code(PredicateCode::TextAmong);
                self.out.truth(*inside);
                // Sorting makes the bytes of equal aggregations equal.
                let mut list: Vec<&String> = list.iter().collect();
                list.sort_unstable();
                self.list(&list, |writer, text| writer.out.text(text))?;
            }
            TextTest::Like { pattern, matches } => {
                self.code(PredicateCode::TextLike);
                self.out.truth(*matches);
                self.out.text(&pattern.to_like())?;
            }
        }
        self.out.number(column)
    }

    fn operands(&mut self, operands: &(Number, Number)) -> Written {
        self.number(&operands.0)?;
        self.number(&operands.1)
    }

    fn number(&mut self, number: &Number) -> Written {
        self.within(|writer| writer.number_here(number))
    }

    fn number_here(&mut self, number: &Number) -> Written {
        match number {
            Number::Column(column) => {
                self.code(NumberCode::Column);
                self.out.number(*column)
            }
            Number::Int(_) | Number::Float(_) | Number::Decimal(_) => self.constant(number),
            Number::Integers { operator, width, operands } => {
                self.code(NumberCode::Integers);
                self.code(*operator);
                self.code(*width);
                self.operands(operands)
            }
            Number::Floats { operator, operands } => {
                self.code(NumberCode::Floats);
                self.code(*operator);
                self.operands(operands)
            }
            Number::Decimals { operator, operands } => {
                self.code(NumberCode::Decimals);
                self.code(*operator);
                self.operands(operands)
            }
            Number::FloatOfInt(operand) => {
                self.code(NumberCode::FloatOfInt);
                self.number(operand)
            }
            Number::Real(operand) => {
                self.code(NumberCode::Real);
                self.number(operand)
            }
            Number::DecimalOfInt { operand, units } => {
                self.scaled(NumberCode::DecimalOfInt, operand, *units)
            }
            Number::Rescaled { operand, units } => {
                self.scaled(NumberCode::Rescaled, operand, *units)
            }
            Number::FloatOfDecimal { operand, units } => {
                self.scaled(NumberCode::FloatOfDecimal, operand, *units)
            }
            Number::Narrowed { operand, width } => {
                self.code(NumberCode::Narrowed);
                self.code(*width);
                self.number(operand)
            }
            Number::IntOfFloat { operand, width } => {
                self.code(NumberCode::IntOfFloat);
                self.code(*width);
                self.number(operand)
            }
            Number::Bucket { operand, unit, origin } => {
                self.code(NumberCode::Bucket);
                self.out.int(*unit);
                self.out.int(*origin);
                self.number(operand)
            }
            Number::Choice { cases, otherwise } => {
                self.code(NumberCode::Choice);
                self.list(cases, |writer, (condition, number)| {
                    writer.predicate(condition)?;
                    writer.optional(number.as_ref(), Writer::number)
                })?;
                self.optional(otherwise.as_deref(), Writer::number)
            }
        }
    }

    fn constant(&mut self, number: &Number) -> Written {
        match number {
            Number::Int(value) => {
                self.code(NumberCode::Int);
                self.out.int(*value);
            }
            Number::Float(value) => {
                self.code(NumberCode::Float);
                self.out.float(*value);
            }
            Number::Decimal(value) => {
                self.code(NumberCode::Decimal);
                self.out.wide(*value);
            }
            _ => return None,
        }
        Some(())
    }

    fn scaled(&mut self, code: NumberCode, operand: &Number, units: i128) -> Written {
        self.code(code);
        self.out.wide(units);
        self.number(operand)
    }
}
