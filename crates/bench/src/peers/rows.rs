//! Results as rows of text, and their comparison.

use arrow::array::RecordBatch;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use thalweg_types::Result;

use crate::errors::while_doing;

/// NULL is `None`.
pub type Rows = Vec<Vec<Option<String>>>;

/// The maximum relative and absolute difference between two systems that compute averages in
/// floating point and in decimals.
const RELATIVE: f64 = 1e-5;
const ABSOLUTE: f64 = 1e-4;

/// Formats all values as text; `None` is NULL.
pub fn to_rows(batches: &[RecordBatch]) -> Result<Rows> {
    let options = FormatOptions::default();
    let mut rows = Rows::new();
    for batch in batches {
        let columns = batch.columns().iter();
        let formatters = columns
            .map(|column| ArrayFormatter::try_new(column, &options))
            .collect::<Result<Vec<_>, _>>()
            .map_err(while_doing("reading a result"))?;
        for row in 0..batch.num_rows() {
            let cells = batch.columns().iter().zip(&formatters);
            let cell = |(column, formatter): (&arrow::array::ArrayRef, &ArrayFormatter<'_>)| {
                column.is_valid(row).then(|| formatter.value(row).to_string())
            };
            rows.push(cells.map(cell).collect());
        }
    }
    Ok(rows)
}

/// Compares two results, ignoring the order of rows with equal sort keys.
///
/// # Errors
/// The first difference.
pub fn same(ours: &Rows, theirs: &Rows) -> Result<(), String> {
    if ours.len() != theirs.len() {
        return Err(format!("{} rows, the peer has {}", ours.len(), theirs.len()));
    }
    let (mut ours, mut theirs) = (ours.clone(), theirs.clone());
    ours.sort_by_cached_key(|row| exact_cells(row));
    theirs.sort_by_cached_key(|row| exact_cells(row));
    for (place, (our, their)) in ours.iter().zip(&theirs).enumerate() {
        let alike = our.len() == their.len()
            && our.iter().zip(their).all(|(our, their)| alike(our.as_ref(), their.as_ref()));
        if !alike {
            return Err(format!("sorted row {place} is {our:?}, the peer has {their:?}"));
        }
    }
    Ok(())
}

/// The sort key of a row: its texts, and its numbers rounded to whole ones.
fn exact_cells(row: &[Option<String>]) -> Vec<String> {
    let key = |cell: &Option<String>| match cell.as_deref() {
        None => String::new(),
        Some(text) => match text.parse::<f64>() {
            Ok(number) => format!("{:024.0}", number.round()),
            Err(_) => text.to_owned(),
        },
    };
    row.iter().map(key).collect()
}

fn alike(ours: Option<&String>, theirs: Option<&String>) -> bool {
    let (Some(ours), Some(theirs)) = (ours, theirs) else {
        return ours.is_none() && theirs.is_none();
    };
    match (ours.parse::<f64>(), theirs.parse::<f64>()) {
        (Ok(our), Ok(their)) => {
            let allowed = ABSOLUTE.max(RELATIVE * our.abs().max(their.abs()));
            (our - their).abs() <= allowed
        }
        _ => ours == theirs,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(texts: &[&[&str]]) -> Rows {
        let cell = |text: &&str| (*text != "NULL").then(|| (*text).to_owned());
        texts.iter().map(|row| row.iter().map(cell).collect()).collect()
    }

    #[test]
    fn order_and_rounding_do_not_matter() {
        let ours = rows(&[&["b", "2.500000"], &["a", "1000000.01"], &["c", "NULL"]]);
        let theirs = rows(&[&["a", "1000000"], &["b", "2.5"], &["c", "NULL"]]);
        assert_eq!(same(&ours, &theirs), Ok(()));
    }

    #[test]
    fn other_values_matter() {
        assert!(same(&rows(&[&["1"]]), &rows(&[&["2"]])).is_err());
        assert!(same(&rows(&[&["a"]]), &rows(&[&["NULL"]])).is_err());
        assert!(same(&rows(&[&["a"]]), &rows(&[])).is_err());
    }
}
