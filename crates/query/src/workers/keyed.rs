//! Rows that change by their primary keys, on their way from a gateway to the workers that own
//! them. A worker does with its part of a group what one machine does with a whole one.

use std::sync::Arc;

use thalweg_txn::{AcknowledgeRows, Durability, RowGroup};
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
