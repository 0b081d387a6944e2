//! `COPY` in binary: a signature, rows of values with their lengths, and a mark at the end.

use arrow::array::{ArrayRef, RecordBatchOptions};
use arrow::compute::concat;
use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use thalweg_types::{Error, Result, SqlState};

use super::decode::decode;
use super::row::{EncodedRows, RowEncoder, ValueFormat};

const SIGNATURE: &[u8; 11] = b"PGCOPY\n\xff\r\n\0";
/// The signature, the flags, and the length of the header's extension.
const HEADER_BYTES: usize = SIGNATURE.len() + 8;
/// Flags that a reader must understand.
const CRITICAL: u32 = 0xffff_0000;
const END: [u8; 2] = (-1_i16).to_be_bytes();
/// Maximum length of a row.
const ROW_BYTES_MAX: usize = 1 << 30;

/// Encodes rows as binary `COPY`.
pub struct BinaryCopyEncoder {
    rows: RowEncoder,
}

impl BinaryCopyEncoder {
    /// An encoder for rows of the schema.
    #[must_use]
    pub fn new(schema: SchemaRef) -> BinaryCopyEncoder {
        let formats = vec![ValueFormat::Binary; schema.fields().len()];
        BinaryCopyEncoder { rows: RowEncoder::new(schema, formats) }
    }

    /// Appends the signature and the header, without flags or extension.
    pub fn begin(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(SIGNATURE);
        out.extend_from_slice(&[0; HEADER_BYTES - SIGNATURE.len()]);
    }

    /// # Errors
    /// Like [`RowEncoder::batch`].
    pub fn batch(&self, batch: &RecordBatch) -> Result<EncodedRows> {
        self.rows.batch(batch)
    }

    /// Appends one row, which starts with its number of fields.
    pub fn row(rows: &mut EncodedRows, row: usize, out: &mut Vec<u8>) {
        rows.values(row, out);
    }

    /// Appends the mark after the last row.
    pub fn end(out: &mut Vec<u8>) {
        out.extend_from_slice(&END);
    }
}

/// Decodes rows from binary `COPY` that arrives in pieces.
pub struct BinaryCopyDecoder {
    schema: SchemaRef,
    /// Received bytes that are not a whole row yet.
    buffer: Vec<u8>,
    /// Decoded rows that are not a batch yet: their values, by column.
    columns: Vec<Vec<ArrayRef>>,
    rows: usize,
    batch_rows: usize,
    expected: Expected,
}

/// The next part of the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expected {
    Header,
    /// This many bytes of the header's extension, which are skipped.
    Extension(usize),
    Row,
    Nothing,
}

impl BinaryCopyDecoder {
    /// A decoder that expects the header first and emits batches of at most `batch_rows` rows.
    #[must_use]
    pub fn new(schema: SchemaRef, batch_rows: usize) -> BinaryCopyDecoder {
        BinaryCopyDecoder {
            columns: vec![Vec::new(); schema.fields().len()],
            schema,
            buffer: Vec::new(),
            rows: 0,
            batch_rows,
            expected: Expected::Header,
        }
    }

    /// Adds the next piece; returns the batches that are full.
    ///
    /// # Errors
    /// If the data are not rows of the schema.
    pub fn push(&mut self, piece: &[u8]) -> Result<Vec<RecordBatch>> {
        self.buffer.extend_from_slice(piece);
        let buffer = std::mem::take(&mut self.buffer);
        let mut rest = buffer.as_slice();
        let mut batches = Vec::new();
        while let Some(after) = self.take(rest)? {
            rest = after;
            if self.rows == self.batch_rows {
                batches.push(self.flush()?);
            }
        }
        let taken = buffer.len() - rest.len();
        self.buffer = buffer;
        // This moves no bytes while a value arrives that spans many pieces.
        self.buffer.drain(..taken);
        Ok(batches)
    }

    /// Ends the data; returns the remaining batches.
    ///
    /// # Errors
    /// If the data end within a row.
    pub fn finish(&mut self) -> Result<Vec<RecordBatch>> {
        match self.expected {
            Expected::Header if self.buffer.len() < SIGNATURE.len() => return Err(no_signature()),
            Expected::Header => return Err(malformed("invalid COPY file header (missing length)")),
            Expected::Extension(_) => {
                return Err(malformed("invalid COPY file header (wrong length)"));
            }
            Expected::Row if !self.buffer.is_empty() => {
                return Err(malformed("unexpected EOF in COPY data"));
            }
            Expected::Row | Expected::Nothing => {}
        }
        Ok(if self.rows > 0 { vec![self.flush()?] } else { Vec::new() })
    }

    /// Reads the expected part from the front; `None` if it is incomplete.
    fn take<'a>(&mut self, bytes: &'a [u8]) -> Result<Option<&'a [u8]>> {
        match self.expected {
            Expected::Header => self.take_header(bytes),
            Expected::Extension(length) => {
                let taken = length.min(bytes.len());
                let left = length - taken;
                self.expected = if left > 0 { Expected::Extension(left) } else { Expected::Row };
                Ok((left == 0 || taken > 0).then_some(&bytes[taken..]))
            }
            Expected::Row => self.take_row(bytes),
            Expected::Nothing if bytes.is_empty() => Ok(None),
            Expected::Nothing => Err(malformed("received copy data after EOF marker")),
        }
    }

    fn take_header<'a>(&mut self, bytes: &'a [u8]) -> Result<Option<&'a [u8]>> {
        let known = bytes.len().min(SIGNATURE.len());
        if bytes[..known] != SIGNATURE[..known] {
            return Err(no_signature());
        }
        let Some((header, rest)) = bytes.split_first_chunk::<HEADER_BYTES>() else {
            return Ok(None);
        };
        let mut words = header[SIGNATURE.len()..].chunks_exact(4);
        let mut word = || words.next().and_then(|word| word.try_into().ok()).unwrap_or([0; 4]);
        if u32::from_be_bytes(word()) & CRITICAL != 0 {
            return Err(malformed("unrecognized critical flags in COPY file header"));
        }
        let length = usize::try_from(i32::from_be_bytes(word()));
        let length = length.map_err(|_| malformed("invalid COPY file header (missing length)"))?;
        self.expected = Expected::Extension(length);
        Ok(Some(rest))
    }

    fn take_row<'a>(&mut self, bytes: &'a [u8]) -> Result<Option<&'a [u8]>> {
        let Some((count, mut rest)) = bytes.split_first_chunk::<2>() else { return Ok(None) };
        let wanted = self.schema.fields().len();
        match i16::from_be_bytes(*count) {
            -1 => {
                self.expected = Expected::Nothing;
                return Ok(Some(rest));
            }
            count if usize::try_from(count) == Ok(wanted) => {}
            count => {
                let message = format!("row field count is {count}, expected {wanted}");
                return Err(malformed(&message));
            }
        }
        let mut values = Vec::with_capacity(wanted);
        for _ in 0..wanted {
            let Some((length, after)) = rest.split_first_chunk::<4>() else { return Ok(None) };
            rest = after;
            let length = i32::from_be_bytes(*length);
            if length == -1 {
                values.push(None);
                continue;
            }
            let length = usize::try_from(length).map_err(|_| malformed("invalid field size"))?;
            if bytes.len() - rest.len() + length > ROW_BYTES_MAX {
                return Err(too_long());
            }
            let Some((value, after)) = rest.split_at_checked(length) else { return Ok(None) };
            values.push(Some(value));
            rest = after;
        }
        for ((field, value), column) in
            self.schema.fields().iter().zip(values).zip(&mut self.columns)
        {
            column.push(decode(field, ValueFormat::Binary, value)?);
        }
        self.rows += 1;
        Ok(Some(rest))
    }

    fn flush(&mut self) -> Result<RecordBatch> {
        let mut columns = Vec::with_capacity(self.columns.len());
        for values in &mut self.columns {
            let values = std::mem::take(values);
            let values: Vec<_> = values.iter().map(AsRef::as_ref).collect();
            columns.push(concat(&values).map_err(unfit)?);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(self.rows));
        self.rows = 0;
        RecordBatch::try_new_with_options(self.schema.clone(), columns, &options).map_err(unfit)
    }
}

fn no_signature() -> Error {
    malformed("COPY file signature not recognized")
}

fn too_long() -> Error {
    let message = format!("a row of COPY data is longer than {ROW_BYTES_MAX} bytes");
    Error::new(SqlState::LIMIT_EXCEEDED, message)
}

fn malformed(message: &str) -> Error {
    Error::new(SqlState::BAD_COPY_FILE_FORMAT, message)
}

fn unfit(error: arrow::error::ArrowError) -> Error {
    Error::internal("copied values do not fit their columns").with_source(error)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::AsArray;
    use arrow::datatypes::{DataType, Field, Int64Type, Schema};

    use super::*;

    const FLAGS_AND_LENGTH: [u8; 8] = [0; 8];
    const ROW: [u8; 14] = [0, 1, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 5];

    fn decoder(data_type: DataType) -> BinaryCopyDecoder {
        let schema = Schema::new(vec![Field::new("a", data_type, true)]);
        BinaryCopyDecoder::new(Arc::new(schema), 1_000)
    }

    fn copied(parts: &[&[u8]]) -> Result<Vec<i64>, (&'static str, String)> {
        let mut decoder = decoder(DataType::Int64);
        let mut copied = || {
            let mut batches = Vec::new();
            for part in parts {
                batches.append(&mut decoder.push(part)?);
            }
            batches.append(&mut decoder.finish()?);
            Ok(batches)
        };
        let batches: Vec<RecordBatch> =
            copied().map_err(|error: Error| (error.state().0, error.message().to_owned()))?;
        let values = batches
            .iter()
            .flat_map(|batch| batch.column(0).as_primitive::<Int64Type>().values().to_vec());
        Ok(values.collect())
    }

    #[test]
    fn files_are_read_as_postgres_reads_them() {
        let head: &[u8] = &[SIGNATURE.as_slice(), &FLAGS_AND_LENGTH].concat();
        for (parts, expected) in [
            (&[head, &ROW, &END][..], &[5][..]),
            (&[head, &ROW, &ROW], &[5, 5]),
            (&[head], &[]),
            (&[head, &END], &[]),
            (&[SIGNATURE, &[0, 0, 0, 3, 0, 0, 0, 0], &ROW, &END], &[5]),
            (&[SIGNATURE, &[0, 0, 0, 0, 0, 0, 0, 5], b"hello", &ROW], &[5]),
        ] {
            assert_eq!(copied(parts).unwrap(), expected);
            let bytes = parts.concat();
            let single: Vec<&[u8]> = bytes.chunks(1).collect();
            assert_eq!(copied(&single).unwrap(), expected, "byte by byte");
        }
    }

    /// PostgreSQL 15's results.
    #[test]
    fn broken_files_are_refused_as_postgres_refuses_them() {
        let head: &[u8] = &[SIGNATURE.as_slice(), &FLAGS_AND_LENGTH].concat();
        for (parts, state) in [
            (&[][..], "22P04"),
            (&[b"PGCOPX".as_slice()], "22P04"),
            (&[SIGNATURE], "22P04"),
            (&[SIGNATURE, &[0, 0, 0, 0, 0, 0]], "22P04"),
            (&[SIGNATURE, &[0, 2, 0, 0, 0, 0, 0, 0], &ROW], "22P04"),
            (&[SIGNATURE, &[0, 1, 0, 0, 0, 0, 0, 0], &ROW], "22P04"),
            (&[SIGNATURE, &[0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff], &ROW], "22P04"),
            (&[SIGNATURE, &[0, 0, 0, 0, 0, 0, 0, 50], b"x"], "22P04"),
            (&[head, &ROW, &END, b"x"], "22P04"),
            (&[head, &ROW, &END, &ROW], "22P04"),
            (&[head, &ROW[..5]], "22P04"),
            (&[head, &[0, 2]], "22P04"),
            (&[head, &[0, 1, 0xff, 0xff, 0xff, 0xfe]], "22P04"),
            (&[head, &[0, 1, 0, 0, 0, 4, 0xff, 0xff, 0xff, 0xff]], "08P01"),
            (&[head, &[0, 1, 0, 0, 0, 9], &[0; 9]], "22P03"),
            (&[head, &[0, 1, 0x40, 0, 0, 0], b"x"], "54000"),
        ] {
            assert_eq!(copied(parts).unwrap_err().0, state, "{parts:?}");
            let bytes = parts.concat();
            let single: Vec<&[u8]> = bytes.chunks(1).collect();
            assert_eq!(copied(&single).unwrap_err().0, state, "byte by byte: {parts:?}");
        }
    }

    /// The received part of a long value stays in place: the cost of a piece depends only on its
    /// length.
    #[test]
    fn a_long_value_is_not_moved_for_each_piece() {
        let mut decoder = decoder(DataType::BinaryView);
        let length = 1_usize << 20;
        let mut head = [SIGNATURE.as_slice(), &FLAGS_AND_LENGTH, &[0, 1]].concat();
        head.extend_from_slice(&(length as i32).to_be_bytes());
        decoder.push(&head).unwrap();
        decoder.buffer.reserve_exact(length);
        let place = decoder.buffer.as_ptr();
        for piece in vec![7; length].chunks(1 << 12) {
            assert_eq!(decoder.buffer.as_ptr(), place);
            decoder.push(piece).unwrap();
        }
        let batches = decoder.finish().unwrap();
        assert_eq!(batches[0].column(0).as_binary_view().value(0), vec![7; length]);
    }
}
