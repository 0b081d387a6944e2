//! Memory that one writer extends while readers look at its beginning.
//!
//! All `unsafe` code of the crate is in files below this one; each states its invariants.

mod bits;
mod bytes;
mod prefetch;
mod text;

pub(crate) use bits::AtomicBits;
pub(crate) use bytes::{BytesWriter, SharedBytes};
pub(crate) use prefetch::prefetch;
pub(crate) use text::{SharedText, TextWriter};
