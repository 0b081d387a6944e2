//! Plans that are kept: what one front end has planned, the others run.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int32Array, RecordBatch};
use arrow_flight::sql::client::PreparedStatement;
use futures::TryStreamExt;
use thalweg_query::{BOOTSTRAP_ROLE, Database, PlanCacheMetrics, Prepared, ScalarValue, Session};
use thalweg_server::Server;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{NoTls, Statement};
use tonic::transport::Channel;

use crate::support::{Client, config, connected, fetch, lines};

/// A grouping, so that it is planned: what looks for a few rows goes around the planner.
const SQL: &str = "SELECT item, count(*) FROM orders WHERE customer = $1 GROUP BY item";

async fn filled() -> (Database, Server) {
    let database = Database::in_memory().unwrap();
    let server = Server::start(config(), database.clone()).await.unwrap();
    let mut session = database.session();
    for sql in [
        "CREATE ROLE eve LOGIN",
        "CREATE TABLE orders (id int PRIMARY KEY, customer int, item text)",
        "GRANT SELECT ON orders TO eve",
        "INSERT INTO orders VALUES (1, 1, 'plum'), (2, 1, 'pear'), (3, 1, 'pear'), (4, 2, 'fig'), \
         (5, 3, 'plum'), (6, 3, 'plum'), (7, 3, 'fig')",
    ] {
        session.execute(sql).await.unwrap();
    }
    (database, server)
}

async fn postgres(server: &Server, user: &str) -> tokio_postgres::Client {
    let address = server.addresses().postgres;
    let config = format!("host={} port={} user={user}", address.ip(), address.port());
    let (client, connection) = tokio_postgres::connect(&config, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// The groups that a customer has, `a|b` each. They come in no order.
async fn groups(
    client: &tokio_postgres::Client,
    statement: &Statement,
    customer: &(dyn ToSql + Sync),
) -> Vec<String> {
    let rows = client.query(statement, &[customer]).await.unwrap();
    let line = |row: &tokio_postgres::Row| {
        let (item, count): (String, i64) = (row.get(0), row.get(1));
        format!("{item}|{count}")
    };
    sorted(rows.iter().map(line).collect())
}

fn sorted(mut lines: Vec<String>) -> Vec<String> {
    lines.sort();
    lines
}

/// One statement, prepared over PostgreSQL's protocol, over Flight SQL and within the program.
struct Everywhere {
    session: Session,
    within: Prepared,
    client: tokio_postgres::Client,
    postgres: Statement,
    flight_client: Client,
    flight: PreparedStatement<Channel>,
}

impl Everywhere {
    /// All act for the same role.
    async fn prepare(database: &Database, server: &Server) -> Everywhere {
        let mut session = database.session_as(BOOTSTRAP_ROLE).unwrap();
        let within = session.prepare(SQL, &[]).await.unwrap();
        let client = postgres(server, BOOTSTRAP_ROLE).await;
        let postgres = client.prepare(SQL).await.unwrap();
        let mut flight_client = connected(server).await;
        let flight = flight_client.prepare(SQL.to_owned(), None).await.unwrap();
        Everywhere { session, within, client, postgres, flight_client, flight }
    }

    async fn run_within(&mut self, customer: i32) -> Vec<String> {
        let values = [ScalarValue::Int32(Some(customer))];
        let outcome = self.session.execute_prepared(&self.within, &values).await.unwrap();
        let rows = outcome.rows.expect("a query gives rows");
        let batches: Vec<RecordBatch> = rows.try_collect().await.unwrap();
        sorted(lines(&batches))
    }

    async fn run_over_postgres(&self, customer: i32) -> Vec<String> {
        groups(&self.client, &self.postgres, &customer).await
    }

    async fn run_over_flight(&mut self, customer: i32) -> Vec<String> {
        let column: ArrayRef = Arc::new(Int32Array::from(vec![customer]));
        let values = RecordBatch::try_from_iter([("$1", column)]).unwrap();
        self.flight.set_parameters(values).unwrap();
        let info = self.flight.execute().await.unwrap();
        sorted(lines(&fetch(&mut self.flight_client, info).await.unwrap()))
    }

    /// Once on each way, each time with another value.
    async fn run(&mut self) {
        assert_eq!(self.run_within(1).await, ["pear|2", "plum|1"]);
        assert_eq!(self.run_over_postgres(2).await, ["fig|1"]);
        assert_eq!(self.run_over_flight(3).await, ["fig|1", "plum|2"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_plan_serves_all_front_ends_until_its_table_changes() {
    let (database, server) = filled().await;
    let mut everywhere = Everywhere::prepare(&database, &server).await;
    let figures = |runs, made| PlanCacheMetrics { runs, made, refused: 0, statements: 1 };
    assert_eq!(database.plan_figures(), PlanCacheMetrics::default());
    // The run that makes a plan is not counted as one of a plan that was kept.
    everywhere.run().await;
    assert_eq!(database.plan_figures(), figures(2, 1));
    everywhere.run().await;
    assert_eq!(database.plan_figures(), figures(5, 1));
    let mut session = database.session();
    session.execute("ALTER TABLE orders ADD COLUMN note text").await.unwrap();
    everywhere.run().await;
    assert_eq!(database.plan_figures(), figures(7, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_is_for_one_role_and_for_the_types_of_its_values() {
    let (database, server) = filled().await;
    let client = postgres(&server, BOOTSTRAP_ROLE).await;
    let figures = |runs, made| PlanCacheMetrics { runs, made, refused: 0, statements: made };
    // A type that the client declares is the same as one that the server finds.
    let found = client.prepare(SQL).await.unwrap();
    let declared = client.prepare_typed(SQL, &[Type::INT4]).await.unwrap();
    for statement in [&found, &declared] {
        assert_eq!(groups(&client, statement, &2_i32).await, ["fig|1"]);
    }
    assert_eq!(database.plan_figures(), figures(1, 1));
    let wider = client.prepare_typed(SQL, &[Type::INT8]).await.unwrap();
    assert_eq!(groups(&client, &wider, &2_i64).await, ["fig|1"]);
    assert_eq!(database.plan_figures(), figures(1, 2));
    let eve = postgres(&server, "eve").await;
    let hers = eve.prepare(SQL).await.unwrap();
    assert_eq!(groups(&eve, &hers, &2_i32).await, ["fig|1"]);
    assert_eq!(database.plan_figures(), figures(1, 3));
}
