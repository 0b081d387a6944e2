//! `regexp_instr`: where a match begins, or what is behind it.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int32Array};
use arrow::datatypes::{DataType as ArrowType, Int32Type};
use datafusion::logical_expr::ScalarUDF;
use thalweg_types::{Error, Result, SqlState};
use thalweg_values::scalar_function::Function;

use super::Patterns;

/// `regexp_instr(text, pattern, start, n, endoption, flags, subexpr)`
pub(super) fn function() -> Arc<ScalarUDF> {
    let (text, int) = (ArrowType::Utf8View, ArrowType::Int32);
    let all = [text.clone(), text.clone(), int.clone(), int.clone(), int.clone(), text, int];
    let lists: Vec<&[ArrowType]> = (2..=all.len()).map(|length| &all[..length]).collect();
    Function::new("regexp_instr", &lists, ArrowType::Int32, regexp_instr).into_udf()
}

fn regexp_instr(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let (texts, expressions) = (columns[0].as_string_view(), columns[1].as_string_view());
    let mut patterns = Patterns::default();
    let places = (0..texts.len()).map(|row| {
        if columns.iter().any(|column| column.is_null(row)) {
            return Ok(None);
        }
        let flags = columns.get(5).map_or("", |flags| flags.as_string_view().value(row));
        if flags.contains('g') {
            return Err(refused("regexp_instr() does not support the \"global\" option"));
        }
        let wanted = Wanted::of(columns, row)?;
        let regex = patterns.get(expressions.value(row), flags)?;
        let text = texts.value(row);
        let offset = text.char_indices().nth(wanted.start - 1).map_or(text.len(), |(at, _)| at);
        let found = regex.find_all(text, offset).nth(wanted.occurrence - 1);
        let group = found.and_then(|found| found.get(wanted.group).copied().flatten());
        Ok(Some(group.map_or(0, |(start, end)| {
            let at = if wanted.is_end { end } else { start };
            text[..at].chars().count() as i32 + 1
        })))
    });
    Ok(Arc::new(places.collect::<Result<Int32Array>>()?))
}

fn refused(error_text: impl Into<String>) -> Error {
    Error::new(SqlState::INVALID_PARAMETER_VALUE, error_text)
}

/// The match to return, and the part of it.
struct Wanted {
    start: usize,
    occurrence: usize,
    is_end: bool,
    group: usize,
}

impl Wanted {
    fn of(columns: &[ArrayRef], row: usize) -> Result<Wanted> {
        let number = |place: usize, name: &str, least: i32, most: i32| -> Result<usize> {
            let Some(column) = columns.get(place) else { return Ok(least as usize) };
            let number = column.as_primitive::<Int32Type>().value(row);
            if (least..=most).contains(&number) {
                return Ok(number as usize);
            }
            Err(refused(format!("invalid value for parameter \"{name}\": {number}")))
        };
        Ok(Wanted {
            start: number(2, "start", 1, i32::MAX)?,
            occurrence: number(3, "n", 1, i32::MAX)?,
            is_end: number(4, "endoption", 0, 1)? == 1,
            group: number(6, "subexpr", 0, i32::MAX)?,
        })
    }
}
