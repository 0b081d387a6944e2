//! The rows of one result, read as they come.

use std::collections::VecDeque;
use std::mem::take;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use arrow::record_batch::{RecordBatch, RecordBatchReader};
use futures::TryStreamExt as _;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyTuple};
use thalweg::{BatchStream, CancelHandle, Error, Result};
use thalweg_values::types::display_name;
use tokio::sync::Mutex;

use crate::arrow_stream::{self, Form, with_fields};
use crate::errors::closed;
use crate::process::{Guarded, drop_detached, wait};
use crate::to_python;

/// The rows of one result. Each row is returned once, by whichever method reads it first.
#[pyclass(frozen, module = "thalweg._thalweg")]
pub struct Rows {
    schema: SchemaRef,
    reader: Arc<Reader>,
}

/// The part of a result that readers share.
struct Reader {
    cancel: CancelHandle,
    state: Mutex<State>,
}

struct State {
    /// `None` once the stream has ended or was closed.
    stream: Guarded<BatchStream>,
    /// The stream after its end. It may hold the last reference to the database, whose threads
    /// must not be waited for by a task.
    ended: Guarded<BatchStream>,
    /// Batches that were read ahead.
    ready: VecDeque<RecordBatch>,
    /// The error that ended the stream. It is returned again, so that no reader takes the rows
    /// before it for all rows.
    failed: Option<Error>,
    is_closed: bool,
}

impl State {
    /// The next batch with rows; `None` at the end.
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        match self.ready.pop_front() {
            Some(batch) => Ok(Some(batch)),
            None => self.next_of_stream().await,
        }
    }

    async fn next_of_stream(&mut self) -> Result<Option<RecordBatch>> {
        if self.is_closed {
            return Err(closed("the result"));
        }
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        while let Some(stream) = self.stream.get_mut() {
            match stream.try_next().await {
                Ok(Some(batch)) if batch.num_rows() == 0 => {}
                Ok(Some(batch)) => return Ok(Some(batch)),
                Ok(None) => self.end(),
                Err(error) => {
                    self.end();
                    self.failed = Some(error.clone());
                    return Err(error);
                }
            }
        }
        Ok(None)
    }

    /// Marks the stream as ended. Does nothing if it has ended already.
    fn end(&mut self) {
        if let Some(stream) = self.stream.take() {
            self.ended = Guarded::new(stream);
        }
    }

    /// Reads ahead until so many rows are ready, or all.
    async fn read_ahead(&mut self, rows: usize) -> Result<()> {
        let mut count: usize = self.ready.iter().map(RecordBatch::num_rows).sum();
        while count < rows {
            let Some(batch) = self.next_of_stream().await? else { break };
            count += batch.num_rows();
            self.ready.push_back(batch);
        }
        Ok(())
    }
}

impl Reader {
    /// Waits for work of the engine, and frees the stream if it has ended.
    fn read<T: Send>(
        &self,
        py: Python<'_>,
        work: impl Future<Output = Result<T>> + Send,
    ) -> PyResult<T> {
        let read = wait(py, Some(&self.cancel), work);
        let ended = self.state.try_lock().ok().map(|mut state| take(&mut state.ended));
        drop_detached(ended);
        read
    }
}

impl Rows {
    pub fn new(schema: SchemaRef, stream: BatchStream, cancel: CancelHandle) -> Rows {
        let state = State {
            stream: Guarded::new(stream),
            ended: Guarded::default(),
            ready: VecDeque::new(),
            failed: None,
            is_closed: false,
        };
        Rows { schema, reader: Arc::new(Reader { cancel, state: Mutex::new(state) }) }
    }

    /// The next batch, of which at most `most` rows are taken.
    fn take(&self, py: Python<'_>, most: usize) -> PyResult<Option<RecordBatch>> {
        let reader = &self.reader;
        reader.read(py, async {
            let mut state = reader.state.lock().await;
            let Some(batch) = state.next().await? else { return Ok(None) };
            if batch.num_rows() <= most {
                return Ok(Some(batch));
            }
            state.ready.push_front(batch.slice(most, batch.num_rows() - most));
            Ok(Some(batch.slice(0, most)))
        })
    }
}

impl Drop for Rows {
    fn drop(&mut self) {
        // A reader in another library may still need the parts.
        if let Some(reader) = Arc::get_mut(&mut self.reader) {
            let state = reader.state.get_mut();
            let streams = (take(&mut state.stream), take(&mut state.ended));
            drop_detached((streams, take(&mut state.ready)));
        }
    }
}

#[pymethods]
impl Rows {
    /// Name and type of each column. The type is written as SQL writes it.
    #[getter]
    fn columns(&self) -> Vec<(String, String)> {
        let describe =
            |field: &Arc<arrow::datatypes::Field>| (field.name().clone(), display_name(field));
        self.schema.fields().iter().map(describe).collect()
    }

    /// The next rows: at most `most`, or all that are left.
    #[pyo3(signature = (most=None))]
    fn fetch<'py>(
        &self,
        py: Python<'py>,
        most: Option<usize>,
    ) -> PyResult<Vec<Bound<'py, PyTuple>>> {
        let most = most.unwrap_or(usize::MAX);
        let mut rows = Vec::new();
        while rows.len() < most {
            let Some(batch) = self.take(py, most - rows.len())? else { break };
            to_python::append_rows(py, &batch, &self.schema, &mut rows)?;
        }
        Ok(rows)
    }

    /// The next rows as text, at most `most`, without taking them; and true if there are more.
    /// NULL is None.
    fn peek(&self, py: Python<'_>, most: usize) -> PyResult<(Vec<Vec<Option<String>>>, bool)> {
        let reader = &self.reader;
        let batches = reader.read(py, async {
            let mut state = reader.state.lock().await;
            state.read_ahead(most.saturating_add(1)).await?;
            Ok(state.ready.iter().cloned().collect::<Vec<_>>())
        })?;
        let mut rows = Vec::new();
        for batch in &batches {
            let left = most - rows.len();
            to_python::append_texts(py, &batch.slice(0, batch.num_rows().min(left)), &mut rows)?;
        }
        let count: usize = batches.iter().map(RecordBatch::num_rows).sum();
        Ok((rows, count > most))
    }

    /// Reads all rows into memory, where the other methods find them.
    fn read_ahead(&self, py: Python<'_>) -> PyResult<()> {
        let reader = &self.reader;
        reader.read(py, async { reader.state.lock().await.read_ahead(usize::MAX).await })
    }

    /// The rows that are left as a stream of Arrow. With `views`, strings stay in the engine's own
    /// layout, and intervals and numbers of more than 38 digits become text.
    #[pyo3(signature = (views=false))]
    fn arrow_stream<'py>(&self, py: Python<'py>, views: bool) -> PyResult<Bound<'py, PyCapsule>> {
        let form = if views { Form::Views } else { Form::Plain };
        let schema = form.schema(&self.schema);
        arrow_stream::write(py, Batches { schema, reader: Arc::clone(&self.reader) })
    }

    /// Ends the result. Its query is stopped if it still runs.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let reader = &self.reader;
        reader.read(py, async {
            let mut state = reader.state.lock().await;
            state.ready.clear();
            state.is_closed = true;
            state.end();
            Ok(())
        })
    }
}

/// The batches of a result for another library.
struct Batches {
    schema: SchemaRef,
    reader: Arc<Reader>,
}

impl Batches {
    fn read(&self) -> Result<Option<RecordBatch>, ArrowError> {
        let reader = &self.reader;
        let read =
            Python::attach(|py| reader.read(py, async { reader.state.lock().await.next().await }));
        read.map_err(|error| ArrowError::ExternalError(Box::new(error)))
    }
}

impl Iterator for Batches {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let batch = self.read().transpose()?;
        Some(batch.and_then(|batch| with_fields(&batch, &self.schema)))
    }
}

impl RecordBatchReader for Batches {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}
