//! Repeatable random tables for tests.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryViewArray, BooleanArray, Date32Array, Decimal128Array, Decimal256Array,
    Float32Array, Float64Array, Int16Array, Int32Array, Int64Array, IntervalMonthDayNanoArray,
    ListBuilder, RecordBatch, StringViewArray, StringViewBuilder, Time64MicrosecondArray,
    TimestampMicrosecondArray,
};
use arrow::datatypes::{IntervalMonthDayNano, i256};
use thalweg_types::{Column, ColumnId, DataType, TableId, TableSchema};

use crate::{arrow_schema, arrow_type};

/// The generator of Steele, Lea and Flood (SplitMix64): small, and good enough for tests.
pub(crate) struct Random(pub u64);

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

    /// Extremes, small numbers and any numbers.
    fn number(&mut self) -> i64 {
        match self.below(8) {
            0 => i64::MIN,
            1 => i64::MAX,
            2..=5 => self.below(200) as i64 - 100,
            _ => self.next() as i64,
        }
    }

    fn text(&mut self) -> String {
        let length = [0, 1, 5, 12, 13, 40][self.below(6) as usize];
        (0..length).map(|_| ['a', 'b', ' ', 'é', '漢'][self.below(5) as usize]).collect()
    }
}

/// A column of each type that a table can have.
pub(crate) fn all_types() -> TableSchema {
    let types = [
        DataType::Boolean,
        DataType::Int2,
        DataType::Int4,
        DataType::Int8,
        DataType::Float4,
        DataType::Float8,
        DataType::Decimal { precision: 15, scale: 2 },
        DataType::Decimal { precision: 38, scale: 0 },
        DataType::Decimal { precision: 76, scale: 10 },
        DataType::Text { max_chars: None },
        DataType::Text { max_chars: Some(40) },
        DataType::Bytea,
        DataType::Date,
        DataType::Time,
        DataType::Timestamp,
        DataType::Timestamptz,
        DataType::Interval,
        DataType::Uuid,
        DataType::Json,
        DataType::Jsonb,
        DataType::Array(Box::new(DataType::Text { max_chars: None })),
    ];
    let column = |(index, data_type): (usize, DataType)| Column {
        id: ColumnId(index as u32),
        name: format!("c{index}"),
        data_type,
        nullable: true,
        default: None,
        identity: None,
        second_digits: None,
    };
    TableSchema {
        id: TableId(1),
        namespace: "public".to_owned(),
        name: "everything".to_owned(),
        columns: types.into_iter().enumerate().map(column).collect(),
        primary_key: None,
        unique: Vec::new(),
        checks: Vec::new(),
        indexes: Vec::new(),
        foreign_keys: Vec::new(),
        shard_key: None,
        next_column_id: 100,
    }
}

/// Random rows; with `nulls` one value in `nulls` is NULL, with 0 none.
pub(crate) fn batch(
    schema: &TableSchema,
    rows: usize,
    nulls: u64,
    random: &mut Random,
) -> RecordBatch {
    let columns = schema.columns.iter().map(|c| array(&c.data_type, rows, nulls, random));
    RecordBatch::try_new(arrow_schema(schema), columns.collect()).unwrap()
}

fn array(data_type: &DataType, rows: usize, nulls: u64, random: &mut Random) -> ArrayRef {
    macro_rules! some {
        ($array:ty, $value:expr) => {{
            let value: &dyn Fn(&mut Random) -> _ = &$value;
            let values = (0..rows).map(|_| {
                let null = nulls > 0 && random.below(nulls) == 0;
                if null { None } else { Some(value(random)) }
            });
            values.collect::<$array>()
        }};
    }
    match data_type {
        DataType::Boolean => Arc::new(some!(BooleanArray, |r| r.below(2) == 0)),
        DataType::Int2 => Arc::new(some!(Int16Array, |r| r.number() as i16)),
        DataType::Int4 => Arc::new(some!(Int32Array, |r| r.number() as i32)),
        DataType::Int8 => Arc::new(some!(Int64Array, |r| r.number())),
        DataType::Float4 => Arc::new(some!(Float32Array, |r| r.number() as f32)),
        DataType::Float8 => Arc::new(some!(Float64Array, |r| r.number() as f64)),
        DataType::Decimal { precision: 39.., scale } => {
            let array = some!(Decimal256Array, |r| {
                i256::from_i128(r.number().into()).wrapping_mul(i256::from_i128(1 << 100))
            });
            Arc::new(array.with_precision_and_scale(76, *scale).unwrap())
        }
        DataType::Decimal { precision, scale } => {
            let large = *precision > 18;
            let array = some!(Decimal128Array, |r| {
                i128::from(r.number()) * if large { 1 << 40 } else { 1 }
            });
            Arc::new(array.with_precision_and_scale(*precision, *scale).unwrap())
        }
        DataType::Text { .. } | DataType::Uuid | DataType::Json | DataType::Jsonb => {
            Arc::new(some!(StringViewArray, |r| r.text()))
        }
        DataType::Bytea => Arc::new(some!(BinaryViewArray, |r| r.text().into_bytes())),
        DataType::Date => Arc::new(some!(Date32Array, |r| r.number() as i32)),
        DataType::Time => Arc::new(some!(Time64MicrosecondArray, |r| r.number())),
        DataType::Timestamp => Arc::new(some!(TimestampMicrosecondArray, |r| r.number())),
        DataType::Timestamptz => {
            Arc::new(some!(TimestampMicrosecondArray, |r| r.number()).with_timezone("UTC"))
        }
        DataType::Interval => Arc::new(some!(IntervalMonthDayNanoArray, |r| {
            IntervalMonthDayNano::new(r.number() as i32, r.number() as i32, r.number())
        })),
        DataType::Array(item) => {
            let mut lists = ListBuilder::new(StringViewBuilder::new())
                .with_field(arrow::datatypes::Field::new("item", arrow_type(item), true));
            for _ in 0..rows {
                for _ in 0..random.below(4) {
                    lists.values().append_option((random.below(5) > 0).then(|| random.text()));
                }
                lists.append(nulls == 0 || random.below(nulls) > 0);
            }
            Arc::new(lists.finish())
        }
    }
}
