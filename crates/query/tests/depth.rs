//! Statements and values that nest deeply: an answer or a clear refusal, and no overflow of the
//! stack. Every form is repeated through a session, on the small stack of a test's thread.

use futures::StreamExt;
use thalweg_query::{Database, Session};
use thalweg_types::{Error, Result};

/// The text of a form that is repeated so many times.
type Form = fn(usize) -> String;

fn around(open: &str, inner: &str, close: &str, times: usize) -> String {
    format!("SELECT {}{inner}{}", open.repeat(times), close.repeat(times))
}

fn behind(begin: &str, form: &str, times: usize) -> String {
    format!("{begin}{}", form.repeat(times))
}

/// What parsing refuses, or planning answers in little time, at every size.
const FORMS: [Form; 42] = [
    |n| around("(", "1", ")", n),
    |n| around("ARRAY[", "1", "]", n),
    |n| around("abs(", "1", ")", n),
    |n| around("CAST(", "1", " AS int)", n),
    |n| around("NOT ", "true", "", n),
    |n| around("- ", "1", "", n),
    |n| around("INTERVAL ", "'1'", "", n),
    |n| around("DATE ", "'2020-01-01'", "", n),
    |n| around("CASE WHEN true THEN ", "1", " END", n),
    |n| around("CASE WHEN true THEN 1 ELSE ", "1", " END", n),
    |n| around("sum(", "1", ") OVER ()", n),
    |n| around("1 BETWEEN ", "1", " AND 2", n),
    |n| around("jsonb_build_array(", "1", ")", n),
    |n| behind("SELECT CASE", " WHEN true THEN 1", n.min(60_000)) + " END",
    |n| behind("SELECT 1", "::int", n),
    |n| behind("SELECT NULL::int", "[]", n),
    |n| behind("SELECT '{1}'::int[]", "[1]", n),
    |n| behind("SELECT a", "[1:1]", n) + " FROM (VALUES (ARRAY[1])) v(a)",
    |n| behind("SELECT 1", " NOTNULL", n),
    |n| behind("SELECT 1", " ISNULL", n),
    |n| behind("SELECT 1", " IS NOT NULL", n),
    |n| behind("SELECT 1", " IS DISTINCT FROM 1", n),
    |n| behind("SELECT 1", " * from", n),
    |n| behind("SELECT 'a'", " || set", n),
    |n| behind("SELECT 'a'", " COLLATE \"C\"", n),
    |n| behind("SELECT true", " AND true", n),
    |n| behind("SELECT true", " OR 1 = 2", n),
    |n| behind("SELECT 'a'", " LIKE 'a'", n),
    |n| behind("SELECT 1", " + 1", n),
    |n| behind("SELECT 1", " UNION ALL SELECT 1", n),
    |n| behind("SELECT 1", " UNION SELECT 1", n),
    |n| behind("SELECT 1", " EXCEPT SELECT 1", n),
    |n| format!("{}SELECT 1", "EXPLAIN ".repeat(n)),
    |n| format!("{}SELECT 1", "EXPLAIN (ANALYZE) ".repeat(n)),
    |n| format!("{}SELECT 1", "PREPARE p AS ".repeat(n)),
    |n| format!("{}SELECT 1{}", "(".repeat(n), ")".repeat(n)),
    |n| format!("WITH c AS (SELECT 1){} SELECT 1", ", d AS (TABLE c)".repeat(n)),
    |n| format!("CREATE TABLE a{n} (a int{})", "[]".repeat(n)),
    |n| format!("CREATE TABLE b{n} (a int DEFAULT {}1{})", "(".repeat(n), ")".repeat(n)),
    |n| format!("CREATE TABLE c{n} (a int CHECK (a > 0{}))", " AND a > 0".repeat(n)),
    |n| format!("CREATE VIEW d{n} AS {}", behind("SELECT 1 AS a", " UNION ALL SELECT 1", n)),
    |n| format!("GRANT {}a TO b", "a, ".repeat(n)),
];

/// What takes planning long before it is refused.
const SLOW_FORMS: [Form; 10] = [
    |n| around("(SELECT ", "1", ")", n),
    |n| around("EXISTS (SELECT ", "1", ")", n),
    |n| around("1 IN (SELECT ", "1", ")", n),
    |n| around("ROW(", "1", ")", n),
    |n| around("~ ", "1", "", n),
    |n| behind("SELECT 'a'", " || 'b'", n),
    |n| behind("SELECT now()", " AT TIME ZONE 'UTC'", n),
    |n| behind("SELECT '{}'::jsonb", " -> 'a'", n),
    |n| behind("SELECT 1 FROM (VALUES (1)) a", ", LATERAL (SELECT 1) b", n),
    |n| behind("SELECT 1 FROM (VALUES (1)) a", " JOIN (VALUES (1)) b ON true", n),
];

/// Values, which are made by the statement: their depth is in no token.
const VALUES: [Form; 16] = [
    |n| format!("SELECT {} IS NULL", deep(n)),
    |n| format!("SELECT '{}{}'::json IS NULL", "[".repeat(n), "]".repeat(n)),
    |n| format!("SELECT '{}1{}'::jsonb IS NULL", "{\"a\": ".repeat(n), "}".repeat(n)),
    |n| format!("SELECT jsonb_typeof({})", deep(n)),
    |n| format!("SELECT length(jsonb_pretty({}))", deep(n)),
    |n| format!("SELECT length(jsonb_strip_nulls({})::text)", deep(n)),
    |n| format!("SELECT {} @> '[]'", deep(n)),
    |n| format!("SELECT {} = {}", deep(n), deep(n)),
    |n| format!("SELECT length(({} || '1')::text)", deep(n)),
    |n| format!("SELECT length(jsonb_build_array({})::text)", deep(n)),
    |n| format!("SELECT length(jsonb_set({}, '{{0,0}}', '1')::text)", deep(n)),
    |n| format!("SELECT length(({} #- '{{0,0}}')::text)", deep(n)),
    |n| format!("SELECT jsonb_path_exists('1', '{}${}')", "(".repeat(n), ")".repeat(n)),
    |n| format!("SELECT jsonb_path_exists('1', '$ ? ({}@ == 1{})')", "!(".repeat(n), ")".repeat(n)),
    |n| format!("SELECT '{}1{}'::int[]", "{".repeat(n), "}".repeat(n)),
    |n| format!("SELECT ('int' || repeat('[]', {n}))::regtype"),
];

fn deep(times: usize) -> String {
    format!("(repeat('[', {times}) || repeat(']', {times}))::jsonb")
}

async fn run(session: &mut Session, sql: &str) -> Result<()> {
    let Some(mut rows) = session.execute(sql).await?.rows else { return Ok(()) };
    while let Some(batch) = rows.next().await {
        batch?;
    }
    Ok(())
}

/// Refusals of a statement that is wrong or too deep; an internal error is none.
fn is_clear(error: &Error) -> bool {
    let state = error.state().0;
    ["0A", "22", "2B", "42", "54"].iter().any(|class| state.starts_with(class))
}

async fn answered_or_refused(sizes: &[usize], forms: &[Form]) {
    let database = Database::builder().threads(2).open().unwrap();
    let mut session = database.session();
    for form in forms {
        for size in sizes {
            let sql = form(*size);
            if let Err(error) = run(&mut session, &sql).await {
                let shown: String = sql.chars().take(60).collect();
                assert!(is_clear(&error), "{size} times in {shown}: {error:?}");
            }
            run(&mut session, "SELECT 1").await.unwrap();
        }
    }
}

#[tokio::test]
async fn repeated_forms_are_answered_or_refused() {
    answered_or_refused(&[10, 250, 1_000, 60_000, 200_000], &FORMS).await;
}

#[tokio::test]
async fn forms_that_are_slow_to_plan_are_answered_or_refused() {
    answered_or_refused(&[10, 60_000, 200_000], &SLOW_FORMS).await;
}

#[tokio::test]
async fn deep_values_are_answered_or_refused() {
    answered_or_refused(&[10, 1_000, 6_000], &VALUES).await;
}

/// What PostgreSQL answers, too.
#[tokio::test]
async fn what_applications_nest_is_answered() {
    let database = Database::builder().threads(2).open().unwrap();
    let mut session = database.session();
    for sql in [
        around("(", "1", ")", 250),
        behind("SELECT 1", " NOTNULL", 250),
        behind("SELECT '{1}'::int[]", "[]", 4),
        behind("SELECT true", " AND true", 900),
        behind("SELECT 1", " UNION ALL SELECT 1", 500),
        format!("SELECT {} IS NULL", deep(6_000)),
        format!("SELECT length(jsonb_build_array({})::text)", deep(5_000)),
    ] {
        let shown: String = sql.chars().take(40).collect();
        run(&mut session, &sql).await.unwrap_or_else(|error| panic!("{shown}: {error:?}"));
    }
}
