//! Plans that a gateway keeps: which workers are asked, and what they do, follows from the values
//! of each run.

use datafusion::common::ScalarValue;
use futures::TryStreamExt as _;
use thalweg::Session;
use thalweg_query::Prepared;
use thalweg_types::DataType;

use super::support::*;

async fn filled(workers: u64) -> (Cluster, Session) {
    let cluster = Cluster::start(workers).await;
    let mut session = cluster.session();
    for sql in [
        "CREATE TABLE orders (id int PRIMARY KEY, customer int, item text)",
        "CREATE TABLE customers (id int PRIMARY KEY, name text)",
        "INSERT INTO orders SELECT i, i % 7, 'item' || (i % 5) \
         FROM generate_series(1, 3000) AS g(i)",
        "INSERT INTO customers SELECT i, 'customer ' || i FROM generate_series(0, 5) AS g(i)",
    ] {
        done(&mut session, sql).await;
    }
    (cluster, session)
}

async fn run(session: &mut Session, prepared: &Prepared, values: &[i32]) -> Vec<String> {
    let values: Vec<ScalarValue> =
        values.iter().map(|value| ScalarValue::Int32(Some(*value))).collect();
    let mut batches = session.execute_prepared(prepared, &values).await.unwrap().rows.unwrap();
    let mut found = Vec::new();
    while let Some(batch) = batches.try_next().await.unwrap() {
        found.extend(lines(&batch));
    }
    found.sort();
    found
}

/// Queries, with the values of their parameters in turns: keys that one worker has, or several, or
/// nobody.
const QUERIES: &[(&str, &[&[i32]])] = &[
    ("SELECT id, item FROM orders WHERE id = $1", &[&[8], &[9], &[-1], &[2999]]),
    ("SELECT id, item FROM orders WHERE id IN ($1, $2)", &[&[8, 8], &[8, 10], &[11, 4000]]),
    ("SELECT count(*), min(item) FROM orders WHERE id IN ($1, $2)", &[&[1, 1], &[1, 2], &[7, 1]]),
    ("SELECT item, count(*), avg(id) FROM orders WHERE customer = $1 GROUP BY item", &[&[1], &[6]]),
    ("SELECT id FROM orders WHERE id > $1 ORDER BY id LIMIT 5", &[&[10], &[2990], &[5000]]),
    ("SELECT id + $2 FROM orders WHERE id < $1", &[&[5, 100], &[3, 7]]),
    ("SELECT count(*), sum(customer), min(item) FROM orders WHERE id = $1", &[&[8], &[-1], &[9]]),
    (
        "SELECT item, count(*) FROM orders WHERE id IN ($1, $2) GROUP BY item \
          HAVING count(*) < 3 ORDER BY item LIMIT 1",
        &[&[8, 8], &[8, 10], &[9, 9], &[-1, -1]],
    ),
    ("SELECT DISTINCT item, customer FROM orders WHERE id = $1", &[&[8], &[-1], &[9]]),
    (
        "SELECT id, row_number() OVER (ORDER BY item) FROM orders WHERE id IN ($1, $2)",
        &[&[8, 8], &[8, 11], &[12, 12]],
    ),
    (
        "SELECT a.item, count(*) FROM orders AS a JOIN orders AS b ON a.customer = b.customer \
          WHERE a.id = $1 AND b.id = $2 GROUP BY a.item",
        &[&[1, 8], &[1, 9], &[8, 8]],
    ),
    (
        "SELECT max(id) FROM orders WHERE id = $1 AND customer = CAST($1 + 0 AS smallint)",
        &[&[3], &[5]],
    ),
    (
        "SELECT name, count(*) FROM orders JOIN customers ON customer = customers.id \
          WHERE orders.id < $1 AND customers.id <> $2 GROUP BY name",
        &[&[100, 2], &[1000, 5]],
    ),
];

#[tokio::test(flavor = "multi_thread")]
async fn each_run_asks_whom_its_values_concern() {
    let (cluster, mut session) = filled(4).await;
    for (sql, runs) in QUERIES {
        let prepared = session.prepare(sql, &[]).await.unwrap();
        for values in runs.iter().chain(runs.iter().rev()) {
            let mut written = (*sql).to_owned();
            for (place, value) in values.iter().enumerate() {
                written = written.replace(&format!("${}", place + 1), &value.to_string());
            }
            let mut anew = rows(&mut session, &written).await.unwrap();
            anew.sort();
            assert_eq!(run(&mut session, &prepared, values).await, anew, "{written}");
        }
    }
    let figures = cluster.gateway.plan_figures();
    assert_eq!(figures.refused, 0);
    assert!(figures.runs > figures.made, "{figures:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn values_of_other_types_have_plans_of_their_own() {
    let (_cluster, mut session) = filled(3).await;
    let sql = "SELECT id, $1 AS tag FROM orders WHERE customer = 3 ORDER BY id LIMIT 1";
    let of_types = [
        (DataType::Int2, ScalarValue::from(5_i16), "5"),
        (DataType::Int4, ScalarValue::from(70_000_i32), "70000"),
        (DataType::Int8, ScalarValue::from(9_i64), "9"),
    ];
    for _ in 0..3 {
        for (data_type, value, tag) in of_types.clone() {
            let prepared = session.prepare(sql, &[Some(data_type)]).await.unwrap();
            let rows = session.execute_prepared(&prepared, &[value]).await.unwrap().rows.unwrap();
            let batches: Vec<_> = rows.try_collect().await.unwrap();
            let found: Vec<String> = batches.iter().flat_map(lines).collect();
            assert_eq!(found, [format!("3|{tag}")]);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_value_that_does_not_fit_is_told_of_its_own_run() {
    let (_cluster, mut session) = filled(3).await;
    let sql = "SELECT count(*) FROM orders WHERE customer = CAST($1 + 0 AS smallint)";
    let prepared = session.prepare(sql, &[]).await.unwrap();
    let data_type = prepared.parameters()[0].data_type().clone();
    let value = |number: i32| [ScalarValue::from(number).cast_to(&data_type).unwrap()];
    for number in [5, 6, 70_000, 5, 70_000, 70_000, 6] {
        let outcome = session.execute_prepared(&prepared, &value(number)).await;
        let found: Result<Vec<_>, _> = match outcome {
            Ok(outcome) => outcome.rows.unwrap().try_collect().await,
            Err(error) => Err(error),
        };
        match found {
            Ok(batches) => assert_eq!(batches.iter().flat_map(lines).collect::<Vec<_>>(), ["428"]),
            Err(error) => assert_eq!((error.state().0, number), ("22003", 70_000), "{error}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_row_of_a_key_is_asked_for_without_a_plan() {
    let (cluster, mut session) = filled(3).await;
    let made = cluster.gateway.plan_figures().made;
    let sql = "SELECT item, id FROM orders WHERE id = $1";
    let prepared = session.prepare(sql, &[]).await.unwrap();
    for (key, row) in [(8, Some("item3|8")), (2999, Some("item4|2999")), (4000, None), (-1, None)] {
        let row: Vec<&str> = row.into_iter().collect();
        assert_eq!(run(&mut session, &prepared, &[key]).await, row, "{key}");
    }
    let nothing = ScalarValue::Int32(None);
    let nobody = session.execute_prepared(&prepared, &[nothing]).await.unwrap().rows.unwrap();
    let nobody: Vec<_> = nobody.try_collect().await.unwrap();
    assert_eq!(nobody.iter().map(|batch| batch.num_rows()).sum::<usize>(), 0);
    done(&mut session, "UPDATE orders SET item = 'new' WHERE id = 8").await;
    assert_eq!(run(&mut session, &prepared, &[8]).await, ["new|8"]);
    // What a block itself did to rows of workers, and what it took back.
    done(&mut session, "BEGIN").await;
    assert_eq!(run(&mut session, &prepared, &[8]).await, ["new|8"]);
    done(&mut session, "UPDATE orders SET item = 'newer' WHERE id = 8").await;
    assert_eq!(run(&mut session, &prepared, &[8]).await, ["newer|8"]);
    done(&mut session, "DELETE FROM orders WHERE id = 8").await;
    assert!(run(&mut session, &prepared, &[8]).await.is_empty());
    done(&mut session, "ROLLBACK").await;
    assert_eq!(run(&mut session, &prepared, &[8]).await, ["new|8"]);
    assert_eq!(cluster.gateway.plan_figures().made, made);
    done(&mut session, "ALTER TABLE orders DROP COLUMN customer").await;
    assert_eq!(run(&mut session, &prepared, &[8]).await, ["new|8"]);
    assert!(cluster.gateway.plan_figures().made > made, "another table takes another plan");
    done(&mut session, "CREATE USER teller").await;
    let mut teller = cluster.gateway.session_as("teller").unwrap();
    let prepared = teller.prepare(sql, &[]).await.unwrap();
    let refused = teller.execute_prepared(&prepared, &[ScalarValue::Int32(Some(8))]).await;
    assert_eq!(refused.err().unwrap().state().0, "42501");
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_see_the_rows_and_tables_of_now() {
    let (cluster, mut session) = filled(3).await;
    let sql = "SELECT id, item FROM orders WHERE id >= $1";
    let prepared = session.prepare(sql, &[]).await.unwrap();
    assert_eq!(run(&mut session, &prepared, &[3000]).await, ["3000|item0"]);
    done(&mut session, "INSERT INTO orders VALUES (3001, 1, 'new')").await;
    assert_eq!(run(&mut session, &prepared, &[3001]).await, ["3001|new"]);
    // What the block itself did to rows of workers, and what it took back.
    done(&mut session, "BEGIN").await;
    done(&mut session, "UPDATE orders SET item = 'newer' WHERE id = 3001").await;
    assert_eq!(run(&mut session, &prepared, &[3001]).await, ["3001|newer"]);
    done(&mut session, "DELETE FROM orders WHERE id = 3001").await;
    assert!(run(&mut session, &prepared, &[3001]).await.is_empty());
    done(&mut session, "ROLLBACK").await;
    assert_eq!(run(&mut session, &prepared, &[3001]).await, ["3001|new"]);
    let runs = cluster.gateway.plan_figures().runs;
    done(&mut session, "ALTER TABLE orders ALTER COLUMN item SET DEFAULT 'none'").await;
    done(&mut session, "INSERT INTO orders (id) VALUES (3002)").await;
    assert_eq!(run(&mut session, &prepared, &[3001]).await, ["3001|new", "3002|none"]);
    assert_eq!(run(&mut session, &prepared, &[3002]).await, ["3002|none"]);
    assert!(cluster.gateway.plan_figures().runs > runs);
}
