//! Groups in partitions by the hashes of their keys.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, UInt32Array};
use arrow::compute::take;
use arrow::datatypes::{Field, Schema};
use thalweg_types::{Error, Result};

use super::aggregation::Aggregation;
use super::keys::Groups;
use super::states::State;

/// Up to so many groups are divided partition by partition: the columns of one lie side by side, as
/// the memory does that is free once they are merged.
const FEW: usize = 1 << 18;

/// Groups as record batches, one for each partition. Of many groups, what was made a column is
/// given up before the next one is.
pub(super) fn divided(
    aggregation: &Aggregation,
    mut groups: Groups,
    states: Vec<State>,
    partitions: usize,
) -> Result<Vec<RecordBatch>> {
    let rows = groups.len();
    groups.close();
    let orders = match partitions {
        1 => Vec::new(),
        _ => partition(&groups.content_hashes(), partitions),
    };
    let keys = aggregation.keys.iter().enumerate();
    let keys = keys.map(move |(place, key)| Ok(groups.array(place, &key.data_type)));
    let columns = keys.chain(states.into_iter().map(|state| state.array()));
    if partitions == 1 {
        return Ok(vec![batch(columns.collect::<Result<_>>()?, rows)]);
    }
    if rows <= FEW {
        let columns: Vec<ArrayRef> = columns.collect::<Result<_>>()?;
        let divided = orders.iter().map(|order| {
            let columns = columns.iter().map(|column| taken(column, order));
            Ok(batch(columns.collect::<Result<_>>()?, order.len()))
        });
        return divided.collect();
    }
    let mut divided: Vec<Vec<ArrayRef>> = vec![Vec::new(); partitions];
    for column in columns {
        let column = column?;
        for (columns, order) in divided.iter_mut().zip(&orders) {
            columns.push(taken(&column, order)?);
        }
    }
    let parts = divided.into_iter().zip(&orders);
    Ok(parts.map(|(columns, order)| batch(columns, order.len())).collect())
}

/// The values of some groups.
fn taken(column: &ArrayRef, order: &UInt32Array) -> Result<ArrayRef> {
    take(column, order, None)
        .map_err(|error| Error::internal("groups could not be divided").with_source(error))
}

/// Columns of so many rows under names that say their places.
fn batch(columns: Vec<ArrayRef>, rows: usize) -> RecordBatch {
    let fields = columns
        .iter()
        .enumerate()
        .map(|(place, column)| Field::new(format!("c{place}"), column.data_type().clone(), true));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<Field>>()));
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(schema, columns, &options)
        .expect("each column has a row for each group")
}

/// The groups of each partition.
fn partition(hashes: &[u64], partitions: usize) -> Vec<UInt32Array> {
    let mut groups: Vec<Vec<u32>> = vec![Vec::with_capacity(hashes.len() / partitions); partitions];
    for (group, hash) in (0_u32..).zip(hashes) {
        groups[((u128::from(*hash) * partitions as u128) >> 64) as usize].push(group);
    }
    groups.into_iter().map(UInt32Array::from).collect()
}
