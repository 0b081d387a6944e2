//! Conditions that other operators find while a query runs: a join knows which keys its smaller side
//! has, a top-k what no further row may exceed.
//!
//! Rows that fail them would be thrown away above; here whole chunks are left out by their zones,
//! and rows before their other columns are looked at. A condition that nearly all rows pass is not
//! worth to be asked, and is left to whoever it came from.

use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, RecordBatch};
use arrow::compute::filter_record_batch;
use arrow::datatypes::SchemaRef;
use datafusion::common::cast::as_boolean_array;
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::utils::conjunction;
use datafusion::physical_expr_common::physical_expr::{
    snapshot_generation, snapshot_physical_expr,
};
use datafusion::physical_optimizer::pruning::{PruningPredicate, PruningPredicateBuilder};
use thalweg_store::ChunkView;

use super::pruning::Zones;

/// Rows that are looked at before it is decided whether to go on.
const TRIED_ROWS: usize = 32_768;

/// Of how many rows one must fail, so that it is worth to look at all.
const WORTH: usize = 8;

/// What one partition of a scan knows of the conditions.
pub(super) struct Sieve {
    condition: Arc<dyn PhysicalExpr>,
    /// The columns that rows have.
    schema: SchemaRef,
    /// What the condition was when it was looked at last.
    generation: Option<u64>,
    chunks: Option<Arc<PruningPredicate>>,
    tried: usize,
    passed: usize,
}

impl Sieve {
    /// `None` where there are no conditions.
    pub(super) fn new(conditions: &[Arc<dyn PhysicalExpr>], schema: &SchemaRef) -> Option<Sieve> {
        let condition = (!conditions.is_empty()).then(|| conjunction(conditions.to_vec()))?;
        let schema = Arc::clone(schema);
        Some(Sieve { condition, schema, generation: None, chunks: None, tried: 0, passed: 0 })
    }

    /// Looks whether more is known than before.
    fn look(&mut self) -> Result<()> {
        let generation = snapshot_generation(&self.condition);
        if self.generation == Some(generation) {
            return Ok(());
        }
        let known = snapshot_physical_expr(Arc::clone(&self.condition))?;
        let builder = PruningPredicateBuilder::new().with_file_schema(Arc::clone(&self.schema));
        self.chunks = builder.build(known);
        self.generation = Some(generation);
        (self.tried, self.passed) = (0, 0);
        Ok(())
    }

    /// Whether a chunk may have rows that pass; `columns` are those of its table.
    pub(super) fn may_pass(&mut self, chunk: &ChunkView, columns: &SchemaRef) -> Result<bool> {
        self.look()?;
        let Some(predicate) = &self.chunks else { return Ok(true) };
        let chunks = std::slice::from_ref(chunk);
        Ok(predicate.prune(&Zones { chunks, schema: columns })?[0])
    }

    /// The rows that pass.
    pub(super) fn sift(&mut self, rows: RecordBatch) -> Result<RecordBatch> {
        self.look()?;
        let is_worth_it = (self.tried - self.passed) * WORTH >= self.tried;
        if rows.num_rows() == 0 || (self.tried >= TRIED_ROWS && !is_worth_it) {
            return Ok(rows);
        }
        let answers: ArrayRef = self.condition.evaluate(&rows)?.into_array(rows.num_rows())?;
        let answers: &BooleanArray = as_boolean_array(&answers)?;
        let passed = answers.true_count();
        self.tried += rows.num_rows();
        self.passed += passed;
        match passed == rows.num_rows() {
            true => Ok(rows),
            false => Ok(filter_record_batch(&rows, answers)?),
        }
    }
}
