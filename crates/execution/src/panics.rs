//! Panics of statements. They become an error for the client and affect nothing else.

use std::any::Any;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};

use futures::FutureExt;
use thalweg_types::{Error, Result};

/// Runs the work of a statement. If it panics, its state is dropped, as after an error.
///
/// # Errors
/// Errors of the work; XX000 with the panic's message if it panicked.
pub async fn caught<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    let done = AssertUnwindSafe(work).catch_unwind().await;
    done.unwrap_or_else(|panic| Err(broke_down(panic.as_ref())))
}

/// Like [`caught`], for synchronous work.
///
/// # Errors
/// Errors of the work; XX000 with the panic's message if it panicked.
pub fn caught_at_once<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    let done = catch_unwind(AssertUnwindSafe(work));
    done.unwrap_or_else(|panic| Err(broke_down(panic.as_ref())))
}

pub(crate) fn broke_down(panic: &(dyn Any + Send)) -> Error {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    Error::internal("the statement broke down").with_detail(text.unwrap_or("It panicked."))
}
