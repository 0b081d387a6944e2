//! Who may come in, and do what.

use futures::stream;
use thalweg_client::{Client, Error};
use thalweg_query::Database;
use thalweg_server::Server;
use tonic::Code;

use crate::support::{World, account, announce, config, id, packed};

/// A client of eve's.
async fn eve(world: &World) -> Client {
    let builder = Client::builder().basic("ZXZlOg==");
    builder.connect(&world.url()).await.unwrap()
}

async fn with_eve() -> World {
    let world = World::new().await;
    world.sql("CREATE ROLE eve LOGIN").await;
    world.sql("INSERT INTO account VALUES (1, 1, 'a')").await;
    world
}

fn state(result: Result<(), Error>) -> String {
    result.unwrap_err().sqlstate().unwrap().to_owned()
}

#[tokio::test]
async fn rows_need_the_privileges_that_sql_needs() {
    let world = with_eve().await;
    let client = eve(&world).await;
    let mut writer = client.writer().await.unwrap();
    let table = writer.table("account", &[]).await.unwrap();
    let denied = writer.create(table, account(2, 2, "b")).await.unwrap();
    assert_eq!(state(denied.await), "42501");
    world.sql("GRANT INSERT ON account TO eve").await;
    writer.create(table, account(2, 2, "b")).await.unwrap().await.unwrap();
    let denied = writer.upsert(table, account(2, 3, "b")).await.unwrap();
    assert_eq!(state(denied.await), "42501");
    let mut searcher = client.searcher().await.unwrap();
    let searched = searcher.table("account", &[]);
    let refused = searcher.look_up(searched, vec![id(1)]).await.map(drop);
    assert_eq!(state(refused), "42501");
    world.sql("GRANT SELECT, UPDATE ON account TO eve").await;
    writer.upsert(table, account(2, 3, "b")).await.unwrap().await.unwrap();
    assert!(searcher.look_up(searched, vec![id(1)]).await.unwrap()[0].is_some());
    world.sql("REVOKE INSERT ON account FROM eve").await;
    let denied = writer.create(table, account(4, 4, "b")).await.unwrap();
    assert_eq!(state(denied.await), "42501");
}

#[tokio::test]
async fn strangers_stay_outside() {
    let mut config = config();
    config.auth.method = serde_json::from_str("\"password\"").unwrap();
    let database = Database::in_memory().unwrap();
    let server = Server::start(config, database).await.unwrap();
    let url = format!("http://{}", server.addresses().grpc);
    let client = Client::connect(&url).await.unwrap();
    let requests = stream::iter([announce("account"), packed([account(1, 1, "a")])]);
    let status = client.records().upsert(requests).await.unwrap_err();
    assert_eq!(status.code(), Code::Unauthenticated);
    assert!(client.writer().await.is_err());
    let password = server.administrator_password().unwrap().to_owned();
    let credentials = format!("thalweg:{password}");
    let basic = base64(credentials.as_bytes());
    let known = Client::builder().basic(&basic).connect(&url).await.unwrap();
    assert_eq!(known.describe("nowhere").await.unwrap_err().sqlstate(), Some("42P01"));
}

/// Base64 without its padding, which servers do without.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digit = |chunk: &[u8], place: usize| {
        let byte = |index: usize| u32::from(chunk.get(index).copied().unwrap_or(0));
        let word = byte(0) << 16 | byte(1) << 8 | byte(2);
        DIGITS[(word >> (18 - 6 * place)) as usize & 63] as char
    };
    bytes.chunks(3).flat_map(|chunk| (0..=chunk.len()).map(move |p| digit(chunk, p))).collect()
}

#[tokio::test]
async fn calls_are_listed_while_they_last() {
    let world = World::new().await;
    let mut writer = world.client().await.writer().await.unwrap();
    let table = writer.table("account", &[]).await.unwrap();
    writer.upsert(table, account(1, 1, "a")).await.unwrap().await.unwrap();
    let listed = "SELECT query FROM pg_stat_activity WHERE query LIKE 'thalweg.v1%'";
    assert_eq!(world.sql(listed).await, ["thalweg.v1.Records/Write"]);
}

#[tokio::test]
async fn an_end_of_the_server_is_told_behind_what_was_written() {
    let world = World::new().await;
    let mut writer = world.client().await.writer().await.unwrap();
    let table = writer.table("account", &[]).await.unwrap();
    writer.upsert(table, account(1, 1, "a")).await.unwrap().await.unwrap();
    let database = world.database.clone();
    world.server.shut_down().await;
    let late = match writer.upsert(table, account(2, 2, "b")).await {
        Ok(written) => written.await,
        Err(error) => Err(error),
    };
    assert_eq!(state(late), "57P01");
    let mut session = database.session();
    assert_eq!(crate::support::rows(&mut session, "SELECT id FROM account").await, ["1"]);
}
