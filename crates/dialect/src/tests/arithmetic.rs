use crate::testing::{expect_errors, expect_values, rows};

#[test]
fn results_within_the_range_are_right() {
    expect_values(&[
        ("select 1 + 2, 5 - 7, 3 * 4, 7 / 2, -7 / 2, 7 % 3, -7 % 3", "3|-2|12|3|-3|1|-1"),
        ("select 9223372036854775806 + 1", "9223372036854775807"),
        ("select -9223372036854775807 - 1", "-9223372036854775808"),
        ("select 3037000499 * 3037000499", "9223372030926249001"),
        ("select 1::smallint + 1::smallint, pg_typeof(1::smallint + 1::smallint)", "2|smallint"),
        ("select (-9223372036854775807 - 1) % -1", "0"),
        ("select null + 1, 1 / null::int, null::int % 0", "||"),
        ("select 1.5::float8 / 2, null::float8 / 0", "0.75|"),
        ("select 0.06 + 0.01, 0.06 - 0.01, 1.10 * 1.10", "0.07|0.05|1.2100"),
    ]);
}

#[test]
fn every_kind_of_operand_is_taken() {
    expect_values(&[
        (
            "select sum(a + b), sum(a + 1), sum(1 - a), sum(a * b) from (values (1, 2), (3, 4)) \
            t (a, b)",
            "10|6|-2|14",
        ),
        ("select count(a + b) from (values (1, null), (null, 4), (2, 3)) t (a, b)", "1"),
        ("select a + null::bigint from (values (1)) t (a)", ""),
        ("select -a from (values (5)) t (a)", "-5"),
    ]);
}

#[test]
fn overflow_is_an_error_and_never_a_wrong_number() {
    let (state, bigint) = ("22003", "bigint out of range");
    expect_errors(&[
        ("select 9223372036854775807 + 1", state, bigint),
        ("select -9223372036854775807 - 2", state, bigint),
        ("select 3037000500 * 3037000500", state, bigint),
        ("select (-9223372036854775807 - 1) / -1", state, bigint),
        ("select -(-9223372036854775807 - 1)", state, bigint),
        ("select 2147483647::int + 1::int", state, "integer out of range"),
        ("select 2147483647::int * 2::int", state, "integer out of range"),
        ("select 32767::smallint + 1::smallint", state, "smallint out of range"),
        ("select 200::smallint * 200::smallint", state, "smallint out of range"),
        ("select a + 1 from (values (1), (9223372036854775807)) t (a)", state, bigint),
        ("select a * a from (values (1), (9223372036854775807)) t (a)", state, bigint),
    ]);
}

#[test]
fn what_lies_under_null_cannot_overflow() {
    expect_values(&[(
        "select case when a < 10 then a end + 1 from (values (1), (9223372036854775807)) t (a)",
        "2\n",
    )]);
}

#[test]
fn division_by_zero_is_an_error_for_every_type() {
    let error = ("22012", "division by zero");
    for sql in [
        "select 1 / 0",
        "select 1 % 0",
        "select 1.0 / 0",
        "select 1.0 % 0.0",
        "select 1::float8 / 0",
        "select 1::real / 0::real",
        "select a / b from (values (1, 1), (1, 0)) t (a, b)",
        "select a::float8 / b from (values (1, 1), (1, 0)) t (a, b)",
    ] {
        expect_errors(&[(sql, error.0, error.1)]);
    }
    expect_values(&[(
        "select a / b from (values (1.5::float8, 1), (null, 0), (2.5::float8, null)) t (a, b)",
        "1.5\n\n",
    )]);
}

#[test]
fn sums_of_integers_never_wrap() {
    expect_values(&[
        (
            "select sum(a) from (values (9223372036854775807), (-5), (null)) t (a)",
            "9223372036854775802",
        ),
        ("select sum(a) from (values (1)) t (a) where a > 1", ""),
        ("select sum(a::int), sum(distinct a) from (values (1), (1), (2)) t (a)", "4|3"),
        (
            "select sum(a) over (order by a rows between 1 preceding and current row) from \
            (values (1), (2), (3)) t (a)",
            "1\n3\n5",
        ),
        ("select sum(a::numeric(5,2)) from (values (1), (2)) t (a)", "3.00"),
    ]);
    expect_errors(&[
        (
            "select sum(a) from (values (9223372036854775807), (1)) t (a)",
            "22003",
            "bigint out of range",
        ),
        (
            "select b, sum(a) from (values (9223372036854775807, 1), (1, 1)) t (a, b) group by b",
            "22003",
            "bigint out of range",
        ),
    ]);
}

#[test]
fn columns_keep_the_names_that_their_expressions_give() {
    let schema = crate::testing::schema("select a + 1, a * 2 as b from (values (1)) t (a)");
    let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
    assert_eq!(names, ["t.a + Int64(1)", "b"]);
    assert_eq!(rows("select a / 2 as h from (values (5)) t (a) order by h").unwrap(), ["2"]);
}
