//! Semi-join filters of a scan, as steps of its fragment.

use std::sync::Arc;

use arrow::datatypes::{Field, Schema};
use arrow::record_batch::RecordBatch;
use thalweg_execution::semi_join_filters::Keys;
use thalweg_protocol::cluster as wire;
use thalweg_types::{Error, Result};

use super::Asked;
use crate::gateway::Shared;
use crate::{rows, sharding};

/// A semi-join filter: keys, one of which rows must have in a column.
#[derive(Clone)]
pub(super) struct ScanKeys {
    /// Name of the column.
    pub(super) name: String,
    /// The filter goes before the step with this index, on the column with index `at` there.
    pub(super) step: usize,
    pub(super) at: u32,
    pub(super) is_shard_key: bool,
    pub(super) keys: Arc<Keys>,
}

/// Finds the step before which rows can be filtered by a column of the output, and the index of
/// that column there: before the rows are grouped, and after simple filters.
pub(super) fn place_of_keys(steps: &[wire::Step], column: usize) -> (usize, u32) {
    use wire::expression::Kind::Column;
    use wire::step::Kind;
    let place = |named: Option<&wire::Named>| match named?.expression.as_ref()?.kind {
        Some(Column(place)) => Some(place),
        _ => None,
    };
    let is_plain = |step: &wire::Step| match &step.kind {
        Some(Kind::Filter(filter)) => !filter.projects && filter.fetch.is_none(),
        _ => false,
    };
    let mut at = column as u32;
    for (number, step) in steps.iter().enumerate().rev() {
        let below = match &step.kind {
            Some(Kind::Filter(filter)) if filter.fetch.is_none() => match filter.projects {
                true => filter.columns.get(at as usize).copied(),
                false => Some(at),
            },
            Some(Kind::Project(project)) => place(project.columns.get(at as usize)),
            Some(Kind::Aggregate(aggregate)) => place(aggregate.keys.get(at as usize)),
            Some(Kind::Sort(sort)) if sort.fetch.is_none() => Some(at),
            _ => None,
        };
        match below {
            Some(below) => at = below,
            None => return (number + 1, at),
        }
    }
    (steps.iter().take_while(|step| is_plain(step)).count(), at)
}

/// Adds the semi-join filters to a request, once their keys are known.
pub(super) async fn with_keys(
    mut question: wire::Fragment,
    among: &[ScanKeys],
    asked: &Asked,
    shared: &Shared,
) -> Result<wire::Fragment> {
    let mut steps = Vec::new();
    for ScanKeys { step, at, is_shard_key, keys, .. } in among {
        let Some(mut keys) = keys.column().await? else { continue };
        if *is_shard_key {
            keys = sharding::owned(&keys, asked.places(), &shared.map().current())?;
        }
        let schema = Schema::new(vec![Field::new("", keys.data_type().clone(), false)]);
        let misfit = |error| Error::internal("keys of a join cannot travel").with_source(error);
        let keys = RecordBatch::try_new(Arc::new(schema.clone()), vec![keys]).map_err(misfit)?;
        let values = rows::encode(&schema, &[keys])?;
        let among = wire::Among { column: *at, values };
        steps.push((*step, wire::Step { kind: Some(wire::step::Kind::Among(among)) }));
    }
    // Inserted from the last to the first, so that the indexes stay valid.
    steps.sort_by_key(|(place, _)| std::cmp::Reverse(*place));
    for (place, step) in steps {
        question.steps.insert(place, step);
        // The filters are specific to this run, so the fragment is not cached.
        question.number = 0;
    }
    Ok(question)
}
