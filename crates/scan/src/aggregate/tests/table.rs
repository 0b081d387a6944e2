//! Random tables: chunks of all kinds, with NULLs, dead rows and difficult numbers.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanArray, Decimal128Array, Float64Array, Int32Array, Int64Array, RecordBatch,
    StringViewArray,
};
use thalweg_store::{ClosedChunk, Effect, Table, TableState, arrow_schema};
use thalweg_types::{Column, ColumnId, DataType, RowId, TableId, TableSchema};

/// The generator of Steele, Lea and Flood (SplitMix64).
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut value = self.0;
        value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        value ^ (value >> 31)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    pub fn one_in(&mut self, bound: u64) -> bool {
        self.below(bound) == 0
    }

    pub fn pick<T: Clone>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize].clone()
    }
}

/// One row, column by column.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    pub tag: Option<String>,
    pub name: Option<String>,
    pub small: Option<i32>,
    pub large: Option<i64>,
    pub float: Option<f64>,
    pub amount: Option<i128>,
    pub flag: Option<bool>,
}

pub const TAG: usize = 0;
pub const NAME: usize = 1;
pub const SMALL: usize = 2;
pub const LARGE: usize = 3;
pub const FLOAT: usize = 4;
pub const AMOUNT: usize = 5;
pub const FLAG: usize = 6;

pub fn schema() -> TableSchema {
    let text = DataType::Text { max_chars: None };
    let columns = [
        ("tag", text.clone()),
        ("name", text),
        ("small", DataType::Int4),
        ("large", DataType::Int8),
        ("float", DataType::Float8),
        ("amount", DataType::Decimal { precision: 15, scale: 2 }),
        ("flag", DataType::Boolean),
    ];
    let columns: Vec<Column> = columns
        .into_iter()
        .zip(1..)
        .map(|((name, data_type), id)| Column {
            id: ColumnId(id),
            name: name.to_owned(),
            data_type,
            nullable: true,
            default: None,
            identity: None,
            second_digits: None,
        })
        .collect();
    TableSchema {
        id: TableId(1),
        namespace: "public".to_owned(),
        name: "t".to_owned(),
        next_column_id: columns.len() as u32 + 1,
        columns,
        primary_key: None,
        unique: Vec::new(),
        checks: Vec::new(),
        indexes: Vec::new(),
        foreign_keys: Vec::new(),
        shard_key: None,
    }
}

pub fn batch(rows: &[Row]) -> RecordBatch {
    let amounts = Decimal128Array::from_iter(rows.iter().map(|row| row.amount));
    let columns: Vec<ArrayRef> = vec![
        Arc::new(rows.iter().map(|row| row.tag.clone()).collect::<StringViewArray>()),
        Arc::new(rows.iter().map(|row| row.name.clone()).collect::<StringViewArray>()),
        Arc::new(Int32Array::from_iter(rows.iter().map(|row| row.small))),
        Arc::new(Int64Array::from_iter(rows.iter().map(|row| row.large))),
        Arc::new(Float64Array::from_iter(rows.iter().map(|row| row.float))),
        Arc::new(amounts.with_precision_and_scale(15, 2).unwrap()),
        Arc::new(BooleanArray::from_iter(rows.iter().map(|row| row.flag))),
    ];
    RecordBatch::try_new(arrow_schema(&schema()), columns).unwrap()
}

/// What the rows of a table are like.
#[derive(Clone, Copy)]
struct Character {
    tags: u64,
    small: u64,
    /// One in so many is NULL; no row is where it is 0.
    nulls: u64,
    wild: bool,
    /// What rows are grouped by is the same in so many neighbouring ones.
    run: usize,
}

/// A table, and the rows of it that are alive, as they lie in it.
pub fn table(random: &mut Random) -> (Arc<TableState>, Vec<Row>) {
    let (mut table, mut state) = Table::new(Arc::new(schema()));
    let character = Character {
        run: [1, 20, 1, 300][random.0 as usize % 4],
        tags: random.pick(&[1, 2, 5, 40, 700]),
        small: random.pick(&[1, 3, 90, 5_000, 1 << 31]),
        nulls: random.pick(&[0, 0, 2, 20]),
        wild: random.one_in(4),
    };
    let mut alive = Vec::new();
    for _ in 0..random.below(5) {
        let rows = (0..1 + random.below(9_000)).map(|_| row(random, character)).collect();
        let rows = in_runs(rows, character.run);
        let mut effect = Effect::new();
        let number = if random.one_in(3) {
            table.append(&batch(&rows), &mut effect).unwrap()[0].chunk
        } else {
            let chunk = Arc::new(ClosedChunk::build(&schema(), &batch(&rows)));
            table.append_chunk(chunk, &mut effect).unwrap()
        };
        let chunk_start = table.applied().chunk(number).unwrap().rows() - rows.len();
        let mut dead = Vec::new();
        let dies = random.pick(&[0, 0, 2, 50]);
        for (place, row) in rows.into_iter().enumerate() {
            let id = RowId::new(number, (chunk_start + place) as u32);
            if dies > 0 && random.one_in(dies) {
                dead.push(id);
            } else {
                alive.push((id, row));
            }
        }
        table.kill(&dead, &mut effect).unwrap();
        effect.publish(&mut state);
    }
    assert_eq!(state.rows(), alive.len());
    // What is appended may go to a chunk that others have followed.
    alive.sort_by_key(|(id, _)| *id);
    (state, alive.into_iter().map(|(_, row)| row).collect())
}

/// The same rows, of which so many neighbours have one key.
fn in_runs(mut rows: Vec<Row>, run: usize) -> Vec<Row> {
    for rows in rows.chunks_mut(run) {
        let Some((first, others)) = rows.split_first_mut() else { continue };
        for row in others {
            row.tag.clone_from(&first.tag);
            row.name.clone_from(&first.name);
            (row.small, row.flag) = (first.small, first.flag);
        }
    }
    rows
}

fn row(random: &mut Random, character: Character) -> Row {
    let Character { tags, small, nulls, wild, .. } = character;
    let some = |random: &mut Random| nulls == 0 || !random.one_in(nulls);
    let small_least = if small > 1 << 30 { -1 << 30 } else { -2 };
    let float = match random.below(12) {
        0 => random.pick(&[f64::NAN, -f64::NAN, 0.0, -0.0, f64::INFINITY]),
        _ => random.below(200) as f64 / 4.0 - 20.0,
    };
    let large = match random.below(6) {
        0 if wild => random.pick(&[i64::MIN, i64::MAX, i64::MAX - 1]),
        1 if wild => random.next() as i64,
        _ => random.below(2_000) as i64 - 1_000,
    };
    let amount = match random.below(6) {
        0 if wild => random.pick(&[999_999_999_999_999, -999_999_999_999_999]),
        _ => i128::from(random.below(1_000_000)) - 500_000,
    };
    Row {
        tag: some(random).then(|| format!("t{}", random.below(tags))),
        name: some(random).then(|| format!("a name of some length {}", random.below(1 << 20))),
        small: some(random).then(|| small_least + random.below(small) as i32),
        large: some(random).then_some(large),
        float: some(random).then_some(float),
        amount: some(random).then_some(amount),
        flag: some(random).then(|| random.one_in(3)),
    }
}
