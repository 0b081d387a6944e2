//! Partitions groups by the hashes of their keys.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, Int32Array, Int64Array, RecordBatch, RecordBatchOptions, UInt32Array,
};
use arrow::compute::take;
use arrow::datatypes::{Field, Int32Type, Int64Type, Schema, SchemaRef};
use thalweg_types::{Error, Result};

use super::aggregation::Aggregation;
use super::keys::Groups;
use super::states::State;

/// Up to this many groups are divided partition by partition, so that the columns of one partition
/// are adjacent in memory, which is freed in large pieces once they are merged.
const FEW: usize = 1 << 18;

/// Converts groups to record batches, one for each partition. With many groups, column after column
/// is divided, and the source of each is dropped before the next one.
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
    let columns = columns.map(|column| Ok(if partitions == 1 { column? } else { narrow(column?) }));
    if partitions == 1 {
        let columns: Vec<ArrayRef> = columns.collect::<Result<_>>()?;
        return Ok(vec![batch(&schema_of(&columns), columns, rows)]);
    }
    if rows <= FEW {
        let columns: Vec<ArrayRef> = columns.collect::<Result<_>>()?;
        let schema = schema_of(&columns);
        let divided = orders.iter().map(|order| {
            let columns = columns.iter().map(|column| taken(column, order));
            Ok(batch(&schema, columns.collect::<Result<_>>()?, order.len()))
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
    let schema = divided.first().map_or_else(|| schema_of(&[]), |columns| schema_of(columns));
    let parts = divided.into_iter().zip(&orders);
    Ok(parts.map(|(columns, order)| batch(&schema, columns, order.len())).collect())
}

/// Halves a column of 64-bit integers if all of them fit 32 bits. Most keys, counts and sums do,
/// and large results consist mostly of these.
fn narrow(column: ArrayRef) -> ArrayRef {
    let Some(numbers) = column.as_primitive_opt::<Int64Type>() else { return column };
    let is_small = |number: &i64| i64::from(*number as i32) == *number;
    if !numbers.values().iter().fold(true, |all, number| all & is_small(number)) {
        return column;
    }
    let narrow: Vec<i32> = numbers.values().iter().map(|number| *number as i32).collect();
    Arc::new(Int32Array::new(narrow.into(), numbers.nulls().cloned()))
}

/// Reverts [`narrow`] for the column of a state.
pub(crate) fn wide(column: &ArrayRef) -> ArrayRef {
    let Some(numbers) = column.as_primitive_opt::<Int32Type>() else { return Arc::clone(column) };
    let wide: Vec<i64> = numbers.values().iter().map(|number| i64::from(*number)).collect();
    Arc::new(Int64Array::new(wide.into(), numbers.nulls().cloned()))
}

/// Gathers the values of the given groups.
fn taken(column: &ArrayRef, order: &UInt32Array) -> Result<ArrayRef> {
    take(column, order, None)
        .map_err(|error| Error::internal("groups could not be divided").with_source(error))
}

/// A schema whose field names are column positions.
fn schema_of(columns: &[ArrayRef]) -> SchemaRef {
    let fields = columns
        .iter()
        .enumerate()
        .map(|(place, column)| Field::new(format!("c{place}"), column.data_type().clone(), true));
    Arc::new(Schema::new(fields.collect::<Vec<Field>>()))
}

/// A batch of `rows` rows; there may be no columns.
fn batch(schema: &SchemaRef, columns: Vec<ArrayRef>, rows: usize) -> RecordBatch {
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)
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

#[cfg(test)]
mod tests {
    use arrow::datatypes::DataType;

    use super::*;

    fn column(numbers: &[Option<i64>]) -> ArrayRef {
        Arc::new(Int64Array::from(numbers.to_vec()))
    }

    #[test]
    fn numbers_are_narrow_up_to_the_borders_of_32_bits() {
        let (least, greatest) = (i64::from(i32::MIN), i64::from(i32::MAX));
        let some = [Some(least), None, Some(-1), Some(0), Some(greatest)];
        for within in [&some[..0], &some[1..2], &some] {
            let given = column(within);
            let narrowed = narrow(Arc::clone(&given));
            assert_eq!(narrowed.data_type(), &DataType::Int32);
            assert_eq!(wide(&narrowed).as_ref(), given.as_ref());
        }
        for beyond in [least - 1, greatest + 1, 1 << 32, i64::MIN, i64::MAX] {
            let given = column(&[Some(0), None, Some(beyond), Some(-1)]);
            let left = narrow(Arc::clone(&given));
            assert_eq!(left.data_type(), &DataType::Int64, "{beyond}");
            assert_eq!(wide(&left).as_ref(), given.as_ref());
        }
    }
}
