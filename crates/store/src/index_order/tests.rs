//! Ranges and orders of indexes against a plain list of the rows, under random changes.

use std::cmp::Ordering;
use std::ops::Bound;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, Float64Array, Int32Array, RecordBatch, StringViewArray,
};
use arrow::datatypes::{Float64Type, Int32Type};
use thalweg_types::{
    Column, ColumnId, DataType, Index, Key, RowId, TableId, TableSchema, ValueOrder,
};

use super::{Hits, InOrder, KeyRange};
use crate::tests::random::Random;
use crate::{
    ChunkView, ClosedChunk, CompactionPolicy, Effect, Table, TableState, ThisThread, arrow_schema,
    plan_compaction,
};

#[derive(Clone, Debug)]
enum Value {
    Null,
    Whole(i32),
    Real(f64),
    Text(String),
}

type Row = Vec<Value>;

fn schema() -> TableSchema {
    let types = [DataType::Int4, DataType::Float8, DataType::Text { max_chars: None }];
    let columns = types.into_iter().zip(0..).map(|(data_type, id)| Column {
        id: ColumnId(id),
        name: format!("c{id}"),
        data_type,
        nullable: true,
        default: None,
        identity: None,
        second_digits: None,
    });
    TableSchema {
        id: TableId(1),
        namespace: "public".to_owned(),
        name: "t".to_owned(),
        columns: columns.collect(),
        primary_key: None,
        unique: Vec::new(),
        checks: Vec::new(),
        indexes: Vec::new(),
        foreign_keys: Vec::new(),
        shard_key: None,
        next_column_id: 3,
    }
}

/// Few different values, so that there are many equal ones.
fn value(column: usize, random: &mut Random) -> Value {
    const REALS: [f64; 8] =
        [0.0, -0.0, f64::NAN, -f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.5, 2.25];
    const TEXTS: [&str; 6] = ["", "a", "abcdefgh", "abcdefghi", "abcdefgh and so on", "é"];
    match (random.below(8), column) {
        (0, _) => Value::Null,
        (1, 0) => Value::Whole([i32::MIN, i32::MAX][random.below(2) as usize]),
        (_, 0) => Value::Whole(random.below(20) as i32 - 10),
        (_, 1) => Value::Real(REALS[random.below(8) as usize]),
        _ => Value::Text(TEXTS[random.below(6) as usize].to_owned()),
    }
}

fn rows(count: usize, random: &mut Random) -> Vec<Row> {
    (0..count).map(|_| (0..3).map(|column| value(column, random)).collect()).collect()
}

fn array(values: &[Value], column: usize) -> ArrayRef {
    match column {
        0 => Arc::new(values.iter().map(Value::whole).collect::<Int32Array>()),
        1 => Arc::new(values.iter().map(Value::real).collect::<Float64Array>()),
        _ => Arc::new(values.iter().map(Value::text).collect::<StringViewArray>()),
    }
}

fn batch(rows: &[Row]) -> RecordBatch {
    let column = |column: usize| {
        let values: Vec<Value> = rows.iter().map(|row: &Row| row[column].clone()).collect();
        array(&values, column)
    };
    RecordBatch::try_new(arrow_schema(&schema()), (0..3).map(column).collect()).unwrap()
}

impl Value {
    fn whole(&self) -> Option<i32> {
        if let Value::Whole(value) = self { Some(*value) } else { None }
    }

    fn real(&self) -> Option<f64> {
        if let Value::Real(value) = self { Some(*value) } else { None }
    }

    fn text(&self) -> Option<&str> {
        if let Value::Text(value) = self { Some(value) } else { None }
    }

    /// How two values stand that are not NULL.
    fn compare(&self, other: &Value) -> Ordering {
        match (self, other) {
            (Value::Whole(left), Value::Whole(right)) => left.cmp(right),
            (Value::Text(left), Value::Text(right)) => left.cmp(right),
            (Value::Real(left), Value::Real(right)) => match left.partial_cmp(right) {
                Some(order) => order,
                None => left.is_nan().cmp(&right.is_nan()),
            },
            _ => panic!("{self:?} and {other:?} are of one column"),
        }
    }

    fn compare_in(&self, other: &Value, order: ValueOrder) -> Ordering {
        match (self, other) {
            (Value::Null, Value::Null) => Ordering::Equal,
            (Value::Null, _) => [Ordering::Greater, Ordering::Less][order.nulls_first as usize],
            (_, Value::Null) => [Ordering::Less, Ordering::Greater][order.nulls_first as usize],
            _ if order.descending => other.compare(self),
            _ => self.compare(other),
        }
    }
}

/// All rows that a state shows alive.
fn all(state: &TableState) -> Vec<(RowId, Row)> {
    let mut found = Vec::new();
    for chunk in state.chunks() {
        let columns = chunk.columns(&[0, 1, 2]);
        let (wholes, reals, texts) = (&columns[0], &columns[1], &columns[2]);
        for place in
            (0..chunk.rows()).filter(|p| chunk.dead().is_none_or(|d| !d.contains(*p as u32)))
        {
            let whole = || Value::Whole(wholes.as_primitive::<Int32Type>().value(place));
            let real = || Value::Real(reals.as_primitive::<Float64Type>().value(place));
            let text = || Value::Text(texts.as_string_view().value(place).to_owned());
            let row = vec![
                if wholes.is_null(place) { Value::Null } else { whole() },
                if reals.is_null(place) { Value::Null } else { real() },
                if texts.is_null(place) { Value::Null } else { text() },
            ];
            found.push((RowId::new(chunk.number(), place as u32), row));
        }
    }
    found
}

fn index(random: &mut Random) -> Index {
    let mut columns: Vec<u32> = vec![0, 1, 2];
    columns.rotate_left(random.below(3) as usize);
    columns.truncate(1 + random.below(3) as usize);
    let mut flag = || random.below(2) == 0;
    let orders = columns.iter().map(|_| ValueOrder { descending: flag(), nulls_first: flag() });
    let orders = orders.collect();
    let columns = columns.into_iter().map(ColumnId).collect();
    Index { key: Key { name: "i".to_owned(), columns }, orders, unique: false }
}

/// A range, and the same for the model.
struct Range {
    equal: Vec<Value>,
    from: Bound<Value>,
    to: Bound<Value>,
}

impl Range {
    fn any(index: &Index, random: &mut Random) -> Range {
        let columns = &index.key.columns;
        let equal = random.below(columns.len() as u64 + 1) as usize;
        let of = |column: &ColumnId, random: &mut Random| value(column.0 as usize, random);
        let values: Vec<Value> = columns[..equal].iter().map(|column| of(column, random)).collect();
        let bound = |random: &mut Random| match columns.get(equal) {
            Some(column) => match (of(column, random), random.below(3)) {
                (Value::Null, _) | (_, 0) => Bound::Unbounded,
                (value, 1) => Bound::Included(value),
                (value, _) => Bound::Excluded(value),
            },
            None => Bound::Unbounded,
        };
        Range { from: bound(random), to: bound(random), equal: values }
    }

    fn has(&self, index: &Index, row: &Row) -> bool {
        let value = |column: usize| &row[index.key.columns[column].0 as usize];
        let equal = self.equal.iter().enumerate();
        let mut equal =
            equal.map(|(column, sought)| sought.compare_in(value(column), ValueOrder::ASCENDING));
        if equal.any(|order| order.is_ne()) {
            return false;
        }
        if matches!((&self.from, &self.to), (Bound::Unbounded, Bound::Unbounded)) {
            return true;
        }
        let value = value(self.equal.len());
        if matches!(value, Value::Null) {
            return false;
        }
        let above = match &self.from {
            Bound::Included(from) => value.compare(from).is_ge(),
            Bound::Excluded(from) => value.compare(from).is_gt(),
            Bound::Unbounded => true,
        };
        let below = match &self.to {
            Bound::Included(to) => value.compare(to).is_le(),
            Bound::Excluded(to) => value.compare(to).is_lt(),
            Bound::Unbounded => true,
        };
        above && below
    }

    fn keys(&self, index: &Index) -> KeyRange {
        let of = |column: usize, value: &Value| {
            array(std::slice::from_ref(value), index.key.columns[column].0 as usize)
        };
        let next = self.equal.len();
        let bound = |bound: &Bound<Value>| bound.as_ref().map(|value| of(next, value));
        KeyRange {
            equal: self.equal.iter().enumerate().map(|(column, value)| of(column, value)).collect(),
            from: bound(&self.from),
            to: bound(&self.to),
        }
    }
}

/// Compares what a state finds in a range of an index with what the list of its rows has.
fn check(state: &TableState, index: &Index, random: &mut Random) {
    let range = Range::any(index, random);
    let expected: Vec<(RowId, Row)> =
        all(state).into_iter().filter(|(_, row)| range.has(index, row)).collect();
    let positions = state.schema().key_positions(&index.key);
    let chunks: Vec<ChunkView> = state.chunks().collect();
    let keys = range.keys(index);
    let found: Vec<(usize, Hits)> =
        chunks.iter().enumerate().map(|(at, c)| (at, c.find(index, &positions, &keys))).collect();

    for (chunk, (_, hits)) in chunks.iter().zip(&found) {
        let soon = chunk.find_soon(index, &positions, &keys).map(|hits| hits.count());
        assert_eq!(soon, Some(hits.count()), "chunks are small");
    }

    let places = chunks.iter().zip(&found).flat_map(|(chunk, (_, hits))| {
        let places = chunk.places(std::slice::from_ref(hits));
        let view = chunk.narrowed(places.clone());
        assert_eq!(view.live_rows(), places.len());
        assert_eq!(view.dead().unwrap().len() as usize, view.rows() - places.len());
        assert!(hits.count() >= places.len());
        places.into_iter().map(|place| RowId::new(chunk.number(), place.into()))
    });
    assert!(places.eq(expected.iter().map(|(id, _)| *id)), "rows of a range");

    let compare = |left: &Row, right: &Row| {
        let columns = index.key.columns.iter().zip(&index.orders);
        let compared = columns.map(|(column, order)| {
            left[column.0 as usize].compare_in(&right[column.0 as usize], *order)
        });
        compared.fold(Ordering::Equal, Ordering::then)
    };
    for backward in [false, true] {
        let merged = InOrder::new(&chunks, index, &positions, &found, backward);
        let ids = merged.map(|(chunk, place)| RowId::new(chunks[chunk].number(), place.into()));
        let ids: Vec<RowId> = ids.collect();
        let row = |id: &RowId| &expected.iter().find(|(known, _)| known == id).unwrap().1;
        for pair in ids.windows(2) {
            let order = compare(row(&pair[0]), row(&pair[1]));
            assert!(if backward { order.is_ge() } else { order.is_le() }, "order of rows");
        }
        let mut sorted = ids;
        sorted.sort_unstable();
        assert!(sorted.into_iter().eq(expected.iter().map(|(id, _)| *id)), "rows in order");
    }
}

struct World {
    table: Table,
    state: Arc<TableState>,
    held: Vec<Arc<TableState>>,
}

impl World {
    /// One random change; sometimes undone, else published.
    fn change(&mut self, random: &mut Random) {
        let mut effect = Effect::new();
        match random.below(10) {
            0..=2 => {
                let rows = rows(1 + random.below(60) as usize, random);
                self.table.append(&batch(&rows), &mut effect).unwrap();
            }
            3 => {
                let rows = rows(1 + random.below(80) as usize, random);
                let chunk = Arc::new(ClosedChunk::build(&schema(), &batch(&rows)));
                self.table.append_chunk(chunk, &mut effect).unwrap();
            }
            4..=7 => {
                let ids = all(&self.state).into_iter().map(|(id, _)| id);
                let some: Vec<RowId> = ids.filter(|_| random.below(6) == 0).collect();
                self.table.kill(&some, &mut effect).unwrap();
                let rows = rows(some.len(), random);
                self.table.append(&batch(&rows), &mut effect).unwrap();
            }
            8 => {
                let Some(plan) = plan_compaction(&self.state, CompactionPolicy::Idle) else {
                    return;
                };
                self.table.apply_compaction(plan.build(), &mut effect).unwrap();
            }
            // All rows go into closed chunks.
            _ => {
                let schema = Arc::clone(self.table.schema());
                self.table.alter(schema, &[], &ThisThread, &mut effect).unwrap();
            }
        }
        if random.below(6) == 0 {
            self.table.undo(effect);
            return;
        }
        self.held.push(Arc::clone(&self.state));
        effect.publish(&mut self.state);
        if self.held.len() > 4 {
            self.held.remove(random.below(5) as usize);
        }
    }

    /// What a transaction sees that has changed the table and not committed.
    fn changed(&self, random: &mut Random) -> TableState {
        let mut own = TableState::clone(&self.state);
        let ids = all(&own).into_iter().map(|(id, _)| id);
        let some: Vec<RowId> = ids.filter(|_| random.below(4) == 0).collect();
        own.kill_private(&some);
        let rows = rows(1 + random.below(30) as usize, random);
        own.add_private_chunk(Arc::new(ClosedChunk::build(&schema(), &batch(&rows))));
        own
    }
}

#[test]
fn what_is_found_is_what_a_snapshot_shows() {
    for seed in 0..60 {
        let mut random = Random(seed);
        let indexes: Vec<Index> = (0..3).map(|_| index(&mut random)).collect();
        let with_indexes = TableSchema { indexes: indexes.clone(), ..schema() };
        let (table, state) = Table::new(Arc::new(with_indexes));
        let mut world = World { table, state, held: Vec::new() };
        for _ in 0..40 {
            world.change(&mut random);
            let own = world.changed(&mut random);
            for index in &indexes {
                check(&world.state, index, &mut random);
                check(&own, index, &mut random);
                world.held.iter().for_each(|state| check(state, index, &mut random));
            }
        }
    }
}

/// A snapshot that shows less of an open chunk than was taken into its run since.
#[test]
fn an_older_snapshot_of_an_open_chunk_finds_its_own_rows() {
    let mut random = Random(7);
    let index = index(&mut random);
    let (mut table, mut state) = Table::new(Arc::new(schema()));
    let mut states = Vec::new();
    for _ in 0..6 {
        let mut effect = Effect::new();
        table.append(&batch(&rows(700, &mut random)), &mut effect).unwrap();
        effect.publish(&mut state);
        states.push(Arc::clone(&state));
    }
    check(&state, &index, &mut random);
    for state in states.iter().rev().chain(&states) {
        check(state, &index, &mut random);
    }
}

#[test]
fn a_run_is_made_once_and_goes_with_its_index() {
    let mut random = Random(3);
    let index = index(&mut random);
    let with_index = Arc::new(TableSchema { indexes: vec![index.clone()], ..schema() });
    let chunk = ClosedChunk::build(&with_index, &batch(&rows(500, &mut random)));
    let chunk = Arc::new(chunk);
    let bytes = chunk.memory_bytes();
    chunk.prepare(&with_index);
    assert_eq!(chunk.memory_bytes(), bytes + 1_000);
    let run = chunk.runs().get(&index, 500, |_| panic!("the run was prepared"));
    assert_eq!(run.len(), 500);
    chunk.runs().retain(&[]);
    assert_eq!(chunk.memory_bytes(), bytes);
}

#[test]
fn who_cannot_wait_finds_nothing_where_a_large_run_is_missing() {
    let mut random = Random(5);
    let index = Index { orders: vec![ValueOrder::ASCENDING], ..index(&mut random) };
    let index = Index { key: Key { columns: vec![ColumnId(0)], ..index.key }, ..index };
    let with_index = Arc::new(TableSchema { indexes: vec![index.clone()], ..schema() });
    let chunk = ClosedChunk::build(&with_index, &batch(&rows(6_000, &mut random)));
    let (mut table, mut state) = Table::new(Arc::clone(&with_index));
    let mut effect = Effect::new();
    table.append_chunk(Arc::new(chunk), &mut effect).unwrap();
    effect.publish(&mut state);
    let view = state.chunks().next().unwrap();
    let from = |value: i32| {
        let value: ArrayRef = Arc::new(Int32Array::from(vec![value]));
        KeyRange { equal: Vec::new(), from: Bound::Excluded(value), to: Bound::Unbounded }
    };
    assert!(view.find_soon(&index, &[0], &from(3)).is_none());
    // No row is beyond this value.
    assert_eq!(view.find_soon(&index, &[0], &from(i32::MAX)).unwrap().count(), 0);
    state.prepare(&index, &ThisThread);
    let found = view.find(&index, &[0], &from(3)).count();
    assert!(found > 0);
    assert_eq!(view.find_soon(&index, &[0], &from(3)).unwrap().count(), found);
}
