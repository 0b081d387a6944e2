//! The keys that a scan's rows have to have, as a part of its question.

use std::sync::Arc;

use arrow::datatypes::{Field, Schema};
use arrow::record_batch::RecordBatch;
use thalweg_protocol::cluster as wire;
use thalweg_query::Keys;
use thalweg_types::{Error, Result};

use super::Asked;
use crate::gateway::Shared;
use crate::{rows, sharding};

/// Keys that rows have to have in a column.
#[derive(Clone)]
pub(super) struct AmongKeys {
    /// The column's name.
    pub(super) name: String,
    /// The step before which rows are left out, and the column's place there.
    pub(super) step: usize,
    pub(super) at: u32,
    pub(super) is_shard_key: bool,
    pub(super) keys: Arc<Keys>,
}

/// Before which step rows can be left out by a column of the last one's, and its place there:
/// before they are grouped, and behind conditions on the rows themselves.
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

/// The same question, once the keys are known that rows are to have.
pub(super) async fn with_keys(
    mut question: wire::Fragment,
    among: &[AmongKeys],
    asked: &Asked,
    shared: &Shared,
) -> Result<wire::Fragment> {
    let mut steps = Vec::new();
    for AmongKeys { step, at, is_shard_key, keys, .. } in among {
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
    // The last ones first: those before them stay in their places.
    steps.sort_by_key(|(place, _)| std::cmp::Reverse(*place));
    for (place, step) in steps {
        question.steps.insert(place, step);
        // Nobody is going to ask the same again.
        question.number = 0;
    }
    Ok(question)
}
