//! Schemas and rows for the other tests.

use std::path::Path;
use std::sync::Arc;

use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, Field, IntervalUnit, Schema, SchemaRef, TimeUnit};
use arrow::record_batch::RecordBatch;
use thalweg_formats::columns::{JSON, TYPE_KEY, UUID};
use thalweg_formats::text::ColumnBuilder;
use thalweg_formats::{ReadOptions, WriteOptions, Writer, open};
use thalweg_types::Result;

pub fn tagged(name: &str, tag: &str) -> Field {
    let metadata = [(TYPE_KEY.to_owned(), tag.to_owned())].into();
    Field::new(name, DataType::Utf8View, true).with_metadata(metadata)
}

pub fn schema(columns: &[(&str, DataType)]) -> SchemaRef {
    let fields = columns.iter().map(|(name, kind)| Field::new(*name, kind.clone(), true));
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// A column of every type.
pub fn every_type() -> SchemaRef {
    let utc = || Some("UTC".into());
    let list = |item| DataType::new_list(item, true);
    let mut fields = schema(&[
        ("boolean", DataType::Boolean),
        ("int2", DataType::Int16),
        ("int4", DataType::Int32),
        ("int8", DataType::Int64),
        ("float4", DataType::Float32),
        ("float8", DataType::Float64),
        ("numeric", DataType::Decimal128(20, 5)),
        ("wide", DataType::Decimal256(60, 10)),
        ("text", DataType::Utf8View),
        ("bytea", DataType::BinaryView),
        ("date", DataType::Date32),
        ("time", DataType::Time64(TimeUnit::Microsecond)),
        ("timestamp", DataType::Timestamp(TimeUnit::Microsecond, None)),
        ("timestamptz", DataType::Timestamp(TimeUnit::Microsecond, utc())),
        ("interval", DataType::Interval(IntervalUnit::MonthDayNano)),
        ("ints", list(DataType::Int32)),
        ("texts", list(DataType::Utf8View)),
        ("intervals", list(DataType::Interval(IntervalUnit::MonthDayNano))),
        ("matrix", list(list(DataType::Float64))),
    ])
    .fields()
    .to_vec();
    fields.push(Arc::new(tagged("uuid", UUID)));
    fields.push(Arc::new(tagged("json", JSON)));
    Arc::new(Schema::new(fields))
}

/// A batch of rows that are given as texts.
pub fn batch(schema: &SchemaRef, rows: &[Vec<Option<String>>]) -> RecordBatch {
    let columns = schema.fields().iter().enumerate().map(|(place, field)| {
        let mut builder = ColumnBuilder::new(field).unwrap();
        for row in rows {
            builder.append(row[place].as_deref()).unwrap();
        }
        builder.finish()
    });
    RecordBatch::try_new(Arc::clone(schema), columns.collect()).unwrap()
}

/// Reads all units of a path.
pub fn read(path: &Path, target: &SchemaRef, options: &ReadOptions) -> Result<RecordBatch> {
    read_in_batches(path, target, options, 65_536)
}

pub fn read_in_batches(
    path: &Path,
    target: &SchemaRef,
    options: &ReadOptions,
    batch_rows: usize,
) -> Result<RecordBatch> {
    let mut batches = Vec::new();
    for unit in open(path, target, options, batch_rows)?.units() {
        for batch in unit.read() {
            let batch = batch?;
            assert!(batch.num_rows() <= batch_rows && batch.num_rows() > 0);
            assert_eq!(&batch.schema(), target);
            batches.push(batch);
        }
    }
    Ok(concat_batches(target, &batches).unwrap())
}

pub fn write(path: &Path, batch: &RecordBatch, options: &WriteOptions) {
    let mut writer = Writer::create_file(path, &batch.schema(), options).unwrap();
    writer.write(batch).unwrap();
    writer.finish().unwrap();
}

/// The texts of a batch, row by row.
pub fn texts(batch: &RecordBatch) -> Vec<Vec<Option<String>>> {
    use thalweg_formats::text::ValueFormatter;
    let formatters: Vec<ValueFormatter> =
        batch.columns().iter().map(|column| ValueFormatter::new(column).unwrap()).collect();
    let value = |formatter: &ValueFormatter, row| {
        let mut text = String::new();
        formatter.format(row, &mut text);
        (!formatter.is_null(row)).then_some(text)
    };
    let row = |row| formatters.iter().map(|formatter| value(formatter, row)).collect();
    (0..batch.num_rows()).map(row).collect()
}
