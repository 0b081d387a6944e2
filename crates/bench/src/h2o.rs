//! The data and queries of db-benchmark (<https://github.com/duckdblabs/db-benchmark>): group-by
//! over one table, and joins of it with a small, a medium and a large one. Columns have the
//! distributions of its scripts, from another generator.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, Int64Array, StringArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use thalweg_types::Result;

use crate::data::write_parquet;
use crate::zipf::scattered;

/// Number of distinct values of a low-cardinality column; a high-cardinality column has one
/// distinct value for each this many rows.
const GROUPS: u64 = 100;
const BATCH_ROWS: usize = 65_536;

/// The queries of the group-by task, in db-benchmark's form for DuckDB.
pub const GROUP_BY: [&str; 10] = [
    "SELECT id1, sum(v1) AS v1 FROM x GROUP BY id1",
    "SELECT id1, id2, sum(v1) AS v1 FROM x GROUP BY id1, id2",
    "SELECT id3, sum(v1) AS v1, avg(v3) AS v3 FROM x GROUP BY id3",
    "SELECT id4, avg(v1) AS v1, avg(v2) AS v2, avg(v3) AS v3 FROM x GROUP BY id4",
    "SELECT id6, sum(v1) AS v1, sum(v2) AS v2, sum(v3) AS v3 FROM x GROUP BY id6",
    "SELECT id4, id5, median(v3) AS median_v3, stddev(v3) AS sd_v3 FROM x GROUP BY id4, id5",
    "SELECT id3, max(v1) - min(v2) AS range_v1_v2 FROM x GROUP BY id3",
    "SELECT id6, v3 FROM (SELECT id6, v3, row_number() OVER (PARTITION BY id6 ORDER BY v3 DESC) \
     AS place FROM x WHERE v3 IS NOT NULL) AS placed WHERE place <= 2",
    "SELECT id2, id4, corr(v1, v2) * corr(v1, v2) AS r2 FROM x GROUP BY id2, id4",
    "SELECT id1, id2, id3, id4, id5, id6, sum(v3) AS v3, count(*) AS count FROM x \
     GROUP BY id1, id2, id3, id4, id5, id6",
];

/// The queries of the join task.
pub const JOINS: [&str; 5] = [
    "SELECT y.*, small.id4 AS small_id4, small.v2 FROM y JOIN small ON y.id1 = small.id1",
    "SELECT y.*, medium.id1 AS medium_id1, medium.id4 AS medium_id4, medium.id5 AS medium_id5, \
     medium.v2 FROM y JOIN medium ON y.id2 = medium.id2",
    "SELECT y.*, medium.id1 AS medium_id1, medium.id4 AS medium_id4, medium.id5 AS medium_id5, \
     medium.v2 FROM y LEFT JOIN medium ON y.id2 = medium.id2",
    "SELECT y.*, medium.id1 AS medium_id1, medium.id2 AS medium_id2, medium.id4 AS medium_id4, \
     medium.v2 FROM y JOIN medium ON y.id5 = medium.id5",
    "SELECT y.*, big.id1 AS big_id1, big.id2 AS big_id2, big.id4 AS big_id4, big.id5 AS big_id5, \
     big.id6 AS big_id6, big.v2 FROM y JOIN big ON y.id3 = big.id3",
];

/// A table, its columns in SQL, and its file.
pub struct Table {
    pub name: &'static str,
    pub columns: &'static str,
    pub path: PathBuf,
}

/// The table of the group-by task, generated if it is not in the cache.
pub fn grouped(cache: &Path, rows: u64) -> Result<Vec<Table>> {
    let columns = "id1 text, id2 text, id3 text, id4 bigint, id5 bigint, id6 bigint, v1 bigint, \
                   v2 bigint, v3 float";
    let many = rows / GROUPS;
    let make = move |range: &Range<u64>| {
        vec![
            texts(range, |row| format!("id{:03}", 1 + drawn(1, row, GROUPS))),
            texts(range, |row| format!("id{:03}", 1 + drawn(2, row, GROUPS))),
            texts(range, |row| format!("id{:010}", 1 + drawn(3, row, many))),
            integers(range, |row| 1 + drawn(4, row, GROUPS)),
            integers(range, |row| 1 + drawn(5, row, GROUPS)),
            integers(range, |row| 1 + drawn(6, row, many)),
            integers(range, |row| 1 + drawn(7, row, 5)),
            integers(range, |row| 1 + drawn(8, row, 15)),
            floats(range, 9),
        ]
    };
    Ok(vec![Table::at(cache, "x", columns, rows, rows, make)?])
}

/// The tables of the join task. Nine of ten keys of each side occur in the other.
pub fn joined(cache: &Path, rows: u64) -> Result<Vec<Table>> {
    let (few, some) = (rows / 1_000_000, rows / 1_000);
    let text = |number: u64| format!("id{number}");
    let y = Table::at(
        cache,
        "y",
        "id1 bigint, id2 bigint, id3 bigint, id4 text, id5 text, id6 text, v1 float",
        rows,
        rows,
        move |range| {
            let (one, two) =
                (move |row| 1 + drawn(1, row, few), move |row| 1 + drawn(2, row, some));
            let three = move |row| 1 + shuffled(row, rows);
            vec![
                integers(range, one),
                integers(range, two),
                integers(range, three),
                texts(range, |row| text(one(row))),
                texts(range, |row| text(two(row))),
                texts(range, |row| text(three(row))),
                floats(range, 4),
            ]
        },
    )?;
    let small_columns = "id1 bigint, id4 text, v2 float";
    let small = Table::at(cache, "small", small_columns, rows, few, move |range| {
        let key = move |row| 1 + few / 10 + row;
        vec![integers(range, key), texts(range, |row| text(key(row))), floats(range, 5)]
    })?;
    let medium_columns = "id1 bigint, id2 bigint, id4 text, id5 text, v2 float";
    let medium = Table::at(cache, "medium", medium_columns, rows, some, move |range| {
        let one = move |row| 1 + drawn(6, row, few);
        let key = move |row| 1 + some / 10 + shuffled(row, some);
        vec![
            integers(range, one),
            integers(range, key),
            texts(range, |row| text(one(row))),
            texts(range, |row| text(key(row))),
            floats(range, 7),
        ]
    })?;
    let big_columns = "id1 bigint, id2 bigint, id3 bigint, id4 text, id5 text, id6 text, v2 float";
    let big = Table::at(cache, "big", big_columns, rows, rows, move |range| {
        let (one, two) = (move |row| 1 + drawn(8, row, few), move |row| 1 + drawn(9, row, some));
        let key = move |row| 1 + rows / 10 + shuffled(row + 1, rows);
        vec![
            integers(range, one),
            integers(range, two),
            integers(range, key),
            texts(range, |row| text(one(row))),
            texts(range, |row| text(two(row))),
            texts(range, |row| text(key(row))),
            floats(range, 10),
        ]
    })?;
    Ok(vec![y, small, medium, big])
}

impl Table {
    /// The table of a task at `scale` rows; the table itself has `rows` rows.
    fn at(
        cache: &Path,
        name: &'static str,
        columns: &'static str,
        scale: u64,
        rows: u64,
        make: impl Fn(&Range<u64>) -> Vec<ArrayRef>,
    ) -> Result<Table> {
        let path = cache.join(format!("h2o-{scale}-{name}.parquet"));
        if !path.exists() {
            println!("  making {}", path.display());
            let starts = (0..rows).step_by(BATCH_ROWS);
            let ranges = starts.map(|start| start..rows.min(start + BATCH_ROWS as u64));
            write_parquet(&path, &schema(columns), ranges.map(|range| make(&range)))?;
        }
        Ok(Table { name, columns, path })
    }
}

/// The Arrow types of columns that SQL declares.
fn schema(columns: &str) -> SchemaRef {
    let fields = columns.split(", ").map(|column| {
        let (name, of_type) = column.split_once(' ').expect("a column has a name and a type");
        let of_type = match of_type.trim() {
            "text" => DataType::Utf8,
            "float" => DataType::Float64,
            _ => DataType::Int64,
        };
        Field::new(name.trim(), of_type, false)
    });
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// A number below a bound that depends only on the column and the row.
fn drawn(column: u64, row: u64, below: u64) -> u64 {
    scattered(row.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (column << 56)) % below.max(1)
}

/// A permutation of the numbers below `rows`.
fn shuffled(row: u64, rows: u64) -> u64 {
    // The factor is a prime that divides no power of ten.
    row.wrapping_mul(7_368_787) % rows
}

fn texts(range: &Range<u64>, value: impl Fn(u64) -> String) -> ArrayRef {
    Arc::new(StringArray::from_iter_values(range.clone().map(value)))
}

fn integers(range: &Range<u64>, value: impl Fn(u64) -> u64) -> ArrayRef {
    Arc::new(Int64Array::from_iter_values(range.clone().map(|row| value(row) as i64)))
}

/// Numbers below 100 with six decimal digits.
fn floats(range: &Range<u64>, column: u64) -> ArrayRef {
    let value = |row| drawn(column, row, 100_000_000) as f64 / 1e6;
    Arc::new(Float64Array::from_iter_values(range.clone().map(value)))
}
