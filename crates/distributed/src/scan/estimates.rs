//! What is guessed of the rows that steps leave.

use thalweg_protocol::cluster as wire;

/// The place of a column behind a step, where it is still there.
pub(super) fn key_after(step: &wire::step::Kind, key: usize) -> Option<usize> {
    use wire::expression::Kind::Column;
    use wire::step::Kind;
    let is_key = |named: &wire::Named| {
        let expression = named.expression.as_ref().and_then(|named| named.kind.as_ref());
        matches!(expression, Some(Column(place)) if *place as usize == key)
    };
    match step {
        Kind::Filter(filter) if filter.projects => {
            filter.columns.iter().position(|place| *place as usize == key)
        }
        Kind::Project(project) => project.columns.iter().position(is_key),
        Kind::Aggregate(aggregate) => aggregate.keys.iter().position(is_key),
        Kind::Filter(_) | Kind::Sort(_) | Kind::Limit(_) | Kind::Among(_) => Some(key),
    }
}

/// Of a condition nobody knows how many rows it leaves: one in so many, as DataFusion has it.
pub(crate) const KEPT_OF: usize = 5;
/// Of a grouping nobody knows how many groups it has: one for so many rows.
const ROWS_OF_GROUP: usize = 4;

/// About how many rows so many workers send of so many after a step.
pub(super) fn rows_after(step: &wire::step::Kind, rows: usize, workers: usize) -> usize {
    use wire::step::Kind;
    let at_most = |rows: usize, fetch: Option<u64>| {
        let fetch = fetch.and_then(|fetch| usize::try_from(fetch).ok());
        fetch.map_or(rows, |fetch| rows.min(fetch.saturating_mul(workers)))
    };
    match step {
        Kind::Filter(filter) => at_most(rows / KEPT_OF, filter.fetch),
        Kind::Project(_) | Kind::Among(_) => rows,
        Kind::Aggregate(aggregate) if aggregate.keys.is_empty() => workers,
        Kind::Aggregate(_) => rows / ROWS_OF_GROUP,
        Kind::Sort(sort) => at_most(rows, sort.fetch),
        Kind::Limit(limit) => at_most(rows, limit.fetch),
    }
}
