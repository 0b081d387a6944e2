//! The keys of a join's first side, for those who wait for them.

use std::sync::Arc;

use arrow::array::{Array as _, ArrayRef, AsArray as _, Int64Array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type};
use foldhash::{HashSet, HashSetExt as _};
use parking_lot::Mutex;
use thalweg_types::{Error, Result};
use tokio::sync::watch;

/// The distinct whole numbers of a column.
pub(crate) struct Keys {
    data_type: DataType,
    most: usize,
    collected: Mutex<Collected>,
    /// Nothing until it is known what the keys are, or that there are too many.
    found: watch::Sender<Option<Found>>,
}

/// All keys; `None` where nobody knows them all.
type Found = Option<ArrayRef>;

#[derive(Default)]
struct Collected {
    keys: HashSet<i64>,
    /// Partitions that have begun and not ended.
    open: usize,
    has_begun: bool,
}

impl Keys {
    pub(super) fn new(data_type: DataType, most: usize) -> Keys {
        let collected = Mutex::new(Collected { keys: HashSet::new(), open: 0, has_begun: false });
        Keys { data_type, most, collected, found: watch::Sender::new(None) }
    }

    /// All partitions begin. A second time, what the first one found is not true any more.
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
            0 => collected.keys.extend(numbers.values()),
            _ => collected.keys.extend(numbers.iter().flatten()),
        }
        if collected.keys.len() > self.most {
            drop(collected);
            self.give_up();
        }
        Ok(())
    }

    /// A partition was read to its end.
    pub(super) fn end(&self) -> Result<()> {
        let mut collected = self.collected.lock();
        collected.open = collected.open.saturating_sub(1);
        if collected.open > 0 || self.found.borrow().is_some() {
            return Ok(());
        }
        let mut keys: Vec<i64> = std::mem::take(&mut collected.keys).into_iter().collect();
        keys.sort_unstable();
        let misfit = |error| Error::internal("keys of a join do not fit").with_source(error);
        let keys = cast(&Int64Array::from(keys), &self.data_type).map_err(misfit)?;
        self.found.send_replace(Some(Some(keys)));
        Ok(())
    }

    /// Nobody is going to know all keys.
    pub(super) fn give_up(&self) {
        self.collected.lock().keys = HashSet::new();
        self.found.send_replace(Some(None));
    }

    /// Waits for all keys; `None` where nobody knows them.
    pub(crate) async fn all(self: &Arc<Keys>) -> Found {
        let mut found = self.found.subscribe();
        let found = found.wait_for(Option::is_some).await;
        found.ok().and_then(|found| found.clone().flatten())
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::Int32Array;

    use super::*;

    fn keys(most: usize) -> Arc<Keys> {
        Arc::new(Keys::new(DataType::Int32, most))
    }

    fn column(values: &[Option<i32>]) -> ArrayRef {
        Arc::new(Int32Array::from(values.to_vec()))
    }

    #[tokio::test]
    async fn all_partitions_have_keys() {
        let keys = keys(10);
        keys.begin(2);
        keys.collect(&column(&[Some(3), None, Some(1)])).unwrap();
        keys.end().unwrap();
        keys.collect(&column(&[Some(3), Some(2)])).unwrap();
        keys.end().unwrap();
        assert_eq!(&keys.all().await.unwrap(), &column(&[Some(1), Some(2), Some(3)]));
    }

    #[tokio::test]
    async fn too_many_keys_are_none() {
        let keys = keys(2);
        keys.begin(1);
        keys.collect(&column(&[Some(1), Some(2)])).unwrap();
        keys.collect(&column(&[Some(3)])).unwrap();
        assert!(keys.all().await.is_none());
        keys.end().unwrap();
        assert!(keys.all().await.is_none());
    }

    #[tokio::test]
    async fn keys_of_another_run_are_none() {
        let keys = keys(2);
        keys.begin(1);
        keys.end().unwrap();
        assert_eq!(keys.all().await.unwrap().len(), 0);
        keys.begin(1);
        assert!(keys.all().await.is_none());
    }
}
