//! That a plan which is kept leaves out chunks by the values of each run.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray};
use arrow::datatypes::Int64Type;
use datafusion::common::ScalarValue;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use futures::TryStreamExt;
use thalweg_execution::scan::ShardScan;
use thalweg_store::{ChunkView, TableState};
use thalweg_txn::{RoleId, Transaction};

use crate::plan_cache::{GenericPlan, Key};
use crate::workers::Gathering;
use crate::{Database, Prepared, Session};

/// A table of several chunks, each with ids of its own.
async fn session() -> (Database, Session) {
    let database = Database::builder().threads(2).open().unwrap();
    let mut session = database.session();
    for sql in [
        "CREATE TABLE t (id bigint, v int)",
        "INSERT INTO t SELECT i, (i % 10)::int \
         FROM generate_series(1::bigint, 300000::bigint) AS g(i)",
    ] {
        session.execute(sql).await.unwrap();
    }
    (database, session)
}

fn state(database: &Database) -> Arc<TableState> {
    let snapshot = database.shared.engine.snapshot();
    let mut tables = snapshot.tables();
    let found = tables.find(|(_, state)| state.schema().name == "t");
    Arc::clone(found.expect("there is such a table").1)
}

/// Whether a chunk may have ids of some ranges. Nobody knows which an open one has.
fn may_have(chunk: &ChunkView, ranges: &[(i64, i64)]) -> bool {
    let Some((from, to)) = chunk.zone(0).and_then(|zone| zone.range.as_ref()) else { return true };
    let id = |bound: &ArrayRef| bound.as_primitive::<Int64Type>().value(0);
    ranges.iter().any(|(least, greatest)| id(from) <= *greatest && id(to) >= *least)
}

/// Runs a statement, and takes the plan that was kept of it.
async fn cached_plan(
    database: &Database,
    session: &mut Session,
    prepared: &Prepared,
    values: &[ScalarValue],
) -> GenericPlan {
    let outcome = session.execute_prepared(prepared, values).await.unwrap();
    let rows = outcome.rows.expect("a query gives rows");
    rows.try_collect::<Vec<_>>().await.unwrap();
    let (sql, parameters) = (prepared.sql(), prepared.parameters());
    let key = Key::new(sql, parameters, RoleId::BOOTSTRAP, None, None, None).unwrap();
    let cached_plan = database.shared.plans.find(&key).expect("the statement is known");
    let transaction = Transaction::new(database.shared.engine.snapshot());
    cached_plan.take(transaction.catalog()).expect("its plan is there and not in use")
}

/// How many chunks a run with some values reads, and how many there are.
fn chunks_read(plan: &GenericPlan, database: &Database, values: &[ScalarValue]) -> (usize, usize) {
    let mut transaction = Transaction::new(database.shared.engine.snapshot());
    let run = plan.bind(&mut transaction, values, Gathering::default()).unwrap();
    let run = run.expect("the table is as large as it was");
    let mut read = None;
    let visited = run.plan.apply(|node| {
        if let Some(scan) = node.downcast_ref::<ShardScan>() {
            read = Some((scan.chunks().len(), scan.chunks_in_table()));
        }
        Ok(TreeNodeRecursion::Continue)
    });
    assert!(visited.is_ok());
    read.expect("the plan reads the table")
}

/// Which ids pass a condition, by the values of its parameters.
type Passing = fn([i64; 2]) -> Vec<(i64, i64)>;

const CONDITIONS: [(&str, Passing); 4] = [
    ("id = $1", |[one, _]| vec![(one, one)]),
    ("id BETWEEN $1 AND $2", |[least, greatest]| vec![(least, greatest)]),
    ("id IN ($1, $2)", |[one, other]| vec![(one, one), (other, other)]),
    ("id < $1 OR id > $2", |[least, greatest]| {
        vec![(i64::MIN, least - 1), (greatest + 1, i64::MAX)]
    }),
];

/// The first ones come again at the end: nothing of the runs between may be left.
const VALUES: [[i64; 2]; 7] = [
    [1, 10],
    [60_000, 140_000],
    [290_000, 290_000],
    [1, 300_000],
    [400_000, 500_000],
    [5, 250_000],
    [1, 10],
];

#[tokio::test]
async fn plans_that_are_kept_read_the_chunks_that_values_of_a_run_leave() {
    let (database, mut session) = session().await;
    let chunks: Vec<ChunkView> = state(&database).chunks().collect();
    assert!(chunks.len() > 3, "{}", chunks.len());
    for (condition, passing) in CONDITIONS {
        let sql = format!("SELECT id, v FROM t WHERE {condition}");
        let prepared = session.prepare(&sql, &[]).await.unwrap();
        let values = |of_run: [i64; 2]| -> Vec<ScalarValue> {
            let values = of_run.iter().take(prepared.parameters().len());
            values.map(|value| ScalarValue::Int64(Some(*value))).collect()
        };
        let plan = cached_plan(&database, &mut session, &prepared, &values([70_000, 80_000])).await;
        for of_run in VALUES {
            let ranges = passing(of_run);
            let left = chunks.iter().filter(|chunk| may_have(chunk, &ranges)).count();
            let read = chunks_read(&plan, &database, &values(of_run));
            assert_eq!(read, (left, chunks.len()), "{condition} {of_run:?}");
        }
    }
    // As an open chunk is read in any case, one value may leave two.
    let few = chunks.iter().filter(|chunk| may_have(chunk, &[(1, 1)])).count();
    assert!((1..=2).contains(&few), "{few} of {}", chunks.len());
}
