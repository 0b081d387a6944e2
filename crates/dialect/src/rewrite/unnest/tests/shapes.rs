//! Subqueries in every clause, each with an answer worked out by hand.

use datafusion::common::DataFusionError;
use datafusion::prelude::SessionContext;
use insta::assert_snapshot;

use super::model::Value;
use super::{context, rows, values};

/// `t`: (1, 1, 10), (2, 1, NULL), (3, NULL, 30), (4, 2, 20); `u`: (1, 1, 5), (2, 1, 15),
/// (3, 2, NULL), (4, NULL, 25).
fn tables() -> SessionContext {
    let context = context();
    let row = |k, a: Value, b: Value| [Some(k), a, b];
    values(
        &context,
        "t",
        &[
            row(1, Some(1), Some(10)),
            row(2, Some(1), None),
            row(3, None, Some(30)),
            row(4, Some(2), Some(20)),
        ],
    );
    values(
        &context,
        "u",
        &[
            row(1, Some(1), Some(5)),
            row(2, Some(1), Some(15)),
            row(3, Some(2), None),
            row(4, None, Some(25)),
        ],
    );
    context
}

async fn answer(sql: &str) -> String {
    match rows(&tables(), sql).await {
        Ok(rows) => {
            let cell = |value: &Value| value.map_or("-".to_owned(), |value| value.to_string());
            let line = |row: &Vec<Value>| row.iter().map(cell).collect::<Vec<_>>().join(" ");
            rows.iter().map(line).collect::<Vec<_>>().join("; ")
        }
        Err(error) => match error.find_root() {
            DataFusionError::External(error) => error.to_string(),
            other => other.to_string(),
        },
    }
}

#[tokio::test]
async fn a_count_over_nothing_is_zero() {
    let sql = "SELECT k, (SELECT count(*) FROM u WHERE u.b < t.b) FROM t ORDER BY k";
    assert_snapshot!(answer(sql).await, @"1 1; 2 0; 3 3; 4 2");
    let sql = "SELECT k, (SELECT count(*) + t.k FROM u WHERE u.a = t.a AND u.b > t.b) \
               FROM t ORDER BY k";
    assert_snapshot!(answer(sql).await, @"1 2; 2 2; 3 3; 4 4");
}

#[tokio::test]
async fn membership_has_three_answers() {
    let sql = "SELECT k, b IN (SELECT b + 5 FROM u WHERE u.a = t.a) FROM t ORDER BY k";
    assert_snapshot!(answer(sql).await, @"1 1; 2 -; 3 0; 4 -");
    let sql = "SELECT k FROM t WHERE b NOT IN (SELECT b + 5 FROM u WHERE u.a = t.a) ORDER BY k";
    assert_snapshot!(answer(sql).await, @"3");
    let sql = "SELECT k FROM t WHERE b NOT IN (SELECT b FROM u) ORDER BY k";
    assert_snapshot!(answer(sql).await, @"");
    let sql = "SELECT k, b > ALL (SELECT b FROM u WHERE u.a = t.a) FROM t ORDER BY k";
    assert_snapshot!(answer(sql).await, @"1 0; 2 -; 3 1; 4 -");
}

#[tokio::test]
async fn every_clause_takes_a_subquery() {
    let having = "SELECT a, count(*) FROM t GROUP BY a \
                  HAVING count(*) < (SELECT count(*) + 1 FROM u WHERE u.a = t.a) ORDER BY a";
    assert_snapshot!(answer(having).await, @"1 2; 2 1");
    let order = "SELECT k FROM t ORDER BY (SELECT max(u.b) FROM u WHERE u.a = t.a), k";
    assert_snapshot!(answer(order).await, @"1; 2; 3; 4");
    let aggregate = "SELECT a, sum((SELECT count(*) FROM u WHERE u.k < t.k)) FROM t \
                     GROUP BY a ORDER BY a";
    assert_snapshot!(answer(aggregate).await, @"1 1; 2 3; - 2");
    let group = "SELECT (SELECT count(*) FROM u WHERE u.a = t.a) AS n, count(*) FROM t \
                 GROUP BY (SELECT count(*) FROM u WHERE u.a = t.a) ORDER BY n";
    assert_snapshot!(answer(group).await, @"0 1; 1 1; 2 2");
    let inner = "SELECT t.k, u.k FROM t JOIN u ON u.k = (SELECT min(x.k) FROM u x \
                 WHERE x.a = t.a AND x.b > u.b) - 1 ORDER BY 1, 2";
    assert_snapshot!(answer(inner).await, @"1 1; 2 1");
    let left = "SELECT t.k, u.k FROM t LEFT JOIN u ON t.a = u.a \
                AND EXISTS (SELECT 1 FROM t x WHERE x.b < u.b) ORDER BY 1, 2";
    assert_snapshot!(answer(left).await, @"1 2; 2 2; 3 -; 4 -");
    let window = "SELECT k, sum((SELECT count(*) FROM u WHERE u.k < t.k)) OVER (ORDER BY k) \
                  FROM t ORDER BY k";
    assert_snapshot!(answer(window).await, @"1 0; 2 1; 3 3; 4 6");
    let values = "SELECT k, (SELECT sum(v) FROM (VALUES (t.a), (t.b), (1)) AS x(v)) \
                  FROM t ORDER BY k";
    assert_snapshot!(answer(values).await, @"1 12; 2 2; 3 31; 4 23");
}

#[tokio::test]
async fn an_output_may_be_called_like_a_column() {
    let exists = "SELECT k FROM t WHERE EXISTS (SELECT 1 AS a FROM u WHERE u.a = t.a) ORDER BY k";
    assert_snapshot!(answer(exists).await, @"1; 2; 4");
    let scalar = "SELECT k, (SELECT max(b) AS a FROM u WHERE u.a = t.a) FROM t ORDER BY k";
    assert_snapshot!(answer(scalar).await, @"1 15; 2 15; 3 -; 4 -");
}

#[tokio::test]
async fn several_rows_are_an_error_where_one_is_asked_for() {
    let sql = "SELECT k, (SELECT b FROM u WHERE u.a = t.a) FROM t";
    assert_snapshot!(
        answer(sql).await,
        @"more than one row returned by a subquery used as an expression"
    );
    let unasked = "SELECT k, CASE WHEN a = 2 THEN (SELECT k FROM u WHERE u.a = t.a) END \
                   FROM t ORDER BY k";
    assert_snapshot!(answer(unasked).await, @"1 -; 2 -; 3 -; 4 3");
}

#[tokio::test]
async fn lateral_subqueries_see_what_stands_before_them() {
    let first = "SELECT t.k, l.k FROM t CROSS JOIN LATERAL \
                 (SELECT u.k FROM u WHERE u.b < t.b ORDER BY u.b DESC LIMIT 1) AS l ORDER BY 1";
    assert_snapshot!(answer(first).await, @"1 1; 3 4; 4 2");
    let left = "SELECT t.k, l.n FROM t LEFT JOIN LATERAL \
                (SELECT sum(u.b) AS n FROM u WHERE u.a = t.a) AS l ON l.n > 10 ORDER BY 1";
    assert_snapshot!(answer(left).await, @"1 20; 2 20; 3 -; 4 -");
    let nested = "SELECT t.k, l.n FROM t, LATERAL (SELECT count(*) AS n FROM u WHERE \
                  EXISTS (SELECT 1 FROM u v WHERE v.k > t.k AND v.a = u.a)) AS l ORDER BY 1";
    assert_snapshot!(answer(nested).await, @"1 3; 2 1; 3 0; 4 0");
}

#[tokio::test]
async fn a_null_binding_is_a_binding() {
    let sql = "SELECT (SELECT max(42) OVER (PARTITION BY (SELECT x.n))) FROM (SELECT NULL AS n) x";
    assert_snapshot!(answer(sql).await, @"42");
}

#[tokio::test]
async fn the_domain_is_pushed_down_to_the_tables() {
    let sql = "SELECT k, (SELECT count(*) FROM u WHERE u.b < t.b) AS n FROM t";
    let state = tables().state();
    let plan = state.create_logical_plan(sql).await.unwrap();
    let options = state.config_options();
    let plan = state.analyzer().execute_and_check(plan, options, |_, _| {}).unwrap();
    // The null-safe condition of a join, in short.
    let short = plan.display_indent().to_string();
    let condition = |left: &str, right: &str| {
        format!(
            "coalesce({left}, Int64(0)) = coalesce({right}, Int64(0)) \
             AND {left} IS NULL = {right} IS NULL"
        )
    };
    let short = short.replace(&condition("t.b", "__outer_3"), "<t.b, __outer_3>");
    let short = short.replace(&condition("__outer_3", "__outer_1"), "<__outer_3, __outer_1>");
    let short = short.replace("CASE WHEN __present_2 IS NULL THEN Int64(0) ELSE", "CASE … ELSE");
    assert_snapshot!(short, @r"
    Projection: t.k, __value_4 AS n
      Left Join:  Filter: <t.b, __outer_3>
        TableScan: t
        Projection: __outer_3, count(*) AS __value_4
          Projection: count(Int64(1)) AS count(*), __outer_3
            Projection: __outer_3, CASE … ELSE count(Int64(1)) END AS count(Int64(1))
              Left Join:  Filter: <__outer_3, __outer_1>
                Projection: binding(t.b) AS __outer_3
                  Distinct:
                    Projection: t.b
                      TableScan: t
                Projection: __outer_1, count(Int64(1)), Boolean(true) AS __present_2
                  Aggregate: groupBy=[[__outer_1]], aggr=[[count(Int64(1))]]
                    Filter: u.b < __outer_1
                      Cross Join:
                        Projection: binding(t.b) AS __outer_1
                          Distinct:
                            Projection: t.b
                              TableScan: t
                        TableScan: u
    ");
}
