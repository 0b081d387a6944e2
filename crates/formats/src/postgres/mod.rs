//! Values and rows in PostgreSQL's two wire formats: text and binary.
//!
//! [`RowEncoder`] writes `DataRow` messages and binary `COPY` directly from record batches,
//! [`CopyEncoder`] the messages of any `COPY`; [`decode_parameter`] reads parameters, [`decode`]
//! binary `COPY`. This module uses no sockets, so that any node can encode rows.

mod array;
mod binary;
mod copy;
mod copy_out;
mod decode;
mod numeric;
mod row;
mod types;

pub use copy::{BinaryCopyDecoder, BinaryCopyEncoder};
pub use copy_out::{CopyEncoder, CopyRows};
pub use decode::{decode, decode_parameter};
pub use row::{EncodedRows, RowEncoder, ValueFormat, messages_among};
pub use types::{Type, field_declared, field_of_oid};
