//! Lookups by key: asks the workers that own the keys for their rows.

use std::sync::Arc;

use arrow::array::UInt32Array;
use arrow::compute::{concat_batches, take_record_batch};
use arrow::datatypes::{Field, Schema};
use arrow::error::ArrowError;
use arrow::record_batch::RecordBatch;
use futures::future::{BoxFuture, join_all};
use thalweg_protocol::cluster as wire;
use thalweg_protocol::cluster::work::Kind;
use thalweg_query::{Holders, KeySearch, RemoteLookups};
use thalweg_types::{Error, Result, RowId};

use super::{Gateway, Shared};
use crate::hidden_rows::HiddenRows;
use crate::rows;
use crate::sharding::{self, Dealt};

impl RemoteLookups for Gateway {
    fn find(&self, search: KeySearch) -> BoxFuture<'_, Result<Holders>> {
        let shared = Arc::clone(&self.shared);
        self.on_links(async move { find(&shared, &search).await })
    }
}

/// Looks up rows by key. If a worker does not answer, only its keys fail.
async fn find(shared: &Arc<Shared>, search: &KeySearch) -> Result<Holders> {
    let hidden = HiddenRows::of(&search.hidden)?;
    let fields = search.values.iter().map(|values| values.data_type().clone());
    let fields = fields.map(|data_type| Field::new("", data_type, true));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let keys = RecordBatch::try_new(schema, search.values.clone()).map_err(misfit)?;
    let dealt = sharding::dealt(&keys, shard_key(search)?, &shared.map().current())?;
    let asked = dealt.into_iter().map(|Dealt { owner, which, rows }| {
        let hidden = hidden.at(owner);
        async move {
            let question = question(search, &rows, owner, hidden)?;
            let found = shared.ask_one::<wire::Found>(owner, Kind::Find(question)).await;
            Ok::<_, Error>((which, found))
        }
    });
    let mut rows_of: Vec<Option<(RowId, usize)>> = vec![None; keys.num_rows()];
    let (mut batches, mut count, mut failures) = (Vec::new(), 0, Vec::new());
    for answer in join_all(asked).await {
        let (which, found) = answer?;
        let found = match found {
            Ok(found) => found,
            Err(error) => {
                failures.extend(which.iter().map(|row| (*row as usize, error.clone())));
                continue;
            }
        };
        for (row, place) in which.iter().zip(&found.places) {
            if *place != 0 {
                rows_of[*row as usize] = Some((RowId(*place), count));
                count += 1;
            }
        }
        batches.extend(rows::decode(&found.rows)?.1);
    }
    failures.sort_by_key(|(row, _)| *row);
    in_order(search, rows_of, &batches, failures)
}

/// Index of the shard key among the key's columns.
fn shard_key(search: &KeySearch) -> Result<usize> {
    let in_key = |column| search.key.columns.iter().position(|known| *known == column);
    let shard_key = search.table.shard_key.and_then(in_key);
    shard_key.ok_or_else(|| Error::internal("a key of a cluster has the shard key"))
}

fn question(
    search: &KeySearch,
    keys: &RecordBatch,
    owner: usize,
    hidden: Vec<u64>,
) -> Result<wire::Find> {
    let node = u16::try_from(owner).map_err(|_| Error::unsupported("so many workers"))?;
    let narrow = |place: &usize| u32::try_from(*place).unwrap_or(u32::MAX);
    let columns = search.columns.as_ref();
    Ok(wire::Find {
        table: search.table.id.0,
        key: search.key.name.clone(),
        values: rows::encode(keys.schema_ref(), std::slice::from_ref(keys))?,
        place_base: RowId::base_of_node(node),
        hidden,
        columns: columns.map(|all| wire::Columns { places: all.iter().map(narrow).collect() }),
    })
}

/// Puts the rows into the order of their keys. `rows_of` has their offsets in the concatenation of
/// all batches.
fn in_order(
    search: &KeySearch,
    rows_of: Vec<Option<(RowId, usize)>>,
    batches: &[RecordBatch],
    failures: Vec<(usize, Error)>,
) -> Result<Holders> {
    let values = match batches {
        // A single worker returns the rows in order already.
        [all] => all.clone(),
        _ => {
            let schema = match batches.first() {
                Some(rows) => rows.schema(),
                None => Arc::new(wanted(search)?),
            };
            let all = concat_batches(&schema, batches).map_err(misfit)?;
            let order = rows_of.iter().flatten();
            let order = order.map(|(_, place)| u32::try_from(*place).unwrap_or(u32::MAX));
            take_record_batch(&all, &UInt32Array::from_iter_values(order)).map_err(misfit)?
        }
    };
    let rows = rows_of.into_iter().map(|found| found.map(|(row, _)| row)).collect();
    Ok(Holders { rows, values, failures })
}

fn wanted(search: &KeySearch) -> Result<Schema> {
    let fields = search.table.columns.iter().map(thalweg_values::types::column_field);
    let schema = Schema::new(fields.collect::<Vec<Field>>());
    match &search.columns {
        Some(columns) => schema.project(columns).map_err(misfit),
        None => Ok(schema),
    }
}

fn misfit(error: ArrowError) -> Error {
    Error::internal("keys that are looked for do not fit").with_source(error)
}
