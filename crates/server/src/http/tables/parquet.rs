//! A Parquet file. Its index is at its end, so it is written to a temporary file first.

use arrow::record_batch::RecordBatch;
use thalweg_formats::{Format, ReadOptions, Unit, open, schema_of};
use thalweg_types::{Error, Result};

use super::Rows;
use super::sink::Group;
use crate::http::ingest::{Failure, UploadBody, on_blocking_thread};

/// Rows that are decoded at once.
const BATCH_ROWS: usize = 8_192;
/// Memory that is assumed for them.
const BATCH_BYTES: usize = 1 << 20;

type Batches = Box<dyn Iterator<Item = Result<RecordBatch>> + Send>;

impl Rows {
    /// The columns of the rows are those of the file.
    pub(super) async fn write_parquet(&mut self, mut body: UploadBody) -> Result<(), Failure> {
        let mut file = self.upload.shared.database.temporary_file()?;
        loop {
            let mut bytes = Vec::new();
            let is_last = body.gather(&mut bytes, 0).await?;
            let append = on_blocking_thread(move || file.append(&bytes).map(|()| file));
            file = append.await?;
            if is_last {
                break;
            }
        }
        let path = file.path().to_owned();
        let options = ReadOptions { format: Some(Format::Parquet), ..ReadOptions::default() };
        let described = {
            let (path, options) = (path.clone(), options.clone());
            on_blocking_thread(move || schema_of(&path, &options)).await
        };
        let schema = described.map_err(|error| without_path(&error, &path))?;
        let columns: Vec<String> =
            schema.fields().iter().map(|field| field.name().clone()).collect();
        let mut sink = self.open(&columns).await?;
        let target = sink.schema();
        let opened = {
            let path = path.clone();
            on_blocking_thread(move || open(&path, &target, &options, BATCH_ROWS)).await
        };
        let reader = opened.map_err(|error| without_path(&error, &path))?;
        let mut batches: Option<Batches> =
            Some(Box::new(reader.units().into_iter().flat_map(Unit::read)));
        while let Some(mut rest) = batches.take() {
            if let Some(room) = sink.room() {
                room(BATCH_BYTES)?;
            }
            let held = self.upload.memory(BATCH_BYTES).await;
            let path = path.clone();
            let decode = move |group: &mut Group<'_>| {
                let Some(batch) = rest.next() else { return Ok(None) };
                group.push(batch.map_err(|error| without_path(&error, &path))?)?;
                Ok(Some(rest))
            };
            (sink, batches) = sink.write(&mut self.upload, &mut self.report, decode).await?;
            drop(held);
        }
        drop(file);
        Ok(self.finish(sink).await?)
    }
}

/// The error without the name of the temporary file, which means nothing to the client.
fn without_path(error: &Error, path: &std::path::Path) -> Error {
    let name = path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into());
    let clean = |text: &str| {
        let text = text.replace(&*path.to_string_lossy(), "the request");
        if name.is_empty() { text } else { text.replace(&name, "the request") }
    };
    let mut cleaned = Error::new(error.state(), clean(error.message()));
    if let Some(detail) = error.detail() {
        cleaned = cleaned.with_detail(clean(detail));
    }
    match error.hint() {
        Some(hint) => cleaned.with_hint(clean(hint)),
        None => cleaned,
    }
}
