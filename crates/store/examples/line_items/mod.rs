//! The TPC-H table `lineitem` as the store represents it.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, Date32Array, Decimal128Array, Int32Array, Int64Array, RecordBatch, StringViewArray,
};
use thalweg_store::arrow_schema;
use thalweg_types::{Column, ColumnId, DataType, Key, TableId, TableSchema};
use tpchgen::generators::LineItem;

/// A schema of NOT NULL columns; `key` has the positions of the primary key's columns.
pub fn schema(columns: &[(&str, DataType)], key: &[u32]) -> Arc<TableSchema> {
    let column = |(index, (name, data_type)): (usize, &(&str, DataType))| Column {
        id: ColumnId(index as u32),
        name: (*name).to_owned(),
        data_type: data_type.clone(),
        nullable: false,
        default: None,
        identity: None,
        second_digits: None,
    };
    let columns: Vec<Column> = columns.iter().enumerate().map(column).collect();
    Arc::new(TableSchema {
        id: TableId(1),
        namespace: "public".to_owned(),
        name: "measured".to_owned(),
        next_column_id: columns.len() as u32,
        columns,
        primary_key: Some(Key {
            name: "measured_pkey".to_owned(),
            columns: key.iter().map(|id| ColumnId(*id)).collect(),
        }),
        unique: Vec::new(),
        checks: Vec::new(),
        indexes: Vec::new(),
        foreign_keys: Vec::new(),
        shard_key: None,
    })
}

/// The schema of `lineitem`, with its primary key.
pub fn line_item_schema() -> Arc<TableSchema> {
    let text = || DataType::Text { max_chars: None };
    let decimal = || DataType::Decimal { precision: 15, scale: 2 };
    let columns = [
        ("l_orderkey", DataType::Int8),
        ("l_partkey", DataType::Int8),
        ("l_suppkey", DataType::Int8),
        ("l_linenumber", DataType::Int4),
        ("l_quantity", decimal()),
        ("l_extendedprice", decimal()),
        ("l_discount", decimal()),
        ("l_tax", decimal()),
        ("l_returnflag", text()),
        ("l_linestatus", text()),
        ("l_shipdate", DataType::Date),
        ("l_commitdate", DataType::Date),
        ("l_receiptdate", DataType::Date),
        ("l_shipinstruct", text()),
        ("l_shipmode", text()),
        ("l_comment", text()),
    ];
    schema(&columns, &[0, 3])
}

/// A batch of generated items in the columns of [`line_item_schema`].
pub fn line_item_batch(schema: &TableSchema, items: &[LineItem<'_>]) -> RecordBatch {
    type Item<'a> = LineItem<'a>;
    let long = |value: &dyn Fn(&Item<'_>) -> i64| -> ArrayRef {
        Arc::new(Int64Array::from_iter_values(items.iter().map(value)))
    };
    let decimal = |value: &dyn Fn(&Item<'_>) -> i64| -> ArrayRef {
        let values = items.iter().map(|item| i128::from(value(item)));
        let array = Decimal128Array::from_iter_values(values);
        Arc::new(array.with_precision_and_scale(15, 2).expect("a valid scale"))
    };
    let date = |value: &dyn Fn(&Item<'_>) -> i32| -> ArrayRef {
        Arc::new(Date32Array::from_iter_values(items.iter().map(value)))
    };
    let text = |value: &dyn for<'a> Fn(&'a Item<'_>) -> &'a str| -> ArrayRef {
        Arc::new(StringViewArray::from_iter_values(items.iter().map(value)))
    };
    let columns = vec![
        long(&|item| item.l_orderkey),
        long(&|item| item.l_partkey),
        long(&|item| item.l_suppkey),
        Arc::new(Int32Array::from_iter_values(items.iter().map(|item| item.l_linenumber))),
        decimal(&|item| item.l_quantity * 100),
        decimal(&|item| item.l_extendedprice.0),
        decimal(&|item| item.l_discount.0),
        decimal(&|item| item.l_tax.0),
        text(&|item| item.l_returnflag),
        text(&|item| item.l_linestatus),
        date(&|item| item.l_shipdate.to_unix_epoch()),
        date(&|item| item.l_commitdate.to_unix_epoch()),
        date(&|item| item.l_receiptdate.to_unix_epoch()),
        text(&|item| item.l_shipinstruct),
        text(&|item| item.l_shipmode),
        text(&|item| item.l_comment),
    ];
    RecordBatch::try_new(arrow_schema(schema), columns).expect("the table's columns")
}
