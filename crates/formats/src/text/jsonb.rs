//! The canonical text of a `jsonb` value: sorted members, unique keys, PostgreSQL's white space.

use super::json_depth::Nesting;
use super::parse;
use thalweg_types::Result;

/// Numbers whose exponents would need more digits than this stay as they are.
const EXPONENT_MAX: i32 = 1_000;

/// The canonical text of a JSON text.
///
/// # Errors
/// If the text is not JSON.
pub fn jsonb(text: &str) -> Result<String> {
    parse::json(text)?;
    let mut out = String::with_capacity(text.len());
    write(tree(text), &mut out);
    Ok(out)
}

/// A value of a document. Containers hold the indexes of their members in a list of all values, so
/// that neither reading nor dropping a deep document recurses.
enum Node<'t> {
    /// `true`, `false`, `null` or a number, as it was written.
    Plain(&'t str),
    Text(String),
    Array(Vec<usize>),
    Object(Vec<(String, usize)>),
}

/// All values of a text that is known to be JSON, starting with the whole document.
fn tree(text: &str) -> Vec<Node<'_>> {
    let mut reader = Reader { rest: text };
    let mut nodes: Vec<Node<'_>> = Vec::new();
    let mut open: Vec<usize> = Vec::new();
    loop {
        match reader.next() {
            b',' => _ = reader.take(1),
            b']' | b'}' => {
                reader.take(1);
                open.pop();
            }
            _ => {
                let place = nodes.len();
                match open.last().map(|outer| &mut nodes[*outer]) {
                    Some(Node::Object(members)) => members.push((reader.key(), place)),
                    Some(Node::Array(items)) => items.push(place),
                    _ => {}
                }
                let node = reader.node();
                if matches!(node, Node::Array(_) | Node::Object(_)) {
                    open.push(place);
                }
                nodes.push(node);
            }
        }
        if open.is_empty() {
            return nodes;
        }
    }
}

/// A step of writing a document.
enum Step {
    Value(usize),
    Key(String),
    Mark(&'static str),
}

fn write(mut nodes: Vec<Node<'_>>, out: &mut String) {
    let mut steps = vec![Step::Value(0)];
    while let Some(step) = steps.pop() {
        let place = match step {
            Step::Value(place) => place,
            Step::Key(key) => {
                out.push_str(&written(&key));
                out.push_str(": ");
                continue;
            }
            Step::Mark(mark) => {
                out.push_str(mark);
                continue;
            }
        };
        match std::mem::replace(&mut nodes[place], Node::Plain("")) {
            Node::Plain(text) => scalar(text, out),
            Node::Text(text) => out.push_str(&written(&text)),
            Node::Array(items) => {
                out.push('[');
                steps.push(Step::Mark("]"));
                for (position, item) in items.into_iter().enumerate().rev() {
                    steps.push(Step::Value(item));
                    if position > 0 {
                        steps.push(Step::Mark(", "));
                    }
                }
            }
            Node::Object(members) => {
                out.push('{');
                steps.push(Step::Mark("}"));
                for (position, (key, value)) in distinct(members).into_iter().enumerate().rev() {
                    steps.push(Step::Value(value));
                    steps.push(Step::Key(key));
                    if position > 0 {
                        steps.push(Step::Mark(", "));
                    }
                }
            }
        }
    }
}

/// The members of an object in `jsonb`'s order: shorter keys first. The last value of a repeated
/// key wins.
fn distinct(mut members: Vec<(String, usize)>) -> Vec<(String, usize)> {
    members.sort_by(|(left, _), (right, _)| (left.len(), left).cmp(&(right.len(), right)));
    // The sort is stable: after the reversal, the last of equal keys comes first.
    members.reverse();
    members.dedup_by(|(next, _), (last, _)| next == last);
    members.reverse();
    members
}

/// The parts of a JSON value, in their original text.
pub enum JsonParts<'t> {
    Object(Vec<(String, &'t str)>),
    Array(Vec<&'t str>),
    /// Neither an object nor an array.
    Scalar,
}

/// Splits a JSON value into its parts, one level deep.
///
/// # Errors
/// If the text is not JSON.
pub fn json_parts(text: &str) -> Result<JsonParts<'_>> {
    parse::json(text)?;
    let mut reader = Reader { rest: text };
    Ok(match reader.next() {
        b'{' => {
            reader.take(1);
            let mut members = Vec::new();
            while reader.next() != b'}' {
                if reader.next() == b',' {
                    reader.take(1);
                    reader.next();
                }
                let key = reader.key();
                members.push((key, reader.raw()));
            }
            JsonParts::Object(members)
        }
        b'[' => {
            reader.take(1);
            let mut items = Vec::new();
            while reader.next() != b']' {
                if reader.next() == b',' {
                    reader.take(1);
                }
                items.push(reader.raw());
            }
            JsonParts::Array(items)
        }
        _ => JsonParts::Scalar,
    })
}

/// Reads a text that is known to be JSON.
struct Reader<'t> {
    rest: &'t str,
}

impl<'t> Reader<'t> {
    fn next(&mut self) -> u8 {
        self.rest = self.rest.trim_start();
        self.rest.as_bytes().first().copied().unwrap_or(b' ')
    }

    fn take(&mut self, bytes: usize) -> &'t str {
        let (taken, rest) = self.rest.split_at(bytes);
        self.rest = rest;
        taken
    }

    /// Reads a key and the colon after it.
    fn key(&mut self) -> String {
        let key = self.string();
        self.next();
        self.take(1);
        key
    }

    /// Reads the next value; of a container, only the opening mark.
    fn node(&mut self) -> Node<'t> {
        match self.next() {
            b'{' => {
                self.take(1);
                Node::Object(Vec::new())
            }
            b'[' => {
                self.take(1);
                Node::Array(Vec::new())
            }
            b'"' => Node::Text(self.string()),
            _ => Node::Plain(self.plain()),
        }
    }

    fn plain(&mut self) -> &'t str {
        let is_end = |c: char| matches!(c, ',' | ']' | '}') || c.is_ascii_whitespace();
        let end = self.rest.find(is_end).unwrap_or(self.rest.len());
        self.take(end)
    }

    /// The next value in its original text.
    fn raw(&mut self) -> &'t str {
        if !matches!(self.next(), b'{' | b'[' | b'"') {
            return self.plain();
        }
        let end = Nesting::default().end_of_value(self.rest);
        self.take(end)
    }

    /// Reads a quoted text and unescapes it.
    fn string(&mut self) -> String {
        let mut escaped = false;
        let end = self.rest.char_indices().skip(1).find(|(_, c)| {
            let is_end = *c == '"' && !escaped;
            escaped = *c == '\\' && !escaped;
            is_end
        });
        let raw = self.take(end.map_or(self.rest.len(), |(end, _)| end + 1));
        serde_json::from_str(raw).unwrap_or_else(|_| raw.trim_matches('"').to_owned())
    }
}

fn written(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Numbers are written like `numeric`: without an exponent, with all given digits.
fn scalar(text: &str, out: &mut String) {
    let plain = text.split_once(['e', 'E']).and_then(|(digits, exponent)| {
        let exponent = exponent.parse::<i32>().ok()?;
        (exponent.abs() <= EXPONENT_MAX).then(|| shifted(digits, exponent))
    });
    let plain = plain.as_deref().unwrap_or(text);
    let is_zero = plain.starts_with('-') && !plain.bytes().any(|byte| matches!(byte, b'1'..=b'9'));
    out.push_str(if is_zero { &plain[1..] } else { plain });
}

/// Digits with their point moved.
fn shifted(digits: &str, exponent: i32) -> String {
    let (sign, digits) = match digits.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", digits),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let point = whole.len() as i32 + exponent;
    let mut all = format!("{whole}{fraction}");
    if point <= 0 {
        all.insert_str(0, &"0".repeat((1 - point) as usize));
    }
    let point = point.max(1) as usize;
    if all.len() < point {
        all.push_str(&"0".repeat(point - all.len()));
    }
    let (whole, fraction) = all.split_at(point);
    let whole = match whole.trim_start_matches('0') {
        "" => "0",
        whole => whole,
    };
    match fraction {
        "" => format!("{sign}{whole}"),
        fraction => format!("{sign}{whole}.{fraction}"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::json_depth::JSON_DEPTH_MAX;
    use super::{JsonParts, json_parts, jsonb};

    #[test]
    fn values_have_one_text() {
        for (given, kept) in [
            ("{\"bb\":1,\"a\" : [ 1,2 , {} ], \"a\":null}", "{\"a\": null, \"bb\": 1}"),
            ("[]", "[]"),
            (" [ ] ", "[]"),
            ("{ }", "{}"),
            ("\"x\"", "\"x\""),
            ("\"\\u0041\\\"\\\\\"", "\"A\\\"\\\\\""),
            ("{\"a\\\"}\":\"],\"}", "{\"a\\\"}\": \"],\"}"),
            ("true", "true"),
            ("1.50", "1.50"),
            ("1e2", "100"),
            ("1.25e-3", "0.00125"),
            ("-12.5E+3", "-12500"),
            ("12.5e1", "125"),
            ("1.2345e2", "123.45"),
            ("-0", "0"),
            ("-0.0", "0.0"),
            ("123456789012345678901234567890", "123456789012345678901234567890"),
            ("[1,[2,[\"ü\"]]]", "[1, [2, [\"ü\"]]]"),
        ] {
            let found = jsonb(given).unwrap();
            assert_eq!(found, kept, "{given}");
            assert_eq!(jsonb(&found).unwrap(), kept, "{given}");
        }
    }

    #[test]
    fn parts_are_as_they_were_written() {
        let JsonParts::Object(members) =
            json_parts(" {\"b\" : 1.50, \"a\":[1,  2],\"b\":{}} ").unwrap()
        else {
            panic!("an object was taken for something else")
        };
        let expected = [("b", "1.50"), ("a", "[1,  2]"), ("b", "{}")];
        assert_eq!(members, expected.map(|(key, value)| (key.to_owned(), value)));
        let JsonParts::Array(items) = json_parts("[ \"x, y\" ,null, [] ]").unwrap() else {
            panic!("an array was taken for something else")
        };
        assert_eq!(items, ["\"x, y\"", "null", "[]"]);
        assert!(matches!(json_parts("\"[]\"").unwrap(), JsonParts::Scalar));
        assert!(matches!(json_parts("[]").unwrap(), JsonParts::Array(items) if items.is_empty()));
    }

    #[test]
    fn deep_documents_take_no_stack() {
        let walked = || {
            for (open, close) in [("[", "]"), ("{\"a\": ", "}"), ("[1, ", ", \"]\"]")] {
                let deep = |depth: usize| format!("{}0{}", open.repeat(depth), close.repeat(depth));
                let accepted = deep(JSON_DEPTH_MAX);
                assert_eq!(jsonb(&accepted).unwrap(), accepted);
                let inner = deep(JSON_DEPTH_MAX - 1);
                let holds = match json_parts(&accepted).unwrap() {
                    JsonParts::Object(members) => members[0].1 == inner,
                    JsonParts::Array(items) => items.contains(&inner.as_str()),
                    JsonParts::Scalar => false,
                };
                assert!(holds, "{open}");
                for depth in [JSON_DEPTH_MAX + 1, 60_000, 200_000] {
                    let refused = deep(depth);
                    assert_eq!(jsonb(&refused).unwrap_err().state().0, "54001", "{open} {depth}");
                    assert_eq!(json_parts(&refused).err().unwrap().state().0, "54001");
                }
            }
        };
        let small = std::thread::Builder::new().stack_size(256 << 10).spawn(walked).unwrap();
        small.join().unwrap();
    }

    #[test]
    fn what_is_no_json_is_refused() {
        for text in ["", "{", "[1,]", "{\"a\"}", "nul"] {
            assert_eq!(jsonb(text).unwrap_err().state().0, "22P02", "{text}");
        }
    }
}
