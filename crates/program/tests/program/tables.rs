//! Results as tables.

use crate::run::{sql, thalweg};

#[test]
fn a_table_is_aligned_and_counted() {
    assert_eq!(
        sql("SELECT * FROM (VALUES (1, 'one'), (20, NULL)) AS t(number, word) ORDER BY number"),
        " number | word\n--------+------\n      1 | one\n     20 | NULL\n(2 rows)\n\n"
    );
    assert_eq!(sql("SELECT 1 AS a WHERE false"), " a\n---\n(0 rows)\n\n");
}

#[test]
fn statements_without_rows_tell_what_they_did() {
    assert_eq!(
        sql("CREATE TABLE t (a int PRIMARY KEY, b text);
             INSERT INTO t VALUES (1, 'x'), (2, 'y');
             UPDATE t SET b = 'z' WHERE a = 2;
             DELETE FROM t WHERE a = 1;
             SELECT * FROM t"),
        "CREATE TABLE\nINSERT 0 2\nUPDATE 1\nDELETE 1\n a | b\n---+---\n 2 | z\n(1 row)\n\n"
    );
    assert_eq!(thalweg(&["-q", "-c", "CREATE TABLE t (a int)"]).success(), "");
}

#[test]
fn options_change_how_tables_look() {
    assert_eq!(
        thalweg(&["--border", "unicode", "--null", "-", "-c", "SELECT NULL::int AS a, 1 AS b"])
            .success(),
        " a │ b\n───┼───\n - │ 1\n(1 row)\n\n"
    );
    assert_eq!(
        thalweg(&["-x", "-c", "SELECT 1 AS a, 'x' AS bcd"]).success(),
        "-[ RECORD 1 ]\na   | 1\nbcd | x\n(1 row)\n\n"
    );
    assert_eq!(sql("SELECT 1 AS a \\gx\n"), "-[ RECORD 1 ]\na | 1\n(1 row)\n\n");
}

#[test]
fn data_cannot_steer_the_terminal() {
    assert_eq!(
        sql("SELECT E'\\x1b[2J\\r' AS a, E'two\\nlines' AS b"),
        concat!(
            " a         | b\n",
            "-----------+-------\n",
            " \\x1B[2J\\r | two  +\n",
            "           | lines\n",
            "(1 row)\n\n"
        )
    );
}

#[test]
fn commands_describe_the_database() {
    let described = sql("CREATE TABLE t (a int PRIMARY KEY, b varchar(7) NOT NULL DEFAULT 'x',
                                 c numeric(10, 2) UNIQUE, CONSTRAINT positive CHECK (c > 0));
         CREATE VIEW v AS SELECT a FROM t;
         \\d
         \\dt
         \\d t
         \\dn");
    for expected in [
        " Schema | Name | Type\n--------+------+-------\n",
        " public | t    | table\n public | v    | view\n",
        "Table \"public.t\"\n",
        " b      | character varying(7) | not null | ",
        " c      | numeric(10,2)",
        "    \"t_pkey\" PRIMARY KEY (a)\n",
        " UNIQUE (c)\n",
        "    \"positive\" CHECK (",
        " information_schema\n pg_catalog\n public\n",
    ] {
        assert!(described.contains(expected), "{expected}\n{described}");
    }
    assert!(
        sql("CREATE VIEW v AS SELECT 1 AS one;\n\\d v").contains("View definition:\n SELECT 1")
    );
    let unknown = thalweg(&["-c", "\\d nothing"]).failure(1);
    assert_eq!(unknown, "ERROR:  did not find any relation named \"nothing\"\n");
}

#[test]
fn long_results_have_every_row() {
    let printed = sql("SELECT value AS n FROM generate_series(1, 100000) AS t(value)");
    assert!(printed.ends_with("\n 100000\n(100000 rows)\n\n"), "{}", &printed[..100]);
    let rows = printed.lines().filter(|line| line.trim().parse::<u32>().is_ok()).count();
    assert_eq!(rows, 100_000);
}

#[test]
fn timing_is_told_when_asked_for() {
    let printed = thalweg(&["--timing", "-c", "SELECT 1"]).success();
    let last = printed.lines().last().unwrap();
    assert!(last.starts_with("Time: ") && last.ends_with(" ms"), "{printed}");
}
