//! The journal of definitions: a gateway's changes to its catalog, in order.
//!
//! It is a table of the gateway, and of each worker. A definition is a row of it in the same group
//! as its changes to the catalog, so that both become durable together.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use arrow::array::{Array, ArrayRef, AsArray, BinaryArray, Int64Array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type};
use arrow::record_batch::RecordBatch;
use futures::StreamExt;
use thalweg_store::arrow_schema;
use thalweg_txn::{CatalogChange, Object, Transaction, decode_changes, encode_changes};
use thalweg_types::{Error, Result};

use super::Cluster;
use crate::database::Database;
use crate::plan;
use crate::statement::{Execution, Target};

/// The namespace of a node's internal tables.
pub const NAMESPACE: &str = "thalweg_cluster";
const TABLE: &str = "journal";

/// The changes to the catalog by one transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Definition {
    /// Numbers begin with 1.
    pub number: u64,
    pub changes: Vec<u8>,
}

impl Definition {
    pub(crate) fn new(number: u64, changes: &[CatalogChange]) -> Definition {
        Definition { number, changes: encode_changes(changes) }
    }

    /// True if the definition creates tables, which may get rows. A definition that cannot be read
    /// counts as one.
    #[must_use]
    pub fn creates_tables(&self) -> bool {
        let is_table = |change: &CatalogChange| matches!(change, CatalogChange::CreateTable { .. });
        self.changes().map_or(true, |changes| changes.iter().any(is_table))
    }

    pub(super) fn changes(&self) -> Result<Vec<CatalogChange>> {
        decode_changes(&self.changes)
    }
}

/// Adds a definition to the journal of a transaction's database.
pub(super) fn append(transaction: &mut Transaction, definition: &Definition) -> Result<()> {
    let catalog = Arc::clone(transaction.catalog());
    let Some(Object::Table(entry)) = catalog.object(NAMESPACE, TABLE) else {
        return Err(Error::internal("a node of a cluster has a journal"));
    };
    let number = i64::try_from(definition.number).expect("definitions are counted from 1");
    let schema = arrow_schema(&entry.schema);
    let columns: [ArrayRef; 2] = [
        Arc::new(Int64Array::from(vec![number])),
        Arc::new(BinaryArray::from(vec![definition.changes.as_slice()])),
    ];
    let columns = columns.iter().zip(schema.fields());
    let columns = columns.map(|(column, field)| cast(column, field.data_type()));
    let row = columns
        .collect::<Result<Vec<_>, _>>()
        .and_then(|columns| RecordBatch::try_new(schema.clone(), columns))
        .map_err(|error| {
            Error::internal("a definition does not fit its table").with_source(error)
        })?;
    transaction.append_always(entry.schema.id, row)
}

impl Database {
    /// Makes the database a node of a cluster: it keeps a journal from now on.
    ///
    /// # Errors
    /// If the journal cannot be created or read.
    pub async fn keep_journal(&self) -> Result<()> {
        let mut session = self.internal_session();
        session.execute(&format!("CREATE SCHEMA IF NOT EXISTS {NAMESPACE}")).await?;
        let table = format!(
            "CREATE TABLE IF NOT EXISTS {NAMESPACE}.{TABLE} \
             (number bigint PRIMARY KEY, changes bytea NOT NULL)"
        );
        session.execute(&table).await?;
        let last = self.definitions_after(0).await?.last().map_or(0, |last| last.number);
        self.shared.definitions.store(last, Ordering::Release);
        Ok(())
    }

    /// From now on the rows of tables lie on the cluster's workers. Existing sessions are not
    /// affected.
    pub fn attach(&self, cluster: Arc<Cluster>) {
        self.shared.planners.attach(Arc::clone(&cluster));
        // A second call has no effect.
        let _ = self.shared.cluster.set(cluster);
    }

    /// Checks that statements can reach the rows of tables. Always true for a database without
    /// workers.
    ///
    /// # Errors
    /// 57P03 while workers of a gateway are missing.
    pub fn readiness(&self) -> Result<()> {
        self.shared.cluster().definitions.readiness()
    }

    /// The number of the last definition.
    #[must_use]
    pub fn last_definition(&self) -> u64 {
        self.shared.definitions.load(Ordering::Acquire)
    }

    /// The definitions after that number, in order.
    ///
    /// # Errors
    /// If the journal cannot be read.
    pub async fn definitions_after(&self, number: u64) -> Result<Vec<Definition>> {
        let query = format!(
            "SELECT number, changes FROM {NAMESPACE}.{TABLE} \
             WHERE number > {number} ORDER BY number"
        );
        let mut rows =
            self.internal_session().execute(&query).await?.rows.expect("a query gives rows");
        let mut found = Vec::new();
        while let Some(batch) = rows.next().await {
            let batch = batch?;
            let numbers = batch.column(0).as_primitive::<Int64Type>();
            let changes = cast(batch.column(1), &DataType::Binary)
                .map_err(|error| Error::internal("a journal has bytes").with_source(error))?;
            let changes = changes.as_binary::<i32>();
            found.extend((0..batch.num_rows()).map(|row| Definition {
                number: numbers.value(row).unsigned_abs(),
                changes: changes.value(row).to_vec(),
            }));
        }
        Ok(found)
    }
}

/// Raises the counters of a gateway's table above the numbers of its rows. Counters are stored in
/// the log of the rows, which is not the gateway's.
pub(crate) async fn raise_counters(execution: &Execution<'_>, target: &Target) -> Result<()> {
    let schema = target.schema();
    let columns = schema.columns.iter().filter(|column| column.has_own_counter());
    let columns: Vec<_> = columns.collect();
    let cluster = execution.names.cluster();
    let may_number = || cluster.definitions.may_number().is_ok();
    if columns.is_empty() || !cluster.holds(schema) || !may_number() {
        return Ok(());
    }
    if !execution.database.shared.planners.counts_anew(target.id()) {
        return Ok(());
    }
    let quoted = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
    let greatest: Vec<String> = columns
        .iter()
        .map(|column| format!("CAST(max({}) AS bigint)", quoted(&column.name)))
        .collect();
    let query = format!(
        "SELECT {} FROM {}.{}",
        greatest.join(", "),
        quoted(&schema.namespace),
        quoted(&schema.name)
    );
    let planned = execution.translate(plan::query_text(&execution.state, &query).await)?;
    let (_, batches) = plan::collect(&execution.state, planned, &query).await?;
    let counters = execution.names.with(|t| Ok(t.state(target.id())?.identities().clone()))?;
    for batch in batches.iter().filter(|batch| batch.num_rows() > 0) {
        for (place, column) in columns.iter().enumerate() {
            let greatest = batch.column(place).as_primitive::<Int64Type>();
            if greatest.is_valid(0) {
                counters.raise(column.id, greatest.value(0).saturating_add(1));
            }
        }
    }
    execution.database.shared.planners.counted(target.id());
    Ok(())
}
