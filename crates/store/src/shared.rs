//! Memory that one writer extends while readers see its beginning.
//!
//! Contains all `unsafe` code of the crate; each file states its invariants.

mod bits;
mod bytes;
mod prefetch;
mod text;

pub(crate) use bits::AtomicBits;
pub(crate) use bytes::{BytesWriter, SharedBytes};
pub(crate) use prefetch::prefetch;
pub(crate) use text::{SharedText, TextWriter};
