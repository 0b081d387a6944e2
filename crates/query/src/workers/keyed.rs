//! Changes of rows by primary key, on their way from a gateway to the workers that own the rows. A
//! worker treats its part of a group as a single node treats a whole one.

use std::sync::Arc;

use thalweg_txn::{AcknowledgeRows, Durability, RowGroup};
use thalweg_types::TableSchema;

/// Writes rows by their keys, for one client.
pub trait KeyedWriter: Send + Sync {
    /// Passes a group on. `tables` are the definitions for which its rows were made. Groups are
    /// acknowledged in order.
    fn write(
        &self,
        tables: Vec<Arc<TableSchema>>,
        group: RowGroup,
        durability: Durability,
        acknowledge: AcknowledgeRows,
    );
}
