//! Values of results as Python objects.

use arrow::array::{Array as _, ArrayRef, AsArray as _};
use arrow::datatypes::{
    DataType, Date32Type, Field, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type,
    IntervalMonthDayNanoType, IntervalUnit, Schema, Time64MicrosecondType, TimeUnit,
    TimestampMicrosecondType,
};
use arrow::record_batch::RecordBatch;
use pyo3::IntoPyObjectExt as _;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyList, PyTuple};
use thalweg_columns::{JSON, JSONB, TYPE_KEY, UUID};
use thalweg_formats::text::{Scratch, ValueFormatter};

use crate::errors::{exception, no_conversion};

/// Python counts days from the first of January of the year 1.
const EPOCH_ORDINAL: i64 = 719_163;

const DAY_MICROS: i64 = 86_400_000_000;
const SECOND_MICROS: i64 = 1_000_000;

/// Classes and functions of Python's library that values are made with.
struct Library {
    date_from_ordinal: Py<PyAny>,
    time: Py<PyAny>,
    timedelta: Py<PyAny>,
    epoch: Py<PyAny>,
    epoch_utc: Py<PyAny>,
    decimal: Py<PyAny>,
    uuid: Py<PyAny>,
    json: Py<PyAny>,
    interval: Py<PyAny>,
}

impl Library {
    fn get(py: Python<'_>) -> PyResult<&Library> {
        static LIBRARY: PyOnceLock<Library> = PyOnceLock::new();
        LIBRARY.get_or_try_init(py, || {
            let datetime = py.import("datetime")?;
            let class = datetime.getattr("datetime")?;
            let utc = datetime.getattr("timezone")?.getattr("utc")?;
            let epoch = class.call1((1970, 1, 1))?;
            Ok(Library {
                date_from_ordinal: datetime.getattr("date")?.getattr("fromordinal")?.unbind(),
                time: datetime.getattr("time")?.unbind(),
                timedelta: datetime.getattr("timedelta")?.unbind(),
                epoch_utc: class.call1((1970, 1, 1, 0, 0, 0, 0, utc))?.unbind(),
                epoch: epoch.unbind(),
                decimal: py.import("decimal")?.getattr("Decimal")?.unbind(),
                uuid: py.import("uuid")?.getattr("UUID")?.unbind(),
                json: py.import("json")?.getattr("loads")?.unbind(),
                interval: py.import("thalweg._types")?.getattr("Interval")?.unbind(),
            })
        })
    }
}

/// Appends the rows of a batch.
///
/// # Errors
/// If a value has no counterpart in Python, such as a date before the year 1.
pub fn append_rows<'py>(
    py: Python<'py>,
    batch: &RecordBatch,
    schema: &Schema,
    rows: &mut Vec<Bound<'py, PyTuple>>,
) -> PyResult<()> {
    let mut columns = Vec::with_capacity(batch.num_columns());
    for (column, field) in batch.columns().iter().zip(schema.fields()) {
        columns.push(values(py, column, field)?.into_iter());
    }
    rows.reserve(batch.num_rows());
    for _ in 0..batch.num_rows() {
        let row: Vec<_> = columns.iter_mut().filter_map(Iterator::next).collect();
        rows.push(PyTuple::new(py, row)?);
    }
    Ok(())
}

/// Appends the rows of a batch as texts.
///
/// # Errors
/// If a type has no text.
pub fn append_texts(
    py: Python<'_>,
    batch: &RecordBatch,
    rows: &mut Vec<Vec<Option<String>>>,
) -> PyResult<()> {
    let formatters: thalweg::Result<Vec<_>> =
        batch.columns().iter().map(|column| ValueFormatter::of_session(column, None)).collect();
    let formatters = formatters.map_err(|error| exception(py, &error))?;
    let mut scratch = Scratch::default();
    for row in 0..batch.num_rows() {
        let texts = formatters.iter();
        rows.push(texts.map(|texts| texts.text(row, &mut scratch).map(str::to_owned)).collect());
    }
    Ok(())
}

type Values<'py> = PyResult<Vec<Bound<'py, PyAny>>>;

/// The values of a column.
fn values<'py>(py: Python<'py>, column: &ArrayRef, field: &Field) -> Values<'py> {
    macro_rules! primitive {
        ($type:ty) => {{
            let column = column.as_primitive::<$type>();
            each(py, column, |row| column.value(row).into_bound_py_any(py))
        }};
    }
    match column.data_type() {
        DataType::Boolean => {
            let column = column.as_boolean();
            each(py, column, |row| column.value(row).into_bound_py_any(py))
        }
        DataType::Int16 => primitive!(Int16Type),
        DataType::Int32 => primitive!(Int32Type),
        DataType::Int64 => primitive!(Int64Type),
        DataType::Float32 => primitive!(Float32Type),
        DataType::Float64 => primitive!(Float64Type),
        DataType::Decimal128(..) | DataType::Decimal256(..) => {
            let class = Library::get(py)?.decimal.bind(py);
            texts(py, column, |text| class.call1((text,)))
        }
        DataType::Utf8View => strings(py, column, field),
        DataType::BinaryView => {
            let column = column.as_binary_view();
            each(py, column, |row| Ok(PyBytes::new(py, column.value(row)).into_any()))
        }
        DataType::Date32
        | DataType::Time64(TimeUnit::Microsecond)
        | DataType::Timestamp(TimeUnit::Microsecond, _)
        | DataType::Interval(IntervalUnit::MonthDayNano) => moments(py, column),
        DataType::List(item) => {
            let column = column.as_list::<i32>();
            each(py, column, |row| {
                let items = values(py, &column.value(row), item)?;
                Ok(PyList::new(py, items)?.into_any())
            })
        }
        // Types that no column of a table has.
        _ => texts(py, column, |text| text.into_bound_py_any(py)),
    }
}

fn each<'py>(
    py: Python<'py>,
    column: &dyn arrow::array::Array,
    value: impl Fn(usize) -> PyResult<Bound<'py, PyAny>>,
) -> Values<'py> {
    let value = |row| match column.is_null(row) {
        true => Ok(py.None().into_bound(py)),
        false => value(row),
    };
    (0..column.len()).map(value).collect()
}

/// The values that are made of the text that SQL writes.
fn texts<'py>(
    py: Python<'py>,
    column: &ArrayRef,
    value: impl Fn(&str) -> PyResult<Bound<'py, PyAny>>,
) -> Values<'py> {
    let formatter = ValueFormatter::of_session(column, None);
    let formatter = formatter.map_err(|error| exception(py, &error))?;
    let mut scratch = Scratch::default();
    let value = |row| match formatter.text(row, &mut scratch) {
        Some(text) => value(text),
        None => Ok(py.None().into_bound(py)),
    };
    (0..column.len()).map(value).collect()
}

fn strings<'py>(py: Python<'py>, column: &ArrayRef, field: &Field) -> Values<'py> {
    let library = Library::get(py)?;
    let column = column.as_string_view();
    let make = match field.metadata().get(TYPE_KEY).map(String::as_str) {
        Some(UUID) => &library.uuid,
        Some(JSON | JSONB) => &library.json,
        _ => return each(py, column, |row| column.value(row).into_bound_py_any(py)),
    };
    each(py, column, |row| make.bind(py).call1((column.value(row),)))
}

fn moments<'py>(py: Python<'py>, column: &ArrayRef) -> Values<'py> {
    let library = Library::get(py)?;
    match column.data_type() {
        DataType::Date32 => {
            let column = column.as_primitive::<Date32Type>();
            each(py, column, |row| {
                let ordinal = i64::from(column.value(row)) + EPOCH_ORDINAL;
                let made = library.date_from_ordinal.bind(py).call1((ordinal,));
                made.map_err(|_| out_of_range(py, "a date"))
            })
        }
        DataType::Time64(_) => {
            let column = column.as_primitive::<Time64MicrosecondType>();
            each(py, column, |row| {
                let micros = column.value(row);
                let seconds = micros / SECOND_MICROS;
                let parts =
                    (seconds / 3600, seconds / 60 % 60, seconds % 60, micros % SECOND_MICROS);
                let made = library.time.bind(py).call1(parts);
                made.map_err(|_| out_of_range(py, "a time"))
            })
        }
        DataType::Interval(_) => {
            let column = column.as_primitive::<IntervalMonthDayNanoType>();
            each(py, column, |row| interval(py, library, column.value(row)))
        }
        _ => {
            let epoch = match column.data_type() {
                DataType::Timestamp(_, Some(_)) => &library.epoch_utc,
                _ => &library.epoch,
            };
            let column = column.as_primitive::<TimestampMicrosecondType>();
            each(py, column, |row| {
                let micros = column.value(row);
                let parts = (micros.div_euclid(DAY_MICROS), 0, micros.rem_euclid(DAY_MICROS));
                let since = library.timedelta.bind(py).call1(parts);
                let made = since.and_then(|since| epoch.bind(py).add(since));
                made.map_err(|_| out_of_range(py, "a timestamp"))
            })
        }
    }
}

/// A `timedelta`, or the package's own class if that cannot hold the interval.
fn interval<'py>(
    py: Python<'py>,
    library: &Library,
    value: arrow::datatypes::IntervalMonthDayNano,
) -> PyResult<Bound<'py, PyAny>> {
    let micros = value.nanoseconds / 1000;
    if value.months == 0
        && let Ok(made) = library.timedelta.bind(py).call1((value.days, 0, micros))
    {
        return Ok(made);
    }
    library.interval.bind(py).call1((value.months, value.days, micros))
}

fn out_of_range(py: Python<'_>, what: &str) -> PyErr {
    let message = format!("{what} of the result is beyond Python's range: cast it to text");
    no_conversion(py, message)
}
