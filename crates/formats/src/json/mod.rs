//! JSON lines: one object a line, one column a key.

mod decoder;
mod infer;
mod object;
mod write;

pub use decoder::JsonDecoder;
pub(crate) use infer::infer;
pub(crate) use write::JsonWriter;
