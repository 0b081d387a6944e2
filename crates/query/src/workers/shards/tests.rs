//! What a worker reads, by itself and together with others, and what it reads and writes for a
//! transaction of a gateway that took rows away, once compaction has moved these or the worker was
//! started again.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int32Array, RecordBatch};
use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{binary, col, lit};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::filter::FilterExecBuilder;
use datafusion::physical_plan::{ExecutionPlan, displayable};
use futures::TryStreamExt as _;
use thalweg_execution::parameter_values::{ParameterValues, parameter};
use thalweg_store::arrow_schema;
use thalweg_txn::{Durability, RowChanges, fingerprint};
use thalweg_types::{Result, RowId, SqlState, TableId, TableSchema};
use thalweg_values::errors::from_datafusion;

use super::{ShardRows, Shards};
use crate::{Database, Session};

struct Worker {
    database: Database,
    session: Session,
    shards: Shards,
    table: TableId,
}

impl Worker {
    /// With the rows 1 to 20,000.
    async fn new() -> Worker {
        let database = Database::in_memory().unwrap();
        let mut session = database.session();
        for sql in [
            "CREATE TABLE t (id int PRIMARY KEY, v int)",
            "INSERT INTO t SELECT n, n FROM generate_series(1, 20000) AS s(n)",
        ] {
            session.execute(sql).await.unwrap();
        }
        let (table, _) = database.shared.engine.snapshot().tables().next().unwrap();
        Worker { shards: database.shards(), database, session, table }
    }

    fn schema(&self) -> Arc<TableSchema> {
        super::table(&self.database.shared.engine.snapshot(), self.table).unwrap()
    }

    /// Where the row with an id lies.
    fn find(&self, id: i32, hidden: &[RowId]) -> Result<Option<RowId>> {
        let ids: ArrayRef = Arc::new(Int32Array::from(vec![id]));
        Ok(self.shards.find(self.table, "t_pkey", &[ids], None, 0, hidden)?.rows[0])
    }

    fn scan(&self, is_cached: bool, hidden: &[RowId]) -> Result<Arc<dyn ExecutionPlan>> {
        let rows = ShardRows {
            is_cached,
            table: self.table,
            columns: vec![Some(self.schema().columns[0].id)],
            table_columns: Vec::new(),
            place_base: 0,
            filter: None,
            limit: None,
            hidden: hidden.to_vec(),
        };
        self.shards.scan(&rows).map_err(|error| from_datafusion(error, ""))
    }

    /// How many rows a scan gives.
    async fn count(&self, hidden: &[RowId]) -> Result<usize> {
        let scan = self.scan(false, hidden)?;
        Ok(self.rows(Arc::new(CoalescePartitionsExec::new(scan))).await)
    }

    /// How many rows a plan gives.
    async fn rows(&self, plan: Arc<dyn ExecutionPlan>) -> usize {
        let rows = self.shards.run(plan, None).unwrap();
        let batches: Vec<RecordBatch> = rows.try_collect().await.unwrap();
        batches.iter().map(RecordBatch::num_rows).sum()
    }

    /// Deletes all rows from 101 on, and has the others moved.
    async fn move_the_rest(&mut self) {
        let before = self.find(1, &[]).unwrap();
        self.session.execute("DELETE FROM t WHERE id > 100").await.unwrap();
        for _ in 0..100 {
            self.database.shared.engine.maintain();
            // What maintenance asked for is done before it.
            self.session.execute("UPDATE t SET v = v + 1 WHERE id = 100").await.unwrap();
            if self.find(1, &[]).unwrap() != before {
                return;
            }
        }
        panic!("nothing was compacted");
    }

    /// Takes rows away, and puts one with an id in their place.
    fn replaced(&self, kill: &[RowId], id: i32) -> Vec<RowChanges> {
        let values = || Arc::new(Int32Array::from(vec![id])) as ArrayRef;
        let rows = RecordBatch::try_new(arrow_schema(&self.schema()), vec![values(), values()]);
        let (kill, append) = (kill.to_vec(), vec![rows.unwrap()]);
        let fingerprint = fingerprint(&self.schema());
        vec![RowChanges { table: self.table, fingerprint, truncate: false, kill, append }]
    }
}

#[tokio::test]
async fn a_plan_that_is_kept_has_the_values_and_rows_of_each_run() {
    let mut worker = Worker::new().await;
    let values = ParameterValues::of(&[ScalarValue::Int32(Some(5))]);
    let scan = worker.scan(true, &[]).unwrap();
    let schema = scan.schema();
    let id = col("id", &schema).unwrap();
    let below = parameter(1, DataType::Int32, &values);
    let below = binary(id, Operator::Lt, below, &schema).unwrap();
    let filter = FilterExecBuilder::new(below, scan).build().unwrap();
    let made: Arc<dyn ExecutionPlan> = Arc::new(CoalescePartitionsExec::new(Arc::new(filter)));
    let kept = worker.shards.keep(&made, &values).unwrap().unwrap();
    assert_eq!(worker.rows(made).await, 4);
    let rebound = |worker: &Worker, below| {
        worker.shards.rebound(&kept, &[ScalarValue::Int32(Some(below))]).unwrap()
    };
    for below in [1, 11, 300, 2] {
        assert_eq!(worker.rows(rebound(&worker, below).unwrap()).await, below as usize - 1);
    }
    worker.session.execute("DELETE FROM t WHERE id % 2 = 0").await.unwrap();
    assert_eq!(worker.rows(rebound(&worker, 11).unwrap()).await, 5);
    let grow = "INSERT INTO t SELECT n, n FROM generate_series(20001, 200000) AS s(n)";
    worker.session.execute(grow).await.unwrap();
    assert!(rebound(&worker, 11).is_none(), "a plan for a table of another size");
    let kept = worker.shards.keep(&worker.scan(true, &[]).unwrap(), &values).unwrap().unwrap();
    assert!(worker.shards.rebound(&kept, &[]).unwrap().is_some());
    worker.session.execute("ALTER TABLE t ADD COLUMN w int").await.unwrap();
    assert!(worker.shards.rebound(&kept, &[]).unwrap().is_none(), "a plan for another table");
}

#[tokio::test]
async fn rows_of_several_are_read_as_those_of_one() {
    let (one, mut other) = (Worker::new().await, Worker::new().await);
    other.session.execute("DELETE FROM t WHERE id % 2 = 0").await.unwrap();
    let both = Worker { shards: one.shards.together(vec![other.shards.clone()]), ..one };
    assert_eq!(both.count(&[]).await.unwrap(), 30_000);
    let values = ParameterValues::of(&[]);
    let kept = both.shards.keep(&both.scan(true, &[]).unwrap(), &values).unwrap().unwrap();
    other.session.execute("DELETE FROM t WHERE id = 1").await.unwrap();
    let rebound = both.shards.rebound(&kept, &[]).unwrap().unwrap();
    assert_eq!(both.rows(Arc::new(CoalescePartitionsExec::new(rebound))).await, 29_999);

    let columns = both.schema().columns.iter().map(|column| column.id).collect::<Vec<_>>();
    let schema = both.shards.schema(both.table).unwrap();
    let is_seven = binary(col("id", &schema).unwrap(), Operator::Eq, lit(7), &schema).unwrap();
    let wanted = ShardRows {
        table: both.table,
        columns: vec![Some(columns[0])],
        table_columns: columns,
        place_base: 0,
        filter: Some(is_seven),
        limit: None,
        hidden: Vec::new(),
        is_cached: false,
    };
    let found = both.shards.scan(&wanted).unwrap();
    let told = displayable(found.as_ref()).one_line().to_string();
    assert!(told.contains("chunks=2/") && told.contains("rows=2 index=t_pkey"), "{told}");

    other.session.execute("ALTER TABLE t ADD COLUMN w int").await.unwrap();
    let error = both.scan(false, &[]).unwrap_err();
    assert_eq!(error.state(), SqlState::SERIALIZATION_FAILURE, "{error}");
}

#[tokio::test]
async fn hidden_rows_stay_hidden_when_they_move() {
    let mut worker = Worker::new().await;
    let known = [1, 2].map(|id| worker.find(id, &[]).unwrap().unwrap());
    assert_eq!(worker.count(&known).await.unwrap(), 19_998);
    worker.move_the_rest().await;
    assert_eq!((worker.find(1, &known).unwrap(), worker.find(2, &known).unwrap()), (None, None));
    assert_eq!(worker.find(3, &known).unwrap(), worker.find(3, &[]).unwrap());
    assert_eq!(worker.count(&known).await.unwrap(), 98);
    assert_eq!(worker.count(&[]).await.unwrap(), 100);
    worker.session.execute("UPDATE t SET v = 0 WHERE id = 2").await.unwrap();
    let refused = worker.count(&known).await.unwrap_err();
    assert_eq!(refused.state(), SqlState::SERIALIZATION_FAILURE);
    let refused = worker.find(3, &known).unwrap_err();
    assert_eq!(refused.state(), SqlState::SERIALIZATION_FAILURE);
}

#[tokio::test]
async fn places_of_another_run_name_no_rows() {
    let mut worker = Worker::new().await;
    let known = [worker.find(1, &[]).unwrap().unwrap()];
    worker.shards.can_write(&worker.replaced(&known, 1)).unwrap();
    while worker.find(1, &[]).unwrap().unwrap() == known[0] {
        worker.shards = worker.database.shards();
    }
    let refused = [
        worker.find(3, &known).unwrap_err(),
        worker.count(&known).await.unwrap_err(),
        worker.shards.can_write(&worker.replaced(&known, 1)).unwrap_err(),
        worker.shards.write(worker.replaced(&known, 1), Durability::None).await.unwrap_err(),
    ];
    for error in refused {
        assert_eq!(error.state(), SqlState::SERIALIZATION_FAILURE, "{error}");
    }
    let now = [worker.find(1, &[]).unwrap().unwrap()];
    worker.shards.write(worker.replaced(&now, 1), Durability::None).await.unwrap();
    assert_eq!(worker.count(&[]).await.unwrap(), 20_000);
}

/// Other columns may have the same types.
#[tokio::test]
async fn rows_for_an_altered_table_are_refused() {
    let mut worker = Worker::new().await;
    let mut made = [worker.replaced(&[], 1_000_000), worker.replaced(&[], 1_000_001)].into_iter();
    for sql in ["ALTER TABLE t DROP COLUMN v", "ALTER TABLE t ADD COLUMN w int"] {
        worker.session.execute(sql).await.unwrap();
    }
    let refused = worker.shards.check(made.next().unwrap()).await.err().unwrap();
    assert_eq!(refused.state(), SqlState::SERIALIZATION_FAILURE);
    let refused = worker.shards.write(made.next().unwrap(), Durability::None).await.unwrap_err();
    assert_eq!(refused.state(), SqlState::SERIALIZATION_FAILURE);
    let current = worker.replaced(&[], 1_000_002);
    worker.shards.write(current, Durability::None).await.unwrap();
}

#[tokio::test]
async fn rows_that_moved_are_replaced() {
    let mut worker = Worker::new().await;
    let known = [worker.find(1, &[]).unwrap().unwrap()];
    worker.move_the_rest().await;
    let taken = worker.shards.can_write(&worker.replaced(&known, 3)).unwrap_err();
    assert_eq!(taken.state(), SqlState::UNIQUE_VIOLATION);
    worker.shards.can_write(&worker.replaced(&known, 1)).unwrap();
    worker.shards.write(worker.replaced(&known, 1), Durability::Fsync).await.unwrap();
    assert_eq!(worker.count(&[]).await.unwrap(), 100);
    let late = worker.shards.can_write(&worker.replaced(&known, 1)).unwrap_err();
    assert_eq!(late.state(), SqlState::SERIALIZATION_FAILURE);
}
