//! The program `thalweg` in the shared object.

use std::ffi::OsString;

use pyo3::prelude::*;

/// Runs the program with a command line, whose first word is the program's name, and returns its
/// exit status. `launcher` are the words that start it again, for its subcommands with processes.
#[pyfunction]
pub fn run(py: Python<'_>, arguments: Vec<OsString>, launcher: Vec<OsString>) -> u8 {
    thalweg_program::set_launcher(launcher);
    py.detach(|| thalweg_program::status(arguments))
}
