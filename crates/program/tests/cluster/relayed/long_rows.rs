//! Rows of which a batch is longer than any message.

use super::*;

/// Of 340 kB each; all together more than was ever taken as one message.
const LONG: &str = "SELECT n, repeat(v, 20000) AS x FROM t";
const COUNT: usize = 900;
const BYTES: usize = 17 * 20_000;

async fn long_rows(cluster: &Cluster) {
    let mut session = cluster.session();
    done(&mut session, "CREATE TABLE t (n integer PRIMARY KEY, v text)").await;
    let insert = "INSERT INTO t SELECT n, '0123456789abcdef' || n % 10 FROM \
                  generate_series(1, 900) AS s(n)";
    done(&mut session, insert).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_that_the_gateway_opens_come_in_messages_of_a_bearable_length() {
    let cluster = Cluster::start(1).await;
    long_rows(&cluster).await;
    let mut session = cluster.session();
    let mut rows = session.execute(LONG).await.unwrap().rows.unwrap();
    let (mut count, mut bytes) = (0, 0);
    while let Some(batch) = rows.try_next().await.unwrap() {
        assert!(batch.num_rows() * BYTES < 4 << 20, "{} rows at once", batch.num_rows());
        count += batch.num_rows();
        bytes +=
            lines(&batch).iter().map(|line| line.split_once('|').unwrap().1.len()).sum::<usize>();
    }
    assert_eq!((count, bytes), (COUNT, COUNT * BYTES));
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_read_long_rows() {
    let cluster = Cluster::start(2).await;
    long_rows(&cluster).await;
    let served = Served { server: serve(cluster.gateway.clone()).await, cluster };
    let client = served.client().await;
    let mut flight = flight_client(&served).await;
    for relay in ["on", "off"] {
        client.batch_execute(&format!("SET relay = {relay}")).await.unwrap();
        over_flight(&mut flight, &format!("SET relay = {relay}")).await;
        let copy = format!("COPY ({LONG} WHERE n <= 100) TO STDOUT");
        let data = client.copy_out(&copy).await.unwrap();
        let lines: Vec<usize> = data.map_ok(|line| line.len()).try_collect().await.unwrap();
        assert_eq!(lines.len(), 100, "{relay}");
        assert!(lines.iter().all(|length| *length > BYTES), "{relay}");
        let rows = over_flight(&mut flight, &format!("{LONG} WHERE n <= 50")).await;
        assert_eq!(rows.len(), 50, "{relay}");
        assert!(rows.iter().all(|row| row.len() > BYTES), "{relay}");
    }
}
