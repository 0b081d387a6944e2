//! JSON lines: an object on each line, a column for each key.

mod array;
mod decoder;
mod infer;
mod object;
mod write;

pub use array::JsonArraySplitter;
pub use decoder::{JsonDecoder, json_keys};
pub(crate) use infer::infer;
pub(crate) use write::JsonWriter;
