//! Errors as a session words them.

use crate::testing::{expect_errors, run};

#[test]
fn wrong_statements_are_told_as_postgres_tells_them() {
    expect_errors(&[
        ("select 1 +", "42601", "syntax error at end of input"),
        ("selec 1", "42601", "syntax error at or near \"selec\""),
        ("select \"abc", "42601", "unterminated quoted identifier at or near \"\"abc\""),
        ("select * from missing", "42P01", "relation \"missing\" does not exist"),
        ("insert into missing values (1)", "42P01", "relation \"missing\" does not exist"),
        ("select x from (values (1)) t (y)", "42703", "column \"x\" does not exist"),
        ("select t.x from (values (1)) t (y)", "42703", "column t.x does not exist"),
        (
            "select u.y from (values (1)) t (y)",
            "42P01",
            "missing FROM-clause entry for table \"u\"",
        ),
        (
            "select y from (values (1)) t (y), (values (1)) u (y)",
            "42702",
            "column reference \"y\" is ambiguous",
        ),
        ("select lenght('a')", "42883", "function lenght does not exist"),
        ("select abs()", "42883", "function abs does not exist for the given argument types"),
        (
            "select y, count(*) from (values (1, 2)) t (y, z) group by z",
            "42803",
            "column \"t.y\" must appear in the GROUP BY clause or be used in an aggregate function",
        ),
        (
            "select 1 from (values (1)) t (y) where count(*) > 1",
            "42803",
            "aggregate functions are not allowed in WHERE",
        ),
        (
            "select sum(count(*)) from (values (1)) t (y)",
            "42803",
            "aggregate function calls cannot be nested",
        ),
        ("select (select 1, 2)", "42601", "subquery must return only one column"),
        (
            "select 1 union select 1, 2",
            "42601",
            "each query of a set operation must have the same number of columns",
        ),
        ("values (1), (2, 3)", "42601", "VALUES lists must all be the same length"),
        ("select 1 order by 2", "42P10", "ORDER BY position 2 is not in select list"),
        ("select 1 as a group by 2", "42P10", "GROUP BY position 2 is not in select list"),
        ("select 1 limit -1", "2201W", "LIMIT must not be negative"),
        ("select 1 where 5", "42804", "argument of WHERE must be type boolean, not type bigint"),
        ("select not 1", "42804", "argument of NOT must be type boolean, not type bigint"),
        ("select 1 = true", "42883", "operator does not exist: bigint = boolean"),
        ("select true + 1", "42883", "operator does not exist: boolean + bigint"),
        ("select cast(true as date)", "42846", "cannot cast type boolean to date"),
        ("select cast(1 as wibble)", "42704", "type \"wibble\" does not exist"),
        ("select 'abc'::int", "22P02", "invalid input syntax for type integer: \"abc\""),
        ("select 'x'::date", "22007", "invalid input syntax for type date: \"x\""),
        (
            "select '2024-13-45'::date",
            "22008",
            "date/time field value out of range: \"2024-13-45\"",
        ),
        ("select extract(wibble from now())", "22023", "unit \"wibble\" not recognized"),
        (
            "select (select y from (values (1), (2)) t (y))",
            "21000",
            "more than one row returned by a subquery used as an expression",
        ),
    ]);
}

#[test]
fn places_and_hints_lead_to_the_mistake() {
    for (sql, position, hint) in [
        (
            "select\n  cusomer from (values (1)) t (customer)",
            10,
            Some("Perhaps you meant to reference the column \"t.customer\"."),
        ),
        ("select 'ü', lenght('a')", 13, Some("Perhaps you meant the function length.")),
        ("select 1, Time_Bucket('1h', now())", 11, Some("Use date_bin(interval, time, origin).")),
        ("select 1 from missing", 15, None),
    ] {
        let error = run(sql).unwrap_err();
        assert_eq!((error.position(), error.hint()), (Some(position), hint), "{sql}");
    }
}
