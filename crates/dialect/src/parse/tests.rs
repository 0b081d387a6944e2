use super::*;
use datafusion::sql::sqlparser::ast;

#[test]
fn statements_keep_their_text_and_place() {
    let sql = "select 1; -- one\n ;\n /* two; */ select $$;$$ , 'ü;' ;select 'x';;";
    let parsed = parse(sql).unwrap();
    let texts: Vec<&str> = parsed.iter().map(|statement| statement.text.as_str()).collect();
    assert_eq!(texts, ["select 1", "select $$;$$ , 'ü;'", "select 'x'"]);
    for statement in &parsed {
        assert!(sql[statement.offset..].starts_with(&statement.text));
    }
    assert!(parse("").unwrap().is_empty());
    assert!(parse(" ; -- nothing\n").unwrap().is_empty());
}

#[test]
fn places_count_from_the_start_of_the_text() {
    for (sql, position, message) in [
        ("selec 1", 1, "syntax error at or near \"selec\""),
        ("select 1;\nselect 1 from t where )", 33, "syntax error at or near \")\""),
        ("select 'ü', 1 +", 16, "syntax error at end of input"),
        ("select 1 +;", 11, "syntax error at end of input"),
        ("select 'abc", 8, "unterminated quoted string at or near \"'abc\""),
        ("select 1 )", 10, "syntax error at or near \")\""),
        ("select 1\u{0}", 9, "invalid byte sequence for encoding \"UTF8\": 0x00"),
    ] {
        let error = parse(sql).unwrap_err();
        assert_eq!((error.position(), error.message()), (Some(position), message), "{sql}");
    }
}

#[test]
fn statements_of_every_kind_are_reached() {
    for sql in [
        "select $1 + $2",
        "insert into t values (1) on conflict (a) do update set b = excluded.b returning *",
        "create table t (a serial primary key, b varchar(3)[]) with (shard_key = 'a')",
        "create table t (a int) with (shard_key = \"a\")",
        "create table t (a int) with (shard_key = a)",
        "update t set a = 1 where b = 2 returning a",
        "delete from t where a = 1",
        "copy t from 'file.csv' with (format csv, header)",
        "copy t (a, b) from stdin",
        "copy (select 1) to 'out.parquet' with (format parquet)",
        "copy (select 1) to stdout",
        "copy t to 'out.csv' stored as csv",
        "explain analyze select 1",
        "explain (analyze, verbose) select 1",
        "begin",
        "start transaction isolation level repeatable read",
        "savepoint a",
        "rollback to savepoint a",
        "set time zone 'UTC'",
        "show server_version",
        "truncate t",
        "alter table t add column c int default 3",
        "create index i on t (a)",
        "create view v as select 1",
        "drop table if exists t cascade",
        "create schema s",
        "prepare p (int) as select $1",
        "execute p (1)",
        "deallocate p",
        "values (1), (2)",
    ] {
        let parsed = parse(sql).unwrap_or_else(|error| panic!("{sql}: {error:?}"));
        assert_eq!(parsed.len(), 1, "{sql}");
    }
}

#[test]
fn copy_is_the_same_statement_in_both_directions() {
    for sql in ["copy t from 'a'", "copy (select 1) to 'a'"] {
        let Statement::Statement(statement) = parse_single(sql).unwrap().statement else {
            panic!("{sql}");
        };
        assert!(matches!(*statement, ast::Statement::Copy { .. }), "{sql}");
    }
}

#[test]
fn no_text_exhausts_the_stack() {
    let nested = |open: &str, inner: &str, close: &str, times: usize| {
        format!("select {}{inner}{}", open.repeat(times), close.repeat(times))
    };
    for sql in [
        nested("(", "1", ")", 100_000),
        nested("(select ", "1", ")", 100_000),
        nested("array[", "1", "]", 100_000),
        nested("", "1", " + 1", 250_000),
        nested("", "true", " and true", 100_000),
        nested("", "'a'", " || 'a'", 100_000),
        nested("not ", "true", "", 100_000),
        nested("- ", "1", "", 100_000),
        nested("case when true then ", "1", " end", 50_000),
        nested("", "1", "::int", 100_000),
        nested("", "1", " union all select 1", 50_000),
        nested("", "* from t", " join t on true", 50_000),
        nested("f(", "1", ")", 100_000),
        nested("exists (select ", "1", ")", 50_000),
        nested("", "null::int", "[]", 50_000),
        nested("", "'{1}'::int[]", "[1]", 40_000),
        nested("", "a", "[1:2]", 40_000),
        nested("", "1", " notnull", 50_000),
        nested("", "1", " isnull", 50_000),
        nested("", "1", " is distinct from 1", 50_000),
        nested("", "1", " * from", 50_000),
        nested("", "'a'", " || set", 50_000),
        nested("", "'a'", " || f(a) within group (order by 1)", 50_000),
        nested("interval ", "'1'", "", 50_000),
        nested("date ", "'1'", "", 50_000),
        nested("", "1 from a", ", lateral (select 1) b", 50_000),
        format!("{}select 1", "explain ".repeat(50_000)),
        format!("{}select 1", "explain (analyze) ".repeat(50_000)),
        format!("{}select 1", "explain analyze verbose ".repeat(50_000)),
        format!("with a as (select 1){} select 1", ", b as (table a)".repeat(50_000)),
        format!("create table t (a int{})", "[]".repeat(50_000)),
    ] {
        let error = parse(&sql).unwrap_err();
        assert_eq!(error.state(), SqlState::STATEMENT_TOO_COMPLEX, "{}", &sql[..40]);
    }
}

#[test]
fn long_and_deep_statements_within_the_limits_pass() {
    for sql in [
        format!(
            "insert into t values {}",
            vec!["(1, 'abcdefghijklmnopqrstuvwxyz')"; 40_000].join(", ")
        ),
        format!("select * from t where a in ({})", vec!["1"; 100_000].join(", ")),
        format!("select {}1{}", "(".repeat(250), ")".repeat(250)),
        format!("select '{{1}}'::int{}", "[]".repeat(200)),
        format!("select case{} end", " when a = 1 then b".repeat(20_000)),
        format!("with a0 as (select 1){} select 1", ", a as (select * from a0)".repeat(2_000)),
        format!("select{} a from t", " a is distinct from b,".repeat(5_000)),
        format!("select a{} from t", ", b".repeat(20_000)),
        format!("select 1{}", " + 1".repeat(5_000)),
        format!("select 1{}", " * a - 2".repeat(2_500)),
        "select 1;".repeat(10_000),
    ] {
        parse(&sql).unwrap_or_else(|error| panic!("{}: {error:?}", &sql[..40]));
    }
}

#[test]
fn what_the_parser_lets_through_runs_on_a_small_stack() {
    for sql in [
        format!("select 1{}", " + 1".repeat(200)),
        format!("select 1{}", " + 1 - 1".repeat(2_500)),
        format!("select a{} from (values (1)) as v(a)", " * a".repeat(5_000)),
        format!("select 1 where true{}", " and 1 < 2".repeat(490)),
        format!("select 'a'{}", " || 'b'".repeat(990)),
        format!("select {}1{}", "(".repeat(120), ")".repeat(120)),
        format!("select {}1{}", "abs(".repeat(100), ")".repeat(100)),
        format!("select {}1{}", "case when true then ".repeat(100), " end".repeat(100)),
        format!("select 1 as a{}", " union all select 1".repeat(300)),
    ] {
        crate::testing::run(&sql).unwrap_or_else(|error| panic!("{}: {error:?}", &sql[..40]));
    }
}

/// The parser tries several ways to read each of these forms.
const FORMS_TRIED_AGAIN: [&str; 22] = [
    "cast(",
    "try_cast(",
    "convert(",
    "position(",
    "position(1 in position(",
    "overlay(",
    "substring(",
    "ceil(",
    "floor(",
    "extract(year from ",
    "trim(a from ",
    "interval (",
    "interval ",
    "case when 1 then ",
    "cast(case (",
    "array[",
    "not exists(select ",
    "f(a => ",
    "if(current_time(",
    "case -",
    "date (",
    "(from in (",
];

#[test]
fn a_mistake_in_nested_forms_is_found_without_trying_all_combinations() {
    for form in FORMS_TRIED_AGAIN {
        for levels in [1, 10, 40, 200] {
            let sql = format!("SELECT {}1 1{}", form.repeat(levels), ")".repeat(levels));
            let state = parse(&sql).unwrap_err().state();
            let is_clear = [SqlState::SYNTAX_ERROR, SqlState::STATEMENT_TOO_COMPLEX];
            assert!(is_clear.contains(&state), "{levels} times {form}: {state:?}");
        }
    }
}

/// Parts of texts that begin or end quotes, or look as if they did.
const QUOTING: [&str; 36] = [
    "'", "''", "\"", "\"\"", "\\", "\\'", "e'", "E'", "u&'", "U&\"", "x'", "n'", "b'", "$", "$$",
    "$a$", "$1", "$1$", "a$b$", "a$", "1e", "1", "1.5", "0x", "1_", "--", "\n", "/*", "*/", ";",
    " ", "ä", "\u{2019}", "`", "abc", "[",
];

#[test]
fn no_text_has_more_tokens_than_were_counted_ahead() {
    let mut state = 1_u64;
    let mut next = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) as usize % below
    };
    for _ in 0..50_000 {
        let mut sql: String = (0..=next(12)).map(|_| QUOTING[next(QUOTING.len())]).collect();
        sql.push_str(&";".repeat(40));
        let mut tokens = Vec::new();
        // An open quote ends the tokens with an error.
        let _ = Tokenizer::new(&ThalwegDialect, &sql).tokenize_with_location_into_buf(&mut tokens);
        let bound = tokens_at_most(&sql);
        assert!(tokens.len() <= bound, "{} tokens and not {bound}: {sql}", tokens.len());
    }
}
