//! The chunks of its table that a scan reads, and the rows in them.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExpr;
use thalweg_scan::RowFilter;
use thalweg_store::ChunkView;

use super::conditions::Conditions;
use super::index::{FirstRows, Reads};
use super::states::States;
use super::{BATCH_ROWS, index, pruning};
use crate::fused::row_filter_of;
use crate::parameter_values;

/// The chunks that a scan reads.
#[derive(Clone, Default)]
pub(super) struct Chunks {
    /// The chunks that zones do not exclude.
    pub(super) unpruned: Arc<Vec<ChunkView>>,
    /// These chunks without the rows that an index excludes, if one does.
    pub(super) read: Arc<Vec<ChunkView>>,
    pub(super) index: Option<Arc<str>>,
    /// True if the rows were found by the values of a key in the filter. Other values for the same
    /// number of keys give as few rows.
    pub(super) are_of_keys: bool,
    /// The part of the filter that the scan itself can apply.
    pub(super) row_filter: Option<Arc<RowFilter>>,
    pub(super) in_table: usize,
}

impl Chunks {
    /// The chunks of a table that remain after a filter and the search for the first rows of an
    /// order.
    pub(super) fn of(
        states: &States,
        columns: &SchemaRef,
        filter: Option<&Arc<dyn PhysicalExpr>>,
        reads: &Reads<'_>,
        first: Option<&FirstRows>,
    ) -> Result<Chunks> {
        let all = states.chunks();
        let filter = filter.map(parameter_values::bound).transpose()?;
        let conditions = Conditions::of_table(filter.as_ref(), columns, reads.table);
        if let Some((found, key)) = index::by_key(states, &conditions) {
            let unpruned = Arc::new(found);
            return Ok(Chunks {
                read: Arc::clone(&unpruned),
                unpruned,
                index: Some(key),
                are_of_keys: true,
                row_filter: None,
                in_table: all.len(),
            });
        }
        Chunks::chosen(all, columns, filter.as_ref(), &conditions, reads, first)
    }

    /// Like [`Chunks::of`], for some chunks and a filter without parameters.
    pub(super) fn chosen(
        all: Vec<ChunkView>,
        columns: &SchemaRef,
        filter: Option<&Arc<dyn PhysicalExpr>>,
        conditions: &Conditions,
        reads: &Reads<'_>,
        first: Option<&FirstRows>,
    ) -> Result<Chunks> {
        let in_table = all.len();
        let unpruned = match filter {
            Some(filter) if in_table > 1 => pruning::keep(all, filter, columns)?,
            _ => all,
        };
        let unpruned = Arc::new(unpruned);
        let (read, index) = match index::choose(&unpruned, reads, conditions, first)? {
            Some((read, index)) => (Arc::new(read), Some(index)),
            None => (Arc::clone(&unpruned), None),
        };
        let table_columns = reads.table.columns.len();
        let row_filter =
            filter.and_then(|filter| row_filter_of(filter, columns, table_columns)).map(Arc::new);
        Ok(Chunks { unpruned, read, index, are_of_keys: false, row_filter, in_table })
    }

    pub(super) fn rows(&self) -> usize {
        self.read.iter().map(ChunkView::live_rows).sum()
    }

    /// Maximum number of partitions: a few rows are not worth a second thread.
    pub(super) fn partitions(&self) -> usize {
        match self.index {
            Some(_) => self.rows().div_ceil(BATCH_ROWS),
            None => self.read.len(),
        }
    }
}
