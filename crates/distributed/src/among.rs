//! Rows that have one of many keys, on the worker that has the rows.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{Array as _, ArrayRef, AsArray as _, BooleanArray, BooleanBufferBuilder};
use arrow::buffer::BooleanBuffer;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type, Schema};
use arrow::record_batch::RecordBatch;
use datafusion::common::internal_err;
use datafusion::error::Result;
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::PhysicalExpr;
use foldhash::{HashSet, HashSetExt as _};

type Known = Arc<dyn PhysicalExpr>;

/// A bit for each number between the least and the greatest key takes no more room than so many
/// bits for each key.
const BITS_OF_KEY: u64 = 64;

/// Whether a whole number is one of many; NULL is none of them.
#[derive(Clone)]
pub(crate) struct Among {
    value: Known,
    keys: Arc<Keys>,
}

#[derive(Debug, PartialEq, Eq)]
enum Keys {
    /// A bit for each number from the least key on.
    Bits {
        least: i64,
        bits: BooleanBuffer,
    },
    Set(HashSet<i64>),
}

impl Keys {
    fn new(keys: &[i64]) -> Keys {
        let (Some(least), Some(most)) = (keys.iter().min(), keys.iter().max()) else {
            return Keys::Bits { least: 0, bits: BooleanBuffer::new_unset(0) };
        };
        let place = |key: i64| key.wrapping_sub(*least) as u64;
        if place(*most) >= keys.len() as u64 * BITS_OF_KEY {
            let mut set = HashSet::with_capacity(keys.len());
            set.extend(keys);
            return Keys::Set(set);
        }
        let mut bits = BooleanBufferBuilder::new(place(*most) as usize + 1);
        bits.append_n(place(*most) as usize + 1, false);
        for key in keys {
            bits.set_bit(place(*key) as usize, true);
        }
        Keys::Bits { least: *least, bits: bits.finish() }
    }

    fn has(&self, number: i64) -> bool {
        match self {
            Keys::Bits { least, bits } => {
                let place = number.wrapping_sub(*least) as u64;
                place < bits.len() as u64 && bits.value(place as usize)
            }
            Keys::Set(set) => set.contains(&number),
        }
    }
}

impl Among {
    /// Whether a value is one of a column of whole numbers.
    ///
    /// # Errors
    /// Where they are none.
    pub(crate) fn new(value: Known, keys: &ArrayRef) -> Result<Among> {
        if keys.null_count() > 0 {
            return internal_err!("keys are never NULL");
        }
        let keys = cast(keys, &DataType::Int64)?;
        let keys = Arc::new(Keys::new(keys.as_primitive::<Int64Type>().values()));
        Ok(Among { value, keys })
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

impl fmt::Debug for Among {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Among {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} among keys", self.value)
    }
}

impl PartialEq for Among {
    fn eq(&self, other: &Among) -> bool {
        self.value.eq(&other.value) && self.keys == other.keys
    }
}

impl Eq for Among {}

impl Hash for Among {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.value.hash(state);
    }
}

impl PhysicalExpr for Among {
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
        Ok(Arc::new(Among { value, keys: Arc::clone(&self.keys) }))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Int32Array, Int64Array};
    use datafusion::physical_expr::expressions::Column;
    use proptest::prelude::*;

    use super::*;

    fn among(keys: Vec<i64>, values: ArrayRef) -> Vec<bool> {
        let keys: ArrayRef = Arc::new(Int64Array::from(keys));
        let among = Among::new(Arc::new(Column::new("key", 0)), &keys).unwrap();
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

    fn numbers() -> impl Strategy<Value = i64> {
        prop_oneof![-5..40_i64, any::<i64>(), Just(i64::MIN), Just(i64::MAX)]
    }

    proptest! {
        #[test]
        fn keys_are_found_and_nothing_else(
            keys in prop_oneof![
                proptest::collection::vec(-5..40_i64, 0..30),
                proptest::collection::vec(numbers(), 0..30),
            ],
            values in proptest::collection::vec(numbers(), 0..50),
        ) {
            let expected: Vec<bool> = values.iter().map(|value| keys.contains(value)).collect();
            prop_assert_eq!(among(keys, Arc::new(Int64Array::from(values))), expected);
        }
    }
}
