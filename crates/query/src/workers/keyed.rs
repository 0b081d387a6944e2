//! Rows that change by their primary keys, on their way from a gateway to the workers that own
//! them. A worker does with its part of a group what one machine does with a whole one.

use std::sync::Arc;

use thalweg_txn::{AcknowledgeRows, CatalogChange, Durability, RowGroup, encode_changes};
use thalweg_types::TableSchema;

/// Writes rows by their keys, for one client.
pub trait KeyedWriter: Send + Sync {
    /// Hands a group on; `tables` are those of its rows, as the rows were made for them. Groups
    /// are told of in their order.
    fn write(
        &self,
        tables: Vec<Arc<TableSchema>>,
        group: RowGroup,
        durability: Durability,
        acknowledge: AcknowledgeRows,
    );
}

/// A number that tells schemas of one table apart: rows that were made for one are not written to
/// another.
#[must_use]
pub fn fingerprint(table: &TableSchema) -> u64 {
    let bytes = encode_changes(&[CatalogChange::CreateTable { schema: table.clone() }]);
    // FNV-1a.
    bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}
