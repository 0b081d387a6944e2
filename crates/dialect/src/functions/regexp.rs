//! Regular expressions: taking text apart by them, and `SIMILAR TO`.

mod instr;
mod replace;

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Int32Array, ListBuilder, StringViewArray,
    StringViewBuilder,
};
use arrow::datatypes::{DataType as ArrowType, Int32Type};
use datafusion::logical_expr::ScalarUDF;
use regex::{Regex, RegexBuilder};
use thalweg_types::{DataType, Error, Result, SqlState};

use super::define::{Compute, Function};
use crate::types::arrow_type;

pub(super) fn functions() -> Vec<Arc<ScalarUDF>> {
    let (text, int) = (ArrowType::Utf8View, ArrowType::Int32);
    let texts = |count| vec![text.clone(); count];
    let list = DataType::Array(Box::new(DataType::Text { max_chars: None }));
    let matches = DataType::Array(Box::new(list.clone()));
    let of_texts = |name, counts: &[usize], returns, compute: Compute| {
        let lists: Vec<Vec<ArrowType>> = counts.iter().map(|count| texts(*count)).collect();
        let lists: Vec<&[ArrowType]> = lists.iter().map(Vec::as_slice).collect();
        Function::new(name, &lists, returns, compute).into_udf()
    };
    let placed = |lengths: &[usize]| -> Vec<Vec<ArrowType>> {
        let all = [text.clone(), text.clone(), int.clone(), int.clone(), text.clone(), int.clone()];
        lengths.iter().map(|length| all[..*length].to_vec()).collect()
    };
    let substr = placed(&[2, 3, 4, 5, 6]);
    let substr: Vec<&[ArrowType]> = substr.iter().map(Vec::as_slice).collect();
    vec![
        of_texts("regexp_split_to_array", &[2, 3], arrow_type(&list), split),
        of_texts("regexp_all_matches", &[2, 3], arrow_type(&matches), all_matches),
        of_texts("substring_pattern", &[2], text.clone(), substring),
        of_texts("similar_to", &[2, 3], ArrowType::Boolean, similar_to),
        Function::new("regexp_substr", &substr, text.clone(), regexp_substr).into_udf(),
        instr::function(),
        replace::function(),
    ]
}

/// Compiled patterns: most columns of patterns have one.
#[derive(Default)]
struct Patterns {
    last: Option<(String, String, Regex)>,
}

impl Patterns {
    fn get(&mut self, pattern: &str, flags: &str) -> Result<&Regex> {
        let known = matches!(&self.last, Some((last, with, _)) if last == pattern && with == flags);
        if !known {
            let regex = compile(pattern, flags)?;
            self.last = Some((pattern.to_owned(), flags.to_owned(), regex));
        }
        let last = self.last.as_ref().map(|(_, _, regex)| regex);
        last.ok_or_else(|| Error::internal("a pattern was just compiled"))
    }
}

pub(super) fn compile(pattern: &str, flags: &str) -> Result<Regex> {
    let mut builder = RegexBuilder::new(&in_our_words(pattern));
    builder.dot_matches_new_line(true);
    for flag in flags.chars() {
        match flag {
            'g' => {}
            'i' => {
                builder.case_insensitive(true);
            }
            'c' => {
                builder.case_insensitive(false);
            }
            'n' | 'm' => {
                builder.dot_matches_new_line(false).multi_line(true);
            }
            's' => {
                builder.dot_matches_new_line(true);
            }
            'w' => {
                builder.multi_line(true);
            }
            'p' => {
                builder.dot_matches_new_line(false);
            }
            'x' => {
                builder.ignore_whitespace(true);
            }
            other => {
                let told = format!("invalid regular expression option: \"{other}\"");
                return Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, told));
            }
        }
    }
    builder.build().map_err(|error| {
        let told = error.to_string();
        let reason = told.lines().last().unwrap_or_default().trim_start_matches("error: ");
        Error::new(
            SqlState::INVALID_REGULAR_EXPRESSION,
            format!("invalid regular expression: {reason}"),
        )
    })
}

/// PostgreSQL's escapes for the edges of words, as our engine calls them.
fn in_our_words(pattern: &str) -> String {
    let mut written = String::with_capacity(pattern.len());
    let mut characters = pattern.chars();
    while let Some(c) = characters.next() {
        if c != '\\' {
            written.push(c);
            continue;
        }
        match characters.next() {
            Some('m') => written.push_str(r"\b{start}"),
            Some('M') => written.push_str(r"\b{end}"),
            Some('y') => written.push_str(r"\b"),
            Some('Y') => written.push_str(r"\B"),
            Some('Z') => written.push_str(r"\z"),
            Some(other) => written.extend(['\\', other]),
            None => written.push('\\'),
        }
    }
    written
}

/// Rows of texts, where none is NULL.
fn rows<'a>(columns: &'a [ArrayRef]) -> impl Iterator<Item = Option<Vec<&'a str>>> + 'a {
    let texts: Vec<&StringViewArray> =
        columns.iter().map(|column| column.as_string_view()).collect();
    let length = columns.first().map_or(0, |column| column.len());
    (0..length).map(move |row| {
        texts.iter().map(|text| text.is_valid(row).then(|| text.value(row))).collect()
    })
}

fn split(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let mut patterns = Patterns::default();
    let mut lists = ListBuilder::new(StringViewBuilder::new());
    for row in rows(columns) {
        let Some(row) = row else {
            lists.append_null();
            continue;
        };
        let regex = patterns.get(row[1], row.get(2).copied().unwrap_or_default())?;
        let text = row[0];
        let mut start = 0;
        for found in regex.find_iter(text) {
            // An empty match separates two characters, and nothing else.
            let at = found.start();
            if found.is_empty() && (at == 0 || at == text.len() || at == start) {
                continue;
            }
            lists.values().append_value(&text[start..at]);
            start = found.end();
        }
        lists.values().append_value(&text[start..]);
        lists.append(true);
    }
    Ok(Arc::new(lists.finish()))
}

/// For each match a list: what its groups matched, or all of it where there are none.
fn all_matches(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let mut patterns = Patterns::default();
    let mut lists = ListBuilder::new(ListBuilder::new(StringViewBuilder::new()));
    for row in rows(columns) {
        let Some(row) = row else {
            lists.append_null();
            continue;
        };
        let flags = row.get(2).copied().unwrap_or_default();
        let regex = patterns.get(row[1], flags)?;
        let most = if flags.contains('g') { usize::MAX } else { 1 };
        for captures in regex.captures_iter(row[0]).take(most) {
            let groups = lists.values();
            let first = usize::from(captures.len() > 1);
            for group in captures.iter().skip(first) {
                groups.values().append_option(group.map(|group| group.as_str()));
            }
            groups.append(true);
        }
        lists.append(true);
    }
    Ok(Arc::new(lists.finish()))
}

/// What the first group matched, or the whole pattern where it has none.
fn substring(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let mut patterns = Patterns::default();
    let parts = rows(columns).map(|row| {
        let Some(row) = row else { return Ok(None) };
        let regex = patterns.get(row[1], "")?;
        let captures = regex.captures(row[0]);
        Ok(captures.and_then(|captures| {
            let group = if captures.len() > 1 { captures.get(1) } else { captures.get(0) };
            group.map(|group| group.as_str())
        }))
    });
    Ok(Arc::new(parts.collect::<Result<StringViewArray>>()?))
}

/// `regexp_substr(text, pattern, start, occurrence, flags, group)`
fn regexp_substr(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let number = |place: usize, row: usize, default: i32| -> usize {
        let given = columns.get(place).map(|column| column.as_primitive::<Int32Type>());
        let given: Option<&Int32Array> = given;
        given.map_or(default, |given| given.value(row)).try_into().unwrap_or(0)
    };
    let (texts, expressions) = (columns[0].as_string_view(), columns[1].as_string_view());
    let mut patterns = Patterns::default();
    let found = (0..texts.len()).map(|row| {
        if columns.iter().any(|column| column.is_null(row)) {
            return Ok(None);
        }
        let flags = columns.get(4).map_or("", |flags| flags.as_string_view().value(row));
        let regex = patterns.get(expressions.value(row), flags)?;
        let (start, occurrence) = (number(2, row, 1), number(3, row, 1));
        if start == 0 || occurrence == 0 {
            let told = "start and N of regexp_substr must be greater than zero";
            return Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, told));
        }
        let text = texts.value(row);
        let offset = text.char_indices().nth(start - 1).map_or(text.len(), |(offset, _)| offset);
        let captures = regex.captures_iter(&text[offset..]).nth(occurrence - 1);
        let group = captures.and_then(|captures| captures.get(number(5, row, 0)));
        Ok(group.map(|group| group.as_str()))
    });
    Ok(Arc::new(found.collect::<Result<StringViewArray>>()?))
}

fn similar_to(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let mut patterns = Patterns::default();
    let matched = rows(columns).map(|row| {
        let Some(row) = row else { return Ok(None) };
        let escape = row.get(2).map_or(Some('\\'), |escape| escape.chars().next());
        let regex = patterns.get(&of_similar(row[1], escape), "")?;
        Ok(Some(regex.is_match(row[0])))
    });
    Ok(Arc::new(matched.collect::<Result<BooleanArray>>()?))
}

/// SQL's own patterns: `%` and `_` as in LIKE, the rest as in regular expressions but for `.`, `^`
/// and `$`, which stand for themselves.
fn of_similar(pattern: &str, escape: Option<char>) -> String {
    let mut written = String::from("^(?:");
    let mut characters = pattern.chars();
    while let Some(c) = characters.next() {
        match c {
            c if Some(c) == escape => {
                let literal = characters.next().map(String::from).unwrap_or_default();
                written.push_str(&regex::escape(&literal));
            }
            '%' => written.push_str(".*"),
            '_' => written.push('.'),
            '(' => written.push_str("(?:"),
            '.' | '^' | '$' | '\\' => written.extend(['\\', c]),
            c => written.push(c),
        }
    }
    written.push_str(")$");
    written
}
