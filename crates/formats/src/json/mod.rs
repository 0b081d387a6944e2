//! JSON lines: an object on each line, a column for each key.

mod decoder;
mod infer;
mod object;
mod write;

pub use decoder::JsonDecoder;
pub(crate) use infer::infer;
pub(crate) use write::JsonWriter;
