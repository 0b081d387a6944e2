//! Questions, and their answers found the slow way.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arrow::datatypes::DataType;

use super::table::{AMOUNT, FLAG, FLOAT, LARGE, NAME, Random, Row, SMALL, TAG};
use crate::aggregate::floats::{canonical, comparable, from_ordered};
use crate::{
    BitOperator, Comparison, Key, KeySet, KeyValue, Lane, Measure, Number, Operator, Order,
    Pattern, Picked, Predicate, Spread, TextTest, Width,
};

/// A value that compares as PostgreSQL's do, NULL last.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Value {
    Text(String),
    Int(i128),
    /// By its order.
    Float(i64),
    Null,
}

pub type Answer = BTreeMap<Vec<Value>, Vec<Value>>;

const COMPARISONS: [Comparison; 6] = [
    Comparison::Equal,
    Comparison::NotEqual,
    Comparison::Less,
    Comparison::LessOrEqual,
    Comparison::Greater,
    Comparison::GreaterOrEqual,
];

pub fn predicate(random: &mut Random, depth: u32) -> Predicate {
    let comparison = random.pick(&COMPARISONS);
    let numbers = |lane, left, right| Predicate::Compare {
        lane,
        comparison,
        operands: Box::new((left, right)),
    };
    match random.below(if depth == 0 { 12 } else { 14 }) {
        0 => numbers(Lane::Int, Number::Column(SMALL), Number::Int(random.below(9) as i64 - 3)),
        1 => numbers(Lane::Int, Number::Int(random.below(900) as i64), Number::Column(LARGE)),
        2 => {
            let constant = random.pick(&[0.0, -0.0, 5.25, f64::NAN, -9.5]);
            numbers(Lane::Float, Number::Column(FLOAT), Number::Float(constant))
        }
        3 => numbers(Lane::Decimal, Number::Column(AMOUNT), Number::Decimal(12_345)),
        4 => {
            let test = TextTest::Compare(comparison, format!("t{}", random.below(9)));
            Predicate::Text { column: TAG, test }
        }
        5 => {
            let list = ["t1", "t3", "a name"].map(str::to_owned).into();
            let column = random.pick(&[TAG, NAME]);
            Predicate::Text { column, test: TextTest::Among { list, inside: random.one_in(2) } }
        }
        6 => Predicate::IsNull {
            column: random.pick(&[TAG, SMALL, FLOAT, FLAG]),
            null: random.one_in(2),
        },
        7 => {
            let number = Number::Column(SMALL);
            Predicate::Among { number, list: vec![-2, 0, 1, 77], inside: random.one_in(2) }
        }
        8 => {
            let pattern =
                random.pick(&["t%", "%3", "t1%4", "%am%le%9%", "a name%", "%", "t7", "%1%"]);
            let pattern = Pattern::like(pattern).unwrap();
            let test = TextTest::Like { pattern, matches: random.one_in(2) };
            Predicate::Text { column: random.pick(&[TAG, NAME]), test }
        }
        9 => {
            let text = random.pick(&["t0", "t12", "a name of some length 77"]).to_owned();
            let comparison = random.pick(&[Comparison::Equal, Comparison::NotEqual]);
            let test = TextTest::Compare(comparison, text);
            Predicate::Text { column: random.pick(&[TAG, NAME]), test }
        }
        10 => match random.one_in(2) {
            true => numbers(Lane::Int, bucketed(), Number::Int(random.below(9) as i64)),
            false => numbers(Lane::Float, quotient(), Number::Float(0.75)),
        },
        11 => {
            let number = random.pick(&[Number::Column(SMALL), Number::Column(LARGE), bucketed()]);
            Predicate::AmongKeys { number, keys: Arc::new(key_set(random)) }
        }
        12 => Predicate::And(vec![predicate(random, depth - 1), predicate(random, depth - 1)]),
        _ => Predicate::Or(vec![predicate(random, depth - 1), predicate(random, depth - 1)]),
    }
}

/// No keys, or some, close together or not.
fn key_set(random: &mut Random) -> KeySet {
    let far = [i64::MIN, i64::MAX, i64::MAX - 1, 1 << 40, -900];
    let keys: Vec<i64> = match random.below(4) {
        0 => Vec::new(),
        1 => far.to_vec(),
        2 => (0..200).map(|_| random.below(2_000) as i64 - 1_000).collect(),
        _ => vec![0, 0, 1, 77, 2, -2],
    };
    KeySet::new(&keys)
}

/// `small + 3 * small`, which stays far within `bigint`.
fn small_sum() -> Number {
    let operands = Box::new((Number::Int(3), Number::Column(SMALL)));
    let tripled = Number::Integers { operator: Operator::Multiply, width: Width::Int8, operands };
    let operands = Box::new((Number::Column(SMALL), tripled));
    Number::Integers { operator: Operator::Add, width: Width::Int8, operands }
}

/// Sevens of `small`, and what of three is left out.
fn bucketed() -> Number {
    let divided = Number::Integers {
        operator: Operator::Divide,
        width: Width::Int4,
        operands: Box::new((Number::Column(SMALL), Number::Int(-2))),
    };
    let operand = Box::new(Number::Narrowed { operand: Box::new(divided), width: Width::Int4 });
    Number::Bucket { operand, unit: 7, origin: 3 }
}

/// `real(float / amount)`, where an amount that is zero cannot be.
fn quotient() -> Number {
    let amount = Number::FloatOfDecimal { operand: Box::new(Number::Column(AMOUNT)), units: 100 };
    let halves = Number::Floats {
        operator: Operator::Add,
        operands: Box::new((amount, Number::Float(0.001))),
    };
    let operands = Box::new((Number::Column(FLOAT), halves));
    Number::Real(Box::new(Number::Floats { operator: Operator::Divide, operands }))
}

/// `small` by the way of floats.
fn rounded() -> Number {
    let operands =
        Box::new((Number::FloatOfInt(Box::new(Number::Column(SMALL))), Number::Float(4.0)));
    let operand = Box::new(Number::Floats { operator: Operator::Divide, operands });
    Number::IntOfFloat { operand, width: Width::Int4 }
}

/// A CASE whose conditions may overlap, and which is NULL here and there. Where `small` is zero
/// nothing may be divided by it.
fn chosen(random: &mut Random) -> Number {
    let operands = Box::new((Number::Column(SMALL), Number::Int(0)));
    let is_zero = Predicate::Compare { lane: Lane::Int, comparison: Comparison::Equal, operands };
    let rest = Number::Integers {
        operator: Operator::Modulo,
        width: Width::Int8,
        operands: Box::new((Number::Int(1_000_003), Number::Column(SMALL))),
    };
    let mut cases = vec![(is_zero, random.pick(&[None, Some(Number::Int(7))]))];
    for number in [Some(rest), None, Some(Number::Column(SMALL))] {
        cases.push((predicate(random, 1), number));
    }
    let otherwise = random.one_in(2).then(|| Box::new(bucketed()));
    Number::Choice { cases, otherwise }
}

/// `amount * (1.00 - amount)` in units of its last digit.
fn amount_product() -> Number {
    let operands = Box::new((Number::Decimal(100), Number::Column(AMOUNT)));
    let rest = Number::Decimals { operator: Operator::Subtract, operands };
    let operands = Box::new((Number::Column(AMOUNT), rest));
    Number::Decimals { operator: Operator::Multiply, operands }
}

pub fn measures(random: &mut Random) -> Vec<(Measure, DataType)> {
    let decimal = |scale| DataType::Decimal128(38, scale);
    let sum = |lane, number| Measure::Sum { lane, number };
    let mut all = vec![
        (Measure::Rows, DataType::Int64),
        (Measure::Count { column: NAME }, DataType::Int64),
        (Measure::Count { column: SMALL }, DataType::Int64),
        (Measure::CountNumber { lane: Lane::Int, number: small_sum() }, DataType::Int64),
        (sum(Lane::Int, Number::Column(SMALL)), DataType::Int64),
        (sum(Lane::Int, Number::Column(LARGE)), decimal(0)),
        (sum(Lane::Int, small_sum()), DataType::Int64),
        (sum(Lane::Decimal, Number::Column(AMOUNT)), decimal(2)),
        (sum(Lane::Decimal, amount_product()), decimal(4)),
    ];
    for greatest in [false, true] {
        let extreme = |lane, number| Measure::Extreme { lane, number, greatest };
        all.push((extreme(Lane::Int, Number::Column(LARGE)), DataType::Int64));
        all.push((extreme(Lane::Int, Number::Column(SMALL)), DataType::Int32));
        all.push((extreme(Lane::Float, Number::Column(FLOAT)), DataType::Float64));
        all.push((extreme(Lane::Decimal, Number::Column(AMOUNT)), DataType::Decimal128(15, 2)));
        all.push((Measure::TextExtreme { column: NAME, greatest }, DataType::Utf8View));
        all.push((Measure::TextExtreme { column: TAG, greatest }, DataType::Utf8View));
    }
    let distinct = |lane, number| (Measure::CountDistinct { lane, number }, DataType::Int64);
    all.push(distinct(Lane::Int, Number::Column(SMALL)));
    all.push(distinct(Lane::Int, bucketed()));
    all.push(distinct(Lane::Float, Number::Column(FLOAT)));
    all.push(distinct(Lane::Float, quotient()));
    all.push((Measure::TextCountDistinct { column: TAG }, DataType::Int64));
    all.push((Measure::TextCountDistinct { column: NAME }, DataType::Int64));
    for spread in SPREADS {
        all.push((Measure::Spread { number: Number::Column(FLOAT), spread }, DataType::Float64));
    }
    for operator in [BitOperator::And, BitOperator::Or, BitOperator::Xor] {
        all.push((Measure::Bits { number: Number::Column(LARGE), operator }, DataType::Int64));
    }
    all.push((sum(Lane::Int, rounded()), DataType::Int64));
    all.push((sum(Lane::Int, chosen(random)), DataType::Int64));
    let greatest = random.one_in(2);
    all.push((
        Measure::Extreme { lane: Lane::Int, number: chosen(random), greatest },
        DataType::Int64,
    ));
    all.push((Measure::CountNumber { lane: Lane::Int, number: chosen(random) }, DataType::Int64));
    for _ in 0..4 {
        all.push(first(random));
    }
    all.retain(|_| random.one_in(4));
    for (measure, _) in &mut all {
        if random.one_in(4) {
            let filter = predicate(random, 1);
            *measure = Measure::Filtered { filter, measure: Box::new(measure.clone()) };
        }
    }
    all
}

/// What the first row of some order has, or the last one. Many rows are alike in most orders.
fn first(random: &mut Random) -> (Measure, DataType) {
    let picked = |lane, number| Picked::Number { lane, number };
    let (value, data_type) = match random.below(7) {
        0 => (picked(Lane::Int, Number::Column(SMALL)), DataType::Int32),
        1 => (picked(Lane::Int, Number::Column(LARGE)), DataType::Int64),
        2 => (picked(Lane::Float, Number::Column(FLOAT)), DataType::Float64),
        3 => (picked(Lane::Decimal, Number::Column(AMOUNT)), DataType::Decimal128(15, 2)),
        4 => (picked(Lane::Int, chosen(random)), DataType::Int64),
        5 => (Picked::Text { column: TAG }, DataType::Utf8View),
        _ => (Picked::Text { column: NAME }, DataType::Utf8View),
    };
    let (lane, by) = match random.below(5) {
        0 => (Lane::Int, Number::Column(SMALL)),
        1 => (Lane::Int, Number::Column(LARGE)),
        2 => (Lane::Int, bucketed()),
        3 => (Lane::Int, Number::Int(1)),
        _ => (Lane::Float, Number::Column(FLOAT)),
    };
    let order = Order::by(lane, by, random.one_in(2), random.one_in(2)).unwrap();
    let order = if random.one_in(2) { order.reversed() } else { order };
    (Measure::First { value, order, skips_nulls: random.one_in(2) }, data_type)
}

const SPREADS: [Spread; 4] = [
    Spread::VarianceOfSample,
    Spread::VarianceOfPopulation,
    Spread::DeviationOfSample,
    Spread::DeviationOfPopulation,
];

pub fn keys(random: &mut Random) -> Vec<Key> {
    let columns = [
        (TAG, DataType::Utf8View),
        (NAME, DataType::Utf8View),
        (SMALL, DataType::Int32),
        (LARGE, DataType::Int64),
        (FLOAT, DataType::Float64),
        (AMOUNT, DataType::Decimal128(15, 2)),
        (FLAG, DataType::Boolean),
    ];
    let mut keys = Vec::new();
    for _ in 0..random.below(7) {
        let (column, data_type) = random.pick(&columns);
        keys.push(Key { value: KeyValue::Column(column), data_type });
    }
    if random.one_in(5) {
        let number = match random.below(3) {
            0 => small_sum(),
            1 => bucketed(),
            _ => chosen(random),
        };
        keys.push(Key { value: KeyValue::Int(number), data_type: DataType::Int64 });
    }
    keys
}

fn column(row: &Row, column: usize) -> Value {
    let text = |text: &Option<String>| text.clone().map_or(Value::Null, Value::Text);
    let int = |int: Option<i128>| int.map_or(Value::Null, Value::Int);
    match column {
        TAG => text(&row.tag),
        NAME => text(&row.name),
        SMALL => int(row.small.map(i128::from)),
        LARGE => int(row.large.map(i128::from)),
        FLOAT => row.float.map_or(Value::Null, |float| Value::Float(comparable(float))),
        AMOUNT => int(row.amount),
        FLAG => int(row.flag.map(i128::from)),
        _ => unreachable!("there are seven columns"),
    }
}

fn number(row: &Row, number: &Number) -> Value {
    match number {
        Number::Column(place) => column(row, *place),
        Number::Int(value) => Value::Int((*value).into()),
        Number::Float(value) => Value::Float(comparable(*value)),
        Number::Decimal(value) => Value::Int(*value),
        Number::Integers { operator, operands, .. } | Number::Decimals { operator, operands } => {
            match (self::number(row, &operands.0), self::number(row, &operands.1)) {
                (Value::Int(left), Value::Int(right)) => Value::Int(match operator {
                    Operator::Add => left + right,
                    Operator::Subtract => left - right,
                    Operator::Multiply => left * right,
                    Operator::Divide => left / right,
                    Operator::Modulo => left % right,
                }),
                _ => Value::Null,
            }
        }
        Number::Floats { operator, operands } => {
            match (self::number(row, &operands.0), self::number(row, &operands.1)) {
                (Value::Float(left), Value::Float(right)) => {
                    let (left, right) = (from_ordered(left), from_ordered(right));
                    float(match operator {
                        Operator::Add => left + right,
                        Operator::Divide => left / right,
                        other => unreachable!("{other:?} is not asked for"),
                    })
                }
                _ => Value::Null,
            }
        }
        Number::Narrowed { operand, .. } => self::number(row, operand),
        Number::Bucket { operand, unit, origin } => match self::number(row, operand) {
            Value::Int(value) => start(value, (*unit).into(), (*origin).into()),
            _ => Value::Null,
        },
        Number::FloatOfInt(operand) => match self::number(row, operand) {
            Value::Int(value) => float(value as f64),
            _ => Value::Null,
        },
        Number::FloatOfDecimal { operand, units } => match self::number(row, operand) {
            Value::Int(value) => float(value as f64 / *units as f64),
            _ => Value::Null,
        },
        Number::Real(operand) => match self::number(row, operand) {
            Value::Float(value) => float(f64::from(from_ordered(value) as f32)),
            _ => Value::Null,
        },
        Number::IntOfFloat { operand, .. } => match self::number(row, operand) {
            Value::Float(value) => {
                let value = from_ordered(value);
                let (below, above) = (value.floor(), value.ceil());
                let is_lower = value - below < above - value
                    || (value - below == above - value && below % 2.0 == 0.0);
                Value::Int(if is_lower { below } else { above } as i128)
            }
            _ => Value::Null,
        },
        Number::Choice { cases, otherwise } => {
            let case = cases.iter().find(|(condition, _)| is_true(row, condition));
            let chosen = case.map_or(otherwise.as_deref(), |(_, number)| number.as_ref());
            chosen.map_or(Value::Null, |chosen| self::number(row, chosen))
        }
        other => unreachable!("{other:?} is not asked for"),
    }
}

/// The greatest start of a part that is not above a value.
fn start(value: i128, unit: i128, origin: i128) -> Value {
    let starts = (-unit..=unit).map(|more| value + more);
    let starts = starts.filter(|start| (start - origin) % unit == 0 && *start <= value);
    starts.max().map_or(Value::Null, Value::Int)
}

fn holds<T: PartialOrd>(comparison: Comparison, left: T, right: T) -> bool {
    match comparison {
        Comparison::Equal => left == right,
        Comparison::NotEqual => left != right,
        Comparison::Less => left < right,
        Comparison::LessOrEqual => left <= right,
        Comparison::Greater => left > right,
        Comparison::GreaterOrEqual => left >= right,
    }
}

fn is_true(row: &Row, predicate: &Predicate) -> bool {
    match predicate {
        Predicate::And(parts) => parts.iter().all(|part| is_true(row, part)),
        Predicate::Or(parts) => parts.iter().any(|part| is_true(row, part)),
        Predicate::Compare { comparison, operands, .. } => {
            let (left, right) = (number(row, &operands.0), number(row, &operands.1));
            left != Value::Null && right != Value::Null && holds(*comparison, left, right)
        }
        Predicate::Among { number: of, list, inside } => match number(row, of) {
            Value::Int(value) => list.iter().any(|one| i128::from(*one) == value) == *inside,
            _ => false,
        },
        Predicate::AmongKeys { number: of, keys } => match number(row, of) {
            Value::Int(value) => keys.numbers().iter().any(|one| i128::from(*one) == value),
            _ => false,
        },
        Predicate::Text { column: place, test } => match (column(row, *place), test) {
            (Value::Text(text), TextTest::Compare(comparison, constant)) => {
                holds(*comparison, text.as_str(), constant.as_str())
            }
            (Value::Text(text), TextTest::Among { list, inside }) => {
                list.contains(&text) == *inside
            }
            (Value::Text(text), TextTest::Like { pattern, matches }) => {
                pattern.matches(&text) == *matches
            }
            _ => false,
        },
        Predicate::IsNull { column: place, null } => (column(row, *place) == Value::Null) == *null,
        Predicate::Always(answer) => *answer,
    }
}

fn measure(rows: &[&Row], measure: &Measure) -> Value {
    let extreme = |values: &mut dyn Iterator<Item = Value>, greatest: bool| {
        let known = values.filter(|value| *value != Value::Null);
        if greatest { known.max() } else { known.min() }.unwrap_or(Value::Null)
    };
    match measure {
        Measure::Rows => Value::Int(rows.len() as i128),
        Measure::Count { column: place } => {
            let known = rows.iter().filter(|row| column(row, *place) != Value::Null);
            Value::Int(known.count() as i128)
        }
        Measure::CountNumber { number: of, .. } => {
            let known = rows.iter().filter(|row| number(row, of) != Value::Null);
            Value::Int(known.count() as i128)
        }
        Measure::Sum { number: of, .. } => {
            let values = rows.iter().filter_map(|row| match number(row, of) {
                Value::Int(value) => Some(value),
                _ => None,
            });
            values.reduce(|sum, value| sum + value).map_or(Value::Null, Value::Int)
        }
        Measure::Extreme { number: of, greatest, .. } => {
            extreme(&mut rows.iter().map(|row| number(row, of)), *greatest)
        }
        Measure::TextExtreme { column: place, greatest } => {
            extreme(&mut rows.iter().map(|row| column(row, *place)), *greatest)
        }
        Measure::CountDistinct { number: of, .. } => {
            count_distinct(rows.iter().map(|row| number(row, of)))
        }
        Measure::TextCountDistinct { column: place } => {
            count_distinct(rows.iter().map(|row| column(row, *place)))
        }
        Measure::Spread { number: of, spread: kind } => {
            let values = rows.iter().filter_map(|row| match number(row, of) {
                Value::Float(value) => Some(from_ordered(value)),
                _ => None,
            });
            spread(&values.collect::<Vec<f64>>(), *kind)
        }
        Measure::Bits { number: of, operator } => {
            let values = rows.iter().filter_map(|row| match number(row, of) {
                Value::Int(value) => Some(value as i64),
                _ => None,
            });
            let combined = values.reduce(|left, right| match operator {
                BitOperator::And => left & right,
                BitOperator::Or => left | right,
                BitOperator::Xor => left ^ right,
            });
            combined.map_or(Value::Null, |value| Value::Int(value.into()))
        }
        Measure::First { value, order, skips_nulls } => {
            let picked = rows.iter().map(|row| match value {
                Picked::Number { number: of, .. } => (*row, number(row, of)),
                Picked::Text { column: place } => (*row, column(row, *place)),
            });
            value_of_first(picked.filter(|(_, of)| !skips_nulls || *of != Value::Null), order)
        }
        Measure::Filtered { filter, measure } => {
            let rows: Vec<&Row> = rows.iter().copied().filter(|row| is_true(row, filter)).collect();
            self::measure(&rows, measure)
        }
    }
}

fn value_of_first<'a>(rows: impl Iterator<Item = (&'a Row, Value)>, order: &Order) -> Value {
    let mut rows: Vec<(&Row, Value)> = rows.collect();
    if order.direction.from_end {
        rows.reverse();
    }
    // Of rows that are alike this takes the first one.
    let first = rows.into_iter().min_by(|left, right| compare(order, left.0, right.0));
    first.map_or(Value::Null, |(_, value)| value)
}

fn compare(order: &Order, left: &Row, right: &Row) -> Ordering {
    let (left, right) = (number(left, &order.number), number(right, &order.number));
    let nulls = (left == Value::Null).cmp(&(right == Value::Null));
    match nulls {
        Ordering::Equal if order.direction.descending => right.cmp(&left),
        Ordering::Equal => left.cmp(&right),
        nulls if order.direction.nulls_first => nulls.reverse(),
        nulls => nulls,
    }
}

fn count_distinct(values: impl Iterator<Item = Value>) -> Value {
    let known: BTreeSet<Value> = values.filter(|value| *value != Value::Null).collect();
    Value::Int(known.len() as i128)
}

/// In two passes.
fn spread(values: &[f64], spread: Spread) -> Value {
    let freedom = match spread {
        Spread::VarianceOfSample | Spread::DeviationOfSample => values.len() as f64 - 1.0,
        _ => values.len() as f64,
    };
    if freedom <= 0.0 {
        return Value::Null;
    }
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let squares: f64 = values.iter().map(|value| (value - mean) * (value - mean)).sum();
    near(match spread {
        Spread::VarianceOfSample | Spread::VarianceOfPopulation => squares / freedom,
        _ => (squares / freedom).sqrt(),
    })
}

/// A number to about six digits behind the point. What is added keeps the edges between two such
/// numbers away from those that are likely.
pub fn near(value: f64) -> Value {
    if value.is_nan() { float(value) } else { float((value * 1e6 + 0.1234).floor()) }
}

pub fn answer(
    rows: &[Row],
    filter: Option<&Predicate>,
    keys: &[Key],
    measures: &[(Measure, DataType)],
) -> Answer {
    let mut groups: BTreeMap<Vec<Value>, Vec<&Row>> = BTreeMap::new();
    if keys.is_empty() {
        groups.insert(Vec::new(), Vec::new());
    }
    for row in rows.iter().filter(|row| filter.is_none_or(|filter| is_true(row, filter))) {
        let key = keys.iter().map(|key| match &key.value {
            KeyValue::Column(place) => column(row, *place),
            KeyValue::Int(of) => number(row, of),
        });
        groups.entry(key.collect()).or_default().push(row);
    }
    let answers = groups
        .into_iter()
        .map(|(key, rows)| (key, measures.iter().map(|(of, _)| measure(&rows, of)).collect()));
    answers.collect()
}

/// A float as the model compares it.
pub fn float(value: f64) -> Value {
    Value::Float(comparable(canonical(value)))
}
