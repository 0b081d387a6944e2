//! The pass of gateways, `fold_into_remote_scans`, by a plan before and after it; and the route of
//! statements about one row.

use thalweg_query::{Route, ScalarValue};

use super::support::*;

#[tokio::test(flavor = "multi_thread")]
async fn fold_into_remote_scans() {
    let cluster = Cluster::start(2).await;
    let mut session = cluster.session();
    done(&mut session, "CREATE TABLE t (a bigint PRIMARY KEY, b bigint)").await;
    let sql = "EXPLAIN VERBOSE SELECT b, count(*) FROM t WHERE b > 5 GROUP BY b";
    let steps = rows(&mut session, sql).await.unwrap();
    let is_pass = |step: &&String| step.starts_with("physical_plan after fold_into_remote_scans|");
    let place = steps.iter().position(|step| is_pass(&step));
    let place = place.unwrap_or_else(|| panic!("no such pass in {steps:#?}"));
    let is_plan =
        |step: &&String| step.contains("physical_plan") && !step.ends_with("SAME TEXT AS ABOVE");
    let before = steps[..place].iter().rfind(is_plan).unwrap();
    assert!(before.contains("FilterExec") && before.contains("mode=Partial"), "{before}");
    let after = &steps[place];
    assert!(after.contains("RemoteScan") && !after.contains("FilterExec"), "{after}");
    assert!(!after.contains("mode=Partial") && after.contains("partial aggregate"), "{after}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_is_asked_of_its_worker() {
    let cluster = Cluster::start(2).await;
    let mut session = cluster.session();
    done(&mut session, "CREATE TABLE t (a bigint PRIMARY KEY, b bigint)").await;
    done(&mut session, "INSERT INTO t SELECT g, g % 7 FROM generate_series(1, 100) s(g)").await;
    for (sql, route) in [
        ("SELECT b FROM t WHERE a = $1", Route::WorkerRow),
        ("SELECT a FROM t WHERE b = $1", Route::CachedPlan),
        ("DELETE FROM t WHERE b = $1", Route::Planned),
    ] {
        let prepared = session.prepare(sql, &[]).await.unwrap();
        let values = [ScalarValue::Int64(Some(3))];
        session.execute_prepared(&prepared, &values).await.unwrap();
        assert_eq!(session.route(), Some(route), "{sql}");
    }
}
