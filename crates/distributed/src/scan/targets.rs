//! The workers that a scan asks, and their streams.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::physical_expr::PhysicalExpr;
use thalweg_cluster::map::ShardMap;
use thalweg_types::{Bucket, Result, TableSchema};

use crate::gateway::Shared;
use crate::sharding;

/// The workers that a scan asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Targets {
    pub(crate) streams: Arc<[Asked]>,
    /// Number of workers that are asked, and of all workers with buckets.
    pub(super) workers: usize,
    pub(super) of: usize,
    /// The kind of choice in one word, for EXPLAIN.
    pub(super) how: &'static str,
}

/// Workers that one stream covers, since they run in one process, by their indexes in the map. The
/// first one answers for all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Asked(Arc<[usize]>);

impl Asked {
    /// The worker that answers.
    pub(crate) fn first(&self) -> usize {
        self.0[0]
    }

    pub(crate) fn places(&self) -> &[usize] {
        &self.0
    }

    /// Numbers of the other workers, as the request names them.
    pub(crate) fn others(&self, map: &ShardMap) -> Vec<u64> {
        self.0[1..].iter().map(|place| map.workers()[*place].id).collect()
    }
}

impl Targets {
    /// The workers that may have rows for which a filter is true: in one stream per process if
    /// `together`, otherwise in one stream each.
    ///
    /// # Errors
    /// If the cluster has no workers.
    pub(super) fn of(
        shared: &Shared,
        table: &TableSchema,
        filter: Option<&Arc<dyn PhysicalExpr>>,
        together: bool,
    ) -> Result<Targets> {
        let map = shared.map().current();
        let all = map.all_owners()?;
        let of = all.len();
        let key = table.shard_key.and_then(|column| table.position(column));
        let left = key.zip(filter).and_then(|(key, filter)| {
            let schema = thalweg_values::types::column_field(&table.columns[key]);
            sharding::buckets_of(filter, key, schema.data_type())
        });
        let places = match &left {
            None => all,
            Some(buckets) => {
                let owners = buckets.iter().map(|bucket| map.owner(Bucket(*bucket)));
                let mut places = owners.collect::<Result<Vec<usize>>>()?;
                places.sort_unstable();
                places.dedup();
                // No row matches the filter, but one worker must answer, e.g. with an empty
                // aggregate.
                if places.is_empty() {
                    places.push(map.owner(Bucket(0))?);
                }
                places
            }
        };
        let how = match (&left, places.len()) {
            (None, _) => "all",
            (Some(_), 1) => "one",
            (Some(_), _) => "owners",
        };
        let workers = places.len();
        let streams = match together {
            true => by_process(&places, &map),
            false => places.iter().map(|place| Asked(Arc::new([*place]))).collect(),
        };
        Ok(Targets { streams, workers, of, how })
    }

    /// Estimated fraction of the table's rows on these workers.
    pub(super) fn share(&self) -> f64 {
        self.workers as f64 / self.of.max(1) as f64
    }
}

/// Groups workers by process, in the order of the first worker of each process.
pub(crate) fn by_process(places: &[usize], map: &ShardMap) -> Arc<[Asked]> {
    let mut found: Vec<Vec<usize>> = Vec::new();
    let mut known = HashMap::new();
    for place in places {
        let at = *known.entry(map.processes()[*place]).or_insert(found.len());
        match found.get_mut(at) {
            Some(same) => same.push(*place),
            None => found.push(vec![*place]),
        }
    }
    found.into_iter().map(|places| Asked(places.into())).collect()
}
