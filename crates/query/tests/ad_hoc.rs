//! Texts that differ in their literals share prepared statements: their answers are those of texts
//! that are planned alone.

use arrow::util::display::{ArrayFormatter, FormatOptions};
use futures::StreamExt;
use thalweg_query::{Database, Outcome, Route, Session};

/// Keeps a text from sharing a statement.
const ALONE: &str = "/* alone */ ";

const TABLE: &str = "(id integer PRIMARY KEY, s smallint, b bigint, r real, d double precision, \
     n numeric(10, 2), t text, v varchar(5), u uuid, f boolean, day date, at timestamp, \
     atz timestamptz, j jsonb, a integer[])";

const ROWS: &str = "SELECT g, g, g * 1000000000::bigint, g, g * 0.5, g * 1.25, 't' || g, 'v' || g, \
     ('00000000-0000-0000-0000-00000000000' || g)::uuid, g % 2 = 0, date '2024-01-01' + g, \
     timestamp '2024-01-01 00:00:00' + g * interval '1 hour', \
     timestamptz '2024-01-01 00:00:00+00' + g * interval '1 hour', \
     ('{\"k\": ' || g || '}')::jsonb, ARRAY[g, g + 1] FROM generate_series(1, 9) AS q(g)";

const COLUMNS: [&str; 15] =
    ["id", "s", "b", "r", "d", "n", "t", "v", "u", "f", "day", "at", "atz", "j", "a"];

/// Literals, of which each is a value of some columns and an error for others.
const LITERALS: [&str; 34] = [
    "1",
    "3",
    "-3",
    "0",
    "007",
    "32767",
    "40000",
    "2147483647",
    "-2147483648",
    "3000000000",
    "16777217",
    "9007199254740993",
    "9223372036854775807",
    "9223372036854775808",
    "2.5",
    "1e1",
    "'3'",
    "''",
    "'t3'",
    "'it''s'",
    "'v3'",
    "'v3 '",
    "'ä'",
    "'true'",
    "'2024-01-04'",
    "'2024-1-4 '",
    "'2024-01-01 03:00'",
    "'2024-01-01 03:00:00.0000005'",
    "'2024-01-01 03:00+02'",
    "'infinity'",
    "'now'",
    "'00000000-0000-0000-0000-000000000003'",
    "'{\"k\": 3}'",
    "'{3,4}'",
];

async fn read(outcome: thalweg_types::Result<Outcome>) -> thalweg_types::Result<Vec<String>> {
    let outcome = outcome?;
    let mut rows = vec![outcome.tag.to_string()];
    rows.extend(outcome.schema.fields().iter().map(|field| field.name().clone()));
    let Some(mut batches) = outcome.rows else { return Ok(rows) };
    while let Some(batch) = batches.next().await {
        let batch = batch?;
        let options = FormatOptions::default();
        let columns = batch.columns().iter();
        let columns: Vec<_> =
            columns.map(|column| ArrayFormatter::try_new(column, &options).unwrap()).collect();
        for row in 0..batch.num_rows() {
            let values = columns.iter().map(|column| column.value(row).to_string());
            rows.push(values.collect::<Vec<_>>().join("|"));
        }
    }
    Ok(rows)
}

/// The answer to a text, or its error with the position counted in the text itself.
async fn answer(session: &mut Session, before: &str, sql: &str) -> Result<Vec<String>, String> {
    read(session.execute(&format!("{before}{sql}")).await).await.map_err(|error| {
        let position = error.position().map(|position| position - before.chars().count());
        format!("{} {} {position:?}", error.state().0, error.message())
    })
}

async fn run(session: &mut Session, sql: &str) {
    read(session.execute(sql).await).await.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
}

/// A database with equal tables in two schemas.
async fn database() -> Database {
    let database = Database::builder().threads(2).open().unwrap();
    let mut session = database.session();
    for schema in ["shared", "alone"] {
        run(&mut session, &format!("CREATE SCHEMA {schema}")).await;
        run(&mut session, &format!("CREATE TABLE {schema}.t {TABLE}")).await;
        run(&mut session, &format!("CREATE INDEX ON {schema}.t (b)")).await;
        run(&mut session, &format!("INSERT INTO {schema}.t {ROWS}")).await;
    }
    database
}

async fn session(database: &Database, schema: &str, zone: &str) -> Session {
    let mut session = database.session();
    run(&mut session, &format!("SET search_path = {schema}")).await;
    run(&mut session, &format!("SET TIME ZONE '{zone}'")).await;
    session
}

/// Sends each text to both sessions and compares. Texts of one shape follow each other, so that all
/// but the first two share a statement if they may.
async fn compare(shared: &mut Session, alone: &mut Session, texts: impl Iterator<Item = String>) {
    for sql in texts {
        let expected = answer(alone, ALONE, &sql).await;
        assert_eq!(answer(shared, "", &sql).await, expected, "{sql}");
    }
}

#[tokio::test]
async fn conditions_answer_as_if_they_were_alone() {
    let database = database().await;
    for zone in ["UTC", "America/New_York"] {
        let mut shared = session(&database, "shared", zone).await;
        let mut alone = session(&database, "alone", zone).await;
        for column in COLUMNS {
            for operator in ["=", "<>", "<", ">="] {
                let texts = LITERALS.iter().map(|literal| {
                    format!("SELECT id FROM t WHERE {column} {operator} {literal} ORDER BY id")
                });
                compare(&mut shared, &mut alone, texts).await;
            }
        }
    }
}

#[tokio::test]
async fn other_statements_answer_as_if_they_were_alone() {
    let database = database().await;
    let mut shared = session(&database, "shared", "UTC").await;
    let mut alone = session(&database, "alone", "UTC").await;
    for form in [
        "SELECT # AS x, id FROM t WHERE id = #",
        "SELECT id FROM t WHERE id BETWEEN # AND 5 ORDER BY 1",
        "SELECT count(*), max(d) FROM t WHERE s > # AND t <> 'x'",
        "SELECT s = # FROM t GROUP BY s = # ORDER BY 1",
        "SELECT x.id FROM t x JOIN t y ON x.id = y.s AND y.id = # WHERE x.t = 't3'",
        "SELECT (SELECT max(id) FROM t WHERE id < #) FROM t WHERE id = 2",
        "SELECT id FROM t WHERE EXISTS (SELECT 1 FROM t i WHERE i.id = t.id AND i.s = #)",
        "SELECT id FROM t WHERE id = # OFFSET #",
        "SELECT t LIKE #, id FROM t WHERE id = 3 LIMIT 1",
        "SELECT id FROM t WHERE t IN ('t3', #)",
        "SELECT a[1] FROM t WHERE a[1] = #",
        "SELECT round(d, #) FROM t WHERE id = 3",
        "SELECT id FROM t WHERE id = # FOR UPDATE",
        "SELECT nothing FROM t WHERE id = #",
        "SELECT id FROM t WHERE id = # AND missing = #",
        "SELECT id / (id - #) FROM t WHERE id >= 3 ORDER BY id",
    ] {
        let texts = LITERALS.iter().cycle().take(2 * LITERALS.len());
        let texts = texts.map(|literal| form.replace('#', literal));
        compare(&mut shared, &mut alone, texts).await;
    }
}

#[tokio::test]
async fn writes_change_the_same_rows() {
    let database = database().await;
    let mut shared = session(&database, "shared", "UTC").await;
    let mut alone = session(&database, "alone", "UTC").await;
    let all = "SELECT * FROM t ORDER BY id".to_owned();
    for column in &COLUMNS[1..] {
        // The greatest smallint, and a real that is no sum of itself and 1.
        for session in [&mut shared, &mut alone] {
            run(session, "UPDATE t SET s = 32767, r = 16777216 WHERE id = 5").await;
        }
        for source in ["s", "b", "r", "d", "day"] {
            for operator in ["+", "-"] {
                // Sums that a narrow type rounds or does not hold.
                let texts = ["2", "3", "-1", "16777216", "2147483647"].map(|literal| {
                    format!(
                        "UPDATE t SET {column} = {source} {operator} {literal} \
                         WHERE id = 5 RETURNING {column}"
                    )
                });
                compare(&mut shared, &mut alone, texts.into_iter()).await;
            }
        }
        for form in [
            "UPDATE t SET {} = # WHERE id = 3 RETURNING {}",
            "UPDATE t SET {} = {} + # WHERE id = 4",
            "UPDATE t SET {} = {} - # WHERE s < 3",
            "INSERT INTO t (id, {}) VALUES (77, #) ON CONFLICT (id) DO UPDATE SET {} = excluded.{}",
            "DELETE FROM t WHERE id = 77 AND {} = #",
        ] {
            // The time of a statement is another one each time.
            let literals = LITERALS.iter().filter(|literal| **literal != "'now'");
            let texts = literals.map(|literal| form.replace("{}", column).replace('#', literal));
            compare(&mut shared, &mut alone, texts).await;
        }
        compare(&mut shared, &mut alone, std::iter::once(all.clone())).await;
    }
}

#[tokio::test]
async fn statements_follow_definitions_and_settings() {
    let database = database().await;
    let mut shared = session(&database, "shared", "UTC").await;
    let mut alone = session(&database, "alone", "UTC").await;
    let question = |literal| format!("SELECT s, t FROM t WHERE id = {literal}");
    for change in [
        "SELECT 1",
        "ALTER TABLE t ALTER COLUMN s TYPE text",
        "ALTER TABLE t RENAME COLUMN t TO other",
        "ALTER TABLE t ADD COLUMN t integer DEFAULT 7",
        "BEGIN",
        "ALTER TABLE t ALTER COLUMN t TYPE text",
        "UPDATE t SET t = 'changed' WHERE id > 2",
        "ROLLBACK",
        "CREATE TEMP TABLE t (id integer, s integer, t integer)",
        "DROP TABLE t",
        "ALTER TABLE t DROP COLUMN s",
    ] {
        for session in [&mut shared, &mut alone] {
            run(session, change).await;
        }
        compare(&mut shared, &mut alone, (1..6).map(question)).await;
    }
}

#[tokio::test]
async fn a_shape_that_comes_again_needs_no_planner() {
    let database = database().await;
    let mut session = session(&database, "shared", "UTC").await;
    for (form, route) in [
        ("SELECT t FROM t WHERE id = #", Route::Point),
        ("  select t from t where id = # ; ", Route::Point),
        ("SELECT id FROM t WHERE b = # AND t <> 'x'", Route::CachedPlan),
        ("SELECT count(*) FROM t WHERE id < # LIMIT 10", Route::CachedPlan),
        ("UPDATE t SET b = b + # WHERE id = 3", Route::Point),
        ("INSERT INTO t (id, t) VALUES (#, 'it''s')", Route::Point),
        ("DELETE FROM t WHERE id = #", Route::Point),
    ] {
        for literal in 100..104 {
            run(&mut session, &form.replace('#', &literal.to_string())).await;
        }
        let split = session.split(&form.replace('#', "104")).await.unwrap();
        let [statement] = split.as_slice() else { panic!("{form}: {split:?}") };
        run(&mut session, &statement.text).await;
        assert_eq!(session.route(), Some(route), "{form}");
    }
}

#[tokio::test]
async fn roles_share_nothing() {
    let database = database().await;
    let mut session = session(&database, "shared", "UTC").await;
    run(&mut session, "CREATE ROLE guest").await;
    for id in 1..5 {
        run(&mut session, &format!("SELECT t FROM t WHERE id = {id}")).await;
    }
    run(&mut session, "SET ROLE guest").await;
    let refused = answer(&mut session, "", "SELECT t FROM shared.t WHERE id = 5").await;
    assert!(refused.unwrap_err().starts_with("42501"));
    let refused = answer(&mut session, "", "SELECT t FROM t WHERE id = 5").await;
    assert!(refused.unwrap_err().starts_with("42"));
}
