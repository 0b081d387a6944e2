//! Statements from files, pipes and the command line.

use std::process::Stdio;

use crate::run::{command, text, thalweg, thalweg_with_input, write};

#[test]
fn sources_run_in_the_order_in_which_they_are_given() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("two.sql");
    write(&file, "\u{feff}-- a script\nSELECT 2 AS two;\n\\echo three 'and four'\n");
    let run = thalweg_with_input(
        &["--format", "csv", "-c", "SELECT 1 AS one", "-f", text(&file), "-f", "-"],
        b"SELECT 5 AS five",
    );
    assert_eq!(run.stdout, "one\n1\ntwo\n2\nfive\n5\n");
    assert_eq!((run.code, run.stderr.as_str()), (0, "three and four\n"));
}

#[test]
fn a_pipe_is_a_script() {
    let run = thalweg_with_input(
        &[],
        b"CREATE TABLE t (a int);\n\nINSERT INTO t\nVALUES (1);\nSELECT * FROM t;",
    );
    assert_eq!(run.success(), "CREATE TABLE\nINSERT 0 1\n a\n---\n 1\n(1 row)\n\n");
    assert_eq!(thalweg_with_input(&["sql"], b"").success(), "");
    assert_eq!(thalweg_with_input(&[], b"-- nothing\n;;").success(), "");
}

#[test]
fn rows_are_copied_from_the_lines_behind_their_statement() {
    let script = b"CREATE TABLE t (a int PRIMARY KEY, b text);\n\
        COPY t FROM STDIN (FORMAT csv); SELECT 'not a row';\n\
        1,one\n2,\"two\n\\\\ lines\"\n\\.\n\
        COPY t FROM STDIN;\n3\tthree\n\\.\n\
        COPY t FROM STDIN;\nx\ty\n\\.\n\
        SELECT count(*) FROM t;\nSELECT oops;";
    let run = thalweg_with_input(&["--on-error", "continue"], script);
    let shown = "CREATE TABLE\nCOPY 2\n ?column?\n-----------\n not a row\n(1 row)\n\nCOPY 1\n \
        count\n-------\n     3\n(1 row)\n\n";
    assert_eq!(run.stdout, shown);
    assert!(run.stderr.contains("invalid input syntax for type integer: \"x\""), "{run:?}");
    assert!(run.stderr.contains("<stdin>:14"), "lines are counted on: {run:?}");
}

#[test]
fn rows_are_copied_from_and_to_pipes() {
    let run = thalweg_with_input(
        &["-c", "CREATE TABLE t (a int, b text); COPY t FROM STDIN CSV", "-c", "COPY t TO STDOUT"],
        b"1,a\n2,\n",
    );
    assert_eq!(run.success(), "CREATE TABLE\nCOPY 2\n1\ta\n2\t\\N\n");
    let as_csv = "COPY (VALUES (1, 'a,b')) TO STDOUT (FORMAT csv, HEADER)";
    assert_eq!(thalweg(&["-c", as_csv]).success(), "column1,column2\n1,\"a,b\"\n");
    let cut =
        thalweg_with_input(&["-c", "CREATE TABLE t (a int); COPY t FROM STDIN"], b"1\n2\t3\n");
    assert!(cut.failure(1).contains("extra data after last expected column"));
}

#[test]
fn an_error_ends_a_script_unless_told_otherwise() {
    let script = "SELECT 1 AS a; SELECT oops; SELECT 2 AS b";
    let stopped = thalweg(&["--format", "csv", "-c", script]);
    assert_eq!((stopped.code, stopped.stdout.as_str()), (1, "a\n1\n"));
    let continued = thalweg(&["--format", "csv", "--on-error", "continue", "-c", script]);
    assert_eq!((continued.code, continued.stdout.as_str()), (1, "a\n1\nb\n2\n"));
    let next_source = thalweg(&["--format", "csv", "-c", "SELECT oops", "-c", "SELECT 1"]);
    assert_eq!((next_source.code, next_source.stdout.as_str()), (1, ""));
}

#[test]
fn one_transaction_is_all_or_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let on_data = |arguments: &[&str]| {
        thalweg(&[&["--data", text(&data), "--format", "csv"], arguments].concat())
    };
    on_data(&["-c", "CREATE TABLE t (a int)"]).success();
    on_data(&["-1", "-c", "INSERT INTO t VALUES (1); SELECT oops"]).failure(1);
    assert_eq!(on_data(&["-c", "SELECT count(*) AS n FROM t"]).success(), "n\n0\n");
    on_data(&["-1", "-c", "INSERT INTO t VALUES (1)", "-c", "INSERT INTO t VALUES (2)"]).success();
    assert_eq!(on_data(&["-c", "SELECT count(*) AS n FROM t"]).success(), "n\n2\n");
}

#[test]
fn scripts_include_scripts_but_not_for_ever() {
    let directory = tempfile::tempdir().unwrap();
    let (outer, inner) = (directory.path().join("outer.sql"), directory.path().join("inner.sql"));
    write(&outer, format!("\\i '{}'\nSELECT 2 AS b;", text(&inner)));
    write(&inner, "SELECT 1 AS a;\n");
    assert_eq!(thalweg(&["--format", "csv", "-f", text(&outer)]).success(), "a\n1\nb\n2\n");
    write(&inner, format!("\\i '{}'\n", text(&outer)));
    let error_text = thalweg(&["-f", text(&outer)]).failure(1);
    assert_eq!(error_text, "ERROR:  scripts include scripts 32 deep\n");
}

#[test]
fn what_is_no_text_is_refused_with_its_place() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("bad.sql");
    for (content, bytes) in [(&b"SELECT 1;\nSELECT '\xff\xfe';"[..], "0xff"), (b"\n\0", "0x00")] {
        write(&file, content);
        let error_text = thalweg(&["-q", "-f", text(&file)]).failure(1);
        let expected =
            format!(":2: ERROR:  invalid byte sequence for encoding \"UTF8\": {bytes}\n");
        assert!(error_text.contains(&expected), "{error_text}");
    }
}

#[test]
fn a_missing_script_is_told() {
    let error_text = thalweg(&["-f", "/nonexistent/script.sql"]).failure(1);
    assert!(
        error_text.starts_with("ERROR:  could not open \"/nonexistent/script.sql\": "),
        "{error_text}"
    );
}

#[test]
fn echo_shows_what_runs() {
    let run = thalweg(&["--echo", "-q", "-c", "SELECT 1 AS a -- one\n; CREATE TABLE t (b int)"]);
    assert_eq!(run.success(), "SELECT 1 AS a;\n a\n---\n 1\n(1 row)\n\nCREATE TABLE t (b int);\n");
}

#[test]
fn results_may_go_to_files() {
    let directory = tempfile::tempdir().unwrap();
    let (one, two) = (directory.path().join("one.csv"), directory.path().join("two.csv"));
    let script =
        format!("SELECT 1 AS a;\n\\o '{}'\nSELECT 2 AS b;\n\\o\nSELECT 3 AS c", text(&two));
    let run = thalweg(&["--format", "csv", "--output", text(&one), "-c", &script]);
    assert_eq!(run.success(), "c\n3\n");
    assert_eq!(crate::run::read(&one), b"a\n1\n");
    assert_eq!(crate::run::read(&two), b"b\n2\n");
    let error_text = thalweg(&["--output", "/nonexistent/x", "-c", "SELECT 1"]).failure(2);
    assert!(error_text.starts_with("ERROR:  could not open \"/nonexistent/x\": "), "{error_text}");
}

#[test]
fn a_reader_that_leaves_early_is_no_fault() {
    for format in ["table", "csv", "arrow"] {
        let query = "SELECT * FROM generate_series(1, 10000000)";
        let mut run = command(&["--format", format, "-c", query]);
        let mut child =
            run.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{format}");
        assert_eq!(output.status.code(), Some(141), "{format}");
    }
}

#[test]
fn variables_stand_for_texts_of_statements() {
    let script = b"\\set t 'flights'\n\\set n 2\n\\set s it '''' s\n\
        CREATE TABLE :t (a int);\nINSERT INTO :\"t\" VALUES (:n), (:n + 1);\n\
        SELECT sum(a)::text AS sum, :'s' AS s, ':n' AS n FROM :t;\n\\echo :t :'t'\n\\set\n\
        \\unset n\nSELECT :n;\n";
    let run = thalweg_with_input(&["--format", "csv"], script);
    assert_eq!((run.code, run.stdout.as_str()), (1, "sum,s,n\n5,it's,:n\n"), "{run:?}");
    for line in ["flights 'flights'\n", "n = '2'\n", "s = 'it's'\n", "t = 'flights'\n"] {
        assert!(run.stderr.contains(line), "{run:?}");
    }
    assert!(run.stderr.contains("there is no parameter :n"), "{run:?}");
    let stops = b"\\set ON_ERROR_STOP off\nSELECT oops;\nSELECT 1 AS a;\n\\set ON_ERROR_STOP on\n\
        SELECT oops;\nSELECT 2 AS b;\n";
    assert_eq!(thalweg_with_input(&["--format", "csv"], stops).stdout, "a\n1\n");
    let refused = thalweg_with_input(&[], b"\\set a-b 1\n").failure(1);
    assert!(refused.contains("invalid variable name: \"a-b\""), "{refused}");
    assert!(thalweg_with_input(&[], b"\\set AUTOCOMMIT off\n").failure(1).contains("AUTOCOMMIT"));
}

#[test]
fn roles_indexes_and_functions_are_listed() {
    let script = b"CREATE ROLE bob NOLOGIN; CREATE ROLE eve LOGIN CREATEDB; GRANT bob TO eve;\n\
        CREATE TABLE t (a int PRIMARY KEY, b text); CREATE INDEX t_b ON t (b);\n\
        \\pset format csv\n\\du\n\\du b*\n\\di\n\\di *_b\n\\df date_bi*\n\\df\n";
    let run = thalweg_with_input(&["-q"], script);
    let (code, shown) = (run.code, run.stdout.as_str());
    assert_eq!(code, 0, "{run:?}");
    for line in [
        "bob,Cannot login,{}\n",
        "eve,Create DB,{bob}\n",
        "public,t_b,index,thalweg,t\npublic,t_pkey,index,thalweg,t\n",
        "Schema,Name,Type,Owner,Table\npublic,t_b,index,thalweg,t\nSchema,",
        "pg_catalog,date_bin,timestamp with time zone,",
    ] {
        assert!(shown.contains(line), "{line}\n{shown}");
    }
    let last = "Schema,Name,Result data type,Argument data types,Type\n";
    assert!(shown.ends_with(last), "the system's functions are listed for a pattern only: {shown}");
}

#[test]
fn a_query_is_watched_until_it_has_run_often_enough() {
    let script =
        b"CREATE TABLE t (a int);\nINSERT INTO t SELECT count(*) FROM t \\watch 0.01 c=3\n\
        SELECT a FROM t ORDER BY a;\nSELECT 7 AS n;\n\\watch c=2 i=0.01\n\
        SELECT oops \\watch 0.01\n";
    let run = thalweg_with_input(&["-q", "--format", "csv"], script);
    assert_eq!((run.code, run.stdout.as_str()), (1, "a\n0\n1\n2\nn\n7\nn\n7\nn\n7\n"), "{run:?}");
    assert_eq!(run.stderr.matches("(every 0.01s)").count(), 6, "{run:?}");
    for (line, error_text) in [
        ("\\watch", "empty query"),
        ("SELECT 1 \\watch x", "incorrect interval value \"x\""),
        ("SELECT 1 \\watch c=0", "incorrect iteration count value \"0\""),
    ] {
        let failed = thalweg_with_input(&["-q"], format!("{line}\n").as_bytes()).failure(1);
        assert!(failed.contains(error_text), "{failed}");
    }
}

#[test]
fn commands_of_the_system_run() {
    let run = thalweg_with_input(
        &["--format", "csv"],
        b"SELECT 1 AS a;\n\\! echo 'two;  words' ;\nSELECT 2 AS b;\n\\!exit 3\n\
        \\! no_such_command_x\n",
    );
    assert_eq!((run.code, run.stdout.as_str()), (1, "a\n1\ntwo;  words\nb\n2\n"), "{run:?}");
    assert!(run.stderr.contains("no_such_command_x"), "{run:?}");
}
