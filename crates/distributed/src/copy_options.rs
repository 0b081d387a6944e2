//! Conversion of a `COPY` format to and from its wire form, for workers that encode its rows.

use thalweg_formats::{ColumnSet, Format, Marks, WriteOptions};
use thalweg_protocol::cluster as wire;
use thalweg_protocol::cluster::copy_data::Format as Told;
use thalweg_types::{Error, Result, SqlState};

/// Converts options to wire form; `None` for formats that are not sent to clients.
pub(crate) fn to_wire(options: &WriteOptions) -> Option<wire::CopyData> {
    let format = match options.format.unwrap_or(Format::Text) {
        Format::Text => Told::Text,
        Format::Csv => Told::Csv,
        Format::Tsv => Told::Tsv,
        Format::Binary => Told::Binary,
        Format::Json | Format::Parquet | Format::Arrow | Format::ArrowStream => return None,
    };
    let Marks { delimiter, quote, escape, null } = &options.marks;
    let quoted = match &options.force_quote {
        ColumnSet::Named(names) => names.clone(),
        ColumnSet::None | ColumnSet::All => Vec::new(),
    };
    Some(wire::CopyData {
        format: format.into(),
        delimiter: delimiter.map(u32::from),
        quote: quote.map(u32::from),
        escape: escape.map(u32::from),
        null: null.clone(),
        quotes_all: options.force_quote == ColumnSet::All,
        quoted,
    })
}

/// Converts options from wire form.
///
/// # Errors
/// If a delimiter, quote or escape is not a single byte.
pub(crate) fn from_wire(copy: &wire::CopyData) -> Result<WriteOptions> {
    let format = match copy.format() {
        Told::Text => Format::Text,
        Told::Csv => Format::Csv,
        Told::Tsv => Format::Tsv,
        Told::Binary => Format::Binary,
    };
    let marks = Marks {
        delimiter: mark(copy.delimiter)?,
        quote: mark(copy.quote)?,
        escape: mark(copy.escape)?,
        null: copy.null.clone(),
    };
    let force_quote = match (copy.quotes_all, copy.quoted.is_empty()) {
        (true, _) => ColumnSet::All,
        (false, true) => ColumnSet::None,
        (false, false) => ColumnSet::Named(copy.quoted.clone()),
    };
    Ok(WriteOptions { format: Some(format), marks, force_quote, ..WriteOptions::default() })
}

fn mark(character: Option<u32>) -> Result<Option<u8>> {
    let byte = character.map(u8::try_from).transpose();
    byte.map_err(|_| Error::new(SqlState::PROTOCOL_VIOLATION, "a mark of a COPY is no byte"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_come_as_they_went() {
        let marks = Marks {
            delimiter: Some(b';'),
            quote: Some(b'\''),
            escape: None,
            null: Some(String::new()),
        };
        for format in [Format::Text, Format::Csv, Format::Tsv, Format::Binary] {
            for force_quote in
                [ColumnSet::None, ColumnSet::All, ColumnSet::Named(vec!["a".to_owned()])]
            {
                let options = WriteOptions {
                    format: Some(format),
                    marks: marks.clone(),
                    force_quote,
                    ..WriteOptions::default()
                };
                assert_eq!(from_wire(&to_wire(&options).unwrap()).unwrap(), options);
            }
        }
        let parquet = WriteOptions { format: Some(Format::Parquet), ..WriteOptions::default() };
        assert_eq!(to_wire(&parquet), None);
        let wrong = wire::CopyData { quote: Some(256), ..wire::CopyData::default() };
        assert!(from_wire(&wrong).is_err());
    }
}
