//! The engine's errors as Python exceptions.

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use thalweg::{Error, SqlState};

/// The exception for an error. The package chooses its class by the SQLSTATE.
pub fn exception(py: Python<'_>, error: &Error) -> PyErr {
    static FROM_ENGINE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let make = || -> PyResult<PyErr> {
        let from_engine = FROM_ENGINE.get_or_try_init(py, || {
            py.import("thalweg._errors")?.getattr("from_engine").map(Bound::unbind)
        })?;
        let fields =
            (error.state().0, error.message(), error.detail(), error.hint(), error.position());
        Ok(PyErr::from_value(from_engine.bind(py).call1(fields)?))
    };
    make().unwrap_or_else(|_| PyRuntimeError::new_err(error.message().to_owned()))
}

/// The exception for a value that has no counterpart in the other language.
pub fn no_conversion(py: Python<'_>, message: impl Into<String>) -> PyErr {
    exception(py, &Error::new(SqlState::DATA_EXCEPTION, message))
}

/// The error of an object that was closed: PostgreSQL's "connection does not exist".
pub fn closed(what: &str) -> Error {
    Error::new(SqlState("08003"), format!("{what} is closed"))
}
