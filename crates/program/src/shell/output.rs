//! Destination of results: standard output or a file.

use std::fs::File;
use std::io::{self, BufWriter, IsTerminal as _, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use thalweg::{Error, Result, SqlState};

/// A destination of results. Clones write to the same destination.
#[derive(Clone)]
pub struct Output {
    sink: Arc<Mutex<Sink>>,
    /// `None` for standard output.
    file: Option<Arc<Path>>,
    is_terminal: bool,
}

struct Sink {
    writer: BufWriter<Box<dyn Write + Send>>,
    /// The kind of a failed write, for callers whose own error hides it.
    failure: Option<io::ErrorKind>,
    /// True if the destination holds a result that nothing may follow.
    is_full: bool,
}

impl Output {
    /// Standard output.
    pub fn stdout() -> Output {
        let is_terminal = io::stdout().is_terminal();
        Output { sink: sink(Box::new(io::stdout())), file: None, is_terminal }
    }

    /// A file; an existing one is replaced.
    pub fn file(path: &Path) -> Result<Output> {
        #[expect(clippy::disallowed_methods, reason = "the user's file, not the database's")]
        let file = File::create(path).map_err(|error| {
            let message = format!("could not open \"{}\": {error}", path.display());
            Error::new(SqlState::IO_ERROR, message)
        })?;
        Ok(Output {
            sink: sink(Box::new(file)),
            file: Some(PathBuf::from(path).into()),
            is_terminal: false,
        })
    }

    /// True if the destination is a terminal.
    pub fn is_terminal(&self) -> bool {
        self.is_terminal
    }

    /// True if the destination is a file that the user named.
    pub fn is_file(&self) -> bool {
        self.file.is_some()
    }

    /// Reserves the whole destination for one result; fails if it already holds one.
    pub fn take_whole(&self) -> Result<()> {
        if std::mem::replace(&mut self.sink().is_full, true) {
            let message = "only one result fits into a file of this format";
            return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, message)
                .with_hint("Write each result to a file of its own, with \\o or --output."));
        }
        Ok(())
    }

    /// The error of the last write, if it failed.
    pub fn take_failure(&self) -> Option<io::Error> {
        self.sink().failure.take().map(io::Error::from)
    }

    fn sink(&self) -> MutexGuard<'_, Sink> {
        // A writer that panicked leaves at worst an incomplete result behind.
        self.sink.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn sink(writer: Box<dyn Write + Send>) -> Arc<Mutex<Sink>> {
    let writer = BufWriter::new(writer);
    Arc::new(Mutex::new(Sink { writer, failure: None, is_full: false }))
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut sink = self.sink();
        let result = sink.writer.write(bytes);
        sink.note(result)
    }

    fn flush(&mut self) -> io::Result<()> {
        let mut sink = self.sink();
        let result = sink.writer.flush();
        sink.note(result)
    }
}

impl Sink {
    fn note<T>(&mut self, result: io::Result<T>) -> io::Result<T> {
        if let Err(error) = &result {
            self.failure = Some(error.kind());
        }
        result
    }
}
