//! Fuzz targets for statements, and for repeated forms of the grammar; see [`super::TARGETS`].

use thalweg_dialect::parse::parse;
use thalweg_formats::text::{JsonParts, json_parts, jsonb};
use thalweg_values::sql_parts::parse_type;

/// Maximum number of repetitions of a form. `crates/query/tests/depth.rs` repeats forms 200,000
/// times.
const REPEATED_MAX: usize = 260;

/// The grammar's ways to nest: a beginning, the repeated form, the innermost part, and the text
/// that closes each repetition.
const FORMS: [[&str; 4]; 40] = [
    ["SELECT ", "(", "1", ")"],
    ["SELECT ", "(SELECT ", "1", ")"],
    ["", "(SELECT ", "1", ")"],
    ["SELECT ", "ARRAY[", "1", "]"],
    ["SELECT ", "ROW(", "1", ")"],
    ["SELECT ", "abs(", "1", ")"],
    ["SELECT ", "CASE WHEN true THEN ", "1", " END"],
    ["SELECT ", "CASE ", "1", " WHEN 1 THEN 1 END"],
    ["SELECT ", "EXISTS (SELECT ", "1", ")"],
    ["SELECT ", "1 IN (SELECT ", "1", ")"],
    ["SELECT ", "NOT ", "true", ""],
    ["SELECT ", "- ", "1", ""],
    ["SELECT ", "~ ", "1", ""],
    ["SELECT ", "INTERVAL ", "'1'", ""],
    ["SELECT ", "DATE ", "'1'", ""],
    ["SELECT ", "CAST(", "1", " AS int)"],
    ["SELECT ", "sum(", "1", ") OVER ()"],
    ["SELECT ", "1 BETWEEN ", "1", " AND 2"],
    ["SELECT 1", "::int", "", ""],
    ["SELECT NULL::int", "[]", "", ""],
    ["SELECT '{1}'::int[]", "[1]", "", ""],
    ["SELECT a", "[1:2]", "", ""],
    ["SELECT 1", " NOTNULL", "", ""],
    ["SELECT 1", " ISNULL", "", ""],
    ["SELECT 1", " IS NOT NULL", "", ""],
    ["SELECT 1", " IS DISTINCT FROM 1", "", ""],
    ["SELECT 1", " * from", "", ""],
    ["SELECT 'a'", " || set", "", ""],
    ["SELECT 'a'", " || string_agg(a, '') WITHIN GROUP (ORDER BY 1)", "", ""],
    ["SELECT 'a'", " COLLATE \"C\"", "", ""],
    ["SELECT now()", " AT TIME ZONE 'UTC'", "", ""],
    ["SELECT '{}'::jsonb", " -> 'a'", "", ""],
    ["SELECT true", " AND a", "", ""],
    ["SELECT 1", " UNION SELECT 1", "", ""],
    ["SELECT 1 FROM a", " JOIN b ON true", "", ""],
    ["SELECT 1 FROM a", ", LATERAL (SELECT 1) b", "", ""],
    ["WITH a AS (SELECT 1)", ", b AS (TABLE a)", " SELECT 1", ""],
    ["", "EXPLAIN ", "SELECT 1", ""],
    ["", "WITH a AS (", "SELECT 1", ") SELECT 1"],
    ["ALTER TABLE t ALTER a SET DEFAULT ", "(", "1", ")"],
];

/// Parses the text as statements and as a JSON value.
pub(super) fn statements(bytes: &[u8]) -> usize {
    let Ok(text) = str::from_utf8(bytes) else { return 0 };
    let parsed = parse(text);
    let shown = parsed.iter().flatten().map(|parsed| parsed.statement.to_string());
    shown.filter(|shown| !shown.is_empty()).count() + json(text)
}

pub(super) fn statement_seeds() -> Vec<Vec<u8>> {
    let whole = [
        "SELECT a, count(*) FILTER (WHERE b > 1) FROM t JOIN u USING (a) WHERE a IN (1) GROUP BY 1",
        "INSERT INTO t VALUES (1, NULL) ON CONFLICT (a) DO UPDATE SET b = excluded.b RETURNING *",
        "CREATE TABLE t (a bigint PRIMARY KEY, b numeric(10, 2)[] DEFAULT '{1}', CHECK (a > 0))",
        "COPY t (a, b) FROM STDIN (FORMAT csv, HEADER)",
        "EXPLAIN (ANALYZE, FORMAT json) WITH a AS (SELECT 1) TABLE a",
        "[{\"a\": [1, 2.5e3, null]}, \"\\u0041\", true]",
    ];
    whole.iter().map(|text| text.as_bytes().to_vec()).chain(FORMS.iter().map(once)).collect()
}

/// A form of [`FORMS`], not repeated: some forms are not valid inside themselves.
fn once([begin, form, end, close]: &[&str; 4]) -> Vec<u8> {
    format!("{begin}{form}{end}{close}").into_bytes()
}

/// Nests forms inside each other: each pair of bytes selects a form and its number of repetitions.
/// A rejected text is also nested as a type and as a JSON value, whose parsers recurse on their
/// own.
pub(super) fn depths(bytes: &[u8]) -> usize {
    let (mut open, mut close) = (String::new(), Vec::new());
    let mut middle = "";
    for (position, pair) in bytes.chunks_exact(2).take(4).enumerate() {
        let [begin, form, end, closing] = FORMS[usize::from(pair[0]) % FORMS.len()];
        let times = (1_usize << (pair[1] % 12)).min(REPEATED_MAX);
        if position == 0 {
            open.push_str(begin);
        }
        open.push_str(&form.repeat(times));
        close.push(closing.repeat(times));
        middle = end;
    }
    let closed: String = close.into_iter().rev().collect();
    let text = format!("{open}{middle}{closed}");
    let refused_clearly = |state: &str| {
        ["22", "42"].iter().any(|class| state.starts_with(class))
            || state == "54001"
            || state == "0A000"
    };
    match parse(&text) {
        Ok(statements) => 1 + statements.len(),
        Err(error) => {
            assert!(refused_clearly(error.state().0), "{error:?}");
            let times = text.len().min(REPEATED_MAX);
            let _ = parse_type(&format!("int{}", "[]".repeat(times)));
            1 + json(&format!("{}1{}", "[".repeat(times), "]".repeat(times)))
        }
    }
}

pub(super) fn depth_seeds() -> Vec<Vec<u8>> {
    (0..FORMS.len()).map(|form| vec![form as u8, 11]).collect()
}

fn json(text: &str) -> usize {
    let Ok(value) = jsonb(text) else { return 0 };
    assert_eq!(jsonb(&value).ok().as_deref(), Some(value.as_str()), "a text has one form");
    match json_parts(&value) {
        Ok(JsonParts::Array(items)) => items.len(),
        Ok(JsonParts::Object(members)) => members.len(),
        Ok(JsonParts::Scalar) | Err(_) => 1,
    }
}
