//! The vocabulary that every other crate shares: schemas, sequence numbers, buckets, errors.
//!
//! Nothing here does I/O, knows Arrow or knows SQL beyond the names of its types.

mod bounded;
mod bucket;
mod error;
mod ids;
mod schema;

pub use bounded::{BoundedText, bounded};
pub use bucket::{BUCKETS, Bucket, bucket_of};
pub use error::{Error, ErrorKind, Part, Result, SqlState, Subject};
pub use ids::{ColumnId, Lsn, RowId, TableId};
pub use schema::{
    Check, Column, DataType, ForeignKey, Identity, Index, Key, ReferentialAction, TableSchema,
    ValueOrder,
};
