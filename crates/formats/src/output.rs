//! The destination of written bytes, and its first error.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use thalweg_types::{Error, SqlState};

/// The first error of an [`Output`].
///
/// Encoders wrap errors in their own or reduce them to text, which would lose advice to the user,
/// such as to free space on the disk.
#[derive(Clone, Default)]
pub(crate) struct Fault(Arc<Mutex<Option<Error>>>);

impl Fault {
    /// The output's own error if there was one, else the encoder's.
    pub fn or(&self, error: Error) -> Error {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone().unwrap_or(error)
    }

    fn keep(&self, error: &io::Error) {
        // Encoders retry after these.
        if matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock) {
            return;
        }
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.get_or_insert_with(|| write_error(error));
    }
}

pub(crate) struct Output {
    inner: Box<dyn Write + Send>,
    fault: Fault,
}

impl Output {
    /// Wraps a destination. No error has occurred yet.
    pub fn new(inner: Box<dyn Write + Send>) -> Output {
        Output { inner, fault: Fault::default() }
    }

    /// A handle to the first error of the destination, which encoders may otherwise wrap or hide.
    pub fn fault(&self) -> Fault {
        self.fault.clone()
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.inner.write(bytes).inspect_err(|error| self.fault.keep(error))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush().inspect_err(|error| self.fault.keep(error))
    }
}

pub(crate) fn write_error(error: &io::Error) -> Error {
    let state = match error.kind() {
        io::ErrorKind::StorageFull => SqlState::DISK_FULL,
        _ => SqlState::IO_ERROR,
    };
    Error::new(state, format!("could not write: {error}"))
}
