//! Filters rows by a limit whose value is only known at run time.

use std::sync::{Arc, LazyLock};

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Int64Array};
use arrow::datatypes::{DataType as ArrowType, Int64Type};
use datafusion::logical_expr::{ScalarUDF, TypeSignature};
use thalweg_types::{Error, Result, SqlState};
use thalweg_values::scalar_function::Function;

/// The name of the function around the count of `FETCH FIRST count ROWS WITH TIES`.
pub const WITH_TIES: &str = "limit_with_ties";

/// `is_within_limit(row, rank, skip, count)`: true if the row with this number, and this rank among
/// ties, comes behind the skipped rows and is one of the first `count` after them. A limit of NULL
/// is no limit.
pub static WITHIN_LIMIT: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
    const NUMBER: ArrowType = ArrowType::Int64;
    let arguments: &[&[ArrowType]] = &[&[NUMBER, NUMBER, NUMBER, NUMBER]];
    Function::new("is_within_limit", arguments, ArrowType::Boolean, is_within_limit).into_udf()
});

pub(super) fn functions() -> Vec<Arc<ScalarUDF>> {
    let with_ties = Function::signed(WITH_TIES, TypeSignature::Any(1), ArrowType::Null, counted);
    vec![with_ties.returning_argument(0).into_udf(), Arc::clone(&WITHIN_LIMIT)]
}

/// Returns the count itself: the call only marks it, and the planner has seen the mark.
fn counted(columns: &[ArrayRef]) -> Result<ArrayRef> {
    Ok(Arc::clone(&columns[0]))
}

fn is_within_limit(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let column = |place: usize| columns[place].as_primitive::<Int64Type>();
    let (rows, ranks, skips, counts) = (column(0), column(1), column(2), column(3));
    let within = (0..rows.len()).map(|at| {
        let skip = known(skips, at, SqlState::INVALID_OFFSET, "OFFSET")?.unwrap_or(0);
        let count = known(counts, at, SqlState::INVALID_LIMIT, "LIMIT")?;
        let is_counted = |count: i64| count > 0 && ranks.value(at).saturating_sub(skip) <= count;
        Ok(Some(rows.value(at) > skip && count.is_none_or(is_counted)))
    });
    Ok(Arc::new(within.collect::<Result<BooleanArray>>()?))
}

fn known(counts: &Int64Array, at: usize, state: SqlState, clause: &str) -> Result<Option<i64>> {
    match counts.is_valid(at).then(|| counts.value(at)) {
        Some(..0) => Err(Error::new(state, format!("{clause} must not be negative"))),
        known => Ok(known),
    }
}
