//! A limit on riddling sentences: comments and documents that open with a word that
//! hides the subject ("What the log refuses is…", "Of a condition nobody knows…").
//!
//! The share is a symptom: a reader understands text whose sentences begin with their subject on
//! first reading.

use std::collections::BTreeMap;

use super::{File, Violation};

/// Openings that put the subject last.
const OPENINGS: &[&str] = &[
    "What", "Who", "Whoever", "Of", "Whether", "Nobody", "Somebody", "How", "That", "The same",
    "Those",
];

/// Highest share of a crate or document, in tenths of a percent.
const SHARE_MAX: usize = 20;

/// Examples that a violation shows.
const EXAMPLES_MAX: usize = 5;

/// A sentence of a comment or document, and the line on which its paragraph begins.
struct Sentence {
    path: String,
    line: usize,
    text: String,
}

impl Sentence {
    fn is_riddling(&self) -> bool {
        OPENINGS.iter().any(|opening| {
            let rest = self.text.strip_prefix(opening);
            rest.is_some_and(|rest| !rest.starts_with(|next: char| next.is_alphanumeric()))
        })
    }
}

/// Compares each crate's and each document's share with [`SHARE_MAX`].
pub fn check(files: &[File]) -> Vec<Violation> {
    let mut groups: BTreeMap<String, Vec<Sentence>> = BTreeMap::new();
    for file in files {
        if let Some(group) = group(file) {
            groups.entry(group).or_default().extend(sentences(file));
        }
    }
    groups.iter().flat_map(|(group, sentences)| compare(group, sentences)).collect()
}

fn compare(group: &str, sentences: &[Sentence]) -> Vec<Violation> {
    let riddles: Vec<&Sentence> = sentences.iter().filter(|s| s.is_riddling()).collect();
    // Rounded up, so that the limit is a limit.
    let share = (1000 * riddles.len()).div_ceil(sentences.len().max(1));
    if share <= SHARE_MAX {
        return Vec::new();
    }
    let message = format!(
        "{} of {} sentences open with What / Who / Of / … ({}.{} %, at most {}.{} %): put the \
         subject first",
        riddles.len(),
        sentences.len(),
        share / 10,
        share % 10,
        SHARE_MAX / 10,
        SHARE_MAX % 10,
    );
    let mut violations = vec![Violation::new(group, 1, message)];
    violations.extend(riddles.iter().take(EXAMPLES_MAX).map(|sentence| {
        let start: String = sentence.text.chars().take(60).collect();
        Violation::new(&sentence.path, sentence.line, format!("for example: {start}"))
    }));
    violations
}

/// The crate or document that a file counts for; tests count for none.
fn group(file: &File) -> Option<String> {
    if file.has_extension(&["md"]) {
        return (!file.path.starts_with("bench/") && !file.path.contains("/fixtures/"))
            .then(|| file.path.clone());
    }
    let is_test = file.path.split('/').any(|part| matches!(part, "test" | "tests" | "tests.rs"));
    let mut parts = file.path.split('/');
    let of_crate = parts.next() == Some("crates") && file.has_extension(&["rs"]) && !is_test;
    of_crate.then(|| format!("crates/{}", parts.next().unwrap_or_default()))
}

fn sentences(file: &File) -> Vec<Sentence> {
    let is_rust = file.has_extension(&["rs"]);
    let mut sentences = Vec::new();
    let mut paragraph = String::new();
    let mut began = 1;
    let mut in_code = false;
    for (line, number) in file.text.lines().zip(1..) {
        let text = if is_rust { comment(line) } else { prose(line, &mut in_code) };
        let begins_item = !is_rust && is_list_item(line);
        if text.is_none() || begins_item {
            split(file, began, &std::mem::take(&mut paragraph), &mut sentences);
        }
        if let Some(text) = text {
            if paragraph.is_empty() {
                began = number;
            }
            paragraph.push_str(text);
            paragraph.push(' ');
        }
    }
    split(file, began, &paragraph, &mut sentences);
    sentences
}

/// The text of a line that is a comment; headings of documentation end a sentence.
fn comment(line: &str) -> Option<&str> {
    let text = line.trim_start().strip_prefix("//")?;
    let text = text.strip_prefix(['/', '!']).unwrap_or(text);
    let text = text.strip_prefix(' ').unwrap_or(text);
    if text.starts_with('#') {
        return Some(".");
    }
    (!text.is_empty()).then_some(text)
}

/// The text of a line of a document that is neither code, nor a table, nor a heading.
fn prose<'a>(line: &'a str, in_code: &mut bool) -> Option<&'a str> {
    if line.starts_with("```") {
        *in_code = !*in_code;
    }
    let marked = line.is_empty() || line.starts_with(['|', '#', '`']) || line.starts_with("    ");
    let text = line.trim().trim_start_matches(|c: char| "-*. ".contains(c) || c.is_ascii_digit());
    (!*in_code && !marked && !text.is_empty()).then_some(text)
}

fn is_list_item(line: &str) -> bool {
    let line = line.trim_start();
    let number = line.trim_start_matches(|character: char| character.is_ascii_digit());
    line.starts_with("- ")
        || line.starts_with("* ")
        || number.len() < line.len() && number.starts_with(". ")
}

/// Splits a paragraph at `.`, `!` and `?` before blanks; sentences of two words are labels.
fn split(file: &File, line: usize, paragraph: &str, sentences: &mut Vec<Sentence>) {
    let text = without_code(paragraph);
    let mut rest = text.as_str();
    while !rest.trim().is_empty() {
        let end = rest
            .char_indices()
            .find(|(at, c)| ".!?".contains(*c) && rest[at + 1..].starts_with(char::is_whitespace))
            .map_or(rest.len(), |(at, _)| at + 1);
        let sentence = rest[..end].trim();
        if sentence.split_whitespace().count() > 2 {
            sentences.push(Sentence { path: file.path.clone(), line, text: sentence.to_owned() });
        }
        rest = &rest[end..];
    }
}

/// The paragraph with each piece of code replaced by one word.
fn without_code(paragraph: &str) -> String {
    let mut parts = paragraph.split('`');
    let mut text = parts.next().unwrap_or_default().to_owned();
    while let (Some(_), after) = (parts.next(), parts.next()) {
        text.push_str("code");
        text.push_str(after.unwrap_or_default());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> File {
        File { path: path.to_owned(), text: text.to_owned() }
    }

    fn messages(files: &[File]) -> Vec<String> {
        check(files).iter().map(Violation::to_string).collect()
    }

    #[test]
    fn comments_count_for_their_crate() {
        let source = "//! What it is, nobody knows.\n// The log is synced once.\nfn a() {}\n";
        let found = messages(&[file("crates/log/src/a.rs", source)]);
        assert_eq!(found.len(), 2);
        assert!(found[0].starts_with("crates/log:1: 1 of 2 sentences"), "{found:?}");
        assert!(found[1].starts_with("crates/log/src/a.rs:1: for example: What it is"));
        assert!(messages(&[file("crates/log/src/tests.rs", source)]).is_empty());
        assert!(messages(&[file("crates/log/tests/a.rs", source)]).is_empty());
    }

    #[test]
    fn a_share_may_be_as_high_as_its_limit() {
        let riddle = "// What it is, nobody knows.\n";
        let plain = "// The log is synced once.\n";
        let source = |sentences: usize| format!("{riddle}{}", plain.repeat(sentences - 1));
        assert!(messages(&[file("crates/log/src/a.rs", &source(50))]).is_empty());
        assert!(!messages(&[file("crates/log/src/a.rs", &source(49))]).is_empty());
    }

    #[test]
    fn documents_are_read_without_code_and_tables() {
        let text = "# What is here\n| What a table says |\n```\nWhat code says\n```\n- Of `a b` \
            nothing is known.\n- The log is synced.\n";
        let found = messages(&[file("docs/a.md", text)]);
        assert_eq!(found.len(), 2);
        assert!(found[0].starts_with("docs/a.md:1: 1 of 2"), "{found:?}");
    }

    #[test]
    fn an_opening_is_a_whole_word() {
        let source = "// Often it is so in here.\n\n// Whatever comes goes to disk.\n";
        assert!(messages(&[file("crates/a/src/a.rs", source)]).is_empty());
    }
}
