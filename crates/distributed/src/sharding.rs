//! The bucket of a row, and the buckets that a filter leaves.
//!
//! The hashed bytes are part of the storage format and never change. Equal values have equal bytes,
//! whatever the width of their type.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, UInt32Array};
use arrow::compute::{cast, filter, take_record_batch};
use arrow::datatypes::{DataType, Decimal128Type, Float64Type, Int64Type};
use arrow::error::ArrowError;
use arrow::record_batch::RecordBatch;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, Column, InListExpr, Literal};
use thalweg_cluster::map::ShardMap;
use thalweg_types::{Bucket, Error, Result, bucket_of};

/// The bucket of each value of a shard key. All NULLs have the same bucket.
///
/// # Errors
/// If no column can have the type of the values.
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
            // Positive and negative zero are equal and share a bucket, and so do all NaNs.
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
        // Arrays, intervals and very large numbers are hashed as text.
        _ => {
            let options = FormatOptions::default();
            let text = ArrayFormatter::try_new(key, &options).map_err(misfit)?;
            let bucket = |place| bucket_of(text.value(place).to_string().as_bytes());
            places.map(|place| nulls(place).unwrap_or_else(|| bucket(place))).collect()
        }
    })
}

/// The rows that one worker owns.
pub(crate) struct Dealt {
    /// Index of the worker in the map.
    pub(crate) owner: usize,
    /// Indexes of these rows among all, ascending.
    pub(crate) which: Vec<u32>,
    pub(crate) rows: RecordBatch,
}

/// Splits rows by the workers that own their values in a column.
///
/// # Errors
/// As for [`buckets`], and if a bucket has no owner.
pub(crate) fn dealt(rows: &RecordBatch, column: usize, map: &ShardMap) -> Result<Vec<Dealt>> {
    let mut owners: BTreeMap<usize, Vec<u32>> = BTreeMap::new();
    for (row, bucket) in (0_u32..).zip(buckets(rows.column(column))?) {
        owners.entry(map.owner(bucket)?).or_default().push(row);
    }
    let dealt = owners.into_iter().map(|(owner, which)| {
        let own = match which.len() == rows.num_rows() {
            true => rows.clone(),
            false => take_record_batch(rows, &UInt32Array::from(which.clone())).map_err(misfit)?,
        };
        Ok(Dealt { owner, which, rows: own })
    });
    dealt.collect()
}

/// Selects the shard keys whose rows lie on the workers at these indexes of the map, which ascend.
///
/// # Errors
/// As for [`buckets`], and if a bucket has no owner.
pub(crate) fn owned(keys: &ArrayRef, places: &[usize], map: &ShardMap) -> Result<ArrayRef> {
    let is_owned = |bucket: Bucket| Ok(places.binary_search(&map.owner(bucket)?).is_ok());
    let owned: BooleanArray =
        buckets(keys)?.into_iter().map(is_owned).collect::<Result<Vec<bool>>>()?.into();
    filter(keys, &owned).map_err(misfit)
}

fn misfit(error: ArrowError) -> Error {
    Error::internal("rows cannot be dealt out").with_source(error)
}

/// The buckets of all rows for which a filter can be true; `None` if the filter does not restrict
/// them.
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

/// The bucket of a literal that is cast to the type of the column.
fn bucket(value: &Arc<dyn PhysicalExpr>, key_type: &DataType) -> Option<u16> {
    let value = value.downcast_ref::<Literal>()?.value().cast_to(key_type).ok()?;
    let bucket = buckets(&value.to_array_of_size(1).ok()?).ok()?;
    Some(bucket.first()?.0)
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::{Field, Schema};
    use datafusion::common::ScalarValue;
    use datafusion::physical_expr::expressions::{in_list, lit};

    use super::*;

    type Expression = Arc<dyn PhysicalExpr>;

    /// Index of the shard key, and of another column.
    const KEY: usize = 1;
    const OTHER: usize = 0;

    fn column(place: usize) -> Expression {
        Arc::new(Column::new("", place))
    }

    fn binary(left: Expression, operator: Operator, right: Expression) -> Expression {
        Arc::new(BinaryExpr::new(left, operator, right))
    }

    fn and(left: Expression, right: Expression) -> Expression {
        binary(left, Operator::And, right)
    }

    fn or(left: Expression, right: Expression) -> Expression {
        binary(left, Operator::Or, right)
    }

    fn is(value: Expression) -> Expression {
        binary(column(KEY), Operator::Eq, value)
    }

    fn is_key(key: i64) -> Expression {
        is(lit(key))
    }

    /// A filter that does not restrict the shard key.
    fn of_other() -> Expression {
        binary(column(OTHER), Operator::Eq, lit(8_i64))
    }

    fn list(values: Vec<Expression>, is_negated: bool) -> Expression {
        let field = |name: &str| Field::new(name, DataType::Int64, true);
        let schema = Schema::new(["other", "key"].map(field).to_vec());
        in_list(column(KEY), values, &is_negated, &schema).unwrap()
    }

    fn is_one_of(keys: &[i64]) -> Expression {
        list(keys.iter().map(|key| lit(*key)).collect(), false)
    }

    fn left_by(filter: &Expression) -> Option<BTreeSet<u16>> {
        buckets_of(filter, KEY, &DataType::Int64)
    }

    fn buckets_of_keys(keys: &[i64]) -> Option<BTreeSet<u16>> {
        Some(keys.iter().map(|key| bucket_of(&key.to_le_bytes()).0).collect())
    }

    #[test]
    fn a_key_has_one_bucket_whichever_side_it_is_on() {
        assert_eq!(left_by(&is_key(8)), Some(BTreeSet::from([10_912])));
        let reversed = binary(lit(8_i64), Operator::Eq, column(KEY));
        assert_eq!(left_by(&reversed), buckets_of_keys(&[8]));
    }

    #[test]
    fn lists_leave_the_buckets_of_all_their_keys() {
        assert_eq!(left_by(&is_one_of(&[8])), buckets_of_keys(&[8]));
        assert_eq!(left_by(&is_one_of(&[8, 10, 12, 8])), buckets_of_keys(&[8, 10, 12]));
    }

    #[test]
    fn of_two_conditions_either_may_hold() {
        assert_eq!(left_by(&or(is_key(8), is_key(10))), buckets_of_keys(&[8, 10]));
        assert_eq!(left_by(&or(is_key(8), is_key(8))), buckets_of_keys(&[8]));
        let many = or(or(is_key(8), is_one_of(&[10, 12])), or(is_key(0), is_key(10)));
        assert_eq!(left_by(&many), buckets_of_keys(&[0, 8, 10, 12]));
        // The other filter can be true for rows of any bucket.
        assert_eq!(left_by(&or(is_key(8), of_other())), None);
        assert_eq!(left_by(&or(of_other(), is_one_of(&[8, 10]))), None);
    }

    #[test]
    fn of_two_conditions_both_have_to_hold() {
        assert_eq!(left_by(&and(is_key(8), of_other())), buckets_of_keys(&[8]));
        assert_eq!(left_by(&and(of_other(), is_one_of(&[8, 10]))), buckets_of_keys(&[8, 10]));
        assert_eq!(left_by(&and(is_key(8), is_key(8))), buckets_of_keys(&[8]));
        assert_eq!(left_by(&and(is_key(8), is_key(10))), buckets_of_keys(&[]));
        let some = or(is_key(10), is_key(12));
        assert_eq!(left_by(&and(is_one_of(&[8, 10]), some)), buckets_of_keys(&[10]));
        let unknown = or(is_key(8), of_other());
        assert_eq!(left_by(&and(unknown, is_key(10))), buckets_of_keys(&[10]));
        assert_eq!(left_by(&and(of_other(), of_other())), None);
    }

    #[test]
    fn null_is_a_key_with_a_bucket_of_its_own() {
        let null = bucket_of(&[]).0;
        for value in [ScalarValue::Int64(None), ScalarValue::Null] {
            assert_eq!(left_by(&is(lit(value))), Some(BTreeSet::from([null])));
        }
        let with_null = list(vec![lit(8_i64), lit(ScalarValue::Int64(None))], false);
        assert_eq!(left_by(&with_null), Some(BTreeSet::from([null, 10_912])));
    }

    #[test]
    fn equal_values_have_one_bucket_whatever_their_types() {
        let whole = |value: i64| value.to_le_bytes().to_vec();
        let numeric = ScalarValue::Decimal128(Some(8), 12, 0);
        for (key_type, value, bytes) in [
            (DataType::Int16, lit(8_i64), whole(8)),
            (DataType::Int32, lit(8_i64), whole(8)),
            (DataType::Int64, lit(8_i32), whole(8)),
            (DataType::Boolean, lit(true), whole(1)),
            (DataType::Date32, lit(ScalarValue::Date32(Some(8))), whole(8)),
            (DataType::Float64, lit(8_i64), 8_f64.to_le_bytes().to_vec()),
            (DataType::Float64, lit(-0.0_f64), 0_f64.to_le_bytes().to_vec()),
            (DataType::Decimal128(12, 2), lit(numeric), 800_i128.to_le_bytes().to_vec()),
            (DataType::Utf8View, lit("customer-1"), b"customer-1".to_vec()),
            (DataType::BinaryView, lit(b"customer-1".to_vec()), b"customer-1".to_vec()),
        ] {
            let expected = Some(BTreeSet::from([bucket_of(&bytes).0]));
            assert_eq!(buckets_of(&is(value), KEY, &key_type), expected, "{key_type}");
        }
    }

    #[test]
    fn values_that_are_no_keys_leave_all_buckets() {
        for (key_type, value) in [
            (DataType::Int16, lit(1_i64 << 40)),
            (DataType::Int64, lit("none")),
            (DataType::Date32, lit("never")),
        ] {
            assert_eq!(buckets_of(&is(value), KEY, &key_type), None, "{key_type}");
        }
    }

    #[test]
    fn other_conditions_leave_all_buckets() {
        let computed = binary(lit(3_i64), Operator::Plus, lit(5_i64));
        for filter in [
            of_other(),
            is(column(OTHER)),
            is(column(KEY)),
            is(computed),
            binary(column(KEY), Operator::Lt, lit(8_i64)),
            binary(column(KEY), Operator::NotEq, lit(8_i64)),
            binary(column(KEY), Operator::IsNotDistinctFrom, lit(8_i64)),
            list(vec![lit(8_i64), lit(10_i64)], true),
            list(vec![lit(8_i64), column(OTHER)], false),
            column(KEY),
            lit(true),
        ] {
            assert_eq!(left_by(&filter), None, "{filter}");
        }
    }
}
