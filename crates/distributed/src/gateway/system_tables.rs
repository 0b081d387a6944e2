//! System tables of the cluster: `thalweg_cluster.nodes`, `.gateways` and `.buckets`.

use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, Int32Array, Int64Array, StringViewArray};
use arrow::datatypes::{Field, Schema};
use arrow::record_batch::RecordBatch;
use datafusion::catalog::TableProvider;
use datafusion::datasource::MemTable;
use datafusion::error::Result as PlanResult;
use thalweg_cluster::map::ShardMap;
use thalweg_protocol::cluster::GatewayEntry;
use thalweg_types::{BUCKETS, Bucket};

use super::WorkerStatus;

/// One row for each worker: its address, whether it answers, and what it holds.
pub(super) fn nodes(workers: &[WorkerStatus]) -> PlanResult<Arc<dyn TableProvider>> {
    let seen = |of: fn(&thalweg_protocol::cluster::Sight) -> u64| -> ArrayRef {
        let values = workers.iter().map(|worker| worker.seen.as_ref().map(of).map(number));
        Arc::new(values.collect::<Int64Array>())
    };
    let ids = workers.iter().map(|worker| number(worker.worker.id));
    let addresses = workers.iter().map(|worker| worker.worker.address.to_string());
    let buckets = workers.iter().map(|worker| i32::try_from(worker.buckets).unwrap_or(i32::MAX));
    let answers = workers.iter().map(|worker| Some(worker.seen.is_some()));
    table(vec![
        ("id", Arc::new(Int64Array::from_iter_values(ids)) as ArrayRef),
        ("address", Arc::new(StringViewArray::from_iter_values(addresses)) as ArrayRef),
        ("answers", Arc::new(answers.collect::<BooleanArray>()) as ArrayRef),
        ("buckets", Arc::new(Int32Array::from_iter_values(buckets)) as ArrayRef),
        ("rows", seen(|sight| sight.tables.iter().map(|table| table.rows).sum())),
        ("bytes", seen(|sight| sight.bytes)),
        ("streams", seen(|sight| sight.streams)),
        ("definitions", seen(|sight| sight.definitions)),
    ])
}

/// One row for each gateway, with the number of its last definition.
pub(super) fn gateways(all: &[GatewayEntry]) -> PlanResult<Arc<dyn TableProvider>> {
    let addresses = all.iter().map(|gateway| gateway.address.as_str());
    let defines = all.iter().map(|gateway| Some(gateway.defines));
    let answers = all.iter().map(|gateway| Some(gateway.answers));
    let definitions = all.iter().map(|gateway| number(gateway.definitions));
    table(vec![
        ("address", Arc::new(StringViewArray::from_iter_values(addresses)) as ArrayRef),
        ("defines", Arc::new(defines.collect::<BooleanArray>()) as ArrayRef),
        ("answers", Arc::new(answers.collect::<BooleanArray>()) as ArrayRef),
        ("definitions", Arc::new(Int64Array::from_iter_values(definitions)) as ArrayRef),
    ])
}

/// One row for each bucket, with its owner.
pub(super) fn buckets(map: &ShardMap) -> PlanResult<Arc<dyn TableProvider>> {
    let owner =
        |bucket: u16| map.owner(Bucket(bucket)).ok().map(|place| number(map.workers()[place].id));
    table(vec![
        ("bucket", Arc::new(Int32Array::from_iter_values((0..BUCKETS).map(i32::from))) as ArrayRef),
        ("node", Arc::new((0..BUCKETS).map(owner).collect::<Int64Array>()) as ArrayRef),
    ])
}

fn table(columns: Vec<(&str, ArrayRef)>) -> PlanResult<Arc<dyn TableProvider>> {
    let fields =
        columns.iter().map(|(name, column)| Field::new(*name, column.data_type().clone(), true));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let columns = columns.into_iter().map(|(_, column)| column).collect();
    let rows = RecordBatch::try_new(Arc::clone(&schema), columns)?;
    Ok(Arc::new(MemTable::try_new(schema, vec![vec![rows]])?))
}

fn number(wide: u64) -> i64 {
    i64::try_from(wide).unwrap_or(i64::MAX)
}
