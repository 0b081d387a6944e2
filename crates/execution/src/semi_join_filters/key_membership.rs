//! A condition on rows: membership in a large set of keys.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{Array as _, ArrayRef, AsArray as _, BooleanArray};
use arrow::buffer::BooleanBuffer;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type, Schema};
use arrow::record_batch::RecordBatch;
use datafusion::common::internal_err;
use datafusion::error::Result;
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::PhysicalExpr;
use thalweg_scan::KeySet;

type Known = Arc<dyn PhysicalExpr>;

/// True if an integer is one of many keys; false for NULL.
#[derive(Clone)]
pub struct KeyMembership {
    value: Known,
    keys: Arc<KeySet>,
}

impl KeyMembership {
    /// Tests whether a value is one of a column of integers.
    ///
    /// # Errors
    /// If the keys are not integers.
    pub fn new(value: Known, keys: &ArrayRef) -> Result<KeyMembership> {
        if keys.null_count() > 0 {
            return internal_err!("keys are never NULL");
        }
        let keys = cast(keys, &DataType::Int64)?;
        let keys = Arc::new(KeySet::new(keys.as_primitive::<Int64Type>().values()));
        Ok(KeyMembership { value, keys })
    }

    pub(crate) fn value(&self) -> &Known {
        &self.value
    }

    pub(crate) fn keys(&self) -> &Arc<KeySet> {
        &self.keys
    }

    fn of(&self, column: &ArrayRef) -> Result<BooleanArray> {
        let numbers = cast(column, &DataType::Int64)?;
        let numbers = numbers.as_primitive::<Int64Type>();
        let values = numbers.values();
        let has = BooleanBuffer::collect_bool(values.len(), |row| self.keys.has(values[row]));
        let has = match numbers.nulls() {
            Some(nulls) => &has & nulls.inner(),
            None => has,
        };
        Ok(BooleanArray::new(has, None))
    }
}

impl fmt::Debug for KeyMembership {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for KeyMembership {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} among keys", self.value)
    }
}

impl PartialEq for KeyMembership {
    fn eq(&self, other: &KeyMembership) -> bool {
        self.value.eq(&other.value) && self.keys == other.keys
    }
}

impl Eq for KeyMembership {}

impl Hash for KeyMembership {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.value.hash(state);
    }
}

impl PhysicalExpr for KeyMembership {
    fn data_type(&self, _: &Schema) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn nullable(&self, _: &Schema) -> Result<bool> {
        Ok(false)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        let values = self.value.evaluate(batch)?.into_array(batch.num_rows())?;
        Ok(ColumnarValue::Array(Arc::new(self.of(&values)?)))
    }

    fn children(&self) -> Vec<&Known> {
        vec![&self.value]
    }

    fn with_new_children(self: Arc<Self>, mut children: Vec<Known>) -> Result<Known> {
        let Some(value) = children.pop() else { return internal_err!("a value is among keys") };
        Ok(Arc::new(KeyMembership { value, keys: Arc::clone(&self.keys) }))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Int32Array, Int64Array};
    use datafusion::physical_expr::expressions::Column;

    use super::*;

    fn among(keys: Vec<i64>, values: ArrayRef) -> Vec<bool> {
        let keys: ArrayRef = Arc::new(Int64Array::from(keys));
        let among = KeyMembership::new(Arc::new(Column::new("key", 0)), &keys).unwrap();
        let found = among.of(&values).unwrap();
        assert_eq!(found.null_count(), 0);
        found.values().iter().collect()
    }

    #[test]
    fn nulls_are_among_no_keys() {
        let values = Arc::new(Int32Array::from(vec![Some(0), None, Some(7), Some(-1)]));
        assert_eq!(among(vec![0, 7], values), [true, false, true, false]);
    }

    #[test]
    fn nothing_is_among_none() {
        assert_eq!(among(vec![], Arc::new(Int64Array::from(vec![0, 1]))), [false, false]);
    }
}
