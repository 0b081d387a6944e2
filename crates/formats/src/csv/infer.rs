//! Infers the schema of delimited text from its beginning.

use std::collections::HashSet;

use arrow::datatypes::{Field, Schema};
use thalweg_types::{Error, Result, SqlState};

use super::decoder::Splitter;
use super::records::{Kind, Records, Texts};
use crate::guess::Guess;
use crate::{Format, Header, ReadOptions};

/// The schema of text that begins with `head`; every column may be NULL.
///
/// Columns without names are called `column1`, `column2` and so on.
pub(crate) fn infer(
    head: &[u8],
    is_whole: bool,
    format: Format,
    options: &ReadOptions,
) -> Result<Schema> {
    let head = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head);
    let splitter = Splitter::new(format, options);
    let mut rows: Vec<Vec<Option<String>>> = Vec::new();
    let mut records = Records::default();
    let mut at = 0;
    while at < head.len() {
        records.clear();
        if splitter.split_record(&head[at..], is_whole, usize::MAX, &mut records).is_err() {
            break;
        }
        let Ok(texts) = Texts::new(&head[at..at + records.consumed], &records.scratch) else {
            break;
        };
        let null = options.marks.null_for(format);
        rows.push(
            records
                .spans
                .iter()
                .map(|span| {
                    let text = texts.text(*span);
                    let is_null =
                        span.kind == Kind::Null || (span.kind == Kind::Plain && text == null);
                    (!is_null).then(|| text.to_owned())
                })
                .collect(),
        );
        at += records.consumed;
    }
    schema_of_rows(&rows, options)
}

fn schema_of_rows(rows: &[Vec<Option<String>>], options: &ReadOptions) -> Result<Schema> {
    let Some((first, rest)) = rows.split_first() else {
        let message = "the file holds no records to infer a schema from";
        return Err(Error::new(SqlState::BAD_COPY_FILE_FORMAT, message));
    };
    let has_header = match options.header {
        Header::Absent => false,
        Header::Present | Header::Match => true,
        Header::Auto => looks_like_header(first),
    };
    let names = match (&options.columns, has_header) {
        (Some(names), _) => names.clone(),
        (None, true) => first.iter().enumerate().map(header_name).collect(),
        (None, false) => (1..=first.len()).map(|place| format!("column{place}")).collect(),
    };
    let data = if has_header { rest } else { rows };
    let guess = |place: usize| {
        let values = data.iter().filter_map(|row| row.get(place)?.as_deref());
        values.map(Guess::of).fold(Guess::Unknown, Guess::or)
    };
    let fields = names
        .iter()
        .enumerate()
        .map(|(place, name)| Field::new(name, guess(place).data_type(), true));
    Ok(Schema::new(fields.collect::<Vec<_>>()))
}

fn header_name((place, name): (usize, &Option<String>)) -> String {
    name.clone().unwrap_or_else(|| format!("column{}", place + 1))
}

/// True if a record contains names: different texts, none of which could be a value of another
/// type.
fn looks_like_header(first: &[Option<String>]) -> bool {
    let mut seen = HashSet::new();
    first.iter().all(|field| {
        field.as_deref().is_some_and(|name| Guess::of(name) == Guess::Text && seen.insert(name))
    })
}
