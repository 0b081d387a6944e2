//! The places of semi-joins in plans.

use futures::TryStreamExt as _;

use crate::Database;

const TABLES: [&str; 3] = [
    "CREATE TABLE one (a integer, b integer)",
    "CREATE TABLE two (c integer, d integer)",
    "CREATE TABLE some (e integer, f integer)",
];

/// The names of joins, the uppermost first.
async fn joins(sql: &str) -> Vec<String> {
    let mut session = Database::builder().threads(2).open().unwrap().session();
    for table in TABLES {
        session.execute(table).await.unwrap();
    }
    let plan = session.execute(&format!("EXPLAIN {sql}")).await.unwrap();
    let plan = plan.rows.unwrap().try_collect::<Vec<_>>().await.unwrap();
    let plan = arrow::util::pretty::pretty_format_batches(&plan).unwrap().to_string();
    let logical = plan.lines().take_while(|line| !line.contains("physical_plan"));
    let joins = logical.filter_map(|line| line.split_once(" Join:"));
    joins.map(|(join, _)| join.split_whitespace().last().unwrap().to_owned()).collect()
}

const FIRST: [&str; 4] = [
    "SELECT d FROM one JOIN two ON b = c WHERE a IN (SELECT e FROM some WHERE f > 1)",
    "SELECT a FROM one JOIN two ON b = c WHERE d IN (SELECT e FROM some WHERE f > 1)",
    "SELECT a FROM one JOIN two ON b = c \
     WHERE EXISTS (SELECT 1 FROM some WHERE e = d AND f > 1)",
    "SELECT a FROM one, two WHERE b = c \
     AND d IN (SELECT e FROM some GROUP BY e HAVING sum(f) > 3)",
];

/// Cases that stay above: several tables, outer joins, no condition of its own, or filtered
/// tables.
const LAST: [&str; 4] = [
    "SELECT a FROM one JOIN two ON b = c \
     WHERE (a, d) IN (SELECT e, f FROM some WHERE f > 1)",
    "SELECT a FROM one LEFT JOIN two ON b = c WHERE a IN (SELECT e FROM some WHERE f > 1)",
    "SELECT a FROM one JOIN two ON b = c WHERE a IN (SELECT e FROM some)",
    "SELECT a FROM one JOIN two ON b = c \
     WHERE d > 5 AND a IN (SELECT e FROM some WHERE f > 1)",
];

#[tokio::test]
async fn conditions_of_one_table_come_before_joins() {
    for sql in FIRST {
        assert_eq!(joins(sql).await, ["Inner", "LeftSemi"], "{sql}");
    }
}

#[tokio::test]
async fn other_semi_joins_stay_behind() {
    for sql in LAST {
        assert_eq!(joins(sql).await.first().unwrap(), "LeftSemi", "{sql}");
    }
}

#[tokio::test]
async fn they_pass_by_all_joins() {
    let sql = "SELECT d FROM one, two, some WHERE b = c AND d = f AND a IN \
               (SELECT e FROM some GROUP BY e HAVING sum(f) > 3)";
    assert_eq!(joins(sql).await, ["Inner", "Inner", "LeftSemi"]);
}
