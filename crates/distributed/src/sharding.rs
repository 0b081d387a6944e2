//! Which bucket a row belongs to, and which buckets a predicate leaves.
//!
//! The bytes that are hashed are part of the format: equal values have equal bytes whatever the
//! width of their type, and they never change.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray};
use arrow::compute::{cast, filter};
use arrow::datatypes::{DataType, Decimal128Type, Float64Type, Int64Type};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, Column, InListExpr, Literal};
use thalweg_cluster::map::ShardMap;
use thalweg_types::{Bucket, Error, Result, bucket_of};

/// The bucket of each value of a shard key. NULL has one of its own.
///
/// # Errors
/// Where the values are of a type that no column has.
pub(crate) fn buckets(key: &ArrayRef) -> Result<Vec<Bucket>> {
    let misfit = |error| Error::internal("a shard key cannot be read").with_source(error);
    let nulls = |place: usize| key.is_null(place).then(|| bucket_of(&[]));
    let places = 0..key.len();
    Ok(match key.data_type() {
        DataType::Int8
        | DataType::Int16
        | DataType::Int32
        | DataType::Int64
        | DataType::UInt32
        | DataType::Boolean
        | DataType::Date32
        | DataType::Time64(_)
        | DataType::Timestamp(..) => {
            let whole = match key.data_type() {
                DataType::Date32 => cast(key, &DataType::Int32).map_err(misfit)?,
                _ => Arc::clone(key),
            };
            let whole = cast(&whole, &DataType::Int64).map_err(misfit)?;
            let whole = whole.as_primitive::<Int64Type>();
            let bucket = |place| bucket_of(&whole.value(place).to_le_bytes());
            places.map(|place| nulls(place).unwrap_or_else(|| bucket(place))).collect()
        }
        DataType::Float32 | DataType::Float64 => {
            let float = cast(key, &DataType::Float64).map_err(misfit)?;
            let float = float.as_primitive::<Float64Type>();
            // Zero has two forms, which are equal, and so has what is no number.
            let bucket = |place| match float.value(place) {
                0.0 => bucket_of(&0.0_f64.to_le_bytes()),
                value if value.is_nan() => bucket_of(&f64::NAN.to_le_bytes()),
                value => bucket_of(&value.to_le_bytes()),
            };
            places.map(|place| nulls(place).unwrap_or_else(|| bucket(place))).collect()
        }
        DataType::Decimal128(..) => {
            let decimal = key.as_primitive::<Decimal128Type>();
            let bucket = |place| bucket_of(&decimal.value(place).to_le_bytes());
            places.map(|place| nulls(place).unwrap_or_else(|| bucket(place))).collect()
        }
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => {
            let text = cast(key, &DataType::Utf8View).map_err(misfit)?;
            let text = text.as_string_view();
            let bucket = |place| bucket_of(text.value(place).as_bytes());
            places.map(|place| nulls(place).unwrap_or_else(|| bucket(place))).collect()
        }
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => {
            let bytes = cast(key, &DataType::BinaryView).map_err(misfit)?;
            let bytes = bytes.as_binary_view();
            let bucket = |place| bucket_of(bytes.value(place));
            places.map(|place| nulls(place).unwrap_or_else(|| bucket(place))).collect()
        }
        // Arrays, intervals and very large numbers: as they are written.
        _ => {
            let options = FormatOptions::default();
            let text = ArrayFormatter::try_new(key, &options).map_err(misfit)?;
            let bucket = |place| bucket_of(text.value(place).to_string().as_bytes());
            places.map(|place| nulls(place).unwrap_or_else(|| bucket(place))).collect()
        }
    })
}

/// Those of some shard keys whose rows lie on the worker at a place of the map.
///
/// # Errors
/// As [`buckets`], and where nobody owns a bucket.
pub(crate) fn owned(keys: &ArrayRef, place: usize, map: &ShardMap) -> Result<ArrayRef> {
    let is_owned = |bucket: Bucket| Ok(map.owner(bucket)? == place);
    let owned: BooleanArray =
        buckets(keys)?.into_iter().map(is_owned).collect::<Result<Vec<bool>>>()?.into();
    let misfit = |error| Error::internal("shard keys cannot be dealt out").with_source(error);
    filter(keys, &owned).map_err(misfit)
}

/// The buckets in which rows may be for which a filter is true; `None` where that may be any.
pub(crate) fn buckets_of(
    filter: &Arc<dyn PhysicalExpr>,
    shard_key: usize,
    key_type: &DataType,
) -> Option<BTreeSet<u16>> {
    if let Some(list) = filter.downcast_ref::<InListExpr>() {
        let is_key = column_of(list.expr()) == Some(shard_key);
        if list.negated() || !is_key {
            return None;
        }
        return list.list().iter().map(|value| bucket(value, key_type)).collect();
    }
    let binary = filter.downcast_ref::<BinaryExpr>()?;
    let sides = || {
        let left = buckets_of(binary.left(), shard_key, key_type);
        (left, buckets_of(binary.right(), shard_key, key_type))
    };
    match binary.op() {
        Operator::And => match sides() {
            (Some(left), Some(right)) => Some(left.intersection(&right).copied().collect()),
            (left, right) => left.or(right),
        },
        Operator::Or => {
            let (left, right) = sides();
            Some(left?.union(&right?).copied().collect())
        }
        Operator::Eq => {
            let value = match (column_of(binary.left()), column_of(binary.right())) {
                (Some(column), None) if column == shard_key => binary.right(),
                (None, Some(column)) if column == shard_key => binary.left(),
                _ => return None,
            };
            Some(BTreeSet::from([bucket(value, key_type)?]))
        }
        _ => None,
    }
}

fn column_of(expression: &Arc<dyn PhysicalExpr>) -> Option<usize> {
    Some(expression.downcast_ref::<Column>()?.index())
}

/// The bucket of a literal, as it would be in a column of this type.
fn bucket(value: &Arc<dyn PhysicalExpr>, key_type: &DataType) -> Option<u16> {
    let value = value.downcast_ref::<Literal>()?.value().cast_to(key_type).ok()?;
    let bucket = buckets(&value.to_array_of_size(1).ok()?).ok()?;
    Some(bucket.first()?.0)
}
