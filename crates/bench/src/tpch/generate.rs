//! The rows of each table, as arrays of columns in the order of its schema.

use arrow::array::ArrayRef;
use tpchgen::generators::{
    CustomerGenerator, LineItemGenerator, NationGenerator, OrderGenerator, PartGenerator,
    PartSuppGenerator, RegionGenerator, SupplierGenerator,
};

use super::columns::{bigint, date, integer, money, text};

/// The columns of successive batches of rows.
pub type Batches = Box<dyn Iterator<Item = Vec<ArrayRef>>>;

const BATCH_ROWS: usize = 65_536;

/// Groups rows into batches and converts them to columns.
fn batches<T: 'static>(
    mut rows: impl Iterator<Item = T> + 'static,
    columns: impl Fn(&[T]) -> Vec<ArrayRef> + 'static,
) -> Batches {
    Box::new(std::iter::from_fn(move || {
        let batch: Vec<T> = rows.by_ref().take(BATCH_ROWS).collect();
        (!batch.is_empty()).then(|| columns(&batch))
    }))
}

/// The 5 rows of `region`, whatever the scale.
pub fn region(scale: f64) -> Batches {
    batches(RegionGenerator::new(scale, 1, 1).iter(), |rows| {
        vec![
            bigint(rows, |row| row.r_regionkey),
            text(rows, |row| row.r_name),
            text(rows, |row| row.r_comment),
        ]
    })
}

/// The 25 rows of `nation`, whatever the scale.
pub fn nation(scale: f64) -> Batches {
    batches(NationGenerator::new(scale, 1, 1).iter(), |rows| {
        vec![
            bigint(rows, |row| row.n_nationkey),
            text(rows, |row| row.n_name),
            bigint(rows, |row| row.n_regionkey),
            text(rows, |row| row.n_comment),
        ]
    })
}

/// The rows of `supplier`: 10,000 at scale 1.
pub fn supplier(scale: f64) -> Batches {
    batches(SupplierGenerator::new(scale, 1, 1).iter(), |rows| {
        vec![
            bigint(rows, |row| row.s_suppkey),
            text(rows, |row| row.s_name),
            text(rows, |row| row.s_address.clone()),
            bigint(rows, |row| row.s_nationkey),
            text(rows, |row| row.s_phone.clone()),
            money(rows, |row| row.s_acctbal.0),
            text(rows, |row| row.s_comment.clone()),
        ]
    })
}

/// The rows of `customer`: 150,000 at scale 1.
pub fn customer(scale: f64) -> Batches {
    batches(CustomerGenerator::new(scale, 1, 1).iter(), |rows| {
        vec![
            bigint(rows, |row| row.c_custkey),
            text(rows, |row| row.c_name),
            text(rows, |row| row.c_address.clone()),
            bigint(rows, |row| row.c_nationkey),
            text(rows, |row| row.c_phone.clone()),
            money(rows, |row| row.c_acctbal.0),
            text(rows, |row| row.c_mktsegment),
            text(rows, |row| row.c_comment),
        ]
    })
}

/// The rows of `part`: 200,000 at scale 1.
pub fn part(scale: f64) -> Batches {
    batches(PartGenerator::new(scale, 1, 1).iter(), |rows| {
        vec![
            bigint(rows, |row| row.p_partkey),
            text(rows, |row| row.p_name.clone()),
            text(rows, |row| row.p_mfgr),
            text(rows, |row| row.p_brand),
            text(rows, |row| row.p_type),
            integer(rows, |row| row.p_size),
            text(rows, |row| row.p_container),
            money(rows, |row| row.p_retailprice.0),
            text(rows, |row| row.p_comment),
        ]
    })
}

/// The rows of `partsupp`: 800,000 at scale 1.
pub fn partsupp(scale: f64) -> Batches {
    batches(PartSuppGenerator::new(scale, 1, 1).iter(), |rows| {
        vec![
            bigint(rows, |row| row.ps_partkey),
            bigint(rows, |row| row.ps_suppkey),
            integer(rows, |row| row.ps_availqty),
            money(rows, |row| row.ps_supplycost.0),
            text(rows, |row| row.ps_comment),
        ]
    })
}

/// The rows of `orders`: 1,500,000 at scale 1.
pub fn orders(scale: f64) -> Batches {
    batches(OrderGenerator::new(scale, 1, 1).iter(), |rows| {
        vec![
            bigint(rows, |row| row.o_orderkey),
            bigint(rows, |row| row.o_custkey),
            text(rows, |row| row.o_orderstatus),
            money(rows, |row| row.o_totalprice.0),
            date(rows, |row| row.o_orderdate),
            text(rows, |row| row.o_orderpriority),
            text(rows, |row| row.o_clerk),
            integer(rows, |row| row.o_shippriority),
            text(rows, |row| row.o_comment),
        ]
    })
}

/// The rows of `lineitem`: about 6,000,000 at scale 1.
pub fn lineitem(scale: f64) -> Batches {
    batches(LineItemGenerator::new(scale, 1, 1).iter(), |rows| {
        vec![
            bigint(rows, |row| row.l_orderkey),
            bigint(rows, |row| row.l_partkey),
            bigint(rows, |row| row.l_suppkey),
            integer(rows, |row| row.l_linenumber),
            money(rows, |row| row.l_quantity * 100),
            money(rows, |row| row.l_extendedprice.0),
            money(rows, |row| row.l_discount.0),
            money(rows, |row| row.l_tax.0),
            text(rows, |row| row.l_returnflag),
            text(rows, |row| row.l_linestatus),
            date(rows, |row| row.l_shipdate),
            date(rows, |row| row.l_commitdate),
            date(rows, |row| row.l_receiptdate),
            text(rows, |row| row.l_shipinstruct),
            text(rows, |row| row.l_shipmode),
            text(rows, |row| row.l_comment),
        ]
    })
}
