//! Decodes JSON lines to record batches, piece by piece.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::RecordBatchOptions;
use arrow::datatypes::{DataType, SchemaRef};
use arrow::record_batch::RecordBatch;
use thalweg_types::{Error, Result, SqlState};

use super::object;
use crate::columns::{JSON, JSONB, type_name, type_tag};
use crate::csv::invalid_bytes;
use crate::location::located;
use crate::text::ColumnBuilder;

/// Decodes JSON lines that arrive in pieces of any size.
///
/// A missing key is NULL, and so is `null`; keys that are not columns are ignored unless
/// [`refusing_unknown_keys`](Self::refusing_unknown_keys) is set. Batches have the target schema,
/// each but the last with exactly `batch_rows` rows. After an error the decoder is unusable.
pub struct JsonDecoder {
    source: String,
    target: SchemaRef,
    /// The position of a column by its name, and by its lower-case name if that is unambiguous.
    places: HashMap<String, usize>,
    columns: Vec<ColumnBuilder>,
    rows: usize,
    batch_rows: usize,
    /// The beginning of an incomplete line.
    partial: Vec<u8>,
    /// The number of the next line, counted from 1.
    line: u64,
    refuses_unknown_keys: bool,
    line_bytes_max: usize,
}

impl JsonDecoder {
    /// `source` names the text in errors.
    pub fn new(source: &str, target: &SchemaRef, batch_rows: usize) -> Result<JsonDecoder> {
        JsonDecoder::starting(source, target, batch_rows, 1)
    }

    pub(crate) fn starting(
        source: &str,
        target: &SchemaRef,
        batch_rows: usize,
        line: u64,
    ) -> Result<JsonDecoder> {
        Ok(JsonDecoder {
            source: source.to_owned(),
            target: Arc::clone(target),
            places: places_of(target),
            columns: target.fields().iter().map(ColumnBuilder::new).collect::<Result<_>>()?,
            rows: 0,
            batch_rows: batch_rows.max(1),
            partial: Vec::new(),
            line,
            refuses_unknown_keys: false,
            line_bytes_max: usize::MAX,
        })
    }

    /// Makes a key that is no column an error.
    #[must_use]
    pub fn refusing_unknown_keys(self) -> JsonDecoder {
        JsonDecoder { refuses_unknown_keys: true, ..self }
    }

    /// Sets the number of the next line, for errors.
    #[must_use]
    pub fn at_line(self, line: u64) -> JsonDecoder {
        JsonDecoder { line, ..self }
    }

    /// The number of the next line; after an error, of the line that has it.
    #[must_use]
    pub fn line(&self) -> u64 {
        self.line
    }

    /// Limits the length of a line, which is held in memory until it is complete.
    #[must_use]
    pub fn with_line_bytes_max(self, bytes: usize) -> JsonDecoder {
        JsonDecoder { line_bytes_max: bytes, ..self }
    }

    /// Adds the next piece; returns the batches that are full.
    pub fn push(&mut self, piece: &[u8]) -> Result<Vec<RecordBatch>> {
        let mut batches = Vec::new();
        let mut rest = piece;
        while let Some(end) = memchr::memchr(b'\n', rest) {
            if self.partial.is_empty() {
                self.decode_line(&rest[..end])?;
            } else {
                self.partial.extend_from_slice(&rest[..end]);
                let line = std::mem::take(&mut self.partial);
                self.decode_line(&line)?;
            }
            rest = &rest[end + 1..];
            if self.rows == self.batch_rows {
                batches.push(self.flush()?);
            }
        }
        self.partial.extend_from_slice(rest);
        if self.partial.len() > self.line_bytes_max {
            return Err(located(too_long(self.line_bytes_max), self.location()));
        }
        Ok(batches)
    }

    /// Ends the text; returns the last batch.
    pub fn finish(&mut self) -> Result<Vec<RecordBatch>> {
        let line = std::mem::take(&mut self.partial);
        self.decode_line(&line)?;
        if self.rows == 0 {
            return Ok(Vec::new());
        }
        Ok(vec![self.flush()?])
    }

    fn decode_line(&mut self, line: &[u8]) -> Result<()> {
        let text = match std::str::from_utf8(line) {
            Ok(text) => text,
            Err(error) => {
                let bad = &line[error.valid_up_to()..];
                let length = error.error_len().unwrap_or(bad.len());
                return Err(located(invalid_bytes(&bad[..length]), self.location()));
            }
        };
        if !text.trim_ascii().is_empty() {
            self.append_row(text).map_err(|(error, column)| {
                let place = self.location();
                let column = column.map(|column| self.target.field(column).name());
                let column = column.map_or(String::new(), |name| format!(", column \"{name}\""));
                located(error, place + &column)
            })?;
        }
        self.line += 1;
        Ok(())
    }

    fn append_row(&mut self, text: &str) -> Result<(), (Error, Option<usize>)> {
        let object = object::parse(text).map_err(|error| (error, None))?;
        let mut values = vec![None; self.columns.len()];
        for (key, value) in &object.0 {
            match self.place_of(key) {
                Some(place) => values[place] = Some(value.get()),
                None if self.refuses_unknown_keys => return Err((unknown_key(key), None)),
                None => {}
            }
        }
        for (place, (column, value)) in self.columns.iter_mut().zip(values).enumerate() {
            append(column, value.unwrap_or("null")).map_err(|error| (error, Some(place)))?;
        }
        self.rows += 1;
        Ok(())
    }

    fn location(&self) -> String {
        format!("{}, line {}", self.source, self.line)
    }

    fn place_of(&self, key: &str) -> Option<usize> {
        self.places.get(key).or_else(|| self.places.get(&key.to_lowercase())).copied()
    }

    fn flush(&mut self) -> Result<RecordBatch> {
        let columns = self.columns.iter_mut().map(ColumnBuilder::finish).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(self.rows));
        self.rows = 0;
        RecordBatch::try_new_with_options(Arc::clone(&self.target), columns, &options)
            .map_err(|error| Error::internal(error.to_string()))
    }
}

fn places_of(target: &SchemaRef) -> HashMap<String, usize> {
    let names = || target.fields().iter().enumerate().map(|(place, field)| (place, field.name()));
    let mut places: HashMap<String, usize> = HashMap::new();
    for (place, name) in names() {
        places.insert(name.to_lowercase(), place);
    }
    for (place, name) in names() {
        places.insert(name.clone(), place);
    }
    places
}

/// Appends a value that is given as JSON.
fn append(column: &mut ColumnBuilder, raw: &str) -> Result<()> {
    if raw == "null" {
        return column.append(None);
    }
    if let Some(JSON | JSONB) = type_tag(column.field()) {
        return column.append(Some(raw));
    }
    match raw.as_bytes().first() {
        Some(b'"') => append_string(column, raw),
        Some(b'[') => append_items(column, raw),
        Some(b'{') => Err(wrong_type(column, "an object")),
        _ => column.append(Some(raw)),
    }
}

fn append_string(column: &mut ColumnBuilder, raw: &str) -> Result<()> {
    let text = object::string(raw).ok_or_else(|| {
        let message = "a JSON string holds half of a surrogate pair";
        Error::new(SqlState::INVALID_TEXT_REPRESENTATION, message)
    })?;
    if text.contains('\0') && column.field().data_type() == &DataType::Utf8View {
        return Err(invalid_bytes(&[0]));
    }
    column.append(Some(&text))
}

fn append_items(column: &mut ColumnBuilder, raw: &str) -> Result<()> {
    let items = object::items(raw).unwrap_or_default();
    let appended =
        column.append_list(|column| items.iter().try_for_each(|item| append(column, item.get())));
    appended.unwrap_or_else(|| Err(wrong_type(column, "an array")))
}

/// The keys of the object on a line, in their order.
///
/// # Errors
/// 22P02 if the line holds no object.
pub fn json_keys(line: &[u8]) -> Result<Vec<String>> {
    let text = str::from_utf8(line).map_err(|error| {
        let bad = &line[error.valid_up_to()..];
        invalid_bytes(&bad[..error.error_len().unwrap_or(bad.len())])
    })?;
    Ok(object::parse(text)?.0.into_iter().map(|(key, _)| key.into_owned()).collect())
}

fn unknown_key(key: &str) -> Error {
    let message = format!("the key \"{key}\" is not one of the columns");
    Error::new(SqlState::UNDEFINED_COLUMN, message)
}

fn too_long(bytes_max: usize) -> Error {
    let message = format!("a line is longer than the limit of {bytes_max} bytes");
    Error::new(SqlState::LIMIT_EXCEEDED, message)
}

fn wrong_type(column: &ColumnBuilder, found: &str) -> Error {
    let field = column.field();
    Error::new(
        SqlState::DATATYPE_MISMATCH,
        format!(
            "column \"{}\" is of type {} but the value is {found}",
            field.name(),
            type_name(field)
        ),
    )
}
