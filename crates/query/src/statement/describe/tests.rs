//! Types of parameters, compared with those that PostgreSQL 15 infers.

use crate::Database;
use thalweg_values::types::display_name;

/// A statement a line, behind the types that PostgreSQL's `pg_prepared_statements` shows for its
/// parameters. They are all operators, functions and clauses over columns of many types.
const INFERRED: &str = include_str!("tests/inferred.txt");

/// The columns of the table that the statements read and write.
const COLUMNS: &str = "k integer PRIMARY KEY, b boolean, i2 smallint, i4 integer, i8 bigint, \
    f4 real, f8 double precision, n numeric, n5 numeric(5,2), t text, vc varchar(10), d date, \
    tm time, ts timestamp, tz timestamptz, iv interval, u uuid, j json, jb jsonb, by bytea, \
    ab boolean[], ai integer[], al bigint[], at text[], ats timestamp[], ad date[], an numeric[], \
    au uuid[], aj jsonb[]";

/// A statement a line, behind PostgreSQL's message about an operator or a function that several
/// types of its parameters fit.
const AMBIGUOUS: &str = include_str!("tests/ambiguous.txt");

/// Its parameter gets another type: the array of an aggregate of `jsonb` is compared as `text[]`.
const DIFFERENT: &str = "SELECT array_agg(jb) = $1 FROM v";

/// Every so many statements are checked, unless `THALWEG_CASES` asks for all.
const STRIDE: usize = 7;

/// `character varying` parameters are texts here.
fn alike(name: &str) -> &str {
    if name == "character varying" { "text" } else { name }
}

/// The statement with typed NULLs in place of its parameters.
fn with_types(sql: &str, types: &[&str]) -> String {
    let numbered = types.iter().enumerate().rev();
    numbered.fold(sql.to_owned(), |sql, (at, name)| {
        sql.replace(&format!("${}", at + 1), &format!("CAST(NULL AS {name})"))
    })
}

#[tokio::test]
async fn parameters_have_the_types_that_postgresql_infers() {
    let database = Database::in_memory().unwrap();
    let mut session = database.session();
    session.execute(&format!("CREATE TABLE v ({COLUMNS})")).await.unwrap();
    let stride = if std::env::var_os("THALWEG_CASES").is_some() { 1 } else { STRIDE };
    let (mut checked, mut different) = (0, Vec::new());
    for line in INFERRED.lines().step_by(stride) {
        let (types, sql) = line.split_once('|').unwrap();
        let types: Vec<&str> = types.split(',').collect();
        // Statements that are not supported are no subject of this test.
        if session.prepare(&with_types(sql, &types), &[]).await.is_err() {
            continue;
        }
        checked += 1;
        let found = match session.prepare(sql, &[]).await {
            Ok(prepared) => {
                let names = prepared.parameters().iter().map(|field| display_name(field));
                names.collect::<Vec<_>>().join(",")
            }
            Err(error) => format!("{} {}", error.state().0, error.message()),
        };
        let wanted = types.iter().map(|name| alike(name)).collect::<Vec<_>>().join(",");
        if found != wanted && sql != DIFFERENT {
            different.push(format!("{sql}: {found} instead of {wanted}"));
        }
    }
    assert!(
        checked * 2 * stride > INFERRED.lines().count(),
        "only {checked} statements were checked"
    );
    assert!(different.is_empty(), "{} differ:\n{}", different.len(), different.join("\n"));
}

#[tokio::test]
async fn ambiguous_operators_are_refused_as_in_postgresql() {
    let database = Database::in_memory().unwrap();
    let mut session = database.session();
    session.execute(&format!("CREATE TABLE v ({COLUMNS})")).await.unwrap();
    let mut different = Vec::new();
    for line in AMBIGUOUS.lines() {
        let (message, sql) = line.split_once('|').unwrap();
        let found = match session.prepare(sql, &[]).await {
            Ok(_) => "no error".to_owned(),
            Err(error) => format!("{} {}", error.state().0, error.message()),
        };
        if found != format!("42725 {message}") {
            different.push(format!("{sql}: {found} instead of {message}"));
        }
    }
    assert!(different.is_empty(), "{} differ:\n{}", different.len(), different.join("\n"));
}
