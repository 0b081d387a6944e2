//! Passes over plans that keep their meaning and make them cheaper, where constants are folded, and
//! guards around those of DataFusion's that change what a plan means.

mod days;
mod rows_of_none;
mod sums_of_sums;

use std::sync::Arc;

use datafusion::optimizer::OptimizerRule;

pub(crate) use self::days::CompareDays;
use self::rows_of_none::RowsOfNone;
use self::sums_of_sums::SumsOfSums;

type Pass = Arc<dyn OptimizerRule + Send + Sync>;

/// The same passes, of which some are guarded.
pub(crate) fn guarded(passes: Vec<Pass>) -> Vec<Pass> {
    let guard = |pass: Pass| -> Pass {
        match pass.name() {
            rows_of_none::GUARDED => Arc::new(RowsOfNone(pass)),
            sums_of_sums::GUARDED => Arc::new(SumsOfSums(pass)),
            _ => pass,
        }
    };
    passes.into_iter().map(guard).collect()
}
