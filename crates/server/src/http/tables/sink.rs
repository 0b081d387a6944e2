//! Where rows go: a `COPY` of the session, or the record API.

use std::sync::Arc;

use arrow::datatypes::{Field, Schema, SchemaRef};
use arrow::record_batch::RecordBatch;
use thalweg_query::{Copy, CopyIn, RecordBatcher, RecordChange, RecordTable};
use thalweg_types::{Error, Result};

use super::options::{Mode, TableName};
use crate::flight::{changed_by, quoted};
use crate::http::ingest::{Report, Upload, on_blocking_thread, written};
use crate::values::check_column;

pub(super) enum Sink {
    /// All rows or none.
    Insert(Box<CopyIn>),
    /// Each row by itself.
    Upsert(Upsert),
}

pub(super) struct Upsert {
    table: String,
    /// The columns that rows have values for, in the table's types.
    schema: SchemaRef,
    /// The table for batches of the latest schema.
    batches: Option<(SchemaRef, Arc<RecordTable>)>,
    /// Rows that came before the current group.
    rows_before: u64,
}

impl Sink {
    /// # Errors
    /// If there is no such table or column, or the user may not write it.
    pub(super) async fn open(
        upload: &mut Upload,
        table: &TableName,
        mode: Mode,
        columns: &[String],
    ) -> Result<Sink> {
        match mode {
            Mode::Insert => {
                let names: Vec<String> = columns.iter().map(|name| quoted(name)).collect();
                let names = match names.is_empty() {
                    true => String::new(),
                    false => format!(" ({})", names.join(", ")),
                };
                let copy = format!("COPY {}{names} FROM STDIN", table.quoted());
                match upload.execute(&copy).await?.copy {
                    Some(Copy::In(copy)) => Ok(Sink::Insert(copy)),
                    _ => Err(Error::internal("a copy takes rows")),
                }
            }
            Mode::Upsert => {
                let table = table.plain();
                let found = upload.records.table(&table, columns)?;
                found.permit(RecordChange::Upsert)?;
                let schema = Arc::clone(found.row());
                Ok(Sink::Upsert(Upsert { table, schema, batches: None, rows_before: 0 }))
            }
        }
    }

    /// The columns of rows, with the types that they are decoded to.
    pub(super) fn schema(&self) -> SchemaRef {
        let schema = match self {
            Sink::Insert(copy) => copy.schema(),
            Sink::Upsert(upsert) => &upsert.schema,
        };
        // The sink itself checks for NULL, so that the error names the constraint.
        let fields = schema.fields().iter().map(|field| field.as_ref().clone().with_nullable(true));
        Arc::new(Schema::new(fields.collect::<Vec<Field>>()))
    }

    /// A check to call before so many bytes are decoded. It fails if the process has no memory.
    pub(super) fn room(&self) -> Option<impl Fn(usize) -> Result<()> + Send + 'static + use<>> {
        match self {
            Sink::Insert(copy) => Some(copy.room()),
            Sink::Upsert(_) => None,
        }
    }

    /// Writes batches of one group, and for an upsert waits until it is durable. `rows` decodes
    /// them on a thread that may block, and adds them to the group.
    pub(super) async fn write<T: Send + 'static>(
        self,
        upload: &mut Upload,
        report: &mut Report,
        rows: impl FnOnce(&mut Group<'_>) -> Result<T> + Send + 'static,
    ) -> Result<(Sink, T)> {
        let permit = upload.permit().await;
        match self {
            Sink::Insert(mut copy) => {
                on_blocking_thread(move || {
                    let _permit = permit;
                    let decoded = rows(&mut Group::Insert(&mut copy))?;
                    Ok((Sink::Insert(copy), decoded))
                })
                .await
            }
            Sink::Upsert(mut upsert) => {
                let decoded = on_blocking_thread(move || {
                    let _permit = permit;
                    let mut group = UpsertGroup::default();
                    let decoded = rows(&mut Group::Upsert(&mut group))?;
                    Ok((group, decoded))
                });
                let (group, decoded) = decoded.await?;
                upsert.write(upload, report, group).await?;
                Ok((Sink::Upsert(upsert), decoded))
            }
        }
    }

    /// Ends the rows. An insert is committed here.
    pub(super) async fn finish(self, upload: &mut Upload, report: &mut Report) -> Result<()> {
        let Sink::Insert(copy) = self else { return Ok(()) };
        let _permit = upload.permit().await;
        let outcome = upload.session.finish_copy(Ok(*copy)).await?;
        report.rows = u64::try_from(changed_by(&outcome.tag)).unwrap_or_default();
        Ok(())
    }
}

/// The rows that are decoded together.
pub(super) enum Group<'a> {
    Insert(&'a mut CopyIn),
    Upsert(&'a mut UpsertGroup),
}

/// Batches and rejected rows in their order.
#[derive(Default)]
pub(super) struct UpsertGroup(Vec<Result<RecordBatch>>);

impl Group<'_> {
    pub(super) fn push(&mut self, batch: RecordBatch) -> Result<()> {
        batch.columns().iter().try_for_each(check_column)?;
        match self {
            Group::Insert(copy) => copy.push(&batch),
            Group::Upsert(group) => {
                group.0.push(Ok(batch));
                Ok(())
            }
        }
    }

    /// Rejects a row that cannot be decoded.
    ///
    /// # Errors
    /// The row's error, if it spoils all rows.
    pub(super) fn reject(&mut self, error: Error) -> Result<()> {
        match self {
            Group::Insert(_) => Err(error),
            Group::Upsert(group) => {
                group.0.push(Err(error));
                Ok(())
            }
        }
    }
}

impl Upsert {
    async fn write(
        &mut self,
        upload: &mut Upload,
        report: &mut Report,
        group: UpsertGroup,
    ) -> Result<()> {
        let mut batcher = RecordBatcher::default();
        for rows in group.0 {
            match rows {
                Ok(batch) => {
                    let table = self.table_for(upload, &batch.schema())?;
                    batcher.push_batch(0, &table, RecordChange::Upsert, batch, Vec::new());
                }
                Err(error) => batcher.refuse(1, &error),
            }
        }
        let rows = u64::from(batcher.rows());
        if rows == 0 {
            return Ok(());
        }
        // Checks, defaults and casts of the rows are evaluated here.
        let permit = upload.permit().await;
        let write = on_blocking_thread(move || {
            let _permit = permit;
            batcher.finish()
        });
        let write = write.await?;
        let written = written(&upload.records, write).await?;
        report.rows += written.rows;
        for failure in written.failures {
            report.reject(self.rows_before + u64::from(failure.place) + 1, failure.error);
        }
        self.rows_before += rows;
        // A change of the table takes effect with the next group.
        self.batches = None;
        Ok(())
    }

    fn table_for(&mut self, upload: &Upload, schema: &SchemaRef) -> Result<Arc<RecordTable>> {
        if let Some((known, table)) = &self.batches
            && known == schema
        {
            return Ok(Arc::clone(table));
        }
        let table = Arc::new(upload.records.table_for(&self.table, schema)?);
        self.batches = Some((Arc::clone(schema), Arc::clone(&table)));
        Ok(table)
    }
}
