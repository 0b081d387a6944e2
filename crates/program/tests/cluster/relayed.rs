//! Rows that the gateway hands on as the workers encoded them: what clients get is what they get
//! where the gateway decodes them.

mod copies;
mod encoding_cache;
mod limits;
mod long_rows;

use std::net::SocketAddr;

use arrow::record_batch::RecordBatch;
use arrow_flight::sql::client::FlightSqlServiceClient;
use futures::TryStreamExt as _;
use thalweg::Database;
use thalweg_server::{Server, ServerConfig};
use tokio_postgres::types::Type;
use tokio_postgres::{Client, NoTls, Row, SimpleQueryMessage};
use tonic::transport::{Channel, Endpoint};

use super::support::*;

/// One column of each type, and NULLs in all.
const TABLE: &str = "CREATE TABLE things (id bigint PRIMARY KEY, b boolean, s smallint, n integer, \
     f real, d double precision, p numeric(12, 3), t text, v varchar(20), y bytea, day date, \
     at timestamp, tz timestamptz, i interval, u uuid, j jsonb, a integer[], w text[])";
const FILL: &str = "INSERT INTO things SELECT n, n % 2 = 0, n % 100, n, n / 8.0, n / 3.0, n / 7.0, \
     'text ' || n, 'v' || n, decode('00ff', 'hex'), DATE '2024-01-01' + n::integer, \
     TIMESTAMP '2024-01-01 10:00' + n * INTERVAL '1 hour', \
     TIMESTAMPTZ '2024-01-01 10:00+00' + n * INTERVAL '1 minute', n * INTERVAL '1 day', \
     '00000000-0000-0000-0000-000000000001', '{\"n\": 1}', ARRAY[1, n::integer], \
     ARRAY['a', 'b ' || n] FROM generate_series(1, 3000) AS s(n)";
const NULLS: &str = "INSERT INTO things (id) VALUES (0)";

struct Served {
    server: Server,
    cluster: Cluster,
}

impl Served {
    async fn start(workers: u64) -> Served {
        let cluster = Cluster::start(workers).await;
        let server = serve(cluster.gateway.clone()).await;
        Served { server, cluster }
    }

    async fn client(&self) -> Client {
        client(self.server.addresses().postgres).await
    }
}

async fn serve(database: Database) -> Server {
    let mut config = ServerConfig::default();
    config.listen.postgres_port = 0;
    config.listen.grpc_port = 0;
    config.listen.http_port = 0;
    Server::start(config, database).await.unwrap()
}

async fn client(address: SocketAddr) -> Client {
    let config = format!("host={} port={} user=thalweg", address.ip(), address.port());
    let (client, connection) = tokio_postgres::connect(&config, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

async fn filled(workers: u64) -> (Served, Client) {
    let served = Served::start(workers).await;
    let client = served.client().await;
    for sql in [TABLE, FILL, NULLS] {
        client.batch_execute(sql).await.unwrap();
    }
    (served, client)
}

/// Rows of the simple protocol as lines in some order, and what the command tag counts.
async fn texts(client: &Client, sql: &str) -> (Vec<String>, u64) {
    let (mut lines, mut counted) = (Vec::new(), 0);
    for message in client.simple_query(sql).await.unwrap() {
        match message {
            SimpleQueryMessage::Row(row) => {
                let values = (0..row.len()).map(|at| row.get(at).unwrap_or("NULL"));
                lines.push(values.collect::<Vec<_>>().join("|"));
            }
            SimpleQueryMessage::CommandComplete(rows) => counted = rows,
            _ => {}
        }
    }
    lines.sort();
    (lines, counted)
}

async fn plan_of(client: &Client, sql: &str) -> String {
    texts(client, &format!("EXPLAIN {sql}")).await.0.join("\n")
}

/// What the driver reads in binary.
fn binary(row: &Row) -> String {
    let columns = row.columns().iter().enumerate().map(|(at, column)| match *column.type_() {
        Type::INT8 => format!("{:?}", row.get::<_, Option<i64>>(at)),
        Type::INT4 => format!("{:?}", row.get::<_, Option<i32>>(at)),
        Type::INT2 => format!("{:?}", row.get::<_, Option<i16>>(at)),
        Type::BOOL => format!("{:?}", row.get::<_, Option<bool>>(at)),
        Type::FLOAT8 => format!("{:?}", row.get::<_, Option<f64>>(at)),
        Type::BYTEA => format!("{:?}", row.get::<_, Option<Vec<u8>>>(at)),
        Type::INT4_ARRAY => format!("{:?}", row.get::<_, Option<Vec<i32>>>(at)),
        _ => format!("{:?}", row.get::<_, Option<String>>(at)),
    });
    columns.collect::<Vec<_>>().join("|")
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_are_the_same_as_where_the_gateway_opens_them() {
    let (_served, client) = filled(4).await;
    for (sql, rows) in [
        ("SELECT * FROM things", 3_001),
        ("SELECT t, n + 1 AS next, p * 2 AS twice, j, u FROM things WHERE n % 3 = 0", 1_000),
        ("SELECT id FROM things WHERE id < 0", 0),
        ("SELECT FROM things", 3_001),
        ("SELECT id AS same, id AS same FROM things WHERE id IN (5, 900, 17)", 3),
        ("SELECT count(*), max(t) FROM things WHERE id = 7", 1),
        ("SELECT t FROM things WHERE id = 7 ORDER BY n LIMIT 1", 1),
    ] {
        let plan = plan_of(&client, sql).await;
        assert!(plan.contains(" relayed"), "{sql}: {plan}");
        let relayed = texts(&client, sql).await;
        assert_eq!(relayed.1, rows, "{sql}");
        client.batch_execute("SET relay = off").await.unwrap();
        assert!(!plan_of(&client, sql).await.contains(" relayed"), "{sql}");
        let opened = texts(&client, sql).await;
        client.batch_execute("RESET relay").await.unwrap();
        assert!(relayed == opened, "{sql}: {relayed:?} and not {opened:?}");
    }
    let shown = texts(&client, "SHOW relay").await;
    assert_eq!(shown.0, ["on"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn values_come_in_the_forms_that_were_asked_for() {
    let (_served, client) = filled(3).await;
    let sql = "SELECT id, b, s, n, d, t, y, a FROM things WHERE id >= $1";
    let mut found = Vec::new();
    for relay in ["on", "off"] {
        client.batch_execute(&format!("SET relay = {relay}")).await.unwrap();
        let prepared = client.prepare(sql).await.unwrap();
        let rows = client.query(&prepared, &[&0_i64]).await.unwrap();
        let mut lines: Vec<String> = rows.iter().map(binary).collect();
        lines.sort();
        found.push(lines);
    }
    assert_eq!(found[0].len(), 3_001);
    assert!(found[0] == found[1], "{:?} and not {:?}", found[0][0], found[1][0]);
    // A portal whose rows are counted is opened, and goes on where it was.
    client.batch_execute("SET relay = on").await.unwrap();
    let mut client = client;
    let block = client.transaction().await.unwrap();
    let portal = block.bind(sql, &[&0_i64]).await.unwrap();
    let mut ids = Vec::new();
    for rows in [7, 0] {
        let rows = block.query_portal(&portal, rows).await.unwrap();
        ids.extend(rows.iter().map(|row| row.get::<_, i64>(0)));
    }
    ids.sort_unstable();
    assert!(ids.iter().copied().eq(0..=3_000), "{} rows", ids.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_gateway_computes_is_opened() {
    let (_served, client) = filled(3).await;
    for sql in [
        "SELECT id FROM things ORDER BY id",
        "SELECT id FROM things ORDER BY id LIMIT 5",
        "SELECT sum(n) FROM things",
        "SELECT a.id FROM things a JOIN things b ON a.id = b.id",
        "SELECT id FROM things UNION ALL SELECT id FROM things",
    ] {
        let plan = plan_of(&client, sql).await;
        assert!(!plan.contains(" relayed"), "{sql}: {plan}");
    }
    // Rows of the transaction's own are here.
    client.batch_execute("BEGIN; INSERT INTO things (id) VALUES (-1)").await.unwrap();
    assert_eq!(texts(&client, "SELECT id FROM things").await.1, 3_002);
    let cursor = "DECLARE c CURSOR FOR SELECT id FROM things; FETCH 10 FROM c";
    assert_eq!(texts(&client, cursor).await.0.len(), 10);
    client.batch_execute("ROLLBACK").await.unwrap();
    assert_eq!(texts(&client, "SELECT id FROM things").await.1, 3_001);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_s_errors_and_time_outs_are_told_and_the_connection_goes_on() {
    let (_served, client) = filled(3).await;
    let wrong = "SELECT id, 1000 / (n - 2000) FROM things";
    assert!(plan_of(&client, wrong).await.contains(" relayed"));
    let error = client.simple_query(wrong).await.unwrap_err();
    assert_eq!(error.as_db_error().unwrap().code().code(), "22012");
    let prepared = client.prepare(wrong).await.unwrap();
    let error = client.query(&prepared, &[]).await.unwrap_err();
    assert_eq!(error.as_db_error().unwrap().code().code(), "22012");
    let long = "SELECT repeat(t, 1000000) FROM things";
    assert!(plan_of(&client, long).await.contains(" relayed"));
    // The time of a statement includes its planning: short statements must fit into it.
    client.batch_execute("SET statement_timeout = 100").await.unwrap();
    let error = client.simple_query(long).await.unwrap_err();
    assert_eq!(error.as_db_error().unwrap().code().code(), "57014");
    client.batch_execute("SET statement_timeout = 0").await.unwrap();
    assert_eq!(texts(&client, "SELECT id FROM things").await.1, 3_001);
}

#[tokio::test(flavor = "multi_thread")]
async fn all_ways_to_fan_in_give_the_same_rows() {
    let (_served, client) = filled(4).await;
    let asked = [
        "SELECT * FROM things",
        "SELECT n % 7, count(*), min(t), avg(p) FROM things GROUP BY 1",
        "SELECT a.id, b.t FROM things a JOIN things b ON a.id = b.n WHERE a.n % 2 = 0",
    ];
    let ordered =
        ["SELECT id FROM things ORDER BY t, id", "SELECT id FROM things ORDER BY n LIMIT 9"];
    let mut all = Vec::new();
    for fan_in in ["hybrid", "sync", "async"] {
        client.batch_execute(&format!("SET fan_in = {fan_in}")).await.unwrap();
        assert_eq!(texts(&client, "SHOW fan_in").await.0, [fan_in]);
        let mut found = Vec::new();
        for relay in ["on", "off"] {
            client.batch_execute(&format!("SET relay = {relay}")).await.unwrap();
            for sql in asked {
                found.push(texts(&client, sql).await.0);
            }
            for sql in ordered {
                let rows = client.query(sql, &[]).await.unwrap();
                found.push(rows.iter().map(|row| row.get::<_, i64>(0).to_string()).collect());
            }
            // Whoever has enough ends the others.
            assert_eq!(texts(&client, "SELECT id FROM things LIMIT 3").await.1, 3);
            let wrong = client.simple_query("SELECT 1 / (n - 2000) FROM things").await.unwrap_err();
            assert_eq!(wrong.as_db_error().unwrap().code().code(), "22012");
        }
        let analyzed = texts(&client, "EXPLAIN ANALYZE SELECT id FROM things").await.0.join("\n");
        for time in ["open_time=", "first_row_time=", "read_time="] {
            assert!(analyzed.contains(time), "{analyzed}");
        }
        let is_told = analyzed.contains(&format!("fan_in={fan_in}"));
        assert_eq!(is_told, fan_in != "hybrid", "{analyzed}");
        all.push(found);
    }
    assert!(all[0] == all[1], "sync is another");
    assert!(all[0] == all[2], "async is another");
    let error = client.simple_query("SET fan_in = fast").await.unwrap_err();
    let error_text = error.as_db_error().unwrap();
    assert_eq!(error_text.hint(), Some("Available values: sync, async and hybrid."));
}

async fn flight_client(served: &Served) -> FlightSqlServiceClient<Channel> {
    let address = format!("http://{}", served.server.addresses().grpc);
    let channel = Endpoint::from_shared(address).unwrap().connect().await.unwrap();
    let mut client = FlightSqlServiceClient::new(channel);
    client.handshake("thalweg", "").await.unwrap();
    client
}

/// What a Flight client reads of a query, as lines in some order.
async fn over_flight(client: &mut FlightSqlServiceClient<Channel>, sql: &str) -> Vec<String> {
    let info = client.execute(sql.to_owned(), None).await.unwrap();
    let ticket = info.endpoint[0].ticket.clone().unwrap();
    let batches: Vec<_> = client.do_get(ticket).await.unwrap().try_collect().await.unwrap();
    let mut found: Vec<String> = batches.iter().flat_map(lines).collect();
    found.sort();
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn flight_clients_get_what_workers_encoded() {
    let (served, postgres) = filled(4).await;
    let mut client = flight_client(&served).await;
    for sql in [
        "SELECT * FROM things",
        "SELECT t, n + 1 AS next, p, a, w FROM things WHERE n % 3 = 0",
        "SELECT id FROM things WHERE id < 0",
        "SELECT FROM things",
    ] {
        assert!(plan_of(&postgres, sql).await.contains(" relayed"), "{sql}");
        over_flight(&mut client, "SET relay = on").await;
        let relayed = over_flight(&mut client, sql).await;
        over_flight(&mut client, "SET relay = off").await;
        let opened = over_flight(&mut client, sql).await;
        assert!(relayed == opened, "{sql}: {} rows and {}", relayed.len(), opened.len());
    }
    over_flight(&mut client, "SET relay = on").await;
    let info = client.execute("SELECT 1 / (n - 2000) FROM things".to_owned(), None).await.unwrap();
    let ticket = info.endpoint[0].ticket.clone().unwrap();
    let failed: Result<Vec<RecordBatch>, _> =
        client.do_get(ticket).await.unwrap().try_collect().await;
    assert!(failed.unwrap_err().to_string().contains("division by zero"));
    let counted = client.execute_update("SELECT id FROM things".to_owned(), None).await.unwrap();
    assert_eq!(counted, 3_001);
}
