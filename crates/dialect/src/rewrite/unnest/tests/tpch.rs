//! The correlated queries of TPC-H keep the plans that DataFusion makes for them.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema};
use datafusion::datasource::empty::EmptyTable;
use datafusion::optimizer::AnalyzerRule;

use super::context;
use crate::rewrite::UnnestSubqueries;

/// The tables, each with its numbers and then its texts.
const TABLES: [(&str, &[&str], &[&str]); 6] = [
    ("part", &["p_partkey", "p_size"], &["p_brand", "p_container", "p_type", "p_mfgr", "p_name"]),
    ("supplier", &["s_suppkey", "s_nationkey"], &["s_name", "s_address"]),
    ("partsupp", &["ps_partkey", "ps_suppkey", "ps_availqty", "ps_supplycost"], &[]),
    ("lineitem", &["l_orderkey", "l_partkey", "l_suppkey", "l_quantity", "l_date"], &[]),
    ("orders", &["o_orderkey", "o_custkey"], &["o_orderpriority"]),
    ("customer", &["c_custkey", "c_acctbal"], &["c_phone"]),
];

/// What is correlated in queries 2, 4, 16, 17, 18, 20, 21 and 22.
const QUERIES: [&str; 8] = [
    "SELECT s_name FROM part, supplier, partsupp WHERE p_partkey = ps_partkey AND s_suppkey = \
     ps_suppkey AND p_size = 15 AND ps_supplycost = (SELECT min(ps_supplycost) FROM partsupp, \
     supplier WHERE p_partkey = ps_partkey AND s_suppkey = ps_suppkey)",
    "SELECT o_orderpriority, count(*) FROM orders WHERE EXISTS (SELECT * FROM lineitem WHERE \
     l_orderkey = o_orderkey AND l_date < 9) GROUP BY o_orderpriority",
    "SELECT count(DISTINCT ps_suppkey) FROM partsupp WHERE ps_suppkey NOT IN (SELECT s_suppkey \
     FROM supplier WHERE s_address LIKE '%x%')",
    "SELECT sum(l_quantity) / 7.0 FROM lineitem, part WHERE p_partkey = l_partkey AND \
     l_quantity < (SELECT 0.2 * avg(l_quantity) FROM lineitem WHERE l_partkey = p_partkey)",
    "SELECT o_orderkey FROM orders WHERE o_orderkey IN (SELECT l_orderkey FROM lineitem GROUP BY \
     l_orderkey HAVING sum(l_quantity) > 300)",
    "SELECT s_name FROM supplier WHERE s_suppkey IN (SELECT ps_suppkey FROM partsupp WHERE \
     ps_partkey IN (SELECT p_partkey FROM part WHERE p_name LIKE 'f%') AND ps_availqty > \
     (SELECT 0.5 * sum(l_quantity) FROM lineitem WHERE l_partkey = ps_partkey AND l_suppkey = \
     ps_suppkey))",
    "SELECT s_name FROM supplier, lineitem l1 WHERE s_suppkey = l1.l_suppkey AND EXISTS (SELECT \
     * FROM lineitem l2 WHERE l2.l_orderkey = l1.l_orderkey AND l2.l_suppkey <> l1.l_suppkey) AND \
     NOT EXISTS (SELECT * FROM lineitem l3 WHERE l3.l_orderkey = l1.l_orderkey AND l3.l_suppkey \
     <> l1.l_suppkey AND l3.l_date > 3)",
    "SELECT sum(c_acctbal) FROM customer WHERE c_acctbal > (SELECT avg(c_acctbal) FROM customer \
     WHERE c_acctbal > 0) AND NOT EXISTS (SELECT * FROM orders WHERE o_custkey = c_custkey)",
];

#[tokio::test]
async fn the_rule_leaves_them_alone() {
    let context = context();
    for (name, numbers, texts) in TABLES {
        let number = |name: &&str| Field::new(*name, DataType::Int64, false);
        let text = |name: &&str| Field::new(*name, DataType::Utf8, false);
        let fields = numbers.iter().map(number).chain(texts.iter().map(text));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        context.register_table(name, Arc::new(EmptyTable::new(schema))).unwrap();
    }
    let state = context.state();
    let rule = UnnestSubqueries::default();
    for sql in QUERIES {
        let before = state.create_logical_plan(sql).await.unwrap();
        let options = state.config_options();
        let after = rule.analyze(before.clone(), options).unwrap();
        assert_eq!(before.display_indent().to_string(), after.display_indent().to_string());
        context.sql(sql).await.unwrap().create_physical_plan().await.unwrap();
    }
}
