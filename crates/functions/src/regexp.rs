//! Functions of regular expressions, and `SIMILAR TO`.

mod are;
mod dissect;
mod instr;
mod matcher;
mod operators;
mod program;
mod replace;

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Int32Array, ListBuilder, StringViewArray,
    StringViewBuilder,
};
use arrow::datatypes::{DataType as ArrowType, Int32Type};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::{Expr, ScalarUDF};
use thalweg_types::{DataType, Error, Result, SqlState};
use thalweg_values::scalar_function::{Compute, Function};
use thalweg_values::types::arrow_type;

pub(super) use matcher::Matcher;
pub(super) use operators::RegexOperators;
use thalweg_values::bounded_output::Growth;

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
        substring_pattern(),
        of_texts("similar_to", &[2, 3], ArrowType::Boolean, similar_to),
        Function::new("regexp_substr", &substr, text.clone(), regexp_substr).into_udf(),
        of_texts("regexp_match", &[2, 3], arrow_type(&list), first_match),
        is_like_udf(),
        Function::new(
            "regexp_count",
            &[
                &[text.clone(), text.clone()],
                &[text.clone(), text.clone(), int.clone()],
                &[text.clone(), text.clone(), int.clone(), text.clone()],
            ],
            int.clone(),
            count,
        )
        .into_udf(),
        instr::function(),
        replace::function(),
    ]
}

/// `substring(text FROM pattern)`
pub(crate) fn substring_pattern() -> Arc<ScalarUDF> {
    let texts = [ArrowType::Utf8View, ArrowType::Utf8View];
    Function::new("substring_pattern", &[&texts], ArrowType::Utf8View, substring).into_udf()
}

/// `regexp_like(text, pattern, flags)`
fn is_like_udf() -> Arc<ScalarUDF> {
    let text = || ArrowType::Utf8View;
    let lists: &[&[ArrowType]] = &[&[text(), text()], &[text(), text(), text()]];
    Function::new("regexp_like", lists, ArrowType::Boolean, is_like).into_udf()
}

fn literal(text: &str) -> Expr {
    Expr::Literal(ScalarValue::Utf8View(Some(text.to_owned())), None)
}

/// Compiled patterns: in most columns all patterns are equal.
#[derive(Default)]
struct Patterns {
    last: Option<(String, String, Matcher)>,
}

impl Patterns {
    fn get(&mut self, pattern: &str, flags: &str) -> Result<&Matcher> {
        let known = matches!(&self.last, Some((last, with, _)) if last == pattern && with == flags);
        if !known {
            let regex = Matcher::new(pattern, flags)?;
            self.last = Some((pattern.to_owned(), flags.to_owned(), regex));
        }
        let last = self.last.as_ref().map(|(_, _, regex)| regex);
        last.ok_or_else(|| Error::internal("a pattern was just compiled"))
    }
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
    let mut growth = Growth::default();
    let mut lists = ListBuilder::new(StringViewBuilder::new());
    for row in rows(columns) {
        let Some(row) = row else {
            lists.append_null();
            continue;
        };
        let regex = patterns.get(row[1], row.get(2).copied().unwrap_or_default())?;
        let text = row[0];
        let mut start = 0;
        for (at, end) in regex.find_all(text, 0).filter_map(|found| found[0]) {
            // An empty match separates two characters, and nothing else.
            if at == end && (at == 0 || at == text.len() || at == start) {
                continue;
            }
            growth.item(at - start)?;
            lists.values().append_value(&text[start..at]);
            start = end;
        }
        growth.item(text.len() - start)?;
        lists.values().append_value(&text[start..]);
        lists.append(true);
    }
    Ok(Arc::new(lists.finish()))
}

/// A list for each match: the texts of its groups, or the whole match if there are no groups.
fn all_matches(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let mut patterns = Patterns::default();
    let mut growth = Growth::default();
    let mut lists = ListBuilder::new(ListBuilder::new(StringViewBuilder::new()));
    for row in rows(columns) {
        let Some(row) = row else {
            lists.append_null();
            continue;
        };
        let flags = row.get(2).copied().unwrap_or_default();
        let regex = patterns.get(row[1], flags)?;
        let most = if flags.contains('g') { usize::MAX } else { 1 };
        for found in regex.find_all(row[0], 0).take(most) {
            let groups = lists.values();
            // The list of the groups is about as large as an item.
            growth.item(0)?;
            for group in found.iter().skip(usize::from(regex.groups() > 0)) {
                growth.item(group.map_or(0, |(start, end)| end - start))?;
                groups.values().append_option(group.map(|(start, end)| &row[0][start..end]));
            }
            groups.append(true);
        }
        lists.append(true);
    }
    Ok(Arc::new(lists.finish()))
}

/// The groups of the first match, or the whole match if the pattern has no groups.
fn first_match(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let mut patterns = Patterns::default();
    let mut lists = ListBuilder::new(StringViewBuilder::new());
    for row in rows(columns) {
        let Some(row) = row else {
            lists.append_null();
            continue;
        };
        let flags = row.get(2).copied().unwrap_or_default();
        refuse_global(flags, "regexp_match")?;
        let regex = patterns.get(row[1], flags)?;
        let Some(found) = regex.find(row[0], 0) else {
            lists.append_null();
            continue;
        };
        for group in found.iter().skip(usize::from(regex.groups() > 0)) {
            lists.values().append_option(group.map(|(start, end)| &row[0][start..end]));
        }
        lists.append(true);
    }
    Ok(Arc::new(lists.finish()))
}

fn refuse_global(flags: &str, name: &str) -> Result<()> {
    if !flags.contains('g') {
        return Ok(());
    }
    let message = format!("{name}() does not support the \"global\" option");
    Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, message))
}

fn is_like(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let mut patterns = Patterns::default();
    let matched = rows(columns).map(|row| {
        let Some(row) = row else { return Ok(None) };
        let flags = row.get(2).copied().unwrap_or_default();
        refuse_global(flags, "regexp_like")?;
        Ok(Some(patterns.get(row[1], flags)?.is_match(row[0])))
    });
    Ok(Arc::new(matched.collect::<Result<BooleanArray>>()?))
}

/// `regexp_count(text, pattern, start, flags)`
fn count(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let (texts, expressions) = (columns[0].as_string_view(), columns[1].as_string_view());
    let mut patterns = Patterns::default();
    let counts = (0..texts.len()).map(|row| {
        if columns.iter().any(|column| column.is_null(row)) {
            return Ok(None);
        }
        let flags = columns.get(3).map_or("", |flags| flags.as_string_view().value(row));
        refuse_global(flags, "regexp_count")?;
        let start = columns.get(2).map_or(1, |start| start.as_primitive::<Int32Type>().value(row));
        if start < 1 {
            let message = format!("invalid value for parameter \"start\": {start}");
            return Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, message));
        }
        let text = texts.value(row);
        let start = start as usize - 1;
        let offset = text.char_indices().nth(start).map_or(text.len(), |(offset, _)| offset);
        let count = patterns.get(expressions.value(row), flags)?.find_all(text, offset).count();
        Ok(Some(count as i32))
    });
    Ok(Arc::new(counts.collect::<Result<Int32Array>>()?))
}

/// The first group of the first match, or the whole match if the pattern has no groups.
fn substring(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let mut patterns = Patterns::default();
    let parts = rows(columns).map(|row| {
        let Some(row) = row else { return Ok(None) };
        let regex = patterns.get(row[1], "")?;
        let found = regex.find(row[0], 0);
        let group = found.and_then(|found| found[usize::from(regex.groups() > 0)]);
        Ok(group.map(|(start, end)| &row[0][start..end]))
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
            let error_text = "start and N of regexp_substr must be greater than zero";
            return Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, error_text));
        }
        let text = texts.value(row);
        let offset = text.char_indices().nth(start - 1).map_or(text.len(), |(offset, _)| offset);
        let found = regex.find_all(text, offset).nth(occurrence - 1);
        let group = found.and_then(|found| found.get(number(5, row, 0)).copied().flatten());
        Ok(group.map(|(start, end)| &text[start..end]))
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
