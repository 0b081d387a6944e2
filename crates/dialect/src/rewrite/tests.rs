//! The passes over the parsed statement: what they make of it, and what it then answers.

use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::config::Dialect;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion::sql::parser;
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::Parser;
use insta::assert_snapshot;
use thalweg_values::column_marks::{output_name, without_marks};

use super::{Tables, rewrite_statement};
use crate::testing::with_passes;

/// The statement after the passes; the mark shows as `~`, and integers as the numbers they are.
fn rewritten(sql: &str) -> String {
    let integer = regex::Regex::new(r"\{integer: (-?\d+)\}").unwrap();
    let mut statement = Parser::parse_sql(&PostgreSqlDialect {}, sql).unwrap().remove(0);
    match rewrite_statement(&mut statement, &Tables::default()) {
        Ok(()) => integer.replace_all(&statement.to_string(), "$1").replace('\u{1f}', "~"),
        Err(error) => format!("{error:?}"),
    }
}

/// What a statement answers, under the names that people see.
async fn answer(sql: &str) -> String {
    let mut config = SessionConfig::new().with_target_partitions(1);
    config.options_mut().sql_parser.dialect = Dialect::PostgreSQL;
    let builder = crate::configure(SessionStateBuilder::new().with_config(config));
    let context = SessionContext::new_with_state(with_passes(builder).build());
    for table in [
        "CREATE TABLE t AS VALUES (1, 10), (2, 20), (2, NULL), (NULL, 40)",
        "CREATE TABLE u AS VALUES (1, 11), (2, 20), (3, NULL)",
    ] {
        let (head, rows) = table.split_once("VALUES").unwrap();
        let sql = format!("{head} SELECT * FROM (VALUES {rows}) AS rows(a, b)");
        context.sql(&sql).await.unwrap().collect().await.unwrap();
    }
    let mut statement = Parser::parse_sql(&PostgreSqlDialect {}, sql).unwrap().remove(0);
    rewrite_statement(&mut statement, &Tables::default()).unwrap();
    let statement = parser::Statement::Statement(Box::new(statement));
    let plan = context.state().statement_to_plan(statement).await.unwrap();
    let frame = context.execute_logical_plan(plan).await.unwrap();
    let names: Vec<String> =
        frame.schema().fields().iter().map(|field| output_name(field.name()).to_owned()).collect();
    let batches = frame.collect().await.unwrap();
    let table = pretty_format_batches(&batches).unwrap().to_string();
    let rows: Vec<&str> = table.lines().skip(3).filter(|line| line.starts_with('|')).collect();
    let cells = |line: &str| {
        line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect::<Vec<_>>()
    };
    let lines = rows.into_iter().map(cells);
    std::iter::once(names).chain(lines).map(|line| line.join(", ")).collect::<Vec<_>>().join("\n")
}

/// Each statement after the passes, a line each.
fn all_rewritten(statements: &[&str]) -> String {
    statements.iter().map(|sql| rewritten(sql)).collect::<Vec<_>>().join("\n")
}

#[test]
fn columns_are_named_as_postgres_names_them() {
    assert_snapshot!(all_rewritten(&[
        "SELECT count(*), sum(x) FROM t",
        "SELECT a::int, 1::text, date '2020-01-01'",
        "SELECT CASE WHEN a THEN 1 END, CASE WHEN a THEN 1 ELSE b END",
        "SELECT 1, a + 1, 'x'",
        "SELECT (SELECT max(a) FROM t), EXISTS (SELECT 1)",
    ]), @r#"
    SELECT count(*) AS "count", sum(x) AS "sum" FROM t
    SELECT a::INT AS "a", 1::TEXT AS "text", DATE '2020-01-01' AS "date"
    SELECT {case: CASE WHEN a THEN 1 END} AS "case", {case: CASE WHEN a THEN 1 ELSE b END} AS "b"
    SELECT 1 AS "?column?~1", a + 1 AS "?column?~2", 'x' AS "?column?~3"
    SELECT (SELECT max(a) AS "max" FROM t) AS "max", EXISTS (SELECT 1 AS "?column?~1") AS "exists"
    "#);
}

#[test]
fn a_column_keeps_its_name_and_a_second_one_gets_a_mark() {
    assert_snapshot!(all_rewritten(&[
        "SELECT a, b FROM t",
        "SELECT a, t.a, b AS a FROM t",
        "SELECT *, a FROM t",
        "SELECT count(*), count(*) FROM t",
    ]), @r#"
    SELECT a, b FROM t
    SELECT a AS "a~1", t.a AS "a~2", b AS a FROM t
    SELECT *, a AS "a~1" FROM t
    SELECT count(*) AS "count", count(*) AS "count~1" FROM t
    "#);
}

#[test]
fn an_alias_never_changes_what_another_clause_means() {
    // In PostgreSQL, GROUP BY and HAVING mean the column, not the output.
    assert_snapshot!(all_rewritten(&[
        "SELECT a::int FROM t GROUP BY a",
        "SELECT DISTINCT a + 1 FROM t ORDER BY a + 1",
        "SELECT 2, a FROM t ORDER BY 2",
    ]), @r#"
    SELECT a::INT AS "a~1" FROM t GROUP BY a
    SELECT DISTINCT a + 1 AS "?column?~1" FROM t ORDER BY "?column?~1"
    SELECT 2 AS "?column?~1", a FROM t ORDER BY 2
    "#);
}

#[test]
fn rows_compare_column_by_column() {
    assert_snapshot!(all_rewritten(&[
        "SELECT * FROM t WHERE (a, b) = (1, 2)",
        "SELECT * FROM t WHERE (a, b) < (1, 2)",
        "SELECT * FROM t WHERE ROW(a, b) <> ROW(1, 2)",
        "SELECT * FROM t WHERE (a, b) NOT IN ((1, 2), (3, 4))",
        "SELECT * FROM t WHERE (a, b) = (1, 2, 3)",
    ]), @r"
    SELECT * FROM t WHERE (a = 1 AND b = 2)
    SELECT * FROM t WHERE (a < 1 OR (a = 1 AND b < 2))
    SELECT * FROM t WHERE (a <> 1 OR b <> 2)
    SELECT * FROM t WHERE NOT ((a = 1 AND b = 2) OR (a = 3 AND b = 4))
    42601: unequal number of entries in row expressions
    ");
}

#[test]
fn spellings_become_what_the_planner_takes() {
    assert_snapshot!(in_lines(&all_rewritten(&[
        "SELECT 1 UNION TABLE t",
        "SELECT a FROM t OFFSET 1 FETCH FIRST 2 ROWS ONLY",
        "SELECT a FROM t FETCH FIRST 2 ROWS WITH TIES",
        "SELECT i FROM generate_series(1, 3) AS i",
        "SELECT g FROM t, generate_series(1, t.a) AS g",
        "SELECT generate_series(1, 3)",
        "SELECT DISTINCT ON (2) a, b FROM t ORDER BY b, a",
    ])), @r#"
    SELECT 1 AS "?column?~1" UNION SELECT *
      FROM "t"
    SELECT a
      FROM t LIMIT 2 OFFSET 1
    SELECT a
      FROM t LIMIT limit_with_ties(2)
    SELECT i
      FROM (SELECT CAST(n AS INTEGER) AS "n"
      FROM generate_series(1, 3) AS __counted (n)) AS i (i)
    SELECT g
      FROM t, LATERAL (SELECT unnest(generate_series(1, "~".t.a)) AS "unnest") AS g (g)
    SELECT unnest(generate_series(1, 3)) AS "generate_series"
    SELECT DISTINCT ON (b) a, b
      FROM t ORDER BY b, a
    "#);
}

/// Long statements in lines that fit a screen.
fn in_lines(statements: &str) -> String {
    statements.replace(" FROM ", "\n  FROM ")
}

#[test]
fn bare_keys_of_joins_get_their_meaning() {
    assert_snapshot!(in_lines(&all_rewritten(&[
        "SELECT * FROM t FULL JOIN u USING (k)",
        "SELECT k, b FROM t RIGHT JOIN u USING (k) WHERE k > 1 ORDER BY k + 1",
        "SELECT * FROM t JOIN u USING (k) JOIN w ON w.k = k",
        "SELECT k FROM t NATURAL FULL JOIN u",
    ])), @r#"
    SELECT coalesce(t."k", u."k") AS "k", t.* EXCLUDE ("k"), u.* EXCLUDE ("k")
      FROM t FULL JOIN u ON t."k" = u."k"
    SELECT u."k" AS "k", b
      FROM t RIGHT JOIN u ON t."k" = u."k" WHERE u."k" > 1 ORDER BY u."k" + 1
    SELECT t."k", t.* EXCLUDE ("k"), u.* EXCLUDE ("k"), w.*
      FROM t JOIN u USING(k) JOIN w ON w.k = t."k"
    SELECT k
      FROM t NATURAL FULL JOIN u
    "#);
}

#[test]
fn numbers_that_count_stay_what_they_are() {
    let mut statement = Parser::parse_sql(
        &PostgreSqlDialect {},
        "SELECT -1, 3000000000, sum(a) OVER (ROWS 2 PRECEDING) FROM t ORDER BY 1 LIMIT 5 OFFSET 6",
    )
    .unwrap()
    .remove(0);
    rewrite_statement(&mut statement, &Tables::default()).unwrap();
    let written = statement.to_string().replace('\u{1f}', "~");
    assert_snapshot!(in_lines(&written).replace(", ", ",\n  "), @r#"
    SELECT {integer: -1} AS "?column?~1",
      3000000000 AS "?column?~2",
      sum(a) OVER (ROWS 2 PRECEDING) AS "sum"
      FROM t ORDER BY 1 LIMIT 5 OFFSET 6
    "#);
}

#[tokio::test]
async fn names_reach_the_reader() {
    let sql = "SELECT a, a, count(*), count(*) + 1, 7 FROM t GROUP BY a ORDER BY a";
    assert_snapshot!(answer(sql).await, @r"
    a, a, count, ?column?, ?column?
    1, 1, 1, 2, 7
    2, 2, 2, 3, 7
    , , 1, 2, 7
    ");
    assert_snapshot!(answer("SELECT * FROM (SELECT a, a FROM u ORDER BY a LIMIT 1) AS s").await, @r"
    a, a
    1, 1
    ");
    let sql = "WITH c AS (SELECT count(*), count(*) FROM t) SELECT * FROM c";
    assert_snapshot!(answer(sql).await, @r"
    count, count
    4, 4
    ");
    assert_snapshot!(answer("SELECT 1, 1 UNION ALL SELECT 2, 3 ORDER BY 1").await, @r"
    ?column?, ?column?
    1, 1
    2, 3
    ");
}

#[tokio::test]
async fn rows_compare_with_null_unknown() {
    let sql = "SELECT a, b, (a, b) IN (SELECT a, b FROM u) AS known FROM t ORDER BY a, b";
    assert_snapshot!(answer(sql).await, @r"
    a, b, known
    1, 10, false
    2, 20, true
    2, , 
    , 40, 
    ");
    assert_snapshot!(answer("SELECT a FROM t WHERE (a, b) IN (SELECT a, b FROM u)").await, @r"
    a
    2
    ");
    assert_snapshot!(answer("SELECT a, b FROM t WHERE (a, b) > (1, 10) ORDER BY a, b").await, @r"
    a, b
    2, 20
    2, 
    ");
}

#[tokio::test]
async fn copies_of_rows_are_counted() {
    let sevens = "(VALUES (7), (7), (7), (NULL), (NULL)) AS l(a)";
    let fewer = "(VALUES (7), (NULL), (9)) AS r(a)";
    let ask = |operation: &str| {
        format!("SELECT * FROM {sevens} {operation} SELECT * FROM {fewer} ORDER BY 1")
    };
    assert_snapshot!(answer(&ask("INTERSECT ALL")).await, @r"
    a
    7

    ");
    assert_snapshot!(answer(&ask("EXCEPT ALL")).await, @r"
    a
    7
    7

    ");
    assert_snapshot!(answer(&ask("EXCEPT")).await, @"a");
}

#[tokio::test]
async fn series_come_with_the_columns_that_postgres_gives_them() {
    assert_snapshot!(answer("SELECT i FROM generate_series(1, 2) AS i").await, @r"
    i
    1
    2
    ");
    let sql = "SELECT t.a, g FROM t, generate_series(1, t.a) AS g ORDER BY 1, 2";
    assert_snapshot!(answer(sql).await, @r"
    a, g
    1, 1
    2, 1
    2, 1
    2, 2
    2, 2
    ");
    assert_snapshot!(answer("SELECT generate_series(1, 2)").await, @r"
    generate_series
    1
    2
    ");
}

#[test]
fn plans_are_shown_without_marks() {
    let shown = without_marks("Projection: Int32(1) AS ?column?\u{1f}12, t.n AS n\u{1f}3, t.m");
    assert_eq!(shown, "Projection: Int32(1) AS ?column?, t.n AS n, t.m");
}
