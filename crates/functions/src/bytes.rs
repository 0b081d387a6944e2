//! Functions of bytes: single bytes and bits, substrings, and conversion to text.

mod as_text;
mod coding;

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryViewBuilder, Int32Array, Int64Array, StringViewArray,
};
use arrow::datatypes::{DataType as ArrowType, Field, Int64Type};
use datafusion::logical_expr::{ScalarUDF, TypeSignature};
use thalweg_types::{DataType, Error, Result, SqlState};
use thalweg_values::cast::{Manner, convert};
use thalweg_values::scalar_function::{Compute, Function};
use thalweg_values::types::display_name;

use thalweg_values::bounded_output::allow_all;

pub(super) use as_text::PlannerOfBoth;

pub(super) fn functions() -> Vec<Arc<ScalarUDF>> {
    let define = |name, arguments, returns: ArrowType, compute: Compute| {
        Function::signed(name, TypeSignature::Any(arguments), returns, compute).into_udf()
    };
    let bytes = || ArrowType::BinaryView;
    let text = || ArrowType::Utf8View;
    let mut functions = vec![
        define("encode", 2, text(), coding::encode),
        define("decode", 2, bytes(), coding::decode),
        define("convert_from", 2, text(), convert_from),
        define("convert_to", 2, bytes(), convert_to),
        define("get_byte", 2, ArrowType::Int32, get_byte),
        define("get_bit", 2, ArrowType::Int32, get_bit),
        define("set_byte", 3, bytes(), set_byte),
        define("set_bit", 3, bytes(), set_bit),
        define("bit_count", 1, ArrowType::Int64, bit_count),
    ];
    functions.extend(as_text::functions());
    functions
}

/// The values in a type; literals of bytes are written as PostgreSQL writes them.
fn converted(column: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
    let given = Field::new("", column.data_type().clone(), true);
    convert(column, &given, to, Manner::Explicit)?.ok_or_else(|| {
        let error_text = format!("the function does not take {}", display_name(&given));
        Error::new(SqlState::UNDEFINED_FUNCTION, error_text)
            .with_hint("You might need to add explicit type casts.")
    })
}

/// Bytes, and a whole number for each row.
struct Numbered {
    bytes: ArrayRef,
    numbers: ArrayRef,
}

impl Numbered {
    fn of(columns: &[ArrayRef]) -> Result<Numbered> {
        let bytes = converted(&columns[0], &DataType::Bytea)?;
        Ok(Numbered { bytes, numbers: converted(&columns[1], &DataType::Int8)? })
    }

    fn rows(&self) -> impl Iterator<Item = Option<(&[u8], i64)>> {
        let numbers = self.numbers.as_primitive::<Int64Type>();
        let pairs = self.bytes.as_binary_view().iter().zip(numbers);
        pairs.map(|(bytes, number)| Some((bytes?, number?)))
    }
}

/// The index that a number refers to in a value of this length.
fn index_of(number: i64, length: usize) -> Result<usize> {
    usize::try_from(number).ok().filter(|place| *place < length).ok_or_else(|| {
        let last = length as i64 - 1;
        let error_text = format!("index {number} out of valid range, 0..{last}");
        Error::new(SqlState::ARRAY_SUBSCRIPT_ERROR, error_text)
    })
}

fn get_byte(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let numbered = Numbered::of(columns)?;
    let found = numbered.rows().map(|row| {
        let Some((bytes, number)) = row else { return Ok(None) };
        Ok(Some(i32::from(bytes[index_of(number, bytes.len())?])))
    });
    Ok(Arc::new(found.collect::<Result<Int32Array>>()?))
}

fn get_bit(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let numbered = Numbered::of(columns)?;
    let found = numbered.rows().map(|row| {
        let Some((bytes, number)) = row else { return Ok(None) };
        let place = index_of(number, bytes.len().saturating_mul(8))?;
        Ok(Some(i32::from((bytes[place / 8] >> (place % 8)) & 1)))
    });
    Ok(Arc::new(found.collect::<Result<Int32Array>>()?))
}

fn set_byte(columns: &[ArrayRef]) -> Result<ArrayRef> {
    changed(columns, |bytes, number, value| {
        let place = index_of(number, bytes.len())?;
        // The last byte of the number counts.
        bytes[place] = value as u8;
        Ok(())
    })
}

fn set_bit(columns: &[ArrayRef]) -> Result<ArrayRef> {
    changed(columns, |bytes, number, value| {
        let place = index_of(number, bytes.len().saturating_mul(8))?;
        let bit = 1_u8 << (place % 8);
        match value {
            0 => bytes[place / 8] &= !bit,
            1 => bytes[place / 8] |= bit,
            _ => {
                let error_text = "new bit must be 0 or 1";
                return Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, error_text));
            }
        }
        Ok(())
    })
}

fn changed(
    columns: &[ArrayRef],
    change: impl Fn(&mut [u8], i64, i64) -> Result<()>,
) -> Result<ArrayRef> {
    let numbered = Numbered::of(columns)?;
    let values = converted(&columns[2], &DataType::Int8)?;
    allow_all(&numbered.bytes, 1)?;
    let mut made = BinaryViewBuilder::new();
    for (row, value) in numbered.rows().zip(values.as_primitive::<Int64Type>()) {
        let (Some((bytes, number)), Some(value)) = (row, value) else {
            made.append_null();
            continue;
        };
        let mut bytes = bytes.to_vec();
        change(&mut bytes, number, value)?;
        made.append_value(bytes);
    }
    Ok(Arc::new(made.finish()))
}

fn bit_count(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let values = converted(&columns[0], &DataType::Bytea)?;
    let ones = |bytes: &[u8]| bytes.iter().map(|byte| i64::from(byte.count_ones())).sum::<i64>();
    let counts = values.as_binary_view().iter().map(|bytes| bytes.map(ones));
    Ok(Arc::new(counts.collect::<Int64Array>()))
}

/// The encodings of text that are converted.
enum Encoding {
    Utf8,
    Latin1,
}

impl Encoding {
    /// `end` is what of a conversion the name is given for.
    fn named(name: &str, end: &str) -> Result<Encoding> {
        let letters = name.chars().filter(char::is_ascii_alphanumeric);
        match letters.collect::<String>().to_ascii_lowercase().as_str() {
            "utf8" | "unicode" => Ok(Encoding::Utf8),
            "latin1" | "iso88591" => Ok(Encoding::Latin1),
            _ => {
                let error_text = format!("invalid {end} encoding name \"{name}\"");
                Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, error_text)
                    .with_hint("The encodings that are converted are UTF8 and LATIN1."))
            }
        }
    }
}

fn convert_from(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let values = converted(&columns[0], &DataType::Bytea)?;
    let names = converted(&columns[1], &DataType::Text { max_chars: None })?;
    // A byte becomes two bytes of UTF-8 at most.
    allow_all(&values, 2)?;
    let texts = values.as_binary_view().iter().zip(names.as_string_view()).map(|pair| {
        let (Some(bytes), Some(name)) = pair else { return Ok(None) };
        let text = match Encoding::named(name, "source")? {
            Encoding::Utf8 => of_utf8(bytes)?.to_owned(),
            Encoding::Latin1 => bytes.iter().map(|byte| char::from(*byte)).collect(),
        };
        match text.find('\0') {
            Some(_) => Err(invalid_utf8(&[0])),
            None => Ok(Some(text)),
        }
    });
    Ok(Arc::new(texts.collect::<Result<StringViewArray>>()?))
}

fn of_utf8(bytes: &[u8]) -> Result<&str> {
    str::from_utf8(bytes).map_err(|error| {
        let wrong = &bytes[error.valid_up_to()..];
        // As many bytes as the first one says that there are.
        let length = match wrong.first() {
            Some(0xc0..=0xdf) => 2,
            Some(0xe0..=0xef) => 3,
            Some(0xf0..=0xf7) => 4,
            _ => 1,
        };
        invalid_utf8(&wrong[..length.min(wrong.len())])
    })
}

fn invalid_utf8(bytes: &[u8]) -> Error {
    let error_text = format!("invalid byte sequence for encoding \"UTF8\": {}", in_hex(bytes));
    Error::new(SqlState::INVALID_BYTE_SEQUENCE, error_text)
}

fn in_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:#04x}")).collect::<Vec<_>>().join(" ")
}

fn convert_to(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let text = DataType::Text { max_chars: None };
    let (texts, names) = (converted(&columns[0], &text)?, converted(&columns[1], &text)?);
    allow_all(&texts, 1)?;
    let mut made = BinaryViewBuilder::new();
    for pair in texts.as_string_view().iter().zip(names.as_string_view()) {
        let (Some(text), Some(name)) = pair else {
            made.append_null();
            continue;
        };
        match Encoding::named(name, "destination")? {
            Encoding::Utf8 => made.append_value(text.as_bytes()),
            Encoding::Latin1 => made.append_value(latin1(text)?),
        }
    }
    Ok(Arc::new(made.finish()))
}

fn latin1(text: &str) -> Result<Vec<u8>> {
    let byte = |c: char| {
        u8::try_from(u32::from(c)).map_err(|_| {
            let bytes = in_hex(c.to_string().as_bytes());
            let error_text = format!(
                "character with byte sequence {bytes} in encoding \"UTF8\" has no equivalent in \
                 encoding \"LATIN1\""
            );
            Error::new(SqlState::UNTRANSLATABLE_CHARACTER, error_text)
        })
    };
    text.chars().map(byte).collect()
}
