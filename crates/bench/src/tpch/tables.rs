//! The eight tables: columns, keys and statements that create them.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};

use super::generate::{self, Batches};

/// The type of a TPC-H column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Bigint,
    Integer,
    Money,
    Date,
    Text,
}

impl Kind {
    fn sql(self) -> &'static str {
        match self {
            Kind::Bigint => "bigint",
            Kind::Integer => "integer",
            Kind::Money => "numeric(15,2)",
            Kind::Date => "date",
            Kind::Text => "text",
        }
    }

    fn arrow(self) -> DataType {
        match self {
            Kind::Bigint => DataType::Int64,
            Kind::Integer => DataType::Int32,
            Kind::Money => DataType::Decimal128(15, 2),
            Kind::Date => DataType::Date32,
            Kind::Text => DataType::Utf8,
        }
    }
}

/// A TPC-H table.
pub struct Table {
    pub name: &'static str,
    columns: &'static [(&'static str, Kind)],
    key: &'static [&'static str],
    rows: fn(f64) -> Batches,
}

use Kind::{Bigint, Date, Integer, Money, Text};

/// The tables, each after those that it refers to.
pub static TABLES: [Table; 8] = [
    Table {
        name: "region",
        columns: &[("r_regionkey", Bigint), ("r_name", Text), ("r_comment", Text)],
        key: &["r_regionkey"],
        rows: generate::region,
    },
    Table {
        name: "nation",
        columns: &[
            ("n_nationkey", Bigint),
            ("n_name", Text),
            ("n_regionkey", Bigint),
            ("n_comment", Text),
        ],
        key: &["n_nationkey"],
        rows: generate::nation,
    },
    Table {
        name: "supplier",
        columns: &[
            ("s_suppkey", Bigint),
            ("s_name", Text),
            ("s_address", Text),
            ("s_nationkey", Bigint),
            ("s_phone", Text),
            ("s_acctbal", Money),
            ("s_comment", Text),
        ],
        key: &["s_suppkey"],
        rows: generate::supplier,
    },
    Table {
        name: "customer",
        columns: &[
            ("c_custkey", Bigint),
            ("c_name", Text),
            ("c_address", Text),
            ("c_nationkey", Bigint),
            ("c_phone", Text),
            ("c_acctbal", Money),
            ("c_mktsegment", Text),
            ("c_comment", Text),
        ],
        key: &["c_custkey"],
        rows: generate::customer,
    },
    Table {
        name: "part",
        columns: &[
            ("p_partkey", Bigint),
            ("p_name", Text),
            ("p_mfgr", Text),
            ("p_brand", Text),
            ("p_type", Text),
            ("p_size", Integer),
            ("p_container", Text),
            ("p_retailprice", Money),
            ("p_comment", Text),
        ],
        key: &["p_partkey"],
        rows: generate::part,
    },
    Table {
        name: "partsupp",
        columns: &[
            ("ps_partkey", Bigint),
            ("ps_suppkey", Bigint),
            ("ps_availqty", Integer),
            ("ps_supplycost", Money),
            ("ps_comment", Text),
        ],
        key: &["ps_partkey", "ps_suppkey"],
        rows: generate::partsupp,
    },
    Table {
        name: "orders",
        columns: &[
            ("o_orderkey", Bigint),
            ("o_custkey", Bigint),
            ("o_orderstatus", Text),
            ("o_totalprice", Money),
            ("o_orderdate", Date),
            ("o_orderpriority", Text),
            ("o_clerk", Text),
            ("o_shippriority", Integer),
            ("o_comment", Text),
        ],
        key: &["o_orderkey"],
        rows: generate::orders,
    },
    Table {
        name: "lineitem",
        columns: &[
            ("l_orderkey", Bigint),
            ("l_partkey", Bigint),
            ("l_suppkey", Bigint),
            ("l_linenumber", Integer),
            ("l_quantity", Money),
            ("l_extendedprice", Money),
            ("l_discount", Money),
            ("l_tax", Money),
            ("l_returnflag", Text),
            ("l_linestatus", Text),
            ("l_shipdate", Date),
            ("l_commitdate", Date),
            ("l_receiptdate", Date),
            ("l_shipinstruct", Text),
            ("l_shipmode", Text),
            ("l_comment", Text),
        ],
        key: &["l_orderkey", "l_linenumber"],
        rows: generate::lineitem,
    },
];

impl Table {
    /// The statement that creates it without a key.
    pub fn create(&self) -> String {
        format!("CREATE TABLE {} ({})", self.name, self.column_list())
    }

    /// The statement that creates it with its primary key.
    pub fn create_with_key(&self) -> String {
        let (name, columns, key) = (self.name, self.column_list(), self.key.join(", "));
        format!("CREATE TABLE {name} ({columns}, PRIMARY KEY ({key}))")
    }

    fn column_list(&self) -> String {
        let columns = self.columns.iter();
        let columns = columns.map(|(name, kind)| format!("{name} {} NOT NULL", kind.sql()));
        columns.collect::<Vec<_>>().join(", ")
    }

    /// The Arrow schema; no column is nullable.
    pub fn schema(&self) -> SchemaRef {
        let fields = self.columns.iter().map(|(name, kind)| Field::new(*name, kind.arrow(), false));
        Arc::new(Schema::new(fields.collect::<Vec<_>>()))
    }

    /// Its rows at a scale, as arrays of columns in the order of the schema.
    pub fn rows(&self, scale: f64) -> Batches {
        (self.rows)(scale)
    }
}
