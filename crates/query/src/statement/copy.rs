//! `COPY` between tables and files.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use arrow::datatypes::{Schema, SchemaRef};
use arrow::record_batch::RecordBatch;
use datafusion::sql::sqlparser::ast::{
    CopyLegacyCsvOption, CopyLegacyOption, CopyOption, CopySource, CopyTarget, Ident, Query,
    Statement,
};
use futures::StreamExt;
use parking_lot::Mutex;
use thalweg_execution::cancel::on_own_thread;
use thalweg_execution::row_forms::RowForm;
use thalweg_formats::text::style;
use thalweg_formats::{Format, ReadOptions, Reader, Unit, WriteOptions, Writer};
use thalweg_txn::Privilege;
use thalweg_types::{Error, Result, RowId, SqlState};
use thalweg_values::types::column_field;
use tokio::sync::mpsc::{Receiver, channel};

use super::{Execution, Shaper, Target, ast_tools, folded};
use crate::Unit as ProgressUnit;
use crate::copy_in::CopyIn;
use crate::database::Database;
use crate::loader::{Loaded, Loader};
use crate::outcome::{Copy, Outcome, Tag};
use crate::plan;
use crate::sequences::takes_number;

/// Number of rows in each file of a directory.
const ROWS_A_FILE: usize = 4_194_304;
/// Number of rows that are encoded between two checks for cancellation.
const ROWS_AT_ONCE: usize = 8_192;
/// Number of batches of a query that may wait to be encoded.
const BATCHES_AHEAD: usize = 1;

pub(super) async fn run(execution: &mut Execution<'_>, statement: &Statement) -> Result<Outcome> {
    let Statement::Copy { source, to, target, options, legacy_options, .. } = statement else {
        return Err(Error::internal("not a COPY"));
    };
    if let CopySource::Table { columns, .. } = source {
        refuse_repeated(columns)?;
    }
    let path = match target {
        CopyTarget::File { filename } => PathBuf::from(filename),
        CopyTarget::Stdin | CopyTarget::Stdout => {
            let options = texts(options, legacy_options)?;
            return with_client(execution, source, *to, &options).await;
        }
        CopyTarget::Program { .. } => return Err(Error::unsupported("COPY with PROGRAM")),
    };
    let options = texts(options, legacy_options)?;
    let options = options.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    match (to, source) {
        (false, CopySource::Table { table_name, columns }) => {
            execution.names.rights().read_server_files("COPY from a file")?;
            let target = Target::find(&execution.names.catalog(), table_name)?;
            from_files(execution, &target, columns, &path, &ReadOptions::from_copy(options)?).await
        }
        (false, CopySource::Query(_)) => {
            let message = "COPY FROM needs a table to copy into";
            Err(Error::new(SqlState::SYNTAX_ERROR, message))
        }
        (true, source) => {
            execution.names.rights().write_server_files("COPY to a file")?;
            let options = WriteOptions::from_copy(options)?;
            to_files(execution, source, &path, &options).await
        }
    }
}

/// The options as names and values.
fn texts(options: &[CopyOption], legacy: &[CopyLegacyOption]) -> Result<Vec<(String, String)>> {
    let mut texts = Vec::with_capacity(options.len() + legacy.len());
    for option in options {
        let (name, value) = match option {
            CopyOption::Format(format) => ("format", format.value.clone()),
            CopyOption::Freeze(_) => continue,
            CopyOption::Delimiter(mark) => ("delimiter", mark.to_string()),
            CopyOption::Null(text) => ("null", text.clone()),
            CopyOption::Header(header) => ("header", header.to_string()),
            CopyOption::Quote(mark) => ("quote", mark.to_string()),
            CopyOption::Escape(mark) => ("escape", mark.to_string()),
            CopyOption::ForceQuote(columns) => ("force_quote", list(columns)),
            CopyOption::ForceNotNull(columns) => ("force_not_null", list(columns)),
            CopyOption::ForceNull(columns) => ("force_null", list(columns)),
            CopyOption::Encoding(name) => ("encoding", name.clone()),
        };
        texts.push((name.to_owned(), value));
    }
    for option in legacy {
        let (name, value) = match option {
            CopyLegacyOption::Csv(options) => {
                texts.extend(options.iter().map(csv_text));
                ("format", "csv".to_owned())
            }
            CopyLegacyOption::Delimiter(mark) => ("delimiter", mark.to_string()),
            CopyLegacyOption::Null(text) => ("null", text.clone()),
            CopyLegacyOption::Header => ("header", "true".to_owned()),
            CopyLegacyOption::Binary => ("format", "binary".to_owned()),
            other => return Err(Error::unsupported(format!("the COPY option {other}"))),
        };
        texts.push((name.to_owned(), value));
    }
    Ok(texts)
}

/// An option of the older form `CSV HEADER QUOTE …`.
fn csv_text(option: &CopyLegacyCsvOption) -> (String, String) {
    let (name, value) = match option {
        CopyLegacyCsvOption::Header => ("header", "true".to_owned()),
        CopyLegacyCsvOption::Quote(mark) => ("quote", mark.to_string()),
        CopyLegacyCsvOption::Escape(mark) => ("escape", mark.to_string()),
        CopyLegacyCsvOption::ForceQuote(columns) => ("force_quote", list(columns)),
        CopyLegacyCsvOption::ForceNotNull(columns) => ("force_not_null", list(columns)),
    };
    (name.to_owned(), value)
}

fn list(columns: &[Ident]) -> String {
    columns.iter().map(folded).collect::<Vec<_>>().join(",")
}

fn refuse_repeated(columns: &[Ident]) -> Result<()> {
    let mut seen = HashSet::new();
    match columns.iter().map(folded).find(|name| !seen.insert(name.clone())) {
        None => Ok(()),
        Some(name) => {
            let message = format!("column \"{name}\" specified more than once");
            Err(Error::new(SqlState::DUPLICATE_COLUMN, message))
        }
    }
}

/// The columns of a file or a client, and the shaper that makes rows of the table from them.
fn columns_and_shaper(
    execution: &Execution<'_>,
    target: &Target,
    columns: &[Ident],
) -> Result<(SchemaRef, Shaper)> {
    target.require(execution, Privilege::Insert)?;
    let schema = target.schema();
    let mut given = Vec::with_capacity(columns.len());
    for column in columns {
        given.push(target.position(&folded(column))?);
    }
    if given.is_empty() {
        given = (0..schema.columns.len()).collect();
    }
    let fields: Vec<_> = given.iter().map(|at| column_field(&schema.columns[*at])).collect();
    let counters = execution.names.with(|t| Ok(t.state(target.id())?.identities().clone()))?;
    let shaper = Shaper::new(&execution.state, schema, &given, counters)?;
    Ok((Arc::new(Schema::new(fields)), shaper))
}

/// `COPY` with the client. The default is PostgreSQL's text format.
async fn with_client(
    execution: &Execution<'_>,
    source: &CopySource,
    to_client: bool,
    options: &[(String, String)],
) -> Result<Outcome> {
    let options = options.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    if to_client {
        let mut options = WriteOptions::from_copy(options)?;
        options.format.get_or_insert(Format::Text);
        return to_the_client(execution, source, options).await;
    }
    let CopySource::Table { table_name, columns } = source else {
        let message = "COPY FROM needs a table to copy into";
        return Err(Error::new(SqlState::SYNTAX_ERROR, message));
    };
    let mut options = ReadOptions::from_copy(options)?;
    options.format.get_or_insert(Format::Text);
    let target = Target::find(&execution.names.catalog(), table_name)?;
    let (schema, shaper) = columns_and_shaper(execution, &target, columns)?;
    let (database, goes_ahead) = (execution.database, execution.goes_ahead);
    let copy = CopyIn::new(database, target, schema, options, shaper, goes_ahead);
    Ok(Outcome::done(Tag::Copy(0)).with_copy(Copy::In(Box::new(copy))))
}

/// Rows for the client. Workers encode them if the client accepts messages and the rows need no
/// further processing.
async fn to_the_client(
    execution: &Execution<'_>,
    source: &CopySource,
    options: WriteOptions,
) -> Result<Outcome> {
    let planned = execution.translate(plan::query(&execution.state, query_of(source)?).await)?;
    let physical = execution.translate(plan::physical(&execution.state, &planned.plan).await)?;
    let schema = plan::renamed(&physical.schema(), &planned);
    if matches!(execution.form, RowForm::DataRows(_)) {
        let form = RowForm::CopyData(Box::new(options.clone()));
        let scans = &execution.database.shared.cluster().scans;
        if let Some(rows) = scans.encoded(&physical, &schema, &form)? {
            let outcome = Outcome::encoded(schema, rows, Tag::Copy(0));
            return Ok(outcome.with_copy(Copy::Out(options)));
        }
    }
    let rows = plan::start(&execution.state, physical, &schema, execution.sql);
    Ok(Outcome::rows(schema, rows, Tag::Copy(0)).with_copy(Copy::Out(options)))
}

async fn from_files(
    execution: &Execution<'_>,
    target: &Target,
    columns: &[Ident],
    path: &Path,
    options: &ReadOptions,
) -> Result<Outcome> {
    let (wanted, shaper) = columns_and_shaper(execution, target, columns)?;
    let reader = thalweg_formats::open(path, &wanted, options, RowId::CHUNK_ROWS)?;

    let progress = Arc::clone(&execution.database.shared.progress);
    let what = format!("loading {}", target.schema().name);
    progress.begin(&what, Some(reader.bytes()), ProgressUnit::Bytes);
    let cluster = execution.database.shared.cluster();
    let goes_ahead = execution.goes_ahead && cluster.holds(target.schema());
    let ahead = goes_ahead.then(|| {
        let schema = Arc::clone(target.schema());
        Loader::new(execution.database.clone(), schema).going_ahead()
    });
    let loaded = Load::start(execution.database, target, shaper, reader, ahead).finish().await;
    progress.end();
    let (mut rows, mut ahead) = (0, None);
    for mut part in loaded? {
        ahead = ahead.or(part.ahead.take());
        rows += execution.names.with(|t| match execution.in_block {
            true => part.append_in_block(t, target),
            false => part.append_to(t, target.id()),
        })?;
    }
    Ok(Outcome::done(Tag::Copy(rows)).with_ahead(ahead))
}

/// Decodes, shapes and stages files on several threads.
struct Load {
    shared: Arc<LoadShared>,
    threads: usize,
}

struct LoadShared {
    database: Database,
    target: Target,
    shaper: Shaper,
    units: Vec<Mutex<Option<Unit>>>,
    next: AtomicUsize,
    bytes_done: AtomicU64,
    /// Set when one thread failed, or the statement was dropped.
    stop: AtomicBool,
    /// The contents of each unit, in the order of the units.
    loaded: Mutex<Vec<Option<Loaded>>>,
    /// Takes the rows of all units if they go to workers: then they are one load.
    ahead: Option<Mutex<Loader>>,
}

impl Load {
    fn start(
        database: &Database,
        target: &Target,
        shaper: Shaper,
        reader: Reader,
        ahead: Option<Loader>,
    ) -> Load {
        let units: Vec<_> = reader.units().into_iter().map(|u| Mutex::new(Some(u))).collect();
        // Rows are numbered in the order of the file.
        let is_numbered = target.schema().columns.iter().any(takes_number);
        let threads = if is_numbered { 1 } else { database.shared.threads.min(units.len()).max(1) };
        let shared = LoadShared {
            database: database.clone(),
            target: target.clone(),
            shaper,
            loaded: Mutex::new(units.iter().map(|_| None).collect()),
            units,
            next: AtomicUsize::new(0),
            bytes_done: AtomicU64::new(0),
            stop: AtomicBool::new(false),
            ahead: ahead.map(Mutex::new),
        };
        Load { shared: Arc::new(shared), threads }
    }

    async fn finish(self) -> Result<Vec<Loaded>> {
        let style = style::current();
        let threads: Vec<_> = (0..self.threads)
            .map(|_| {
                let (shared, style) = (Arc::clone(&self.shared), style.clone());
                thalweg_runtime::spawn_blocking(move || {
                    style::within(style.as_ref(), || shared.work())
                })
            })
            .collect();
        for thread in threads {
            thread.await.map_err(|_| Error::internal("a thread that loads rows died"))??;
        }
        let mut loaded = self.shared.loaded.lock();
        let ahead = self.shared.ahead.as_ref().map(|loader| loader.lock().take());
        Ok(loaded.iter_mut().filter_map(Option::take).chain(ahead).collect())
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
    }
}

impl LoadShared {
    fn work(&self) -> Result<()> {
        let worked = self.take_units();
        if worked.is_err() {
            self.stop.store(true, Ordering::Relaxed);
        }
        worked
    }

    fn take_units(&self) -> Result<()> {
        loop {
            let index = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(unit) = self.units.get(index) else { return Ok(()) };
            let unit = unit.lock().take().expect("each unit is taken once");
            let bytes = unit.bytes();
            let schema = Arc::clone(self.target.schema());
            let mut loader = Loader::new(self.database.clone(), schema);
            for batch in unit.read() {
                if self.stop.load(Ordering::Relaxed) {
                    return Ok(());
                }
                let rows = self.shaper.shape(&batch?)?;
                match &self.ahead {
                    Some(ahead) => ahead.lock().push(rows)?,
                    None => loader.push(rows)?,
                }
            }
            self.loaded.lock()[index] = Some(loader.finish());
            let done = self.bytes_done.fetch_add(bytes, Ordering::Relaxed) + bytes;
            self.database.shared.progress.advance(done);
        }
    }
}

async fn to_files(
    execution: &Execution<'_>,
    source: &CopySource,
    path: &Path,
    options: &WriteOptions,
) -> Result<Outcome> {
    let planned = execution.translate(plan::query(&execution.state, query_of(source)?).await)?;
    let (schema, mut batches) = plan::stream(&execution.state, planned, execution.sql).await?;
    let files = Files::new(path, schema, options)?;
    let (sender, receiver) = channel(BATCHES_AHEAD);
    let writing = on_own_thread(move |is_unwanted| files.write_all(receiver, is_unwanted));
    let writing = async { writing.await? };
    let reading = async move {
        while let Some(batch) = batches.next().await {
            // If the writer has ended, it returns the error.
            if sender.send(batch?).await.is_err() {
                break;
            }
        }
        Ok::<(), Error>(())
    };
    let ((), (files, rows)) = tokio::try_join!(reading, writing)?;
    on_own_thread(move |_| files.finish()).await??;
    Ok(Outcome::done(Tag::Copy(rows)))
}

fn query_of(source: &CopySource) -> Result<Query> {
    match source {
        CopySource::Query(query) => Ok(query.as_ref().clone()),
        CopySource::Table { table_name, columns } => table_query(table_name.to_string(), columns),
    }
}

fn table_query(table: String, columns: &[Ident]) -> Result<Query> {
    let columns: Vec<String> = columns.iter().map(ToString::to_string).collect();
    let columns = if columns.is_empty() { "*".to_owned() } else { columns.join(", ") };
    ast_tools::query(&format!("SELECT {columns} FROM {table}"))
}

/// One file, or the files of a directory.
struct Files {
    schema: SchemaRef,
    options: WriteOptions,
    directory: Option<PathBuf>,
    writer: Writer,
    rows: usize,
    /// Complete files. They are renamed when everything is written.
    done: Vec<Writer>,
}

impl Files {
    fn new(path: &Path, schema: SchemaRef, options: &WriteOptions) -> Result<Files> {
        let text = path.to_string_lossy();
        let directory = (text.ends_with('/') || path.is_dir()).then(|| path.to_owned());
        let mut options = options.clone();
        let first = match &directory {
            None => path.to_owned(),
            Some(directory) => {
                thalweg_formats::create_directory(directory)?;
                let format = *options.format.get_or_insert(Format::Parquet);
                directory.join(file_name(0, format))
            }
        };
        let writer = Writer::create_file(&first, &schema, &options)?;
        Ok(Files { schema, options, directory, writer, rows: 0, done: Vec::new() })
    }

    /// Writes batches until the receiver is gone. Also returns the number of rows.
    #[expect(clippy::disallowed_methods, reason = "COPY to files does not run in simulations")]
    fn write_all(
        mut self,
        mut batches: Receiver<RecordBatch>,
        is_unwanted: &AtomicBool,
    ) -> Result<(Files, u64)> {
        let mut rows = 0;
        while let Some(batch) = batches.blocking_recv() {
            let length = batch.num_rows();
            for first in (0..length).step_by(ROWS_AT_ONCE) {
                if is_unwanted.load(Ordering::Relaxed) {
                    return Ok((self, rows));
                }
                self.write(&batch.slice(first, ROWS_AT_ONCE.min(length - first)))?;
            }
            rows += length as u64;
        }
        Ok((self, rows))
    }

    fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        if let Some(directory) = &self.directory
            && self.rows >= ROWS_A_FILE
        {
            let format = self.options.format.unwrap_or(Format::Parquet);
            let path = directory.join(file_name(self.done.len() + 1, format));
            let next = Writer::create_file(&path, &self.schema, &self.options)?;
            self.done.push(std::mem::replace(&mut self.writer, next));
            self.rows = 0;
        }
        self.rows += batch.num_rows();
        self.writer.write(batch)
    }

    fn finish(self) -> Result<()> {
        for writer in self.done {
            writer.finish()?;
        }
        self.writer.finish()
    }
}

fn file_name(number: usize, format: Format) -> String {
    format!("part-{number:05}.{}", format.extension())
}
