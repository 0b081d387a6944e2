//! Several gateways before the same workers.

use std::path::Path;
use std::time::Duration;

use futures::stream;
use tempfile::TempDir;
use thalweg::{Database, Session, SqlState};
use thalweg_cluster::map::{ShardMap, SharedMap};
use thalweg_distributed::{NodeOptions, RunningNode, start_gateway};
use tokio::net::TcpListener;
use tokio_postgres::Client;

use super::bulk_ingest::copy;
use super::processes::{Node, Processes, ask, connect, error_text};
use super::support::{
    Cluster, World, account, announce, anywhere, client_of, codes, done, memory, options, packed,
    plan, rows, serve,
};

/// A further gateway of a cluster in this process.
struct Further {
    database: Database,
    _node: RunningNode,
}

impl Further {
    async fn start(cluster: &Cluster) -> Further {
        let database = memory();
        let map = SharedMap::new(ShardMap::default());
        let first = cluster.node.as_ref().map(RunningNode::address);
        let options = NodeOptions { first, ..options() };
        let (_, node) = start_gateway(&database, anywhere(), map, &options).await.unwrap();
        Further { database, _node: node }
    }

    fn session(&self) -> Session {
        self.database.session()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn gateways_read_and_write_the_same_rows() {
    let cluster = Cluster::start(3).await;
    let mut first = cluster.session();
    done(&mut first, "CREATE TABLE t (id bigint PRIMARY KEY, v text)").await;
    let further = Further::start(&cluster).await;
    let mut second = further.session();
    let insert = "INSERT INTO t SELECT n, 'first ' || n FROM generate_series(1, 500) AS s(n)";
    done(&mut first, insert).await;
    let insert = "INSERT INTO t SELECT n, 'second ' || n FROM generate_series(501, 900) AS s(n)";
    done(&mut second, insert).await;
    for session in [&mut first, &mut second] {
        let sum = rows(session, "SELECT count(*), sum(id) FROM t").await.unwrap();
        assert_eq!(sum, ["900|405450"]);
        let taken = rows(session, "INSERT INTO t (id) VALUES (7), (700)").await.unwrap_err();
        assert_eq!(taken.state(), SqlState::UNIQUE_VIOLATION);
    }
    done(&mut second, "UPDATE t SET v = 'changed' WHERE id = 7").await;
    done(&mut second, "DELETE FROM t WHERE id = 8").await;
    let found = rows(&mut first, "SELECT id, v FROM t WHERE id IN (7, 8, 9) ORDER BY id").await;
    assert_eq!(found.unwrap(), ["7|changed", "9|first 9"]);
    done(&mut second, "SET stages = on").await;
    let planned = plan(&mut second, JOIN).await;
    assert!(planned.contains("Stages: "), "{planned}");
    assert_eq!(rows(&mut second, JOIN).await.unwrap(), ["899"]);
}

/// What runs between workers.
const JOIN: &str = "SELECT count(*) FROM t a JOIN t b ON a.v = b.v";

#[tokio::test(flavor = "multi_thread")]
async fn rows_come_in_through_every_gateway() {
    let world = World::new().await;
    let further = Further::start(&world.cluster).await;
    let server = serve(&further.database).await;
    for (first, server) in [(0, &world.server), (1_000, &server)] {
        let mut records = client_of(server).await.records();
        let rows = packed((first..first + 500).map(|id| account(id, 1, "record")));
        let written = records.create(stream::iter([announce("account"), rows])).await;
        assert_eq!(written.unwrap().into_inner().rows, 500);
        let client = connect(&server.addresses().postgres.to_string()).await;
        let lines = (first + 500..first + 1_000).map(|id| format!("{id}\t1\tcopy\n"));
        assert_eq!(copy(&client, lines).await, Ok(500));
        let taken = packed([account(7, 1, "again")]);
        let refused = records.create(stream::iter([announce("account"), taken])).await;
        assert_eq!(codes(&refused.unwrap_err()).1, "23505");
    }
    let count = "SELECT count(*), count(DISTINCT id) FROM account";
    assert_eq!(world.sql(count).await, ["2000|2000"]);
    assert_eq!(rows(&mut further.session(), count).await.unwrap(), ["2000|2000"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_definition_counts_at_every_gateway_from_the_next_statement_on() {
    let cluster = Cluster::start(2).await;
    let furthers = [Further::start(&cluster).await, Further::start(&cluster).await];
    let mut first = cluster.session();
    let mut others = furthers.each_ref().map(Further::session);
    for number in 1..=20 {
        let table = format!("t{number}");
        done(&mut first, &format!("CREATE TABLE {table} (id int PRIMARY KEY)")).await;
        for other in &mut others {
            assert_eq!(rows(other, &format!("SELECT count(*) FROM {table}")).await.unwrap(), ["0"]);
        }
        done(&mut first, &format!("ALTER TABLE {table} ADD COLUMN v int DEFAULT {number}")).await;
        for (id, other) in (1..).zip(&mut others) {
            done(other, &format!("INSERT INTO {table} (id) VALUES ({id})")).await;
        }
        let sum = rows(&mut first, &format!("SELECT sum(v) FROM {table}")).await.unwrap();
        assert_eq!(sum, [(2 * number).to_string()]);
    }
    done(&mut first, "CREATE USER reader PASSWORD 'long enough'").await;
    done(&mut first, "GRANT SELECT ON t1 TO reader").await;
    for further in &furthers {
        assert!(further.database.role("reader").is_some_and(|role| role.password.is_some()));
        let mut reader = further.database.session_as("reader").unwrap();
        assert_eq!(rows(&mut reader, "SELECT count(*) FROM t1").await.unwrap(), ["2"]);
        let refused = rows(&mut reader, "DELETE FROM t1").await.unwrap_err();
        assert_eq!(refused.state(), SqlState::INSUFFICIENT_PRIVILEGE);
    }
    let all = "SELECT defines, answers, definitions FROM thalweg_cluster.gateways \
               ORDER BY defines DESC";
    let last = cluster.gateway.last_definition();
    let error_text = rows(&mut first, all).await.unwrap();
    let further = format!("false|true|{last}");
    assert_eq!(error_text, [format!("true|true|{last}"), further.clone(), further]);
}

#[tokio::test(flavor = "multi_thread")]
async fn definitions_and_numbers_are_the_first_gateways() {
    let cluster = Cluster::start(2).await;
    let mut first = cluster.session();
    done(&mut first, "CREATE TABLE t (id serial PRIMARY KEY, v text CHECK (v <> ''))").await;
    done(&mut first, "INSERT INTO t (v) VALUES ('a'), ('b')").await;
    let further = Further::start(&cluster).await;
    let mut second = further.session();
    let address = cluster.node.as_ref().unwrap().address().to_string();
    for refused in [
        "CREATE TABLE other (id int PRIMARY KEY)",
        "CREATE TABLE copy AS SELECT * FROM t",
        "ALTER TABLE t ADD COLUMN w int",
        "CREATE USER somebody",
        "DROP TABLE t",
        "INSERT INTO t (v) VALUES ('c')",
        "INSERT INTO t VALUES (DEFAULT, 'c')",
        "INSERT INTO t (v) SELECT v FROM t",
    ] {
        let error = rows(&mut second, refused).await.expect_err(refused);
        assert_eq!(error.state(), SqlState::FEATURE_NOT_SUPPORTED, "{refused}: {error}");
        assert!(error.message().contains(&address) && error.hint().is_some(), "{error}");
    }
    // Of a block that defines something nothing happens.
    done(&mut second, "BEGIN").await;
    done(&mut second, "DELETE FROM t WHERE id = 1").await;
    done(&mut second, "CREATE VIEW w AS SELECT v FROM t").await;
    let error = rows(&mut second, "COMMIT").await.unwrap_err();
    assert_eq!(error.state(), SqlState::FEATURE_NOT_SUPPORTED, "{error}");
    done(&mut second, "INSERT INTO t VALUES (10, 'c')").await;
    done(&mut second, "UPDATE t SET v = 'd' WHERE id = 2").await;
    done(&mut first, "INSERT INTO t (v) VALUES ('e')").await;
    for session in [&mut first, &mut second] {
        let found = rows(session, "SELECT id, v FROM t ORDER BY id").await.unwrap();
        assert_eq!(found, ["1|a", "2|d", "3|e", "10|c"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_the_same_key_one_gateway_writes_the_row() {
    let cluster = Cluster::start(3).await;
    let mut first = cluster.session();
    done(&mut first, "CREATE TABLE t (id int PRIMARY KEY, who text)").await;
    done(&mut first, "CREATE TABLE counted (id int PRIMARY KEY, n int)").await;
    done(&mut first, "INSERT INTO counted VALUES (1, 0)").await;
    let further = Further::start(&cluster).await;
    let writing = |who: &'static str, mut session: Session| async move {
        let mut written = Vec::new();
        for id in 0..100 {
            match rows(&mut session, &format!("INSERT INTO t VALUES ({id}, '{who}')")).await {
                Ok(_) => written.push(id),
                Err(error) => assert_eq!(error.state(), SqlState::UNIQUE_VIOLATION, "{error}"),
            }
        }
        let count = "INSERT INTO counted VALUES (1, 1) \
                     ON CONFLICT (id) DO UPDATE SET n = counted.n + 1";
        for _ in 0..5 {
            done(&mut session, count).await;
        }
        written
    };
    let first_writes = tokio::spawn(writing("first", cluster.session()));
    let second_writes = tokio::spawn(writing("second", further.session()));
    let (one, other) = (first_writes.await.unwrap(), second_writes.await.unwrap());
    for (who, written) in [("first", one), ("second", other)] {
        let query = format!("SELECT id FROM t WHERE who = '{who}' ORDER BY id");
        let found = rows(&mut further.session(), &query).await.unwrap();
        assert_eq!(found, written.iter().map(ToString::to_string).collect::<Vec<_>>());
    }
    assert_eq!(rows(&mut first, "SELECT count(*) FROM t").await.unwrap(), ["100"]);
    assert_eq!(rows(&mut first, "SELECT n FROM counted").await.unwrap(), ["10"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_that_is_behind_learns_of_it_from_workers() {
    let mut cluster = Cluster::start(2).await;
    let mut first = cluster.session();
    done(&mut first, "CREATE TABLE t (id int PRIMARY KEY, v int)").await;
    done(&mut first, "INSERT INTO t VALUES (1, 1), (2, -2), (3, 3)").await;
    let further = Further::start(&cluster).await;
    let mut second = further.session();
    assert_eq!(rows(&mut second, "SELECT count(*) FROM t").await.unwrap(), ["3"]);
    // The first gateway goes on, and nobody finds it any more.
    cluster.node = None;
    let away = "SELECT defines, answers FROM thalweg_cluster.gateways ORDER BY defines DESC";
    until(&mut second, away, &["true|false", "false|true"]).await;
    done(&mut first, "DELETE FROM t WHERE v < 0").await;
    done(&mut first, "ALTER TABLE t ADD CHECK (v > 0)").await;
    // What was checked by the old definitions is not written.
    let refused = rows(&mut second, "INSERT INTO t VALUES (4, -4)").await.unwrap_err();
    assert_eq!(refused.state(), SqlState::CHECK_VIOLATION, "{refused}");
    done(&mut first, "ALTER TABLE t ADD COLUMN w int NOT NULL DEFAULT 7").await;
    done(&mut second, "INSERT INTO t VALUES (5, 5)").await;
    assert_eq!(rows(&mut second, "SELECT sum(w) FROM t").await.unwrap(), ["21"]);
    done(&mut first, "CREATE TABLE other (id int PRIMARY KEY)").await;
    // Reads tell of it, too.
    assert_eq!(rows(&mut second, "SELECT count(*) FROM t").await.unwrap(), ["3"]);
    assert_eq!(rows(&mut second, "SELECT count(*) FROM other").await.unwrap(), ["0"]);
    // And so do stages.
    done(&mut first, "CREATE TABLE third (id int PRIMARY KEY)").await;
    done(&mut second, "SET stages = on").await;
    assert_eq!(rows(&mut second, JOIN).await.unwrap(), ["3"]);
    assert_eq!(rows(&mut second, "SELECT count(*) FROM third").await.unwrap(), ["0"]);
    // A block that read by old definitions and writes fails, and can be run again.
    done(&mut second, "BEGIN").await;
    done(&mut second, "UPDATE t SET v = 6 WHERE id = 1").await;
    done(&mut first, "ALTER TABLE t ADD CHECK (v <> 6)").await;
    let refused = rows(&mut second, "COMMIT").await.unwrap_err();
    assert_eq!(refused.state(), SqlState::SERIALIZATION_FAILURE, "{refused}");
    let found = rows(&mut second, "SELECT id, v FROM t ORDER BY id").await.unwrap();
    assert_eq!(found, ["1|1", "3|3", "5|5"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_block_that_began_before_a_definition_of_its_table_is_run_again() {
    let cluster = Cluster::start(2).await;
    let mut first = cluster.session();
    done(&mut first, "CREATE TABLE t (id int PRIMARY KEY, v int)").await;
    done(&mut first, "CREATE TABLE other (id int PRIMARY KEY)").await;
    let further = Further::start(&cluster).await;
    for (id, mut session) in [(1, cluster.session()), (2, further.session())] {
        done(&mut session, "BEGIN").await;
        done(&mut session, &format!("INSERT INTO t VALUES ({id}, {id})")).await;
        done(&mut first, &format!("ALTER TABLE t ADD CHECK (v > {id})")).await;
        let error = rows(&mut session, "COMMIT").await.unwrap_err();
        assert_eq!(error.state(), SqlState::SERIALIZATION_FAILURE, "{error}");
        // Definitions of other tables stand against nothing.
        done(&mut session, "BEGIN").await;
        done(&mut session, &format!("INSERT INTO t VALUES ({id}, 5)")).await;
        done(&mut first, &format!("ALTER TABLE other ADD COLUMN c{id} int")).await;
        done(&mut session, "COMMIT").await;
    }
    assert_eq!(rows(&mut first, "SELECT sum(v) FROM t").await.unwrap(), ["10"]);
}

/// Asks until the answer is this one.
async fn until(session: &mut Session, sql: &str, wanted: &[&str]) {
    let mut ticks = tokio::time::interval(Duration::from_millis(50));
    let mut last = Vec::new();
    for _ in 0..600 {
        ticks.tick().await;
        last = rows(session, sql).await.unwrap();
        if last == wanted {
            return;
        }
    }
    panic!("{sql}: {last:?}");
}

/// A further gateway as a process.
struct Second {
    node: Node,
    client: Client,
    nodes: String,
}

impl Second {
    async fn start(cluster: &Processes, data: &Path) -> Second {
        let mut command = super::processes::thalweg(&["gateway", "--join", &cluster.join]);
        command.args(["--data", data.to_str().unwrap(), "--nodes", "127.0.0.1:0"]);
        command.args(["--postgres-port", "0", "--grpc-port", "0", "--http-port", "0"]);
        command.args(&cluster.setting.shown);
        let printed = ["PostgreSQL clients", "Workers join at"];
        let (node, [postgres, nodes]) = Node::start(&mut command, printed);
        Second { node, client: connect(&postgres).await, nodes }
    }

    async fn ask(&self, sql: &str) -> Vec<String> {
        match ask(&self.client, sql).await {
            Ok(found) => found,
            Err(error) => panic!("{sql}: {}", error_text(&error)),
        }
    }
}

/// Asks until the answer is this one, whatever goes wrong meanwhile.
async fn at_last(client: &Client, sql: &str, wanted: &[&str]) {
    let mut ticks = tokio::time::interval(Duration::from_millis(50));
    let mut last = String::new();
    for _ in 0..600 {
        ticks.tick().await;
        match ask(client, sql).await {
            Ok(found) if found == wanted => return,
            Ok(found) => last = found.join(", "),
            Err(error) => last = error_text(&error),
        }
    }
    panic!("{sql}: {last}");
}

#[tokio::test(flavor = "multi_thread")]
async fn gateways_come_and_go_for_themselves() {
    let mut cluster = Processes::start(2).await;
    let directory = TempDir::new().unwrap();
    let data = directory.path().join("gateway-2");
    cluster.ask("CREATE TABLE t (id bigint PRIMARY KEY)").await.unwrap();
    let mut second = Second::start(&cluster, &data).await;
    let insert = |first: u32| {
        format!("INSERT INTO t SELECT n FROM generate_series({first}, {first} + 99) AS s(n)")
    };
    cluster.ask(&insert(0)).await.unwrap();
    second.ask(&insert(100)).await;
    // SIGKILL. The second one goes on, also when it is started anew.
    cluster.gateway.child.kill().unwrap();
    cluster.gateway.child.wait().unwrap();
    let count = "SELECT count(*) FROM t";
    assert_eq!(second.ask(count).await, ["200"]);
    second.ask(&insert(200)).await;
    drop(second.node);
    second = Second::start(&cluster, &data).await;
    assert_eq!(second.ask(count).await, ["300"]);
    second.ask(&insert(300)).await;
    let away = "SELECT count(*) FROM thalweg_cluster.gateways WHERE defines AND NOT answers";
    at_last(&second.client, away, &["1"]).await;
    let refused = ask(&second.client, "DROP TABLE t").await.unwrap_err();
    assert!(error_text(&refused).contains(&cluster.join), "{}", error_text(&refused));
    // The first one comes back, and is followed again.
    cluster.restart_gateway().await;
    cluster.until_joined(2).await;
    assert_eq!(cluster.ask(count).await.unwrap(), ["400"]);
    cluster.ask("CREATE TABLE later (id int PRIMARY KEY)").await.unwrap();
    at_last(&second.client, "SELECT count(*) FROM later", &["0"]).await;
    // What is defined while the second one is away it knows when it is there again.
    drop(second.node);
    cluster.ask("ALTER TABLE later ADD COLUMN v int DEFAULT 3").await.unwrap();
    second = Second::start(&cluster, &data).await;
    second.ask("INSERT INTO later (id) VALUES (1)").await;
    assert_eq!(cluster.ask("SELECT v FROM later").await.unwrap(), ["3"]);
    let seen = cluster.status(&[]);
    assert!(seen.contains("first") && seen.contains(&second.nodes), "{seen}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_that_knows_nothing_does_not_start_alone() {
    let database = memory();
    // A port that nobody listens on any more.
    let free = TcpListener::bind(anywhere()).await.unwrap();
    let first = Some(free.local_addr().unwrap());
    drop(free);
    let options = NodeOptions { first, ..options() };
    let map = SharedMap::new(ShardMap::default());
    let started = start_gateway(&database, anywhere(), map, &options).await;
    let error = started.err().expect("it has nothing to serve");
    assert_eq!(error.state(), SqlState::CONNECTION_FAILURE, "{error}");
    assert!(error.hint().is_some_and(|hint| hint.contains("--join")), "{error}");
}
