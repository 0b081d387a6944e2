//! How connections begin, and what clients are told of their settings.

use std::fmt::Display;

use thalweg_server::Server;
use thalweg_server::auth::AuthConfig;
use tokio_postgres::NoTls;

use crate::support::{
    EVE, Raw, SUPERUSER, framed, hello, message, query, server, server_with, summary,
};

const PROTOCOL: [u8; 4] = (3_u32 << 16).to_be_bytes();
const CANCEL: [u8; 4] = 80_877_102_u32.to_be_bytes();

/// What a first message brings, without what is told of settings.
async fn begin(server: &Server, settings: &[(&str, &str)]) -> String {
    let user: &[(&str, &str)] = &[("user", EVE)];
    let mut raw = Raw::open(server).await;
    raw.send(&[hello(&[user, settings].concat())]).await;
    let mut replies = raw.until_ready().await;
    replies.retain(|reply| !b"SRK".contains(&reply.kind));
    summary(&replies)
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_are_taken_or_refused() {
    let server = server().await;
    for (name, value, expected) in [
        ("nope", "1", "E(42704)"),
        ("client_encoding", "UTF8", "Z(I)"),
        // asyncpg's, quotes included.
        ("client_encoding", "'utf-8'", "Z(I)"),
        ("client_encoding", "LATIN1", "E(22023)"),
        ("statement_timeout", "abc", "E(22023)"),
        ("TimeZone", "UTC", "Z(I)"),
        ("timezone", "europe/berlin", "Z(I)"),
        ("TimeZone", "Nowhere/Land", "E(22023)"),
        ("options", "-c timezone=Asia/Tokyo", "Z(I)"),
        ("options", "-c timezone=nowhere", "E(22023)"),
        ("DateStyle", "ISO, MDY", "Z(I)"),
        ("IntervalStyle", "nonsense", "E(22023)"),
        ("replication", "false", "Z(I)"),
        ("replication", "maybe", "E(22023)"),
        ("replication", "true", "E(0A000)"),
        ("replication", "database", "E(0A000)"),
        ("database", "thalweg", "Z(I)"),
        ("database", "postgres", "Z(I)"),
        // What drivers tell where they were not told any.
        ("database", EVE, "Z(I)"),
        ("database", "nowhere", "E(3D000)"),
        ("options", "", "Z(I)"),
        ("options", "-c statement_timeout=5s --application-name=x", "Z(I)"),
        ("options", "-c nope=1", "E(42704)"),
        ("options", "-c statement_timeout=abc", "E(22023)"),
        ("options", "nonsense", "E(42601)"),
        ("options", "-c", "E(42601)"),
        ("_pq_.nope", "1", "v Z(I)"),
    ] {
        assert_eq!(begin(&server, &[(name, value)]).await, expected, "{name}={value}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn options_may_hold_spaces() {
    let server = server().await;
    let mut raw = Raw::open(&server).await;
    let options = r"-c application_name=a\ b\\c";
    raw.send(&[hello(&[("user", EVE), ("options", options)])]).await;
    raw.begin().await;
    assert_eq!(raw.sql("SHOW application_name").await, r"T D(a b\c) C(SHOW) Z(I)");
}

/// `RESET` and `DISCARD ALL` restore the values that the client sent when it connected.
#[tokio::test(flavor = "multi_thread")]
async fn resets_restore_the_settings_of_the_beginning() {
    let server = server().await;
    let mut raw = Raw::open(&server).await;
    let options = "-c statement_timeout=50s -c search_path=a,public";
    let settings = [("user", EVE), ("application_name", "first"), ("options", options)];
    raw.send(&[hello(&settings)]).await;
    raw.begin().await;
    for (sql, expected) in [
        ("SHOW statement_timeout", "T D(50s) C(SHOW) Z(I)"),
        ("SHOW search_path", "T D(a,public) C(SHOW) Z(I)"),
        ("SET statement_timeout = '9s'", "C(SET) Z(I)"),
        ("SET application_name = 'second'", "C(SET) S(application_name=second) Z(I)"),
        ("RESET statement_timeout", "C(RESET) Z(I)"),
        ("SHOW statement_timeout", "T D(50s) C(SHOW) Z(I)"),
        ("SET search_path = public", "C(SET) Z(I)"),
        ("DISCARD ALL", "C(DISCARD ALL) S(application_name=first) Z(I)"),
        ("SHOW search_path", "T D(a,public) C(SHOW) Z(I)"),
        ("SET log_connections = on", "E(55P02) Z(I)"),
    ] {
        assert_eq!(raw.ask(&[query(sql)]).await, expected, "{sql}");
    }
}

/// Defaults of the role apply below settings of the client. A role that a default names and the
/// user has left is a warning.
#[tokio::test(flavor = "multi_thread")]
async fn sessions_begin_with_the_defaults_of_their_role() {
    let server = server().await;
    let mut superuser = Raw::connect(&server, SUPERUSER).await;
    for sql in [
        "CREATE ROLE team",
        "GRANT team TO eve",
        "ALTER ROLE eve SET role = team",
        "ALTER ROLE eve SET statement_timeout = '50s'",
        "ALTER ROLE eve SET my.var = 'own'",
        "ALTER DATABASE thalweg SET application_name = 'of the database'",
        "ALTER DATABASE thalweg SET work_mem = '2MB'",
        "ALTER ROLE eve SET log_statement = 'all'",
    ] {
        let answer = superuser.sql(sql).await;
        assert!(answer.starts_with("C("), "{sql}: {answer}");
    }
    let mut raw = Raw::open(&server).await;
    let options = "-c work_mem=3MB -c my.var=given";
    raw.send(&[hello(&[("user", EVE), ("options", options)])]).await;
    let greeting = summary(&raw.until_ready().await);
    assert!(greeting.contains("S(application_name=of the database)"), "{greeting}");
    let sources = "SELECT name, setting, source, reset_val FROM pg_settings WHERE name IN \
                   ('statement_timeout', 'work_mem') ORDER BY 1";
    for (sql, expected) in [
        (
            sources,
            "T D(statement_timeout,50000,user,50000) D(work_mem,3072,client,3072) C(SELECT 2) Z(I)",
        ),
        ("SELECT current_user, session_user", "T D(team,eve) C(SELECT 1) Z(I)"),
        ("SHOW my.var", "T D(given) C(SHOW) Z(I)"),
        ("SHOW log_statement", "T D(all) C(SHOW) Z(I)"),
        ("SET my.var = 'another'", "C(SET) Z(I)"),
        ("SET ROLE NONE", "C(SET) Z(I)"),
        ("RESET ROLE", "C(RESET) Z(I)"),
        ("SET statement_timeout = 0", "C(SET) Z(I)"),
        ("SET application_name = 'mine'", "C(SET) S(application_name=mine) Z(I)"),
        ("DISCARD ALL", "C(DISCARD ALL) S(application_name=of the database) Z(I)"),
        ("SHOW my.var", "T D(given) C(SHOW) Z(I)"),
        ("SHOW statement_timeout", "T D(50s) C(SHOW) Z(I)"),
        ("SHOW role", "T D(team) C(SHOW) Z(I)"),
    ] {
        assert_eq!(raw.sql(sql).await, expected, "{sql}");
    }
    assert_eq!(begin(&server, &[]).await, "Z(I)");
    assert_eq!(superuser.sql("REVOKE team FROM eve").await, "C(REVOKE ROLE) Z(I)");
    let warned = "N(permission denied to set role \"team\") Z(I)";
    assert_eq!(begin(&server, &[]).await, warned);
    assert_eq!(superuser.sql("DROP ROLE team").await, "C(DROP ROLE) Z(I)");
    let warned = "N(role \"team\" does not exist) Z(I)";
    assert_eq!(begin(&server, &[]).await, warned);
}

#[tokio::test(flavor = "multi_thread")]
async fn first_messages_that_are_none_are_refused() {
    let server = server().await;
    let started = |body: &[u8]| framed(&[&PROTOCOL, body].concat());
    for (bytes, expected) in [
        (started(b"user\0eve\0"), "E(08P01)"),
        (started(b"user\0eve"), "E(08P01)"),
        (started(b"user\0eve\0database\0\0"), "E(08P01)"),
        (started(b"user\0eve\0\0x"), "E(08P01)"),
        (started(b"\0eve\0\0"), "E(08P01)"),
        (started(b""), "E(08P01)"),
        (started(b"\0"), "E(28000)"),
        (started(b"user\0\0\0"), "E(28000)"),
        (started(b"user\0\xff\0\0"), "E(08P01)"),
        (framed(&(2_u32 << 16).to_be_bytes()), "E(0A000)"),
        (framed(&[CANCEL.as_slice(), &[0; 7]].concat()), ""),
        (framed(&[CANCEL.as_slice(), &[0; 9]].concat()), ""),
        (framed(b""), "E(08P01)"),
        (vec![0x7f; 8].into(), "E(08P01)"),
    ] {
        let mut raw = Raw::open(&server).await;
        assert_eq!(raw.ask(std::slice::from_ref(&bytes)).await, expected, "{bytes:?}");
        assert!(raw.is_over().await);
    }
}

/// After a message of no known kind nobody knows where the next one begins.
#[tokio::test(flavor = "multi_thread")]
async fn messages_of_no_kind_end_the_connection() {
    let server = server().await;
    for kind in 0..=u8::MAX {
        if b"BCDEFHPQSXcdf".contains(&kind) {
            continue;
        }
        let mut raw = Raw::connect(&server, EVE).await;
        assert_eq!(raw.ask(&[message(kind, b"")]).await, "E(08P01)", "{kind}");
        assert!(raw.is_over().await);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_changes_is_told() {
    let server = server().await;
    let mut raw = Raw::connect(&server, SUPERUSER).await;
    for (sql, expected) in [
        ("SET application_name = 'z'", "C(SET) S(application_name=z) Z(I)"),
        ("SET application_name = 'z'", "C(SET) Z(I)"),
        ("SET ROLE eve", "C(SET) S(is_superuser=off) Z(I)"),
        ("SELECT 1", "T D(1) C(SELECT 1) Z(I)"),
        ("RESET ROLE", "C(RESET) S(is_superuser=on) Z(I)"),
        (
            "SET SESSION AUTHORIZATION eve",
            "C(SET) S(is_superuser=off) S(session_authorization=eve) Z(I)",
        ),
        (
            "RESET SESSION AUTHORIZATION",
            "C(RESET) S(is_superuser=on) S(session_authorization=thalweg) Z(I)",
        ),
        (
            "SELECT set_config('application_name', 'y', false)",
            "T D(y) C(SELECT 1) S(application_name=y) Z(I)",
        ),
        // A statement that fails changes no setting.
        (
            "SELECT set_config('application_name', g::text, false), 1 / (g - 2) \
             FROM generate_series(1, 3) AS s(g)",
            "E(22012) Z(I)",
        ),
        ("SHOW application_name", "T D(y) C(SHOW) Z(I)"),
    ] {
        assert_eq!(raw.ask(&[query(sql)]).await, expected, "{sql}");
    }
}

fn state(error: &tokio_postgres::Error) -> String {
    error.code().map_or_else(|| error.to_string(), |state| state.code().to_owned())
}

async fn log_in(server: &Server, user: &str, password: impl Display) -> Result<String, String> {
    let port = server.addresses().postgres.port();
    let config = format!("host=127.0.0.1 port={port} user={user} password={password}");
    let (client, connection) =
        tokio_postgres::connect(&config, NoTls).await.map_err(|error| state(&error))?;
    tokio::spawn(connection);
    let row = client.query_one("SELECT current_user", &[]).await.map_err(|error| state(&error))?;
    Ok(row.get(0))
}

#[tokio::test(flavor = "multi_thread")]
async fn who_knows_the_password_comes_in() {
    let server = server_with(|config| config.auth.method = AuthConfig::Password).await;
    assert_eq!(log_in(&server, EVE, "secret").await.unwrap(), EVE);
    assert_eq!(log_in(&server, EVE, "Secret").await.unwrap_err(), "28P01");
    assert_eq!(log_in(&server, "nobody", "secret").await.unwrap_err(), "28P01");
    let password = server.administrator_password().unwrap();
    assert_eq!(log_in(&server, SUPERUSER, password).await.unwrap(), SUPERUSER);
}

/// Drivers go by these, and take it for an older server where one is not told.
#[tokio::test(flavor = "multi_thread")]
async fn clients_are_told_what_postgres_15_tells() {
    let server = server().await;
    let mut raw = Raw::open(&server).await;
    raw.send(&[hello(&[("user", SUPERUSER)])]).await;
    let replies = raw.until_ready().await;
    let statuses = replies.iter().filter(|reply| reply.kind == b'S');
    let name = |body: &[u8]| String::from_utf8(body.split(|b| *b == 0).next().unwrap().to_vec());
    let mut names: Vec<String> = statuses.map(|status| name(&status.body).unwrap()).collect();
    names.sort_unstable();
    assert_eq!(
        names,
        [
            "DateStyle",
            "IntervalStyle",
            "TimeZone",
            "application_name",
            "client_encoding",
            "default_transaction_read_only",
            "in_hot_standby",
            "integer_datetimes",
            "is_superuser",
            "server_encoding",
            "server_version",
            "session_authorization",
            "standard_conforming_strings",
        ]
    );
    raw.send(&[query("SET default_transaction_read_only = on")]).await;
    let changed = summary(&raw.until_ready().await);
    assert_eq!(changed, "C(SET) S(default_transaction_read_only=on) Z(I)");
    for (statement, changed) in [
        ("SET timezone = 'europe/berlin'", "C(SET) S(TimeZone=Europe/Berlin) Z(I)"),
        ("SET TIME ZONE -8", "C(SET) S(TimeZone=<-08>+08) Z(I)"),
        ("SET intervalstyle = iso_8601", "C(SET) S(IntervalStyle=iso_8601) Z(I)"),
        (
            "RESET ALL",
            "C(RESET) S(TimeZone=UTC) S(IntervalStyle=postgres) \
                       S(default_transaction_read_only=off) Z(I)",
        ),
        ("SET timezone = 'nowhere'", "E(22023) Z(I)"),
    ] {
        raw.send(&[query(statement)]).await;
        assert_eq!(summary(&raw.until_ready().await), changed, "{statement}");
    }
}
