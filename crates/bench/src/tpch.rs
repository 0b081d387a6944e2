//! TPC-H: its tables, their data by the generator `tpchgen`, and its queries in our spelling.

mod columns;
mod generate;
mod tables;

pub use tables::{TABLES, Table};

/// The largest table, which some workloads use alone.
pub fn lineitem() -> &'static Table {
    TABLES.iter().find(|table| table.name == "lineitem").expect("it is one of the eight")
}

/// The 22 queries with the parameters of the specification's validation run.
pub const QUERIES: [&str; 22] = [
    include_str!("../../../bench/tpch/q01.sql"),
    include_str!("../../../bench/tpch/q02.sql"),
    include_str!("../../../bench/tpch/q03.sql"),
    include_str!("../../../bench/tpch/q04.sql"),
    include_str!("../../../bench/tpch/q05.sql"),
    include_str!("../../../bench/tpch/q06.sql"),
    include_str!("../../../bench/tpch/q07.sql"),
    include_str!("../../../bench/tpch/q08.sql"),
    include_str!("../../../bench/tpch/q09.sql"),
    include_str!("../../../bench/tpch/q10.sql"),
    include_str!("../../../bench/tpch/q11.sql"),
    include_str!("../../../bench/tpch/q12.sql"),
    include_str!("../../../bench/tpch/q13.sql"),
    include_str!("../../../bench/tpch/q14.sql"),
    include_str!("../../../bench/tpch/q15.sql"),
    include_str!("../../../bench/tpch/q16.sql"),
    include_str!("../../../bench/tpch/q17.sql"),
    include_str!("../../../bench/tpch/q18.sql"),
    include_str!("../../../bench/tpch/q19.sql"),
    include_str!("../../../bench/tpch/q20.sql"),
    include_str!("../../../bench/tpch/q21.sql"),
    include_str!("../../../bench/tpch/q22.sql"),
];
