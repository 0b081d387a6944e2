//! `regexp_replace(text, pattern, replacement, start, occurrence, flags)`

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{DataType as ArrowType, Int32Type};
use datafusion::logical_expr::ScalarUDF;
use thalweg_types::{Error, Result, SqlState};
use thalweg_values::scalar_function::Function;

use super::Patterns;
use super::dissect::Groups;
use thalweg_values::bounded_output::{BoundedTexts, Text};

pub(super) fn function() -> Arc<ScalarUDF> {
    const TEXT: ArrowType = ArrowType::Utf8View;
    const INT: ArrowType = ArrowType::Int32;
    let arguments: &[&[ArrowType]] = &[
        &[TEXT, TEXT, TEXT],
        &[TEXT, TEXT, TEXT, INT],
        &[TEXT, TEXT, TEXT, TEXT],
        &[TEXT, TEXT, TEXT, INT, INT],
        &[TEXT, TEXT, TEXT, INT, INT, TEXT],
    ];
    Function::new("regexp_replace", arguments, TEXT, replace).into_udf()
}

fn replace(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let mut patterns = Patterns::default();
    let mut made = BoundedTexts::default();
    let text = |place: usize, row: usize| columns[place].as_string_view().value(row);
    let number = |place: usize, row: usize| -> Result<Option<usize>> {
        let given = columns.get(place).and_then(|column| column.as_primitive_opt::<Int32Type>());
        given.map(|given| whole(given.value(row), place)).transpose()
    };
    for row in 0..columns[0].len() {
        if columns.iter().any(|column| column.is_null(row)) {
            made.null();
            continue;
        }
        let last = columns.last().filter(|_| columns.len() > 3);
        let flags = last.and_then(|flags| flags.as_string_view_opt()).map(|flags| flags.value(row));
        let flags = flags.unwrap_or_default();
        let start = number(3, row)?.unwrap_or(1);
        // Occurrence 0 stands for all of them.
        let occurrence = number(4, row)?.unwrap_or(usize::from(!flags.contains('g')));
        let regex = patterns.get(text(1, row), flags)?;
        let (given, replacement) = (text(0, row), Replacement::of(text(2, row)));
        let from = given.char_indices().nth(start - 1).map_or(given.len(), |(at, _)| at);
        made.write(|replaced| {
            let mut end = 0;
            for (place, groups) in regex.find_all(given, from).enumerate() {
                if occurrence > 0 && place + 1 > occurrence {
                    break;
                }
                let (Some((start, behind)), true) =
                    (groups[0], occurrence == 0 || place + 1 == occurrence)
                else {
                    continue;
                };
                replaced.push(&given[end..start])?;
                replacement.write(given, &groups, replaced)?;
                end = behind;
            }
            replaced.push(&given[end..])
        })?;
    }
    Ok(made.finish())
}

fn whole(number: i32, place: usize) -> Result<usize> {
    let (name, least) = if place == 3 { ("start", 1) } else { ("n", 0) };
    usize::try_from(number).ok().filter(|number| *number >= least).ok_or_else(|| {
        let error_text = format!("invalid value for parameter \"{name}\": {number}");
        Error::new(SqlState::INVALID_PARAMETER_VALUE, error_text)
    })
}

/// The replacement of a match: texts, and groups of the match.
struct Replacement<'t>(Vec<Piece<'t>>);

enum Piece<'t> {
    Text(&'t str),
    Group(usize),
}

impl<'t> Replacement<'t> {
    fn of(mut rest: &'t str) -> Replacement<'t> {
        let mut pieces = Vec::new();
        while let Some(at) = rest.find('\\') {
            pieces.push(Piece::Text(&rest[..at]));
            let behind = &rest[at + 1..];
            let (piece, taken) = match behind.chars().next() {
                Some('&') => (Piece::Group(0), 1),
                Some(digit @ '1'..='9') => (Piece::Group(digit as usize - '0' as usize), 1),
                Some('\\') => (Piece::Text("\\"), 1),
                // A backslash before any other character stands for itself.
                _ => (Piece::Text("\\"), 0),
            };
            pieces.push(piece);
            rest = &behind[taken..];
        }
        pieces.push(Piece::Text(rest));
        Replacement(pieces)
    }

    fn write(&self, given: &str, groups: &Groups, text: &mut Text) -> Result<()> {
        self.0.iter().try_for_each(|piece| match piece {
            Piece::Text(piece) => text.push(piece),
            Piece::Group(group) => {
                let group = groups.get(*group).copied().flatten();
                group.map_or(Ok(()), |(start, end)| text.push(&given[start..end]))
            }
        })
    }
}
