//! Passwords, tokens and cookies.

use std::time::Duration;

use arrow_flight::FlightDescriptor;
use arrow_flight::sql::{CommandStatementQuery, ProstMessageExt};
use prost::Message;
use thalweg_query::Database;
use thalweg_server::Server;
use thalweg_server::auth::AuthConfig;
use tonic::{Code, Request};

use crate::support::{Client, client, codes, config, query, refusal, rows, server};

async fn guarded_server() -> Server {
    let database = Database::in_memory().unwrap();
    let mut session = database.session();
    session.execute("CREATE ROLE eve LOGIN PASSWORD 'secret'").await.unwrap();
    let mut config = config();
    config.auth.method = AuthConfig::Password;
    Server::start(config, database).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_password_gives_a_token_that_is_good_on_any_connection() {
    let server = guarded_server().await;
    let mut stranger = client(&server).await;
    let status = refusal(query(&mut stranger, "SELECT 1").await.unwrap_err());
    assert_eq!(codes(&status), (Code::Unauthenticated, "28000".to_owned()));
    stranger.set_token("0".repeat(64));
    let status = refusal(query(&mut stranger, "SELECT 1").await.unwrap_err());
    assert_eq!(codes(&status).0, Code::Unauthenticated);
    stranger.clear_token();
    assert!(stranger.handshake("eve", "wrong").await.is_err());
    let mut eve = client(&server).await;
    let payload = eve.handshake("eve", "secret").await.unwrap();
    let token = eve.token().unwrap().clone();
    assert_eq!(payload, token.as_bytes());
    assert_eq!(rows(&mut eve, "SELECT current_user AS me").await, ["eve"]);
    eve.execute_update("SET application_name = 'first'".to_owned(), None).await.unwrap();
    let mut other = client(&server).await;
    other.set_token(token);
    assert_eq!(rows(&mut other, "SHOW application_name").await, ["first"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_keeps_out_of_what_is_anothers() {
    let server = guarded_server().await;
    let mut eve = client(&server).await;
    eve.handshake("eve", "secret").await.unwrap();
    let transaction = eve.begin_transaction().await.unwrap();
    let mut admin = client(&server).await;
    let password = server.administrator_password().unwrap().to_owned();
    admin.handshake("thalweg", &password).await.unwrap();
    let status =
        refusal(admin.execute("SELECT 1".to_owned(), Some(transaction)).await.unwrap_err());
    assert_eq!(codes(&status).1, "25P01");
}

async fn info(client: &mut Client, sql: &str, cookie: Option<&str>) -> Option<String> {
    let command = CommandStatementQuery { query: sql.to_owned(), transaction_id: None };
    let descriptor = FlightDescriptor::new_cmd(command.as_any().encode_to_vec());
    let mut request = Request::new(descriptor);
    request.set_timeout(Duration::from_secs(600));
    if let Some(cookie) = cookie {
        request.metadata_mut().insert("cookie", cookie.parse().unwrap());
    }
    let response = client.inner_mut().get_flight_info(request).await.unwrap();
    let cookie = response.metadata().get("set-cookie")?.to_str().unwrap();
    cookie.split(';').next().map(str::to_owned)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_setting_gives_a_cookie_that_names_the_connection() {
    let server = server().await;
    let mut client = client(&server).await;
    assert_eq!(info(&mut client, "SELECT 1", None).await, None);
    let cookie = info(&mut client, "SET application_name = 'mine'", None).await.unwrap();
    assert_eq!(info(&mut client, "BEGIN", Some(&cookie)).await, None);
    assert_eq!(info(&mut client, "CREATE TABLE t (n int)", Some(&cookie)).await, None);
    assert!(query(&mut client, "SELECT * FROM t").await.is_err());
    assert_eq!(info(&mut client, "COMMIT", Some(&cookie)).await, None);
    assert!(query(&mut client, "SELECT * FROM t").await.unwrap().is_empty());
}
