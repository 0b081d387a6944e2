//! Finds the columns of a text from its beginning.

use thalweg_formats::{ReadOptions, csv_header, json_keys};
use thalweg_types::{Error, Result, SqlState};

use super::options::Format;

/// The columns that the first row of `text` names; `None` if the row is not complete. They are
/// empty if there is no row. `is_whole` is true if no text follows.
///
/// # Errors
/// If the row is malformed, or longer than `bytes_max`.
pub(super) fn first_columns(
    format: Format,
    text: &[u8],
    is_whole: bool,
    options: &ReadOptions,
    bytes_max: usize,
) -> Result<Option<Vec<String>>> {
    let found = match format {
        Format::Csv => csv_header(text, is_whole, options)?,
        _ => keys_of_first_line(text, is_whole)?,
    };
    match found {
        None if is_whole => Ok(Some(Vec::new())),
        None if text.len() > bytes_max => {
            let message = format!("a row is longer than the limit of {bytes_max} bytes");
            Err(Error::new(SqlState::LIMIT_EXCEEDED, message))
        }
        found => Ok(found),
    }
}

fn keys_of_first_line(text: &[u8], is_whole: bool) -> Result<Option<Vec<String>>> {
    let mut rest = text;
    while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
        let (line, behind) = rest.split_at(end);
        if !line.trim_ascii().is_empty() {
            return json_keys(line).map(Some);
        }
        rest = &behind[1..];
    }
    if is_whole && !rest.trim_ascii().is_empty() { json_keys(rest).map(Some) } else { Ok(None) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns(format: Format, text: &str, is_whole: bool) -> Option<String> {
        let options = ReadOptions::default();
        let found = first_columns(format, text.as_bytes(), is_whole, &options, 1_000).unwrap();
        found.map(|names| names.join(" "))
    }

    #[test]
    fn the_first_row_names_the_columns() {
        let json = Format::JsonLines;
        assert_eq!(columns(json, "\n {\"b\": 1, \"a\": {}}\n{", false).unwrap(), "b a");
        assert_eq!(columns(json, "\n{\"b\": 1", false), None);
        assert_eq!(columns(json, "{\"b\": 1}", true).unwrap(), "b");
        assert_eq!(columns(json, " \n", true).unwrap(), "");
        assert_eq!(columns(Format::Csv, "\u{feff}a,\"b\nc\"\n1,2", false).unwrap(), "a b\nc");
        assert_eq!(columns(Format::Csv, "a,b", false), None);
        assert_eq!(columns(Format::Csv, "", true).unwrap(), "");
        let long = " ".repeat(2_000);
        let refused = first_columns(json, long.as_bytes(), false, &ReadOptions::default(), 1_000);
        assert_eq!(refused.unwrap_err().state().0, "54000");
    }
}
