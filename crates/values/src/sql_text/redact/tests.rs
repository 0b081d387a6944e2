use super::*;

/// A password of two words: a part of it is one too many.
const SECRET: &str = "hunter2 correcthorse";

#[test]
fn passwords_are_concealed_and_nothing_else() {
    for (written, shown) in [
        ("CREATE USER ann PASSWORD 'it''s'", "CREATE USER ann PASSWORD '***'"),
        (
            "ALTER ROLE ann\nENCRYPTED password E'\\x' -- ok",
            "ALTER ROLE ann\nENCRYPTED password '***'  ",
        ),
        (
            "SELECT 'a'; alter user ann password $x$ü$x$; SELECT 1",
            "SELECT '***'; alter user ann password '***'; SELECT '***'",
        ),
        ("create user ann pasword 'x'", "create user ann pasword '***'"),
        ("CREATE USER ann PASSWORD 'half", "CREATE USER ann PASSWORD '***'"),
        (
            "CREATE USER ann PASSWORD NULL VALID UNTIL '2027-01-01'",
            "CREATE USER ann PASSWORD NULL VALID UNTIL '***'",
        ),
        (
            "SELECT password, name FROM users WHERE id = 3",
            "SELECT password, name FROM users WHERE id = 3",
        ),
        ("SELECT 1", "SELECT 1"),
        ("SELECT 'a' FROM t GROUP BY g", "SELECT 'a' FROM t GROUP BY g"),
        (
            "SELECT passenger_count FROM trips WHERE v = 'x'",
            "SELECT passenger_count FROM trips WHERE v = 'x'",
        ),
    ] {
        assert_eq!(without_passwords(written), shown);
    }
}

#[test]
fn a_text_without_the_words_is_not_copied() {
    assert!(matches!(without_passwords("SELECT 'a'"), Cow::Borrowed(_)));
    assert!(matches!(without_passwords("SELECT user"), Cow::Borrowed(_)));
}

/// Ways to quote a text, right and wrong; some are never closed.
fn quoted(secret: &str) -> Vec<String> {
    let forms = [
        "'{}'",
        "E'{}'",
        "e'\\'{}'",
        "U&'{}'",
        "N'{}'",
        "B'{}'",
        "\"{}\"",
        "U&\"{}\"",
        "$${}$$",
        "$x${}$x$",
        "`{}`",
        "\u{2018}{}\u{2019}",
        "\u{201c}{}\u{201d}",
        "{}",
        "'{}",
        "\"{}",
        "$${}",
        "$x${}$y$",
        "{}'",
        "''{}''",
        "'a'{}'b'",
        "'\\'{}'",
        "({})",
        "('{}')",
        "=\"{}\"",
        "{{}}",
        "/* no */ '{}'",
        "-- no\n '{}'",
        "/* '{}' */",
        "-- {}",
        "/* {}",
        "'x' '{}'",
        "'x'\n'{}'",
        "$1 -- {}",
        "SCRAM-SHA-256$4096:{}",
        "$ {}",
        "$tag {}",
    ];
    forms.iter().map(|form| form.replacen("{}", secret, 1)).collect()
}

#[test]
fn no_form_of_a_statement_shows_a_password_in_any_quotes() {
    let forms = [
        "CREATE ROLE x PASSWORD {}",
        "create user x with login password {}",
        "CREATE USER x ENCRYPTED PASSWORD {} LOGIN",
        "ALTER USER x PASSWORD {}; SELECT 1",
        "ALTER ROLE x WITH PASSWORD {} VALID UNTIL 'infinity'",
        "ALTER ROLE \"x\" PASSWORD{}",
        "ALTER ROLE \"x PASSWORD {}",
        "CREATE ROLE x' PASSWORD {}",
        "ALTER GROUP x PASSWROD {}",
        "CREATE ROEL x PASWORD {}",
        "CREATE/**/ROLE x/**/PASSWORD/**/{}",
        "EXPLAIN CREATE ROLE x PASSWORD {}",
        "SELECT 1; CREATE ROLE x PASSWORD {}",
        "SELECT 'a; CREATE ROLE x PASSWORD {}",
        "ALTER ROLE x SET password = {}",
        "CREATE ROLE x {} PASSWORD",
    ];
    for form in forms {
        for quoted in quoted(SECRET) {
            let sql = form.replacen("{}", &quoted, 1);
            // Ahead of the word, what is in no quotes of a literal is a name.
            let is_literal = ["'hunter2", "$$hunter2", "$x$hunter2", "`hunter2"];
            if form.ends_with("PASSWORD") && !is_literal.iter().any(|l| quoted.starts_with(l)) {
                continue;
            }
            let shown = without_passwords(&sql);
            for part in SECRET.split(' ') {
                assert!(!shown.contains(part), "{sql}\n{shown}");
            }
            // Cut anywhere, it shows no more.
            for (end, _) in sql.char_indices().filter(|(end, _)| *end > 24) {
                let shown = without_passwords(&sql[..end]);
                assert!(!shown.contains("hunter2"), "{}\n{shown}", &sql[..end]);
            }
        }
    }
}

#[test]
fn other_statements_show_no_literal_beside_the_word() {
    for sql in [
        "SET my.password = 'hunter2'",
        "SET my.password TO \"hunter2\"",
        "SET my.password = hunter2",
        "SELECT set_config('my.password', 'hunter2', false)",
        "SELECT login(user => 'ann', password => 'hunter2')",
        "SELECT login(password := hunter2)",
        "INSERT INTO accounts (name, password) VALUES ('ann', 'hunter2')",
        "COPY t FROM 'postgres://ann:hunter2@db/x'",
        "COPY t TO 's3://b' WITH (secret_access_key 'hunter2')",
        "CREATE SERVER s FOREIGN DATA WRAPPER w OPTIONS (host 'h', passwd 'hunter2')",
        "CREATE SUBSCRIPTION s CONNECTION 'host=h password=hunter2' PUBLICATION p",
        "SELECT dblink('host=h pwd=hunter2')",
        "PREPARE p AS SELECT 'hunter2' AS password",
    ] {
        let shown = without_passwords(sql);
        assert!(!shown.contains("hunter2"), "{shown}");
    }
}
