//! Parameters of type `numeric` keep all of their digits, wherever they are used.

use thalweg_server::Server;

use crate::support::{
    Raw, Reply, SUPERUSER, bind_values, execute, field, parse_as, query, server, sync,
};

/// Statements and the answers of PostgreSQL 15. A line with `#` is a statement with a parameter of
/// type `numeric`, or of `numeric[]` where its values are arrays; a query behind ` ; ` shows what
/// it has written. The lines below it are values of the parameter, and the row or the SQLSTATE
/// behind a bar. Answers of more than 38 digits are left out.
const ANSWERS: &str = include_str!("numeric_parameters.txt");

const SETUP: [&str; 5] = [
    "CREATE TABLE d (id integer PRIMARY KEY, n52 numeric(5,2), n200 numeric(20,0), \
     n3820 numeric(38,20), n3015 numeric(30,15), f8 double precision, f4 real, t text, \
     i4 integer, i8 bigint, an numeric(30,20)[])",
    "CREATE TABLE k (p numeric(12,3) PRIMARY KEY, v integer)",
    "INSERT INTO k VALUES (0, 1), (1, 2), (1.5, 3), (1.235, 4), (-2.5, 5), (123456789.123, 6), \
     (0.125, 7), (1.123, 8), (7.123, 9), (-7.2, 10), (-1, 11), (100, 12), (7, 13)",
    "CREATE TABLE w (p numeric(38,20) PRIMARY KEY, v integer)",
    "INSERT INTO w VALUES (0, 1), (1.5, 2), (7.12345678901234567890, 3), (-7.2345678901, 4), \
     (999999999999999999, 5)",
];

/// One of so many values of each statement is tried, unless `THALWEG_CASES` asks for all.
const STRIDE: usize = 4;

const NUMERIC: u32 = 1700;
const NUMERIC_ARRAY: u32 = 1231;

/// The row or the SQLSTATE of a statement.
fn answer(replies: &[Reply]) -> String {
    for reply in replies {
        if reply.kind == b'E' {
            return field(&reply.body, b'C').unwrap();
        }
    }
    let rows = replies.iter().filter(|reply| reply.kind == b'D');
    // All rows have one column, whose text stands behind two numbers; that of NULL is left out.
    rows.map(|row| String::from_utf8_lossy(&row.body[6..]).into_owned())
        .collect::<Vec<_>>()
        .join(" ")
}

async fn connect(server: &Server) -> Raw {
    let mut raw = Raw::connect(server, SUPERUSER).await;
    for sql in SETUP {
        assert!(!raw.sql(sql).await.contains("E("), "{sql}");
    }
    raw
}

/// The answer to a value of the prepared statement.
async fn ask(raw: &mut Raw, value: &str, then: Option<&str>) -> String {
    raw.send(&[bind_values("", "s", 0, &[value.as_bytes()]), execute("", 0), sync()]).await;
    let found = answer(&raw.until_ready().await);
    match then {
        Some(then) if found.is_empty() => {
            raw.send(&[query(then)]).await;
            answer(&raw.until_ready().await)
        }
        _ => found,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn numeric_parameters_keep_all_of_their_digits() {
    let server = server().await;
    let mut raw = connect(&server).await;
    let stride = if std::env::var_os("THALWEG_CASES").is_some() { 1 } else { STRIDE };
    let (mut checked, mut different) = (0, Vec::new());
    let (mut statement, mut then) = ("", None);
    for (number, line) in ANSWERS.lines().enumerate() {
        if let Some(text) = line.strip_prefix("# ") {
            (statement, then) = match text.split_once(" ; ") {
                Some((statement, then)) => (statement, Some(then)),
                None => (text, None),
            };
            let next = ANSWERS.lines().nth(number + 1).unwrap_or_default();
            let oid = if next.starts_with('{') { NUMERIC_ARRAY } else { NUMERIC };
            let closed = crate::support::close('S', "s");
            raw.send(&[closed, parse_as("s", statement, &[oid]), sync()]).await;
            let refused = answer(&raw.until_ready().await);
            if !refused.is_empty() {
                different.push(format!("{statement} is refused: {refused}"));
            }
            continue;
        }
        if number % stride != 0 {
            continue;
        }
        let (value, wanted) = line.split_once('|').unwrap();
        let found = ask(&mut raw, value, then).await;
        checked += 1;
        if found != wanted {
            different.push(format!("{statement} with {value}: {found} instead of {wanted}"));
        }
    }
    assert!(checked > 1_000, "only {checked} values were checked");
    assert!(different.is_empty(), "{} differ:\n{}", different.len(), different.join("\n"));
}

/// PostgreSQL accepts these.
#[tokio::test(flavor = "multi_thread")]
async fn numbers_of_too_many_digits_are_refused() {
    let server = server().await;
    let mut raw = connect(&server).await;
    for statement in
        ["SELECT $1", "INSERT INTO d (id, t) VALUES (1, $1)", "SELECT v FROM k WHERE p = $1"]
    {
        let closed = crate::support::close('S', "s");
        raw.send(&[closed, parse_as("s", statement, &[NUMERIC]), sync()]).await;
        assert_eq!(answer(&raw.until_ready().await), "", "{statement}");
        for value in ["1e38", "1e-39", "1e400", "12345678901234567890.1234567890123456789"] {
            assert_eq!(ask(&mut raw, value, None).await, "22003", "{statement} with {value}");
        }
    }
}
