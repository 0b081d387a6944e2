//! The line protocol, as InfluxDB's clients send it.

use std::collections::BTreeSet;

use serde_json::json;
use thalweg_query::Database;
use thalweg_server::auth::AuthConfig;
use thalweg_server::{Server, ServerConfig};

use super::ingest::{counts, gzip, open, rows};
use super::{Answer, get, post, server, sql, started, started_on};

const V2: &str = "/api/v2/write?org=o&bucket=b";

async fn write(server: &Server, lines: &str) -> Answer {
    post(server, V2, "", lines).await
}

#[tokio::test(flavor = "multi_thread")]
async fn points_become_rows_and_repeated_points_replace_their_fields() {
    let server = open(AuthConfig::Auto).await;
    let lines = "cpu,host=a usage=1.5,n=3i,ok=t,note=\"x \\\"y\\\"\" 1700000000000000000\n\
        # a comment\n\n\
        cpu,host=b usage=2 1700000000000000000\r\n\
        disk.used,path=/ free=1i 1700000000000000000\n";
    let answer = write(&server, lines).await;
    assert_eq!((answer.status, answer.text()), (204, ""));
    let again = "cpu,host=a usage=9 1700000000000000000\ncpu,host=a n=4i 1700000000000000000";
    assert_eq!(write(&server, again).await.status, 204);
    assert_eq!(
        rows(
            &server,
            "SELECT host, usage, n, ok, note, extract(epoch FROM time)::bigint AS t \
             FROM cpu ORDER BY host"
        )
        .await,
        [
            json!({"host": "a", "usage": 9, "n": 4, "ok": true, "note": "x \"y\"",
                   "t": 1_700_000_000}),
            json!({"host": "b", "usage": 2, "n": null, "ok": null, "note": null,
                   "t": 1_700_000_000}),
        ]
    );
    assert_eq!(rows(&server, "SELECT free FROM \"disk.used\"").await, [json!({"free": 1})]);
}

#[tokio::test(flavor = "multi_thread")]
async fn new_tags_and_fields_are_added_and_new_tags_tell_points_apart() {
    let server = open(AuthConfig::Auto).await;
    assert_eq!(write(&server, "m,a=1 v=1 1").await.status, 204);
    assert_eq!(write(&server, "m,a=1,b=x v=2 1\nm,a=1,b=y v=3,w=4 1\nm v=5 1").await.status, 204);
    let found = rows(&server, "SELECT a, b, v FROM m ORDER BY v").await;
    assert_eq!(
        found,
        [
            json!({"a": "1", "b": "", "v": 1}),
            json!({"a": "1", "b": "x", "v": 2}),
            json!({"a": "1", "b": "y", "v": 3}),
            json!({"a": "", "b": "", "v": 5}),
        ]
    );
}

/// A definition within a request changes the table for points that came before.
#[tokio::test(flavor = "multi_thread")]
async fn points_before_and_behind_a_new_column_are_written_in_order() {
    let server = open(AuthConfig::Auto).await;
    assert_eq!(write(&server, "m,a=1 v=1 1000").await.status, 204);
    let lines = "m,a=1 v=2 1000\nm,a=1 w=1 1000\nm,a=1 v=3 1000\nm,a=1,b=x v=4 1000\n\
        m,a=1 v=5 1000\nm,a=1 v=6 1001";
    assert_eq!(write(&server, lines).await.status, 204);
    assert_eq!(
        rows(&server, "SELECT a, b, v, w, time_ns AS ns FROM m ORDER BY v").await,
        [
            json!({"a": "1", "b": "x", "v": 4, "w": null, "ns": 0}),
            json!({"a": "1", "b": "", "v": 5, "w": 1, "ns": 0}),
            json!({"a": "1", "b": "", "v": 6, "w": null, "ns": 1}),
        ]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_that_define_one_table_together_write_all_points() {
    define_together(open(AuthConfig::Auto).await).await;
}

/// A definition of another request is not visible before it is on disk.
#[tokio::test(flavor = "multi_thread")]
async fn requests_that_define_one_table_on_disk_wait_for_each_other() {
    let directory = tempfile::tempdir().unwrap();
    let database = Database::builder().directory(directory.path()).open().unwrap();
    let mut config = ServerConfig::default();
    config.ingest.create_tables = true;
    define_together(started_on(config, database, &[]).await).await;
}

/// Every point is a row, and no request fails, while many requests add columns to one table.
async fn define_together(server: Server) {
    let write_some = async |client: usize| {
        for request in 0..5 {
            let line = |n: usize| {
                let time = (client * 5 + request) * 50 + n;
                format!("m,t{}=x,u=y f{client}_{request}={n},g={n}i {time}\n", time % 4)
            };
            let lines: String = (0..50).map(line).collect();
            let answer = write(&server, &lines).await;
            assert_eq!(answer.status, 204, "{}", answer.text());
        }
    };
    futures::future::join_all((0..6).map(write_some)).await;
    let query = "SELECT count(*) AS n, count(g) AS g, count(f5_4) AS f FROM m";
    assert_eq!(rows(&server, query).await, [json!({"n": 1_500, "g": 1_500, "f": 50})]);
}

/// Points that differ in nanoseconds alone are points of their own, wherever a table is made.
#[tokio::test(flavor = "multi_thread")]
async fn nanoseconds_tell_points_apart() {
    let server = open(AuthConfig::Auto).await;
    for (lines, n) in [("m v=1 1000", 1), ("m v=2 1001", 2), ("m v=3 1001\nm v=4 -1", 3)] {
        assert_eq!(write(&server, lines).await.status, 204, "{lines}");
        assert_eq!(rows(&server, "SELECT count(*) AS n FROM m").await, [json!({"n": n})]);
    }
    assert_eq!(
        rows(
            &server,
            "SELECT v, time_ns, extract(microseconds FROM time)::int AS us FROM m \
                       ORDER BY time, time_ns"
        )
        .await,
        [
            json!({"v": 4, "time_ns": 999, "us": 59_999_999}),
            json!({"v": 1, "time_ns": 0, "us": 1}),
            json!({"v": 3, "time_ns": 1, "us": 1}),
        ]
    );
    let taken = write(&server, "other time_ns=7i 1000\nother time_ns=8i 1001").await;
    assert_eq!((taken.status, counts(&taken)), (400, json!([[2, "42804"]])), "{}", taken.text());
    // Tables of one's own round times if they say so, and otherwise refuse what they cannot hold.
    sql(&server, "CREATE TABLE rounded (time timestamptz(6) PRIMARY KEY, v float8)").await;
    sql(&server, "CREATE TABLE plain (time timestamptz, n int, v float8, PRIMARY KEY (time, n))")
        .await;
    sql(&server, "CREATE TABLE keyed (h text PRIMARY KEY, time timestamptz, v float8)").await;
    assert_eq!(write(&server, "rounded v=1 1001\nkeyed,h=a v=1 1001").await.status, 204);
    let refused = write(&server, "plain v=1 1001").await;
    assert_eq!((refused.status, counts(&refused)), (400, json!([[1, "42703"]])));
    let server = self::server(AuthConfig::Auto).await;
    sql(&server, "CREATE TABLE m (time timestamptz PRIMARY KEY, v float8)").await;
    let refused = write(&server, "m v=1 1000\nm v=2 1001").await;
    assert_eq!(counts(&refused), json!([[2, "42703"]]), "{}", refused.text());
    assert!(refused.text().contains("time_ns"), "{}", refused.text());
}

/// Lines that cannot be rows do not keep others from making the table.
#[tokio::test(flavor = "multi_thread")]
async fn bad_lines_of_a_new_table_are_rejected_alone() {
    let server = open(AuthConfig::Auto).await;
    let fields: Vec<String> = (0..1_599).map(|n| format!("f{n}=1")).collect();
    let long = "x".repeat(70);
    let lines = format!(
        "m time=1 1000\nm {} 1000\nm v=1 1000\nm v={{}} 1000\nm\\\nx v=1\nm,{long}=a v=7 1000\n\
         m s=\"a\nm v=9 2000\n\"b 1000\nm a\\=\"x\ny\"=1\nm v=2 1000",
        fields.join(",")
    );
    let answer = write(&server, &lines).await;
    assert_eq!(answer.status, 400, "{}", answer.text());
    let rejected: BTreeSet<u64> = counts(&answer)
        .as_array()
        .unwrap()
        .iter()
        .map(|numbered| numbered[0].as_u64().unwrap())
        .collect();
    assert!(!rejected.contains(&3) && !rejected.contains(&13), "{}", answer.text());
    assert!([1, 2, 4, 5, 8].iter().all(|line| rejected.contains(line)), "{}", answer.text());
    assert_eq!(rows(&server, "SELECT v FROM m WHERE v IN (1, 2, 9)").await, [json!({"v": 2})]);
}

/// The last of several points with one key counts, whatever fields they have.
#[tokio::test(flavor = "multi_thread")]
async fn points_of_one_request_apply_in_their_order() {
    let server = open(AuthConfig::Auto).await;
    let lines = "m a=1 1\nm a=2,b=2 1\nm a=3 1\nm b=4 1\nm a=5,b=5 2\nm b=6 2";
    assert_eq!(write(&server, lines).await.status, 204);
    assert_eq!(
        rows(&server, "SELECT a, b FROM m ORDER BY a").await,
        [json!({"a": 3, "b": 4}), json!({"a": 5, "b": 6})]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_lines_are_reported_and_good_ones_written() {
    let server = open(AuthConfig::Auto).await;
    assert_eq!(write(&server, "m,h=a v=1i,s=\"x\" 1").await.status, 204);
    let lines = "m,h=b v=2i 1\n\
        m,h=c v=2.5 1\n\
        m,h=d v=\n\
        m,h=e s=1 1\n\
        m,h=f h=1 1\n\
        m,v=tag x=1 1\n\
        m,h=g v=3i 1\n\
        m time=1 1\n\
        m v=4i 99999999999999999999\n";
    let answer = write(&server, lines).await;
    assert_eq!(answer.status, 400);
    let body = answer.json();
    assert_eq!(body["code"], "invalid");
    assert_eq!((&body["lines_written"], &body["lines_rejected"]), (&json!(2), &json!(7)));
    assert_eq!(body["line"], 2);
    assert_eq!(
        counts(&answer),
        json!([
            [2, "42804"],
            [3, "22P02"],
            [4, "42804"],
            [5, "22P02"],
            [6, "42804"],
            [8, "42804"],
            [9, "22P02"]
        ])
    );
    assert_eq!(rows(&server, "SELECT count(*) AS n FROM m").await, [json!({"n": 3})]);
    let v1 = post(&server, "/write?db=x", "", "m,h=a v=t").await;
    assert_eq!(v1.status, 400);
    assert!(v1.json()["error"].as_str().unwrap().starts_with("partial write: 0 lines"));
    assert!(v1.headers.contains("x-influxdb-error: partial write"), "{}", v1.headers);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bucket_is_a_schema_if_there_is_one() {
    let server = open(AuthConfig::Auto).await;
    sql(&server, "CREATE SCHEMA metrics").await;
    for (path, table) in [
        ("/api/v2/write?bucket=metrics", "metrics.m"),
        ("/api/v2/write?bucket=metrics%2Fautogen&precision=s", "metrics.m"),
        ("/write?db=metrics&precision=ms", "metrics.m"),
        ("/write?db=nowhere", "public.m"),
    ] {
        sql(&server, &format!("DROP TABLE IF EXISTS {table}")).await;
        assert_eq!(post(&server, path, "", "m v=1").await.status, 204, "{path}");
        let query = format!("SELECT count(*) AS n FROM {table}");
        assert_eq!(rows(&server, &query).await, [json!({"n": 1})], "{path}");
    }
    for path in ["/api/v2/write?org=o", "/write", "/write?db=x&precision=years"] {
        assert_eq!(post(&server, path, "", "m v=1").await.status, 400, "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn times_have_the_unit_of_the_request() {
    let server = open(AuthConfig::Auto).await;
    for (precision, time) in
        [("ns", "1700000000123456789"), ("us", "1700000000123456"), ("s", "1700000000")]
    {
        let path = format!("{V2}&precision={precision}");
        assert_eq!(
            post(&server, &path, "", format!("m,p={precision} v=1 {time}")).await.status,
            204
        );
    }
    let found = rows(&server, "SELECT DISTINCT date_trunc('second', time)::text AS t FROM m").await;
    assert_eq!(found, [json!({"t": "2023-11-14 22:13:20+00"})]);
    let far = post(&server, &format!("{V2}&precision=h"), "", "m v=1 9223372036854775807").await;
    assert_eq!((far.status, counts(&far)), (400, json!([[1, "22008"]])));
}

#[tokio::test(flavor = "multi_thread")]
async fn names_in_data_create_nothing_unless_the_setting_allows_it() {
    let server = server(AuthConfig::Auto).await;
    let refused = write(&server, "m,h=a v=1 1").await;
    assert_eq!((refused.status, counts(&refused)), (400, json!([[1, "42P01"]])));
    assert!(refused.text().contains("ingest.create_tables"), "{}", refused.text());
    // A table of one's own: its key need not have all tags, and types only need to fit.
    sql(
        &server,
        "CREATE TABLE m (h text, rack varchar(9), time timestamp(3), v numeric(9, 2), \
         j jsonb, PRIMARY KEY (time, h))",
    )
    .await;
    let lines = "m,h=a,rack=r v=1i,j=\"{\\\"a\\\": 1}\" 1000000\nm,h=b w=1 1\nm,h=c v=2.25 1\n\
        m,h=d,rack=0123456789 v=1 1";
    let answer = write(&server, lines).await;
    assert_eq!(counts(&answer), json!([[2, "42703"], [4, "22001"]]), "{}", answer.text());
    assert_eq!(
        rows(&server, "SELECT h, rack, v::text AS v, j FROM m ORDER BY h").await,
        [
            json!({"h": "a", "rack": "r", "v": "1.00", "j": {"a": 1}}),
            json!({"h": "c", "rack": null, "v": "2.25", "j": null}),
        ]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn roles_log_in_as_influx_clients_do_and_need_rights() {
    let server = open(AuthConfig::Password).await;
    for (query, header, status) in [
        ("", "", 401),
        ("", "Authorization: Token eve:wrong\r\n", 401),
        ("", "Authorization: Token eve\r\n", 401),
        ("&u=eve&p=wrong", "", 401),
        // Known, but without the right to create a table.
        ("", "Authorization: Token eve:secret\r\n", 403),
        ("", "Authorization: Basic ZXZlOnNlY3JldA==\r\n", 403),
        ("&u=eve&p=secret", "", 403),
        ("", "Authorization: Token eve:secret\r\nOrigin: http://evil.example\r\n", 403),
    ] {
        let answer = post(&server, &format!("/write?db=x{query}"), header, "m v=1").await;
        assert_eq!(answer.status, status, "{query} {header} {}", answer.text());
        assert!(answer.json()["error"].is_string(), "{}", answer.text());
    }
    assert_eq!(get(&server, "/ping").await.status, 204);
    assert_eq!(get(&server, "/health").await.json()["status"], "pass");
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_are_compressed_cut_off_too_large_or_of_a_wrong_kind() {
    let mut config = ServerConfig::default();
    config.ingest.create_tables = true;
    config.ingest.body_bytes = 1 << 20;
    config.limits.record_message_bytes = 100_000;
    let server = started(config).await;
    let encoded = |coding: &str| format!("Content-Encoding: {coding}\r\n");
    let body = gzip(b"m v=1 1\nm v=2 2\n");
    assert_eq!(post(&server, V2, &encoded("gzip"), &body).await.status, 204);
    let zstd = zstd::encode_all(&b"m v=3 3"[..], 1).unwrap();
    assert_eq!(post(&server, V2, &encoded("zstd"), &zstd).await.status, 204);
    assert_eq!(post(&server, V2, &encoded("identity"), "m v=4 4").await.status, 204);
    assert_eq!(post(&server, V2, &encoded("br"), "m v=5 5").await.status, 415);
    assert_eq!(post(&server, V2, &encoded("gzip"), &body[..body.len() - 3]).await.status, 400);
    assert_eq!(post(&server, V2, &encoded("gzip"), "m v=6 6").await.status, 400);
    let bomb = vec![b'\n'; 1 << 30];
    for (coding, bomb) in [("gzip", gzip(&bomb)), ("zstd", zstd::encode_all(&bomb[..], 1).unwrap())]
    {
        let answer = post(&server, V2, &encoded(coding), &bomb).await;
        assert_eq!(answer.status, 413, "{}", answer.text());
    }
    let long = format!("m s=\"{}\" 7", "x".repeat(600_000));
    assert_eq!(post(&server, V2, "", &long).await.status, 413);
    assert_eq!(post(&server, V2, "", vec![b'\n'; (1 << 20) + 1]).await.status, 413);
    let bytes = post(&server, V2, "", b"m v=8 8\nm s=\"\xff\" 9\n").await;
    assert_eq!((bytes.status, counts(&bytes)), (400, json!([[2, "22021"]])));
    let found = rows(&server, "SELECT v FROM m WHERE v IS NOT NULL ORDER BY v").await;
    let found: BTreeSet<i64> = found.iter().map(|row| row["v"].as_f64().unwrap() as i64).collect();
    assert_eq!(found, BTreeSet::from([1, 2, 3, 4, 8]));
}

/// Many measurements, tags and fields in one body that arrives in many pieces.
#[tokio::test(flavor = "multi_thread")]
async fn a_long_body_is_written_in_groups() {
    let server = open(AuthConfig::Auto).await;
    let line = |n: usize| {
        let (measurement, tag, field) = (n % 7, n % 11, n % 3);
        format!("m{measurement},t{}=x{tag} f{field}={n},note=\"a\nb\" {n}\n", tag % 2)
    };
    let body: String = (0..30_000).map(line).collect();
    let answer = post(&server, V2, "", &body).await;
    assert_eq!((answer.status, answer.text()), (204, ""));
    let counts = (0..7).map(|n| format!("(SELECT count(*) FROM m{n})"));
    let query = format!("SELECT {} AS n", counts.collect::<Vec<_>>().join(" + "));
    assert_eq!(rows(&server, &query).await, [json!({"n": 30_000})]);
}

/// A body as Telegraf's output `influxdb_v2` sends it, and sends it again after a timeout.
const TELEGRAF: &str = include_str!("telegraf.txt");

#[tokio::test(flavor = "multi_thread")]
async fn bodies_of_telegraf_are_written_and_may_be_sent_again() {
    let server = open(AuthConfig::Auto).await;
    let headers = "User-Agent: Telegraf/1.32.0 Go/1.23.0\r\nContent-Encoding: gzip\r\n\
        Content-Type: text/plain; charset=utf-8\r\nAuthorization: Token thalweg:any\r\n";
    let path = "/api/v2/write?bucket=telegraf&org=any";
    for _ in 0..2 {
        let answer = post(&server, path, headers, gzip(TELEGRAF.as_bytes())).await;
        assert_eq!((answer.status, answer.text()), (204, ""));
    }
    for (query, row) in [
        (
            "SELECT count(*) AS n, sum(usage_idle) > 195 AS idle FROM cpu",
            json!({"n": 2, "idle": true}),
        ),
        (
            "SELECT load1, n_cpus, uptime, uptime_format FROM system",
            json!({"load1": 0.05, "n_cpus": 4, "uptime": 12_345, "uptime_format": " 3:25"}),
        ),
        ("SELECT label FROM disk WHERE path = '/run/user data'", json!({"label": ""})),
        (
            "SELECT oomkilled, started_at FROM docker_container_status",
            json!({"oomkilled": false, "started_at": 1_699_999_000_123_456_789_i64}),
        ),
        (
            "SELECT response_time FROM http_response WHERE server = 'https://example.com/?a=b,c'",
            json!({"response_time": 0.084}),
        ),
        (
            "SELECT message FROM tail WHERE time_ns = 789",
            json!({"message": "user said \"hi, all=well\" C:\\temp"}),
        ),
        ("SELECT count(*) AS n FROM tail", json!({"n": 2})),
        (
            "SELECT count(*) AS n, count(speed) AS s, count(tcp_activeopens) AS t FROM net",
            json!({"n": 2, "s": 1, "t": 1}),
        ),
    ] {
        assert_eq!(rows(&server, query).await, [row], "{query}");
    }
}
