//! Maps the fields of a record to columns.

use arrow::datatypes::{Schema, SchemaRef};
use thalweg_types::{Error, Result, SqlState};

use super::records::LineEnd;
use crate::{Header, ReadOptions};

/// The fields of a source of delimited text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// The names of the record's fields.
    pub names: Vec<String>,
    /// The field's position for each wanted column.
    pub places: Vec<usize>,
    /// True if the first record is a header.
    pub has_header: bool,
    /// The line end of the source; `None` if the first line has no end.
    pub line_end: Option<LineEnd>,
}

impl Layout {
    /// The layout of a source whose first record is `first`.
    pub fn resolve(target: &SchemaRef, options: &ReadOptions, first: &[String]) -> Result<Layout> {
        if options.header == Header::Match {
            check_match(target, options, first)?;
        }
        if let Some(names) = &options.columns {
            let has_header = match options.header {
                Header::Auto => is_same(names, first),
                Header::Absent => false,
                Header::Present | Header::Match => true,
            };
            return Layout::by_name(target, names, has_header);
        }
        if target.fields().is_empty() {
            let has_header = matches!(options.header, Header::Present | Header::Match);
            return Layout::by_name(target, first, has_header);
        }
        let holds_all = target.fields().iter().all(|field| place_of(first, field.name()).is_some());
        match options.header {
            Header::Present | Header::Match | Header::Auto if holds_all => {
                Layout::by_name(target, first, true)
            }
            // Names that match no column are still a header if their number is right.
            Header::Present if first.len() != target.fields().len() => {
                Layout::by_name(target, first, true)
            }
            header => Ok(Layout::by_position(target, header == Header::Present)),
        }
    }

    fn by_name(target: &Schema, names: &[String], has_header: bool) -> Result<Layout> {
        let places = target.fields().iter().map(|field| {
            place_of(names, field.name())
                .ok_or_else(|| missing_column(field.name(), names.iter().map(String::as_str)))
        });
        let places = places.collect::<Result<_>>()?;
        Ok(Layout { places, names: names.to_vec(), has_header, line_end: None })
    }

    fn by_position(target: &Schema, has_header: bool) -> Layout {
        let names: Vec<String> = target.fields().iter().map(|field| field.name().clone()).collect();
        Layout { places: (0..names.len()).collect(), names, has_header, line_end: None }
    }
}

/// The position of a name: with its exact spelling, or else ignoring case if that is unambiguous.
pub(crate) fn place_of(names: &[impl AsRef<str>], wanted: &str) -> Option<usize> {
    if let Some(place) = names.iter().position(|name| name.as_ref() == wanted) {
        return Some(place);
    }
    let is_alike = |name: &str| name.trim().to_lowercase() == wanted.to_lowercase();
    let mut alike = names.iter().enumerate().filter(|(_, name)| is_alike(name.as_ref()));
    match (alike.next(), alike.next()) {
        (Some((place, _)), None) => Some(place),
        _ => None,
    }
}

pub(crate) fn missing_column<'a>(wanted: &str, names: impl Iterator<Item = &'a str>) -> Error {
    let names: Vec<&str> = names.collect();
    Error::new(SqlState::UNDEFINED_COLUMN, format!("column \"{wanted}\" is missing"))
        .with_detail(format!("The columns are {}.", names.join(", ")))
}

fn is_same(names: &[String], first: &[String]) -> bool {
    names.len() == first.len()
        && names.iter().zip(first).all(|(name, field)| name.eq_ignore_ascii_case(field.trim()))
}

/// `HEADER MATCH`: the header must have the columns' names, in order.
fn check_match(target: &Schema, options: &ReadOptions, first: &[String]) -> Result<()> {
    let expected: Vec<&str> = match &options.columns {
        Some(names) => names.iter().map(String::as_str).collect(),
        None => target.fields().iter().map(|field| field.name().as_str()).collect(),
    };
    let mismatch = |message: String| Err(Error::new(SqlState::BAD_COPY_FILE_FORMAT, message));
    if first.len() != expected.len() {
        return mismatch(format!(
            "wrong number of fields in header line: got {}, expected {}",
            first.len(),
            expected.len()
        ));
    }
    for (place, (name, expected)) in first.iter().zip(expected).enumerate() {
        if name != expected {
            return mismatch(format!(
                "column name mismatch in header line field {}: got \"{name}\", expected \
                 \"{expected}\"",
                place + 1
            ));
        }
    }
    Ok(())
}
