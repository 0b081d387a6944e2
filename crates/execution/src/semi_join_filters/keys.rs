//! The keys of a join's first side, and the wait for them.

use std::sync::{Arc, OnceLock};

use arrow::array::{Array as _, ArrayRef, AsArray as _, Int64Array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type};
use parking_lot::Mutex;
use thalweg_scan::KeySet;
use thalweg_types::{Error, Result};
use tokio::sync::watch;

/// The integer keys of a column.
pub struct Keys {
    data_type: DataType,
    most: usize,
    share: f64,
    collected: Mutex<Collected>,
    /// `None` until the keys are complete, or too many.
    found: watch::Sender<Option<Found>>,
}

/// All keys; `None` if they are not known.
type Found = Option<Arc<All>>;

#[derive(Default)]
struct Collected {
    /// May contain duplicates, up to a number of keys.
    keys: Vec<i64>,
    /// Once there are more keys than this, duplicates are removed.
    many: usize,
    /// Partitions that have begun and not ended.
    open: usize,
    has_begun: bool,
}

/// All keys, in the forms that were asked for.
struct All {
    keys: Vec<i64>,
    set: OnceLock<Arc<KeySet>>,
    column: OnceLock<Result<ArrayRef>>,
}

impl Keys {
    /// Keys of an integer type, given up if there are more than `most`. `share` is their estimated
    /// share of the table's rows.
    pub(super) fn new(data_type: DataType, most: usize, share: f64) -> Keys {
        let collected = Mutex::new(Collected { many: most, ..Collected::default() });
        Keys { data_type, most, share, collected, found: watch::Sender::new(None) }
    }

    /// Estimated share of their table's rows.
    #[must_use]
    pub fn share(&self) -> f64 {
        self.share
    }

    /// Begins a run of all partitions. In a second run the keys of the first are no longer valid.
    pub(super) fn begin(&self, partitions: usize) {
        let mut collected = self.collected.lock();
        if collected.has_begun {
            drop(collected);
            return self.give_up();
        }
        (collected.has_begun, collected.open) = (true, partitions);
    }

    pub(super) fn collect(&self, column: &ArrayRef) -> Result<()> {
        if self.found.borrow().is_some() {
            return Ok(());
        }
        let misfit = |error| Error::internal("keys of a join are no numbers").with_source(error);
        let numbers = cast(column, &DataType::Int64).map_err(misfit)?;
        let numbers = numbers.as_primitive::<Int64Type>();
        let mut collected = self.collected.lock();
        match numbers.null_count() {
            0 => collected.keys.extend_from_slice(numbers.values()),
            _ => collected.keys.extend(numbers.iter().flatten()),
        }
        if collected.keys.len() <= collected.many {
            return Ok(());
        }
        collected.keys.sort_unstable();
        collected.keys.dedup();
        // With this, each key is sorted a few times at most.
        collected.many = collected.keys.len() + self.most;
        if collected.keys.len() > self.most {
            drop(collected);
            self.give_up();
        }
        Ok(())
    }

    /// Records that a partition was read to its end.
    pub(super) fn end(&self) {
        let mut collected = self.collected.lock();
        collected.open = collected.open.saturating_sub(1);
        if collected.open > 0 || self.found.borrow().is_some() {
            return;
        }
        let keys = std::mem::take(&mut collected.keys);
        let all = All { keys, set: OnceLock::new(), column: OnceLock::new() };
        self.found.send_replace(Some(Some(Arc::new(all))));
    }

    /// Gives up: the complete set of keys will not be known.
    pub(super) fn give_up(&self) {
        // The lock orders this with a partition that ends at the same time.
        let mut collected = self.collected.lock();
        collected.keys = Vec::new();
        self.found.send_replace(Some(None));
    }

    async fn found(&self) -> Found {
        let mut found = self.found.subscribe();
        let found = found.wait_for(Option::is_some).await;
        found.ok().and_then(|found| found.clone().flatten())
    }

    /// Waits for all keys, as a set for lookups; `None` if they are not known.
    pub(crate) async fn set(&self) -> Option<Arc<KeySet>> {
        let all = self.found().await?;
        Some(Arc::clone(all.set.get_or_init(|| Arc::new(KeySet::new(&all.keys)))))
    }

    /// Waits for all keys, as a column of distinct ascending values; `None` if they are not known.
    ///
    /// # Errors
    /// If they are not valid for the column's type.
    pub async fn column(&self) -> Result<Option<ArrayRef>> {
        let Some(all) = self.found().await else { return Ok(None) };
        all.column.get_or_init(|| self.to_column(&all.keys)).clone().map(Some)
    }

    fn to_column(&self, keys: &[i64]) -> Result<ArrayRef> {
        let mut keys = keys.to_vec();
        keys.sort_unstable();
        keys.dedup();
        let misfit = |error| Error::internal("keys of a join do not fit").with_source(error);
        cast(&Int64Array::from(keys), &self.data_type).map_err(misfit)
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::Int32Array;

    use super::*;

    fn keys(most: usize) -> Arc<Keys> {
        Arc::new(Keys::new(DataType::Int32, most, 0.5))
    }

    fn column(values: &[Option<i32>]) -> ArrayRef {
        Arc::new(Int32Array::from(values.to_vec()))
    }

    #[tokio::test]
    async fn all_partitions_have_keys() {
        let keys = keys(10);
        keys.begin(2);
        keys.collect(&column(&[Some(3), None, Some(1)])).unwrap();
        keys.end();
        keys.collect(&column(&[Some(3), Some(2)])).unwrap();
        keys.end();
        assert_eq!(&keys.column().await.unwrap().unwrap(), &column(&[Some(1), Some(2), Some(3)]));
    }

    #[tokio::test]
    async fn too_many_keys_are_none() {
        let keys = keys(2);
        keys.begin(1);
        keys.collect(&column(&[Some(1), Some(2)])).unwrap();
        keys.collect(&column(&[Some(3)])).unwrap();
        assert!(keys.column().await.unwrap().is_none());
        keys.end();
        assert!(keys.column().await.unwrap().is_none());
    }

    #[tokio::test]
    async fn keys_of_another_run_are_none() {
        let keys = keys(2);
        keys.begin(1);
        keys.end();
        assert_eq!(keys.column().await.unwrap().unwrap().len(), 0);
        keys.begin(1);
        assert!(keys.column().await.unwrap().is_none());
    }

    #[tokio::test]
    async fn repetitions_are_not_many() {
        let keys = keys(3);
        keys.begin(1);
        for number in [5, 6, 7, 5].repeat(20) {
            keys.collect(&column(&[Some(number)])).unwrap();
        }
        keys.end();
        assert_eq!(keys.set().await.unwrap().numbers(), [5, 6, 7]);
        assert_eq!(keys.column().await.unwrap().unwrap().len(), 3);
    }
}
