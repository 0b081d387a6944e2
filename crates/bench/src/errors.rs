//! Converts the errors of files, processes and libraries into ours.

use std::fmt::Display;

use thalweg_types::{Error, SqlState};

/// Adds a description of the failed action to an external error.
pub fn while_doing<E: Display>(what: impl Display) -> impl FnOnce(E) -> Error {
    move |error| Error::new(SqlState::IO_ERROR, format!("{what}: {error}"))
}
