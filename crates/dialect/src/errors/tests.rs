use super::*;
use crate::testing::{expect_errors, run};

#[test]
fn an_error_of_our_own_comes_back_as_it_was() {
    let own = || Error::new(SqlState::UNIQUE_VIOLATION, "duplicate key").with_detail("a = 1");
    let external = || DataFusionError::External(Box::new(own()));
    for carried in [
        external(),
        external().context("while inserting"),
        DataFusionError::Shared(std::sync::Arc::new(external())),
        DataFusionError::External(Box::new(external())),
        DataFusionError::ArrowError(
            Box::new(ArrowError::ExternalError(Box::new(external()))),
            None,
        ),
    ] {
        let error_text = from_datafusion(carried, "insert");
        assert_eq!(
            (error_text.state(), error_text.message(), error_text.detail()),
            (SqlState::UNIQUE_VIOLATION, "duplicate key", Some("a = 1"))
        );
    }
}

#[test]
fn internal_errors_come_without_pleas() {
    let error = DataFusionError::Internal("the plan has no schema".to_string());
    let error_text = from_datafusion(error, "");
    assert_eq!((error_text.state().0, error_text.message()), ("XX000", "the plan has no schema"));
}

#[test]
fn memory_that_runs_out_names_the_operator() {
    let message = "Failed to allocate additional 1.0 MB for GroupedHashAggregateStream[0] (id: 3) \
                   with 0.0 B already allocated for this reservation";
    let error_text = from_datafusion(DataFusionError::ResourcesExhausted(message.to_string()), "");
    assert_eq!(error_text.state(), SqlState::OUT_OF_MEMORY);
    assert_eq!(error_text.message(), "out of memory in GroupedHashAggregateStream");
}

/// As what writes spill files wraps it: the system's error in DataFusion's, that in one of the
/// system again, and that in Arrow's.
fn spilled(error: std::io::Error) -> Vec<DataFusionError> {
    let wrapped = |error| std::io::Error::other(DataFusionError::IoError(error));
    let again = |error: &std::io::Error| match error.get_ref() {
        Some(message) => std::io::Error::other(message.to_string()),
        None => error.kind().into(),
    };
    let arrow = |error| DataFusionError::ArrowError(Box::new(ArrowError::from(error)), None);
    vec![
        DataFusionError::IoError(again(&error)),
        arrow(again(&error)),
        arrow(wrapped(again(&error))).context("while sorting"),
        DataFusionError::IoError(wrapped(error)),
    ]
}

#[test]
fn spill_files_that_find_no_room_say_which_setting_gives_more() {
    use std::io::{Error as IoError, ErrorKind};
    let limit = "The used disk space during the spilling process has exceeded the allowable limit \
                 of 100.0 GB. Please try increasing the config: `…`.";
    for (error, setting) in [
        (IoError::from(ErrorKind::StorageFull), "database.spill_directory"),
        (IoError::from(ErrorKind::QuotaExceeded), "database.spill_directory"),
        (IoError::other(limit), "database.spill_limit"),
    ] {
        for wrapped in spilled(error) {
            let error_text = from_datafusion(wrapped, "");
            assert_eq!(error_text.state(), SqlState::DISK_FULL, "{error_text:?}");
            assert_eq!(error_text.message(), "no room for temporary files");
            assert!(error_text.hint().is_some_and(|hint| hint.contains(setting)), "{error_text:?}");
        }
    }
    let error_text = from_datafusion(spilled(ErrorKind::TimedOut.into()).remove(1), "");
    assert_eq!(error_text.state(), SqlState::IO_ERROR);
}

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
        ("select 1 from missing", 15, None),
    ] {
        let error = run(sql).unwrap_err();
        assert_eq!((error.position(), error.hint()), (Some(position), hint), "{sql}");
    }
}
