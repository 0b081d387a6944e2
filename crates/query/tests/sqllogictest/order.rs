//! In which order rows come, as far as the text of their query tells it.
//!
//! Rows with the same keys may change places. So only the columns that are keys are compared, and
//! of these the ones that the query selects.

use std::collections::BTreeMap;

use sqllogictest::{DefaultColumnType, QueryExpect, Record, RecordOutput};

/// What comes behind the columns that a query selects, and behind the keys of its order.
const BEHIND_COLUMNS: [&str; 8] =
    ["from", "where", "group", "having", "window", "union", "intersect", "except"];
const BEHIND_KEYS: [&str; 4] = ["limit", "offset", "fetch", "for"];

/// Statements that have rows begin with one of the first. With one of the second in them, their
/// last order need not be that of their rows.
const QUERIES: [&str; 4] = ["select", "with", "values", "table"];
const NO_QUERIES: [&str; 6] = [";", "insert", "update", "delete", "merge", "into"];

/// The order in which a record expects its rows.
pub struct Order {
    about: String,
    /// The columns that are keys, by their places.
    keys: Vec<usize>,
    rows: Vec<String>,
}

impl Order {
    /// `None` where the record has none, or sorts its rows itself.
    pub fn of(record: &Record<DefaultColumnType>) -> Option<Order> {
        let Record::Query { loc, sql, expected, .. } = record else { return None };
        let QueryExpect::Results { sort_mode: None, results, .. } = expected else { return None };
        let keys = keys_of(sql);
        if keys.is_empty() {
            return None;
        }
        Some(Order { about: format!("{sql}\nat {loc}"), keys, rows: results.clone() })
    }

    /// What to say against rows that are those of the record, where their order is another one.
    pub fn broken_by(&self, output: &RecordOutput<DefaultColumnType>) -> Option<String> {
        let Order { about, keys, rows: expected } = self;
        let RecordOutput::Query { rows, .. } = output else { return None };
        if has_order(keys, rows, expected) {
            return None;
        }
        let rows: Vec<String> = rows.iter().map(|row| row.join(" ")).collect();
        let (rows, expected) = (rows.join("\n"), expected.join("\n"));
        Some(format!("rows in another order:\n{rows}\nand not\n{expected}\n[SQL] {about}"))
    }
}

/// The values of a row that order it.
fn key_of<'a>(keys: &[usize], row: &'a [String]) -> Vec<Option<&'a String>> {
    keys.iter().map(|key| row.get(*key)).collect()
}

/// Whether rows come in the order of the same rows in a file, as far as some columns tell it.
fn has_order(keys: &[usize], rows: &[Vec<String>], expected: &[String]) -> bool {
    let mut of_lines = BTreeMap::new();
    for row in rows {
        let key = key_of(keys, row);
        let other = of_lines.insert(row.join(" "), key.clone());
        // Where values have spaces in them, different rows may be the same line.
        if other.is_some_and(|other| other != key) {
            return true;
        }
    }
    let expected = expected.iter().map(|line| of_lines.get(line));
    rows.iter().zip(expected).all(|(row, key)| key.is_none_or(|key| *key == key_of(keys, row)))
}

/// The columns that the rows of a query are ordered by, by their places: those of its keys up to
/// the first that is no column for certain.
fn keys_of(sql: &str) -> Vec<usize> {
    let tokens = tokens(sql);
    let mut tokens: Vec<&str> = tokens.iter().map(String::as_str).collect();
    while tokens.last() == Some(&";") {
        tokens.pop();
    }
    let begins = tokens.first().is_some_and(|first| QUERIES.contains(first) || is_open(first));
    let is_other = tokens.iter().any(|token| NO_QUERIES.contains(token));
    // Such a quote ends a text or does not, which depends on what kind of text it is.
    let is_certain = begins && !is_other && !sql.contains(r"\'");
    let order = tokens.windows(2).rposition(|pair| pair == ["order", "by"]);
    let Some(order) = order.filter(|_| is_certain) else { return Vec::new() };
    let (query, keys) = (&tokens[..order], &tokens[order + 2..]);
    let end = keys.iter().position(|token| BEHIND_KEYS.contains(token)).unwrap_or(keys.len());
    let columns = columns_of(query);
    keys[..end].split(|token| *token == ",").map_while(|key| place_of(key, &columns)).collect()
}

/// What a query selects, up to where one item may be several columns.
fn columns_of<'a, 'b>(query: &'b [&'a str]) -> Vec<&'b [&'a str]> {
    // What is in brackets is one token.
    let select = query.iter().position(|token| *token == "select");
    let Some(select) = select.filter(|_| !is_open(query[0])) else { return Vec::new() };
    let mut list = &query[select + 1..];
    if let ["distinct" | "all", rest @ ..] = list {
        list = rest;
    }
    if let ["on", _, rest @ ..] = list {
        list = rest;
    }
    let is_compared = |place: usize| place > 0 && list[place - 1] == "distinct";
    let is_end = |place: &usize| BEHIND_COLUMNS.contains(&list[*place]) && !is_compared(*place);
    let end = (0..list.len()).find(is_end).unwrap_or(list.len());
    let columns = list[..end].split(|token| *token == ",");
    columns.take_while(|column| column.last() != Some(&"*")).collect()
}

/// Which of the columns a key is; `None` where that is not certain.
fn place_of(key: &[&str], columns: &[&[&str]]) -> Option<usize> {
    let key = without_direction(key);
    if let [name] = key {
        if let Ok(number) = name.parse::<usize>() {
            return number.checked_sub(1);
        }
        if columns.iter().any(|column| name_of(column) == Some(*name)) {
            return only(columns, |column| name_of(column) == Some(*name));
        }
        // It may be called after the column or function in it, or without the word `AS`.
        let may_be = |column: &&[&str]| {
            let ends = column.first() == Some(name) || column.last() == Some(name);
            ends && name_of(column).is_none()
        };
        if columns.iter().any(may_be) {
            return None;
        }
    }
    only(columns, |column| value_of(column) == key)
}

fn without_direction<'a, 'b>(key: &'b [&'a str]) -> &'b [&'a str] {
    let key = match key {
        [key @ .., "nulls", _] => key,
        _ => key,
    };
    match key {
        [key @ .., "asc" | "desc"] => key,
        _ => key,
    }
}

/// The place of the one column of which something is true, unless it is of several.
fn only(columns: &[&[&str]], is_it: impl Fn(&[&str]) -> bool) -> Option<usize> {
    let mut places = (0..columns.len()).filter(|place| is_it(columns[*place]));
    let place = places.next()?;
    places.next().is_none().then_some(place)
}

/// What a column is called, where that is certain.
fn name_of<'a>(column: &[&'a str]) -> Option<&'a str> {
    match column {
        [.., "as", name] | [name] | [_, ".", name] => Some(*name),
        _ => None,
    }
}

fn value_of<'a, 'b>(column: &'b [&'a str]) -> &'b [&'a str] {
    match column {
        [value @ .., "as", _] => value,
        _ => column,
    }
}

/// The words and signs of a statement without its comments. What is in quotes or brackets is one,
/// as it is written; other words have small letters.
fn tokens(sql: &str) -> Vec<String> {
    let (mut tokens, mut rest) = (Vec::new(), sql.trim_start());
    while !rest.is_empty() {
        let (token, behind) = rest.split_at(token_length(rest));
        if token.starts_with(is_of_word) {
            tokens.push(token.to_lowercase());
        } else if !token.starts_with("--") && !token.starts_with("/*") {
            tokens.push(token.to_owned());
        }
        rest = behind.trim_start();
    }
    tokens
}

fn is_of_word(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

fn is_open(token: &str) -> bool {
    token.starts_with(['(', '['])
}

/// How long the token is that a text begins with.
fn token_length(text: &str) -> usize {
    let through = |start: usize, end: &str| {
        text[start..].find(end).map_or(text.len(), |place| start + place + end.len())
    };
    match text.as_bytes() {
        [b'\'', ..] => through(1, "'"),
        [b'"', ..] => through(1, "\""),
        [b'-', b'-', ..] => through(2, "\n"),
        [b'/', b'*', ..] => through(2, "*/"),
        [b'$', b'$', ..] => through(2, "$$"),
        _ if is_open(text) => bracketed_length(text),
        _ if text.starts_with(is_of_word) => {
            text.find(|letter: char| !is_of_word(letter)).unwrap_or(text.len())
        }
        _ => text.chars().next().map_or(0, char::len_utf8),
    }
}

fn bracketed_length(text: &str) -> usize {
    let mut length = 1;
    while length < text.len() && !text[length..].starts_with([')', ']']) {
        length += token_length(&text[length..]);
    }
    text.len().min(length + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_places_of_columns() {
        for (sql, keys) in [
            ("SELECT a, b, c FROM t ORDER BY b, c DESC, a NULLS FIRST", vec![1, 2, 0]),
            ("SELECT * FROM t ORDER BY 2, 1 LIMIT 3", vec![1, 0]),
            ("select x.a, y.a as b from x, y order by x.a, y.a offset 1", vec![0, 1]),
            ("SELECT -a AS a, a AS b FROM t ORDER BY a", vec![0]),
            ("SELECT k, count(*) FROM t GROUP BY k ORDER BY COUNT(*) DESC, k;", vec![1, 0]),
            ("SELECT DISTINCT ON (a, b) a, 'from, ' || b AS b FROM t ORDER BY a, b", vec![0, 1]),
            ("SELECT a IS DISTINCT FROM b AS c, d FROM t ORDER BY d, c", vec![1, 0]),
            ("WITH w AS (SELECT 1 AS n ORDER BY n) SELECT m, n FROM w ORDER BY n", vec![1]),
            ("SELECT a FROM t UNION SELECT b FROM u -- all\nORDER BY a", vec![0]),
            ("(SELECT 1) UNION (SELECT 2) ORDER BY 1", vec![0]),
            ("VALUES (2, 'ORDER BY'), (1, '(') ORDER BY 2", vec![1]),
        ] {
            assert_eq!(keys_of(sql), keys, "{sql}");
        }
    }

    #[test]
    fn keys_that_are_no_column_for_certain_end_them() {
        for (sql, keys) in [
            ("SELECT a, b FROM t ORDER BY b, a + 1, a", vec![1]),
            ("SELECT a, * FROM t ORDER BY a, b", vec![0]),
            ("SELECT a, a FROM t ORDER BY a", vec![]),
            ("SELECT a::text, a AS b FROM t ORDER BY a", vec![]),
            ("SELECT max(a) b, b AS c FROM t GROUP BY b ORDER BY b", vec![]),
            ("SELECT * FROM t ORDER BY a", vec![]),
            ("SELECT rank() OVER (ORDER BY a), a FROM t", vec![]),
            ("SELECT a FROM (SELECT a FROM t ORDER BY a) AS x", vec![]),
            ("INSERT INTO t SELECT a FROM u ORDER BY a RETURNING a", vec![]),
            ("EXPLAIN SELECT a FROM t ORDER BY a", vec![]),
            ("SELECT a FROM t ORDER BY a; SELECT a FROM t", vec![]),
            (r"SELECT a, E'\' ORDER BY 1", vec![]),
        ] {
            assert_eq!(keys_of(sql), keys, "{sql}");
        }
    }

    fn rows(rows: &[[&str; 2]]) -> Vec<Vec<String>> {
        rows.iter().map(|row| row.map(str::to_owned).to_vec()).collect()
    }

    #[test]
    fn only_rows_with_the_same_keys_change_places() {
        let expected = ["1 a", "1 b", "2 a"].map(str::to_owned);
        let swapped = rows(&[["1", "b"], ["1", "a"], ["2", "a"]]);
        assert!(has_order(&[0], &swapped, &expected));
        assert!(!has_order(&[0, 1], &swapped, &expected));
        let wrong = rows(&[["2", "a"], ["1", "a"], ["1", "b"]]);
        assert!(!has_order(&[0], &wrong, &expected));
        assert!(has_order(&[], &wrong, &expected));
        // Lines do not tell these rows apart.
        let alike = rows(&[["x y", "z"], ["x", "y z"]]);
        assert!(has_order(&[0], &alike, &["x y z", "x y z"].map(str::to_owned)));
    }
}
