//! Converts the measures of each group to the columns of the answer.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Float64Array, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, Decimal128Type, Float64Type, Int64Type, SchemaRef};
use thalweg_functions::exact_averages;
use thalweg_scan::Finished;
use thalweg_types::{Error, Result};

/// A column of the answer. Its numbers are indexes of measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Output {
    Measure(usize),
    /// Average of integers or decimals; the sum has `scale` digits after the point.
    Average {
        sum: usize,
        count: usize,
        scale: i8,
    },
    FloatAverage {
        sum: usize,
        count: usize,
    },
}

impl Output {
    fn array(self, found: &Finished, data_type: &DataType) -> Result<ArrayRef> {
        match self {
            Output::Measure(place) => found.measure(place, data_type),
            Output::Average { sum, count, scale } => {
                let sums = found.measure(sum, &DataType::Decimal128(38, scale))?;
                let counts = found.measure(count, &DataType::Int64)?;
                let (sums, counts) = (sums.as_primitive::<Decimal128Type>(), counts.as_primitive());
                exact_averages(sums, counts, data_type)
            }
            Output::FloatAverage { sum, count } => {
                let sums = found.measure(sum, &DataType::Float64)?;
                let counts = found.measure(count, &DataType::Int64)?;
                let counts = counts.as_primitive::<Int64Type>().values();
                let pairs = sums.as_primitive::<Float64Type>().iter().zip(counts);
                let averages = pairs
                    .map(|(sum, count)| sum.filter(|_| *count > 0).map(|sum| sum / *count as f64));
                Ok(Arc::new(averages.collect::<Float64Array>()))
            }
        }
    }
}

/// The answer: the keys, then each output.
pub(super) fn answer(
    found: &Finished,
    outputs: &[Output],
    schema: &SchemaRef,
) -> Result<RecordBatch> {
    let keys = schema.fields().len() - outputs.len();
    let types = schema.fields().iter().map(|field| field.data_type());
    let columns = types.enumerate().map(|(place, data_type)| match place.checked_sub(keys) {
        None => Ok(found.key(place)),
        Some(output) => outputs[output].array(found, data_type),
    });
    let columns = columns.collect::<Result<Vec<ArrayRef>>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(found.rows()));
    RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options).map_err(|error| {
        Error::internal("an aggregate has other columns than were planned").with_source(error)
    })
}
