//! The shared object of the Python package `thalweg`: the embedded database and the program.
//!
//! The package's Python half (`crates/python/thalweg`) has the interface that people use. This half
//! runs statements, converts values, and exchanges record batches through Arrow's C stream
//! interface. The interpreter's lock is released while the engine works.

mod appender;
mod arrow_stream;
mod errors;
mod from_python;
mod process;
mod program;
mod rows;
mod session;
mod to_python;

use pyo3::prelude::*;

/// The module `thalweg._thalweg`.
#[pymodule]
fn _thalweg(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<session::Session>()?;
    module.add_class::<session::Outcome>()?;
    module.add_class::<rows::Rows>()?;
    module.add_class::<appender::Appender>()?;
    module.add_function(wrap_pyfunction!(program::run, module)?)?;
    module.add_function(wrap_pyfunction!(session::relation_names, module)?)
}
