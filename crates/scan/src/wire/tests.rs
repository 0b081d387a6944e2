//! Questions of all kinds go and come back; bytes that are none do no harm.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, Decimal128Array, Int64Array, RecordBatch, StringViewArray, StructArray,
};
use arrow::datatypes::{DataType, Field, TimeUnit};
use thalweg_store::arrow_schema;
use thalweg_types::SqlState;

use super::{DEPTH_MAX, FORM};
use crate::aggregate::tests::{Random, schema, table};
use crate::{
    Aggregation, BitOperator, Comparison, Key, KeySet, KeyValue, Lane, Measure, Number, Operator,
    Order, Partial, Pattern, Picked, Predicate, Spread, TextTest, Width,
};

fn all_types() -> Vec<DataType> {
    vec![
        DataType::Utf8View,
        DataType::Int16,
        DataType::Int32,
        DataType::Int64,
        DataType::Float32,
        DataType::Float64,
        DataType::Decimal128(15, 2),
        DataType::Decimal128(38, -3),
        DataType::Boolean,
        DataType::Date32,
        DataType::Time64(TimeUnit::Microsecond),
        DataType::Timestamp(TimeUnit::Microsecond, None),
        DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
        DataType::BinaryView,
    ]
}

fn table_types() -> Vec<DataType> {
    let columns = arrow_schema(&schema());
    columns.fields().iter().map(|field| field.data_type().clone()).collect()
}

/// Makes questions of columns of these types.
struct Questions<'a> {
    random: &'a mut Random,
    types: &'a [DataType],
}

impl Questions<'_> {
    fn column(&mut self, passes: impl Fn(&DataType) -> bool) -> usize {
        let places = self.types.iter().enumerate().filter(|(_, data_type)| passes(data_type));
        let places: Vec<usize> = places.map(|(place, _)| place).collect();
        self.random.pick(&places)
    }

    fn text_column(&mut self) -> usize {
        self.column(|data_type| *data_type == DataType::Utf8View)
    }

    fn truth(&mut self) -> bool {
        self.random.one_in(2)
    }

    fn int(&mut self) -> i64 {
        match self.random.below(4) {
            0 => self.random.pick(&[i64::MIN, i64::MAX, 0, -1]),
            1 => self.random.next() as i64,
            _ => self.random.below(20) as i64 - 5,
        }
    }

    fn text(&mut self) -> String {
        let texts = ["", "t1", "a name of some length 77", "größer", "50%_\\"];
        self.random.pick(&texts).to_owned()
    }

    fn lane(&mut self) -> Lane {
        self.random.pick(&[Lane::Int, Lane::Float, Lane::Decimal])
    }

    fn operands(&mut self, lane: Lane, depth: u32) -> Box<(Number, Number)> {
        Box::new((self.number(lane, depth), self.number(lane, depth)))
    }

    fn boxed(&mut self, lane: Lane, depth: u32) -> Box<Number> {
        Box::new(self.number(lane, depth))
    }

    fn number(&mut self, lane: Lane, depth: u32) -> Number {
        if depth == 0 || self.random.one_in(4) {
            return match (self.random.one_in(3), lane) {
                (false, lane) => Number::Column(self.column(|of| Lane::of(of) == Some(lane))),
                (true, Lane::Int) => Number::Int(self.int()),
                (true, Lane::Float) => Number::Float(self.int() as f64 / 8.0),
                (true, Lane::Decimal) => Number::Decimal(i128::from(self.int()) << 40),
            };
        }
        let width = self.random.pick(&[Width::Int2, Width::Int4, Width::Int8]);
        let plain = [Operator::Add, Operator::Subtract, Operator::Multiply];
        let plain = self.random.pick(&plain);
        let depth = depth - 1;
        match (lane, self.random.below(6)) {
            (Lane::Int, 0) => Number::Narrowed { operand: self.boxed(lane, depth), width },
            (Lane::Int, 1) => Number::IntOfFloat { operand: self.boxed(Lane::Float, depth), width },
            (Lane::Int, 2) => {
                let (unit, origin) = (1 + self.random.below(1 << 40) as i64, self.int());
                Number::Bucket { operand: self.boxed(lane, depth), unit, origin }
            }
            (Lane::Int, 3 | 4) => {
                let operator = self.random.pick(&[plain, Operator::Divide, Operator::Modulo]);
                Number::Integers { operator, width, operands: self.operands(lane, depth) }
            }
            (Lane::Float, 0) => Number::Real(self.boxed(lane, depth)),
            (Lane::Float, 1) => Number::FloatOfInt(self.boxed(Lane::Int, depth)),
            (Lane::Float, 2) => {
                let units = i128::from(self.int());
                Number::FloatOfDecimal { operand: self.boxed(Lane::Decimal, depth), units }
            }
            (Lane::Float, 3 | 4) => {
                let operator = self.random.pick(&[plain, Operator::Divide]);
                Number::Floats { operator, operands: self.operands(lane, depth) }
            }
            (Lane::Decimal, 0) => {
                let units = 10_i128.pow(self.random.below(30) as u32);
                Number::DecimalOfInt { operand: self.boxed(Lane::Int, depth), units }
            }
            (Lane::Decimal, 1) => {
                Number::Rescaled { operand: self.boxed(lane, depth), units: 1_000 }
            }
            (Lane::Decimal, 2..=4) => {
                Number::Decimals { operator: plain, operands: self.operands(lane, depth) }
            }
            _ => self.choice(lane, depth),
        }
    }

    fn choice(&mut self, lane: Lane, depth: u32) -> Number {
        let cases = (0..self.random.below(3)).map(|_| {
            let number = self.truth().then(|| self.number(lane, depth));
            (self.predicate(depth), number)
        });
        let cases = cases.collect();
        let otherwise = self.truth().then(|| self.boxed(lane, depth));
        Number::Choice { cases, otherwise }
    }

    fn predicate(&mut self, depth: u32) -> Predicate {
        let comparison = self.random.pick(&[
            Comparison::Equal,
            Comparison::NotEqual,
            Comparison::Less,
            Comparison::LessOrEqual,
            Comparison::Greater,
            Comparison::GreaterOrEqual,
        ]);
        match self.random.below(if depth == 0 { 8 } else { 10 }) {
            0 => {
                let lane = self.lane();
                Predicate::Compare { lane, comparison, operands: self.operands(lane, depth) }
            }
            1 => {
                let mut list: Vec<i64> = (0..self.random.below(5)).map(|_| self.int()).collect();
                list.sort_unstable();
                Predicate::Among {
                    number: self.number(Lane::Int, depth),
                    list,
                    inside: self.truth(),
                }
            }
            2 => {
                let keys: Vec<i64> = (0..self.random.below(5)).map(|_| self.int()).collect();
                let keys = Arc::new(KeySet::new(&keys));
                Predicate::AmongKeys { number: self.number(Lane::Int, depth), keys }
            }
            3 => {
                let test = TextTest::Compare(comparison, self.text());
                Predicate::Text { column: self.text_column(), test }
            }
            4 => {
                let list = (0..self.random.below(4)).map(|_| self.text()).collect();
                let test = TextTest::Among { list, inside: self.truth() };
                Predicate::Text { column: self.text_column(), test }
            }
            5 => {
                let pattern = self.random.pick(&["t%", "", "%a%b%", r"50\%\_\\%", "%"]);
                let pattern = Pattern::like(pattern).unwrap();
                let test = TextTest::Like { pattern, matches: self.truth() };
                Predicate::Text { column: self.text_column(), test }
            }
            6 => Predicate::IsNull { column: self.column(|_| true), null: self.truth() },
            7 => Predicate::Always(self.truth()),
            8 => Predicate::And(self.predicates(depth - 1)),
            _ => Predicate::Or(self.predicates(depth - 1)),
        }
    }

    fn predicates(&mut self, depth: u32) -> Vec<Predicate> {
        (0..self.random.below(4)).map(|_| self.predicate(depth)).collect()
    }

    fn key(&mut self) -> Key {
        if self.random.one_in(4) {
            let number = self.number(Lane::Int, 2);
            return Key { value: KeyValue::Int(number), data_type: DataType::Int64 };
        }
        let column = self.column(|data_type| *data_type != DataType::BinaryView);
        Key { value: KeyValue::Column(column), data_type: self.types[column].clone() }
    }

    fn measure(&mut self) -> Measure {
        let (lane, greatest) = (self.lane(), self.truth());
        let spreads = [
            Spread::VarianceOfSample,
            Spread::VarianceOfPopulation,
            Spread::DeviationOfSample,
            Spread::DeviationOfPopulation,
        ];
        match self.random.below(12) {
            0 => Measure::Rows,
            1 => Measure::Count { column: self.column(|_| true) },
            2 => Measure::CountNumber { lane, number: self.number(lane, 3) },
            3 => Measure::Sum { lane, number: self.number(lane, 3) },
            4 => Measure::Extreme { lane, number: self.number(lane, 3), greatest },
            5 => Measure::TextExtreme { column: self.text_column(), greatest },
            6 => {
                let lane = if greatest { Lane::Int } else { Lane::Float };
                Measure::CountDistinct { lane, number: self.number(lane, 3) }
            }
            7 => Measure::TextCountDistinct { column: self.text_column() },
            8 => {
                let spread = self.random.pick(&spreads);
                Measure::Spread { number: self.number(Lane::Float, 3), spread }
            }
            9 => {
                let all = [BitOperator::And, BitOperator::Or, BitOperator::Xor];
                let operator = self.random.pick(&all);
                Measure::Bits { number: self.number(Lane::Int, 3), operator }
            }
            10 => self.first(lane),
            _ => {
                let measure = Box::new(Measure::Sum { lane, number: self.number(lane, 1) });
                Measure::Filtered { filter: self.predicate(2), measure }
            }
        }
    }

    fn first(&mut self, lane: Lane) -> Measure {
        let value = match self.truth() {
            true => Picked::Number { lane, number: self.number(lane, 2) },
            false => Picked::Text { column: self.text_column() },
        };
        let by = if self.truth() { Lane::Int } else { Lane::Float };
        let number = self.number(by, 2);
        let order = Order::by(by, number, self.truth(), self.truth()).unwrap();
        let order = if self.truth() { order.reversed() } else { order };
        Measure::First { value, order, skips_nulls: self.truth() }
    }

    fn question(&mut self) -> Aggregation {
        loop {
            let filter = self.truth().then(|| self.predicate(3));
            let keys = (0..self.random.below(4)).map(|_| self.key()).collect();
            let measures = (0..self.random.below(5)).map(|_| self.measure()).collect();
            let columns = (0..self.types.len()).collect();
            let question = Aggregation::new(columns, filter, keys, measures);
            // Some have more key sets than travel.
            if let Some(question) = question.filter(|question| question.to_bytes().is_some()) {
                return question;
            }
        }
    }
}

#[test]
fn questions_come_back_as_they_went() {
    let (random, types) = (&mut Random(3), all_types());
    let mut told = String::new();
    for _ in 0..3_000 {
        let question = Questions { random, types: &types }.question();
        let bytes = question.to_bytes().unwrap();
        let back = Aggregation::from_bytes(&bytes, &types).unwrap();
        assert_eq!(back.columns, question.columns);
        assert_eq!(back.filter, question.filter);
        assert_eq!(back.keys, question.keys);
        assert_eq!(back.measures, question.measures);
        // Zeros of both signs are equal numbers.
        assert_eq!(back.to_bytes().unwrap(), bytes);
        told.push_str(&format!("{question:?}"));
    }
    for name in "And Or Compare Among AmongKeys IsNull Always Like Column Int Float Decimal \
        Integers Floats Decimals FloatOfInt DecimalOfInt Rescaled Narrowed IntOfFloat Real \
        FloatOfDecimal Bucket Choice Rows Count CountNumber Sum Extreme TextExtreme CountDistinct \
        TextCountDistinct Spread Bits First Filtered"
        .split_whitespace()
    {
        assert!(told.contains(name), "no question had {name}");
    }
}

#[test]
fn a_number_that_is_none_comes_back() {
    let nan = f64::from_bits(0xFFF8_0000_0000_0007);
    let measures = vec![Measure::Spread { number: Number::Float(nan), spread: SPREAD }];
    let question = Aggregation::new(Vec::new(), None, Vec::new(), measures).unwrap();
    let back = Aggregation::from_bytes(&question.to_bytes().unwrap(), &[]).unwrap();
    let [Measure::Spread { number: Number::Float(found), .. }] = back.measures[..] else {
        panic!("another measure came back: {back:?}")
    };
    assert_eq!(found.to_bits(), nan.to_bits());
}

const SPREAD: Spread = Spread::VarianceOfSample;

#[test]
fn what_ends_too_early_or_too_late_is_refused() {
    let (random, types) = (&mut Random(5), all_types());
    for _ in 0..200 {
        let mut bytes = Questions { random, types: &types }.question().to_bytes().unwrap();
        for length in 0..bytes.len() {
            let error = Aggregation::from_bytes(&bytes[..length], &types).unwrap_err();
            assert_eq!(error.state(), SqlState::PROTOCOL_VIOLATION);
        }
        bytes.push(0);
        assert!(Aggregation::from_bytes(&bytes, &types).is_err());
    }
}

/// What can be read can be asked, and what was found handed on.
#[test]
fn damaged_bytes_are_refused_or_another_question() {
    let (random, types) = (&mut Random(7), table_types());
    let (mut refused, mut asked) = (0, 0);
    let state = loop {
        let (state, rows) = table(random);
        if (1..10_000).contains(&rows.len()) {
            break state;
        }
    };
    for _ in 0..4_000 {
        let mut bytes = Questions { random, types: &types }.question().to_bytes().unwrap();
        for _ in 0..1 + random.below(3) {
            let place = random.below(bytes.len() as u64) as usize;
            bytes[place] = match random.below(3) {
                0 => random.next() as u8,
                1 => bytes[place].wrapping_add(1),
                _ => bytes[place].wrapping_sub(1),
            };
        }
        let Ok(question) = Aggregation::from_bytes(&bytes, &types) else {
            refused += 1;
            continue;
        };
        asked += 1;
        let question = Arc::new(question);
        let mut partial = Partial::new(&question);
        // Numbers may leave their types.
        if state.chunks().try_for_each(|chunk| partial.add_chunk(&chunk)).is_ok()
            && let Ok(batches) = partial.into_batches(2)
        {
            batches.iter().for_each(|batch| question.check(batch).unwrap());
        }
    }
    assert!(refused > 200 && asked > 200, "{refused} refused, {asked} asked");
}

#[test]
fn random_bytes_are_refused() {
    let (random, types) = (&mut Random(11), all_types());
    for _ in 0..20_000 {
        let mut bytes: Vec<u8> = (0..random.below(80)).map(|_| random.below(20) as u8).collect();
        bytes.insert(0, FORM);
        // Few are questions; what counts is that this ends.
        let _ = Aggregation::from_bytes(&bytes, &types);
    }
    assert!(Aggregation::from_bytes(&[], &types).is_err());
    assert!(Aggregation::from_bytes(&[FORM + 1], &types).is_err());
}

const TEXT: usize = 0;
const INT: usize = 3;
const DECIMAL: usize = 6;

fn refuses(filter: Option<Predicate>, keys: Vec<Key>, measures: Vec<Measure>) {
    let types = all_types();
    let columns = (0..types.len()).collect();
    let question = Aggregation::new(columns, filter, keys, measures).unwrap();
    let error = Aggregation::from_bytes(&question.to_bytes().unwrap(), &types);
    assert!(error.is_err(), "{question:?}");
}

#[test]
fn numbers_that_cannot_be_computed_are_refused() {
    let column = |place| Box::new(Number::Column(place));
    let both = |place| Box::new((Number::Column(place), Number::Column(place)));
    let numbers = [
        (Lane::Int, Number::Column(TEXT)),
        (Lane::Int, Number::Column(DECIMAL)),
        (Lane::Decimal, Number::Column(INT)),
        (Lane::Float, Number::Column(INT)),
        (Lane::Int, Number::Column(99)),
        (Lane::Int, Number::Float(1.0)),
        (Lane::Float, Number::FloatOfInt(column(DECIMAL))),
        (Lane::Int, Number::Bucket { operand: column(INT), unit: 0, origin: 0 }),
        (Lane::Int, Number::Bucket { operand: column(INT), unit: -5, origin: 0 }),
        (Lane::Decimal, Number::Decimals { operator: Operator::Divide, operands: both(DECIMAL) }),
        (Lane::Float, Number::Floats { operator: Operator::Modulo, operands: both(5) }),
        (
            Lane::Int,
            Number::Choice { cases: Vec::new(), otherwise: Some(Box::new(Number::Decimal(1))) },
        ),
    ];
    for (lane, number) in numbers {
        refuses(None, Vec::new(), vec![Measure::Sum { lane, number }]);
    }
}

fn first(value: Picked, order: Order) -> Measure {
    Measure::First { value, order, skips_nulls: false }
}

#[test]
fn parts_that_cannot_be_asked_are_refused() {
    refuses(None, Vec::new(), vec![Measure::TextExtreme { column: INT, greatest: true }]);
    refuses(None, Vec::new(), vec![Measure::TextCountDistinct { column: 99 }]);
    refuses(None, Vec::new(), vec![Measure::Count { column: 99 }]);
    let number = Number::Column(DECIMAL);
    refuses(None, Vec::new(), vec![Measure::CountDistinct { lane: Lane::Decimal, number }]);
    let picked = Picked::Text { column: INT };
    let order = Order::by(Lane::Int, Number::Column(INT), false, false).unwrap();
    refuses(None, Vec::new(), vec![first(picked, order.clone())]);
    let number = Number::Column(INT);
    let picked = Picked::Number { lane: Lane::Decimal, number: number.clone() };
    refuses(None, Vec::new(), vec![first(picked, order.clone())]);
    let picked = Picked::Number { lane: Lane::Int, number };
    let decimals = Order { lane: Lane::Decimal, number: Number::Column(DECIMAL), ..order };
    refuses(None, Vec::new(), vec![first(picked, decimals)]);
    let filtered =
        |measure| Measure::Filtered { filter: Predicate::Always(true), measure: Box::new(measure) };
    refuses(None, Vec::new(), vec![filtered(filtered(Measure::Rows))]);
    let list = vec![3, 1];
    let unsorted = Predicate::Among { number: Number::Column(INT), list, inside: true };
    refuses(Some(unsorted), Vec::new(), Vec::new());
    let test = TextTest::Compare(Comparison::Equal, String::new());
    refuses(Some(Predicate::Text { column: INT, test }), Vec::new(), Vec::new());
    refuses(Some(Predicate::IsNull { column: 99, null: true }), Vec::new(), Vec::new());
    let key = |value, data_type| vec![Key { value, data_type }];
    refuses(None, key(KeyValue::Column(INT), DataType::Int32), Vec::new());
    refuses(None, key(KeyValue::Int(Number::Column(INT)), DataType::Float64), Vec::new());
    let elsewhere = Aggregation::new(vec![99], None, Vec::new(), Vec::new()).unwrap();
    assert!(Aggregation::from_bytes(&elsewhere.to_bytes().unwrap(), &all_types()).is_err());
}

#[test]
fn questions_are_only_so_deep() {
    let nested = |depth: usize| {
        let inner = Predicate::Always(true);
        let filter = (1..depth).fold(inner, |inner, _| Predicate::And(vec![inner]));
        Aggregation::new(Vec::new(), Some(filter), Vec::new(), Vec::new()).unwrap()
    };
    let bytes = nested(DEPTH_MAX).to_bytes().unwrap();
    assert!(Aggregation::from_bytes(&bytes, &[]).is_ok());
    assert_eq!(nested(DEPTH_MAX + 1).to_bytes(), None);
    // One more `And` of one part, as somebody else may write it.
    let (head, and) = (1 + 4 + 1, &bytes[6..6 + 5]);
    let deeper = |more: usize| [&bytes[..head], &and.repeat(more), &bytes[head..]].concat();
    let error = Aggregation::from_bytes(&deeper(1), &[]).unwrap_err();
    assert!(error.message().contains("too deep"), "{error}");
    assert!(Aggregation::from_bytes(&deeper(100_000), &[]).is_err());
}

fn columns(columns: Vec<ArrayRef>) -> RecordBatch {
    let names = ["c0", "c1", "c2"].into_iter();
    RecordBatch::try_from_iter(names.zip(columns)).unwrap()
}

#[test]
fn what_no_worker_has_found_is_refused() {
    let key = Key { value: KeyValue::Column(0), data_type: DataType::Int64 };
    let sum = Measure::Sum { lane: Lane::Int, number: Number::Column(0) };
    let measures = vec![Measure::Rows, sum];
    let question = Aggregation::new(vec![0], None, vec![key], measures).unwrap();
    let ints = |values: [i64; 2]| Arc::new(Int64Array::from(values.to_vec())) as ArrayRef;
    let as_decimals = |values: [i64; 2]| {
        let wide = DataType::Decimal128(38, 0);
        arrow::compute::cast(&ints(values), &wide).unwrap()
    };
    let texts = || arrow::compute::cast(&ints([1, 2]), &DataType::Utf8View).unwrap();
    let good = [ints([1, 2]), ints([5, 0]), ints([-7, 7])];
    question.check(&columns(good.to_vec())).unwrap();
    let large = [ints([1, 2]), ints([5, 0]), as_decimals([1, 2])];
    question.check(&columns(large.to_vec())).unwrap();
    let bad = [
        vec![ints([1, 2]), ints([5, 0])],
        vec![texts(), ints([5, 0]), ints([-7, 7])],
        vec![ints([1, 2]), as_decimals([5, 0]), ints([-7, 7])],
        vec![ints([1, 2]), ints([-1, 0]), ints([-7, 7])],
        vec![ints([1, 2]), ints([i64::MAX, 0]), ints([-7, 7])],
        vec![ints([1, 2]), ints([5, 0]), texts()],
    ];
    for found in bad {
        assert!(question.check(&columns(found.clone())).is_err(), "{found:?}");
    }
}

/// Whatever ranks somebody else made up, merging and finishing them does no harm.
#[test]
fn first_rows_of_no_table_are_checked_and_merged() {
    let key = Key { value: KeyValue::Column(0), data_type: DataType::Int64 };
    let order = Order::by(Lane::Int, Number::Column(0), false, false).unwrap();
    let measures = vec![first(Picked::Text { column: 1 }, order)];
    let question = Arc::new(Aggregation::new(vec![0, 1], None, vec![key], measures).unwrap());
    let keys = Arc::new(Int64Array::from(vec![1, 1])) as ArrayRef;
    let texts = Arc::new(StringViewArray::from(vec![None, Some("a")])) as ArrayRef;
    let ranks = |data_type| {
        let ranks = Decimal128Array::from(vec![Some(-4), None]);
        Arc::new(ranks.with_data_type(data_type)) as ArrayRef
    };
    let found = |values: &ArrayRef, ranks: ArrayRef| {
        let value = Field::new("value", values.data_type().clone(), true);
        let rank = Field::new("rank", ranks.data_type().clone(), true);
        let columns = vec![Arc::clone(values), ranks];
        Arc::new(StructArray::new(vec![value, rank].into(), columns, None)) as ArrayRef
    };
    let wide = || ranks(DataType::Decimal128(38, 0));
    for bad in [found(&keys, wide()), found(&texts, ranks(DataType::Decimal128(20, 0)))] {
        assert!(question.check(&columns(vec![Arc::clone(&keys), bad])).is_err());
    }
    let odd = columns(vec![Arc::clone(&keys), found(&texts, wide())]);
    question.check(&odd).unwrap();
    let mut partial = Partial::new(&question);
    partial.absorb(&odd);
    let answer = partial.finish().measure(0, &DataType::Utf8View).unwrap();
    assert_eq!((answer.len(), answer.null_count()), (1, 1));
}
