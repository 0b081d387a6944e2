//! Projects files with named and typed columns to the wanted columns.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatchOptions};
use arrow::datatypes::{DataType, Schema, SchemaRef};
use arrow::record_batch::RecordBatch;
use thalweg_types::{Error, Result};

use crate::convert::Conversion;
use crate::csv::{missing_column, place_of};
use crate::location::located;

/// The position of each wanted column in a file, and its conversion.
#[derive(Clone, Debug)]
pub(crate) struct Projection {
    pub target: SchemaRef,
    /// The position in the file of each wanted column.
    pub places: Vec<usize>,
    conversions: Vec<Conversion>,
}

impl Projection {
    /// Finds the wanted columns by their names, ignoring case if there is no exact match.
    ///
    /// `decoded` has the file's columns with the types in which they will be decoded.
    pub fn new(decoded: &Schema, target: &SchemaRef) -> Result<Projection> {
        let places = places(decoded, target)?;
        let conversions = places
            .iter()
            .zip(target.fields())
            .map(|(place, wanted)| Conversion::new(decoded.field(*place), wanted))
            .collect::<Result<_>>()?;
        Ok(Projection { target: Arc::clone(target), places, conversions })
    }

    /// Converts a batch that contains exactly the wanted columns in order.
    ///
    /// `place` describes the location in the file of a row of the batch, counted from 0.
    pub fn convert(
        &self,
        rows: usize,
        columns: &[ArrayRef],
        place: impl Fn(usize) -> String,
    ) -> Result<RecordBatch> {
        debug_assert_eq!(columns.len(), self.conversions.len());
        let converted = columns.iter().zip(&self.conversions).enumerate().map(
            |(wanted, (column, conversion))| {
                conversion.run(column).map_err(|refused| {
                    let name = self.target.field(wanted).name();
                    located(refused.error, format!("{}, column \"{name}\"", place(refused.row)))
                })
            },
        );
        let converted = converted.collect::<Result<Vec<ArrayRef>>>()?;
        debug_assert!(converted.iter().all(|column| column.len() == rows));
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(Arc::clone(&self.target), converted, &options)
            .map_err(|error| Error::internal(error.to_string()))
    }
}

/// The position of each wanted column among a file's.
pub(crate) fn places(file: &Schema, target: &SchemaRef) -> Result<Vec<usize>> {
    let names: Vec<&str> = file.fields().iter().map(|field| field.name().as_str()).collect();
    let place = |wanted: &String| {
        place_of(&names, wanted).ok_or_else(|| missing_column(wanted, names.iter().copied()))
    };
    target.fields().iter().map(|field| place(field.name())).collect()
}

/// The type in which to decode a file's column, so that values are converted only once: texts and
/// bytes as views, and bytes as text if text is wanted.
pub(crate) fn decoded_type(file: &DataType, wanted: Option<&DataType>) -> DataType {
    match file {
        DataType::Utf8 | DataType::LargeUtf8 => DataType::Utf8View,
        DataType::Binary | DataType::LargeBinary => match wanted {
            Some(DataType::Utf8View) => DataType::Utf8View,
            _ => DataType::BinaryView,
        },
        DataType::Dictionary(_, values) => decoded_type(values, wanted),
        DataType::List(item) => {
            let wanted = match wanted {
                Some(DataType::List(wanted)) => Some(wanted.data_type()),
                _ => None,
            };
            let data_type = decoded_type(item.data_type(), wanted);
            DataType::List(Arc::new(item.as_ref().clone().with_data_type(data_type)))
        }
        other => other.clone(),
    }
}
