//! Bulk writes into a table.

use std::sync::Arc;

use arrow::datatypes::FieldRef;
use pyo3::prelude::*;
use thalweg::Result;
use tokio::sync::Mutex;

use crate::errors::closed;
use crate::process::{Guarded, drop_detached, wait};
use crate::{arrow_stream, from_python};

/// A bulk writer into one table, with a transaction of its own. Its rows appear together when it
/// is finished; without that there are none.
#[pyclass(frozen, module = "thalweg._thalweg")]
pub struct Appender {
    fields: Vec<FieldRef>,
    open: Arc<Mutex<Guarded<thalweg::Appender>>>,
}

impl Appender {
    pub fn new(fields: Vec<FieldRef>, appender: thalweg::Appender) -> Appender {
        Appender { fields, open: Arc::new(Mutex::new(Guarded::new(appender))) }
    }
}

impl Drop for Appender {
    fn drop(&mut self) {
        drop_detached(std::mem::take(&mut self.open));
    }
}

#[pymethods]
impl Appender {
    /// Adds sequences with a value for each column of the table.
    fn append_rows(&self, py: Python<'_>, rows: Vec<Bound<'_, PyAny>>) -> PyResult<()> {
        let batch = from_python::batch(py, &self.fields, &rows)?;
        wait(py, None, async {
            let mut guard = self.open.lock().await;
            opened(&mut guard)?.append(&batch)
        })
    }

    /// Adds the rows of an object with `__arrow_c_stream__`. Columns are matched by name; those
    /// that are missing get their defaults.
    fn append_arrow(&self, py: Python<'_>, rows: &Bound<'_, PyAny>) -> PyResult<()> {
        let (_, batches) = arrow_stream::read(rows)?;
        wait(py, None, async {
            let mut guard = self.open.lock().await;
            let appender = opened(&mut guard)?;
            batches.iter().try_for_each(|batch| appender.append(batch))
        })
    }

    /// Commits all rows and returns their number.
    fn finish(&self, py: Python<'_>) -> PyResult<u64> {
        let appender = wait(py, None, async {
            self.open.lock().await.take().ok_or_else(|| closed("the appender"))
        })?;
        // The commit blocks its thread, which must not be one that runs tasks.
        let finished = py.detach(|| appender.finish());
        finished.map_err(|error| crate::errors::exception(py, &error))
    }

    /// Ends the appender without its rows. Does nothing after `finish`.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        drop_detached(wait(py, None, async { Ok(self.open.lock().await.take()) })?);
        Ok(())
    }
}

fn opened(guard: &mut Guarded<thalweg::Appender>) -> Result<&mut thalweg::Appender> {
    guard.get_mut().ok_or_else(|| closed("the appender"))
}
