//! Python objects as values of SQL. Each object is written as text, which the engine reads by the
//! rules of the column's or parameter's type.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, StringViewArray, new_null_array};
use arrow::datatypes::{DataType as ArrowType, FieldRef, Schema};
use arrow::record_batch::{RecordBatch, RecordBatchOptions};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{
    PyBool, PyByteArray, PyBytes, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple,
};
use thalweg::ScalarValue;
use thalweg_columns::{NUMERIC_DEFAULT, from_field};
use thalweg_formats::text::{ColumnBuilder, holds_numerics, numeric_with_own_digits};
use thalweg_types::DataType;

use crate::errors::exception;

/// The kind of a Python object, as far as conversions distinguish them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Null,
    Text,
    Boolean,
    Integer,
    Float,
    Decimal,
    Bytes,
    /// A `datetime` with a zone, and one without.
    Instant,
    Timestamp,
    Date,
    Time,
    Duration,
    Interval,
    Uuid,
    Json,
    Dictionary,
    Sequence,
    /// Objects of numpy, which become objects of Python first.
    Numpy,
}

/// Classes that conversions recognize.
struct Classes {
    decimal: Py<PyAny>,
    datetime: Py<PyAny>,
    date: Py<PyAny>,
    time: Py<PyAny>,
    timedelta: Py<PyAny>,
    uuid: Py<PyAny>,
    interval: Py<PyAny>,
    json: Py<PyAny>,
    utc: Py<PyAny>,
    dumps: Py<PyAny>,
}

impl Classes {
    fn get(py: Python<'_>) -> PyResult<&Classes> {
        static CLASSES: PyOnceLock<Classes> = PyOnceLock::new();
        CLASSES.get_or_try_init(py, || {
            let (datetime, own) = (py.import("datetime")?, py.import("thalweg._types")?);
            Ok(Classes {
                decimal: py.import("decimal")?.getattr("Decimal")?.unbind(),
                datetime: datetime.getattr("datetime")?.unbind(),
                date: datetime.getattr("date")?.unbind(),
                time: datetime.getattr("time")?.unbind(),
                timedelta: datetime.getattr("timedelta")?.unbind(),
                uuid: py.import("uuid")?.getattr("UUID")?.unbind(),
                interval: own.getattr("Interval")?.unbind(),
                json: own.getattr("Json")?.unbind(),
                utc: datetime.getattr("timezone")?.getattr("utc")?.unbind(),
                dumps: py.import("json")?.getattr("dumps")?.unbind(),
            })
        })
    }
}

/// The type that a parameter gets if the statement does not determine one; `None` if the object
/// does not either.
///
/// # Errors
/// If the object has no counterpart in SQL.
pub fn own_type(object: &Bound<'_, PyAny>) -> PyResult<Option<DataType>> {
    Ok(match kind(object)? {
        Kind::Null | Kind::Text => None,
        Kind::Boolean => Some(DataType::Boolean),
        Kind::Integer if object.extract::<i64>().is_ok() => Some(DataType::Int8),
        // Each value has its own precision and scale.
        Kind::Integer | Kind::Decimal => {
            let (precision, scale) = NUMERIC_DEFAULT;
            Some(DataType::Decimal { precision, scale })
        }
        Kind::Float => Some(DataType::Float8),
        Kind::Bytes => Some(DataType::Bytea),
        Kind::Instant => Some(DataType::Timestamptz),
        Kind::Timestamp => Some(DataType::Timestamp),
        Kind::Date => Some(DataType::Date),
        Kind::Time => Some(DataType::Time),
        Kind::Duration | Kind::Interval => Some(DataType::Interval),
        Kind::Uuid => Some(DataType::Uuid),
        Kind::Json | Kind::Dictionary => Some(DataType::Jsonb),
        Kind::Sequence => {
            let mut common = None;
            for item in object.try_iter()? {
                common = match (common, own_type(&item?)?) {
                    (Some(common), Some(item)) => Some(wider(common, item)),
                    (common, item) => common.or(item),
                };
            }
            let item = common.unwrap_or(DataType::Text { max_chars: None });
            Some(DataType::Array(Box::new(item)))
        }
        Kind::Numpy => return own_type(&plain(object)?),
    })
}

/// The type that takes numbers of both types; the first one if they are no numbers.
fn wider(one: DataType, other: DataType) -> DataType {
    let rank = |data_type: &DataType| match data_type {
        DataType::Int8 => 1,
        DataType::Decimal { .. } => 2,
        DataType::Float8 => 3,
        _ => 0,
    };
    if rank(&one) > 0 && rank(&other) > rank(&one) { other } else { one }
}

/// A column of objects.
///
/// # Errors
/// If an object has no counterpart in SQL, or does not fit the field's type.
pub fn column<'py>(
    py: Python<'py>,
    field: &FieldRef,
    objects: impl Iterator<Item = PyResult<Bound<'py, PyAny>>>,
) -> PyResult<ArrayRef> {
    let data_type = from_field(field).map_err(|error| exception(py, &error))?;
    let mut column = ColumnBuilder::new(field).map_err(|error| exception(py, &error))?;
    for object in objects {
        let text = text_of(&object?, &data_type)?;
        column.append(text.as_deref()).map_err(|error| exception(py, &error))?;
    }
    Ok(column.finish())
}

/// The values of parameters in one row, a sequence with an object for each of them. Numerics have
/// their own precision and scale. Messages name the row by its number.
///
/// # Errors
/// If the row has another length; see [`column`].
pub fn values<'py>(
    py: Python<'py>,
    parameters: &[FieldRef],
    row: &Bound<'py, PyAny>,
    number: usize,
) -> PyResult<Vec<ScalarValue>> {
    check_length(row, number, parameters.len())?;
    let value = |(parameter, index): (&FieldRef, usize)| {
        let object = row.get_item(index)?;
        let array = if holds_numerics(parameter.data_type()) {
            numeric(py, parameter, &object)?
        } else {
            column(py, parameter, std::iter::once(Ok(object)))?
        };
        ScalarValue::try_from_array(&array, 0)
            .map_err(|error| PyValueError::new_err(error.to_string()))
    };
    parameters.iter().zip(0..).map(value).collect()
}

fn numeric(py: Python<'_>, parameter: &FieldRef, object: &Bound<'_, PyAny>) -> PyResult<ArrayRef> {
    let data_type = from_field(parameter).map_err(|error| exception(py, &error))?;
    let Some(text) = text_of(object, &data_type)? else {
        return Ok(new_null_array(parameter.data_type(), 1));
    };
    let texts: ArrayRef = match kind(object)? {
        // Digits for which there is no room are not worth an error in an inexact number.
        Kind::Float => Arc::new(Float64Array::from(vec![object.extract::<f64>()?])),
        _ => Arc::new(StringViewArray::from(vec![text])),
    };
    numeric_with_own_digits(parameter, &texts).map_err(|error| exception(py, &error))
}

/// A batch of rows, each a sequence with an object for each field. Texts have no limit of their
/// length, so that assignment to a column checks it.
///
/// # Errors
/// If a row has another length; see [`column`].
pub fn batch<'py>(
    py: Python<'py>,
    fields: &[FieldRef],
    rows: &[Bound<'py, PyAny>],
) -> PyResult<RecordBatch> {
    for (row, number) in rows.iter().zip(1..) {
        check_length(row, number, fields.len())?;
    }
    let fields: Vec<FieldRef> = fields.iter().map(without_limit).collect();
    let mut columns = Vec::with_capacity(fields.len());
    for (field, index) in fields.iter().zip(0..) {
        columns.push(column(py, field, rows.iter().map(|row| row.get_item(index)))?);
    }
    let schema = Arc::new(Schema::new(fields));
    let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
    RecordBatch::try_new_with_options(schema, columns, &options)
        .map_err(|error| PyValueError::new_err(error.to_string()))
}

/// The field with `text` in place of `varchar(n)`.
fn without_limit(field: &FieldRef) -> FieldRef {
    let data_type = match field.data_type() {
        ArrowType::List(item) => ArrowType::List(without_limit(item)),
        other => other.clone(),
    };
    let unlimited = field.as_ref().clone().with_data_type(data_type);
    match from_field(field) {
        Ok(DataType::Text { .. }) => Arc::new(unlimited.with_metadata(HashMap::new())),
        _ => Arc::new(unlimited),
    }
}

fn check_length(row: &Bound<'_, PyAny>, number: usize, wanted: usize) -> PyResult<()> {
    let given = row.len()?;
    if given == wanted {
        return Ok(());
    }
    let message = format!("row {number} has {given} values for {wanted} columns");
    Err(PyValueError::new_err(message))
}

/// The text of an object for a value of the type; `None` is NULL.
fn text_of(object: &Bound<'_, PyAny>, data_type: &DataType) -> PyResult<Option<String>> {
    let classes = Classes::get(object.py())?;
    Ok(Some(match kind(object)? {
        Kind::Null => return Ok(None),
        Kind::Text => object.extract()?,
        Kind::Boolean => object.extract::<bool>()?.to_string(),
        Kind::Float => return float_text(object, data_type),
        Kind::Decimal if is_nan(object)? && !is_float(data_type) => return Ok(None),
        // The text of an enumeration's member would be its name.
        Kind::Integer => object.call_method0("__int__")?.str()?.extract()?,
        Kind::Decimal | Kind::Uuid => object.str()?.extract()?,
        Kind::Bytes => hexadecimal(object)?,
        Kind::Timestamp if *data_type == DataType::Date => {
            isoformat(&object.call_method0("date")?)?
        }
        Kind::Instant => {
            let utc = object.call_method1("astimezone", (&classes.utc,))?;
            let text = isoformat(&utc)?;
            match data_type {
                DataType::Timestamptz => text,
                DataType::Date => isoformat(&utc.call_method0("date")?)?,
                // A timestamp without a zone is one of UTC.
                _ => text.trim_end_matches("+00:00").to_owned(),
            }
        }
        Kind::Timestamp | Kind::Date | Kind::Time => isoformat(object)?,
        Kind::Duration => duration_text(object)?,
        Kind::Interval => {
            let (months, days, micros): (i64, i64, i64) = object.extract()?;
            format!("{months} mons {days} days {micros} microseconds")
        }
        Kind::Json => json_text(&object.getattr("value")?)?,
        Kind::Dictionary => json_text(object)?,
        Kind::Sequence => match data_type {
            DataType::Json | DataType::Jsonb => json_text(object)?,
            DataType::Array(item) => array_text(object, item)?,
            other => {
                let message = format!("a value of the type {other} cannot be a list");
                return Err(PyTypeError::new_err(message));
            }
        },
        Kind::Numpy => return text_of(&plain(object)?, data_type),
    }))
}

fn kind(object: &Bound<'_, PyAny>) -> PyResult<Kind> {
    let known = if object.is_none() {
        Some(Kind::Null)
    } else if object.is_instance_of::<PyString>() {
        Some(Kind::Text)
    } else if object.is_instance_of::<PyBool>() {
        Some(Kind::Boolean)
    } else if object.is_instance_of::<PyInt>() {
        Some(Kind::Integer)
    } else if object.is_instance_of::<PyFloat>() {
        Some(Kind::Float)
    } else if object.is_instance_of::<PyBytes>() || object.is_instance_of::<PyByteArray>() {
        Some(Kind::Bytes)
    } else if object.is_instance_of::<PyDict>() {
        Some(Kind::Dictionary)
    } else if object.is_instance_of::<PyList>() || object.is_exact_instance_of::<PyTuple>() {
        Some(Kind::Sequence)
    } else {
        None
    };
    match known {
        Some(kind) => Ok(kind),
        None => kind_of_class(object),
    }
}

/// The kind of an object whose class is not built in.
fn kind_of_class(object: &Bound<'_, PyAny>) -> PyResult<Kind> {
    let (py, classes) = (object.py(), Classes::get(object.py())?);
    let name = object.get_type().name()?;
    // The missing values of pandas. The first one calls itself a datetime.
    if name == "NaTType" || name == "NAType" {
        return Ok(Kind::Null);
    }
    if object.is_instance(classes.datetime.bind(py))? {
        let zone = object.getattr("tzinfo")?;
        return Ok(if zone.is_none() { Kind::Timestamp } else { Kind::Instant });
    }
    for (class, kind) in [
        (&classes.decimal, Kind::Decimal),
        (&classes.date, Kind::Date),
        (&classes.time, Kind::Time),
        (&classes.timedelta, Kind::Duration),
        (&classes.uuid, Kind::Uuid),
        (&classes.interval, Kind::Interval),
        (&classes.json, Kind::Json),
    ] {
        if object.is_instance(class.bind(py))? {
            return Ok(kind);
        }
    }
    if object.get_type().module()? == "numpy" {
        return Ok(Kind::Numpy);
    }
    if name == "memoryview" {
        return Ok(Kind::Bytes);
    }
    if object.is_instance_of::<PyTuple>() {
        return Ok(Kind::Sequence);
    }
    Err(no_counterpart(&name.to_string()))
}

/// The object of Python for one of numpy.
///
/// # Errors
/// If Python has none, as for numbers of 80 bits.
fn plain<'py>(object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let kind: String = object.getattr("dtype")?.getattr("kind")?.extract()?;
    let made = match kind.as_str() {
        // Microseconds, because nanoseconds would become plain numbers.
        "M" => object.call_method1("astype", ("datetime64[us]",))?.call_method0("tolist")?,
        "m" => object.call_method1("astype", ("timedelta64[us]",))?.call_method0("tolist")?,
        _ => object.call_method0("tolist")?,
    };
    let class = made.get_type();
    if class.module()? == "numpy" {
        return Err(no_counterpart(&class.name()?.to_string()));
    }
    Ok(made)
}

fn no_counterpart(class: &str) -> PyErr {
    PyTypeError::new_err(format!("an object of the class {class} has no counterpart in SQL"))
}

/// An integral float may go into a column of integers. NaN, which stands for a missing value in
/// many libraries, is NULL where the type has no NaN.
fn float_text(object: &Bound<'_, PyAny>, data_type: &DataType) -> PyResult<Option<String>> {
    let value: f64 = object.extract()?;
    Ok(match data_type {
        _ if value.is_nan() && !is_float(data_type) => None,
        DataType::Int2 | DataType::Int4 | DataType::Int8 if value.fract() == 0.0 => {
            Some(format!("{value:.0}"))
        }
        _ if value.is_infinite() => {
            Some(if value > 0.0 { "Infinity" } else { "-Infinity" }.to_owned())
        }
        _ => Some(format!("{value}")),
    })
}

fn is_float(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Float4 | DataType::Float8)
}

fn is_nan(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    object.call_method0("is_nan")?.extract()
}

fn isoformat(object: &Bound<'_, PyAny>) -> PyResult<String> {
    object.call_method0("isoformat")?.extract()
}

fn json_text(object: &Bound<'_, PyAny>) -> PyResult<String> {
    let dumps = Classes::get(object.py())?.dumps.bind(object.py());
    dumps.call1((object,))?.extract()
}

fn hexadecimal(object: &Bound<'_, PyAny>) -> PyResult<String> {
    let digits: String = object.call_method0("hex")?.extract()?;
    Ok(format!("\\x{digits}"))
}

fn duration_text(object: &Bound<'_, PyAny>) -> PyResult<String> {
    let part = |name: &str| object.getattr(name)?.extract::<i64>();
    let (days, seconds, micros) = (part("days")?, part("seconds")?, part("microseconds")?);
    Ok(format!("{days} days {seconds} seconds {micros} microseconds"))
}

/// An array as SQL writes it: `{1,2,NULL}`.
fn array_text(object: &Bound<'_, PyAny>, item: &DataType) -> PyResult<String> {
    let mut text = String::from("{");
    for (element, index) in object.try_iter()?.zip(0..) {
        if index > 0 {
            text.push(',');
        }
        let element = element?;
        let is_nested = matches!(item, DataType::Array(_)) && kind(&element)? == Kind::Sequence;
        match text_of(&element, item)? {
            None => text.push_str("NULL"),
            Some(nested) if is_nested => text.push_str(&nested),
            Some(value) => {
                text.push('"');
                for character in value.chars() {
                    if matches!(character, '"' | '\\') {
                        text.push('\\');
                    }
                    text.push(character);
                }
                text.push('"');
            }
        }
    }
    text.push('}');
    Ok(text)
}
