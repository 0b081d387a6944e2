//! The shape of a text: the text without the values of its literals.

use std::ops::Range;

/// Texts longer than this, in bytes, come from programs that generate a shape of their own each
/// time.
const TEXT_MAX: usize = 4 << 10;

/// The greatest number of literals in a shape.
const LITERALS_MAX: usize = 64;

/// Stands for a number in a shape. No text with this character has a shape.
const NUMBER: char = '\u{1}';
/// Stands for a string in a shape. No text with this character has a shape.
const STRING: char = '\u{2}';

/// A text of one statement, split into its shape and its literals.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    /// The text with [`NUMBER`] or [`STRING`] in place of each literal, without a semicolon and
    /// blanks at its end.
    pub(crate) text: String,
    /// The literals in their order in the text.
    pub(crate) literals: Vec<Literal>,
    /// The bytes of the statement in the text, without a semicolon and blanks around it.
    pub(crate) place: Range<usize>,
}

/// A literal of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Literal {
    pub(crate) value: LiteralValue,
    /// Its bytes in the text, with the quotes.
    pub(crate) place: Range<usize>,
}

/// A literal that is a parameter of a shape's statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Parameter {
    /// Its place in [`Shape::literals`].
    pub(crate) literal: usize,
    /// True if the minus before it belongs to its value.
    pub(crate) is_negated: bool,
    /// True if it is added to a column or subtracted from one.
    pub(crate) is_operand: bool,
}

/// The value of a literal.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum LiteralValue {
    /// Digits alone, at most those of a `bigint`.
    Integer(i64),
    /// A string in single quotes, without them.
    String(String),
}

impl Shape {
    /// The shape of a text that reads or changes rows with one statement. `None` for other texts,
    /// and for those with comments, parameters, or strings in other notations than `'…'`.
    pub(crate) fn of(sql: &str) -> Option<Shape> {
        let end = sql.trim_ascii_end();
        let end = end.strip_suffix(';').unwrap_or(end).trim_ascii_end();
        let statement = end.trim_ascii_start();
        let is_about_rows = ["select", "insert", "update", "delete"].iter().any(|word| {
            let start = statement.get(..word.len());
            start.is_some_and(|start| start.eq_ignore_ascii_case(word))
        });
        if statement.len() > TEXT_MAX || !is_about_rows {
            return None;
        }
        Reader { sql: end, at: end.len() - statement.len() }.read()
    }

    /// The text of a statement in which some literals are the parameters `$1`, `$2` and so on.
    pub(crate) fn with_parameters(&self, sql: &str, parameters: &[Parameter]) -> String {
        let mut text = String::with_capacity(sql.len());
        let mut end = self.place.start;
        for (number, parameter) in parameters.iter().enumerate() {
            let place = &self.literals[parameter.literal].place;
            let before = &sql[end..place.start];
            let minus = before.rfind('-').filter(|_| parameter.is_negated);
            text.push_str(&before[..minus.unwrap_or(before.len())]);
            // Blanks keep a keyword before a string apart, as in `LIKE'a'`.
            text.push_str(&format!(" ${} ", number + 1));
            end = place.end;
        }
        text.push_str(&sql[end..self.place.end]);
        text
    }
}

struct Reader<'a> {
    sql: &'a str,
    at: usize,
}

impl Reader<'_> {
    fn read(mut self) -> Option<Shape> {
        let bytes = self.sql.as_bytes();
        let (text, place) = (String::with_capacity(bytes.len()), self.at..bytes.len());
        // Where the text begins that was not copied yet.
        let mut copied = place.start;
        let mut shape = Shape { text, literals: Vec::new(), place };
        while let Some(&byte) = bytes.get(self.at) {
            let start = self.at;
            let value = match byte {
                b'\'' => Some(LiteralValue::String(self.string()?)),
                b'0'..=b'9' => self.number(),
                b'"' => {
                    self.quoted(b'"')?;
                    None
                }
                byte if is_of_word(byte) => {
                    self.word()?;
                    None
                }
                // Comments, parameters and strings in dollars, a second statement.
                b'-' if bytes.get(start + 1) == Some(&b'-') => return None,
                b'/' if bytes.get(start + 1) == Some(&b'*') => return None,
                b'$' | b';' | b'\\' | ..b'\t' | 0x7f => return None,
                _ => {
                    self.at += 1;
                    None
                }
            };
            let Some(value) = value else { continue };
            if shape.literals.len() == LITERALS_MAX {
                return None;
            }
            shape.text.push_str(&self.sql[copied..start]);
            shape.text.push(if matches!(value, LiteralValue::String(_)) { STRING } else { NUMBER });
            copied = self.at;
            shape.literals.push(Literal { value, place: start..self.at });
        }
        shape.text.push_str(&self.sql[copied..]);
        Some(shape)
    }

    /// Reads a string in single quotes. `None` if its end is missing, or if another string follows:
    /// both are one over a line break.
    fn string(&mut self) -> Option<String> {
        let start = self.at + 1;
        self.quoted(b'\'')?;
        let rest = self.sql[self.at..].trim_ascii_start();
        let within = &self.sql[start..self.at - 1];
        (!rest.starts_with('\'')).then(|| within.replace("''", "'"))
    }

    /// Reads up to the quote that is not doubled; `None` if there is none.
    fn quoted(&mut self, quote: u8) -> Option<()> {
        let bytes = self.sql.as_bytes();
        self.at += 1;
        loop {
            let length = bytes[self.at..].iter().position(|&byte| byte == quote)?;
            self.at += length + 1;
            if bytes.get(self.at) != Some(&quote) {
                return Some(());
            }
            self.at += 1;
        }
    }

    /// Reads digits. `None` if they are a part of something else, such as `1.5`, `1e3` or `a.1`:
    /// its text then belongs to the shape.
    fn number(&mut self) -> Option<LiteralValue> {
        let bytes = self.sql.as_bytes();
        let start = self.at;
        let is_part = |byte: &u8| is_of_word(*byte) || *byte == b'.';
        let length = bytes[start..].iter().position(|byte| !is_part(byte));
        self.at = length.map_or(bytes.len(), |length| start + length);
        let follows_point = start > 0 && bytes[start - 1] == b'.';
        let digits = &self.sql[start..self.at];
        let is_integer = !follows_point && digits.bytes().all(|byte| byte.is_ascii_digit());
        let integer = is_integer.then(|| digits.parse().ok()).flatten();
        integer.map(LiteralValue::Integer)
    }

    /// Reads a word. `None` if it is the beginning of a string in another notation, as `E'…'`.
    fn word(&mut self) -> Option<()> {
        let bytes = self.sql.as_bytes();
        let start = self.at;
        let length = bytes[start..].iter().position(|byte| !is_of_word(*byte));
        self.at = length.map_or(bytes.len(), |length| start + length);
        let is_notation = ["e", "b", "x", "n", "u&"].iter().any(|notation| {
            let end = start + notation.len();
            self.sql.get(start..end).is_some_and(|word| word.eq_ignore_ascii_case(notation))
                && matches!(bytes.get(end), Some(b'\'' | b'"'))
        });
        (!is_notation).then_some(())
    }
}

/// True for the bytes of names, keywords and numbers. A `$` within a name is one of them; at the
/// beginning the caller has refused it.
fn is_of_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(sql: &str) -> Option<(String, Vec<String>)> {
        let shape = Shape::of(sql)?;
        let literals = shape.literals.iter().map(|literal| sql[literal.place.clone()].to_owned());
        let text = shape.text.replace(NUMBER, "#").replace(STRING, "@");
        Some((text, literals.collect()))
    }

    #[test]
    fn literals_are_found_and_nothing_else() {
        for (sql, text, literals) in [
            ("SELECT a FROM t WHERE b = 5;", "SELECT a FROM t WHERE b = #", vec!["5"]),
            ("select 1,'a',t1.c2 from t1", "select #,@,t1.c2 from t1", vec!["1", "'a'"]),
            ("SELECT 'it''s', '' ", "SELECT @, @", vec!["'it''s'", "''"]),
            (
                "SELECT 1.5, 1e3, .5, 1., 0x1F, 1_000",
                "SELECT 1.5, 1e3, .5, 1., 0x1F, 1_000",
                vec![],
            ),
            ("SELECT \"a'1\", -7, a-7", "SELECT \"a'1\", -#, a-#", vec!["7", "7"]),
            ("SELECT 99999999999999999999", "SELECT 99999999999999999999", vec![]),
            ("SELECT 'ä;--', ä1", "SELECT @, ä1", vec!["'ä;--'"]),
            (
                "DELETE FROM t WHERE a='x'AND b=2",
                "DELETE FROM t WHERE a=@AND b=#",
                vec!["'x'", "2"],
            ),
            ("SELECT DATE'2024-01-01'", "SELECT DATE@", vec!["'2024-01-01'"]),
        ] {
            let literals = literals.into_iter().map(str::to_owned).collect();
            assert_eq!(of(sql), Some((text.to_owned(), literals)), "{sql}");
        }
    }

    #[test]
    fn other_texts_have_no_shape() {
        for sql in [
            "",
            ";",
            "CREATE TABLE t (a int)",
            "WITH a AS (SELECT 1) SELECT * FROM a",
            "BEGIN",
            "SELECT $1",
            "SELECT $$a$$",
            "SELECT 1; SELECT 2",
            "SELECT 1 -- a",
            "SELECT /* a */ 1",
            "SELECT E'a'",
            "SELECT b'1'",
            "SELECT X'1F'",
            "SELECT N'a'",
            "SELECT U&'a'",
            "SELECT U&\"a\"",
            "SELECT 'a'\n'b'",
            "SELECT 'a",
            "SELECT \"a",
            "SELECT \u{1}",
            "SELECT \u{2}",
            "SELECT a \\ b",
        ] {
            assert_eq!(of(sql), None, "{sql}");
        }
        assert_eq!(of(&format!("SELECT '{}'", "a".repeat(TEXT_MAX))), None);
        assert_eq!(of(&format!("SELECT {}", "1,".repeat(LITERALS_MAX + 1))), None);
    }

    #[test]
    fn parameters_stand_in_place_of_literals() {
        let sql = "\n SELECT a FROM t WHERE b=5 AND c LIKE'x'AND d = - 7 LIMIT 3 ; ";
        let shape = Shape::of(sql).unwrap();
        let text = "SELECT a FROM t WHERE b= $1  AND c LIKE'x'AND d =  $2  LIMIT 3";
        let parameter = |literal, is_negated| Parameter { literal, is_negated, is_operand: false };
        let parameters = [parameter(0, false), parameter(2, true)];
        assert_eq!(shape.with_parameters(sql, &parameters), text);
    }
}
