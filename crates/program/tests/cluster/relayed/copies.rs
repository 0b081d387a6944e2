//! `COPY … TO STDOUT` of rows that workers have encoded.

use std::pin::pin;

use thalweg_execution::row_forms::ValueForms;

use super::*;

/// What binary data begin with, and the mark of their end.
const HEAD_BYTES: usize = 19;
const END: [u8; 2] = [0xff, 0xff];

/// The messages of a copy, in their order.
async fn copied(client: &Client, sql: &str) -> Result<Vec<Vec<u8>>, tokio_postgres::Error> {
    let mut data = pin!(client.copy_out(sql).await?);
    let mut messages = Vec::new();
    while let Some(message) = data.try_next().await? {
        messages.push(message.to_vec());
    }
    Ok(messages)
}

/// The same where the gateway opens all rows.
async fn opened(client: &Client, sql: &str) -> Vec<Vec<u8>> {
    client.batch_execute("SET relay = off").await.unwrap();
    let messages = copied(client, sql).await.unwrap();
    client.batch_execute("RESET relay").await.unwrap();
    messages
}

/// Whether the workers write the messages of a statement.
async fn is_relayed(database: &Database, sql: &str) -> bool {
    let form = thalweg_execution::row_forms::RowForm::DataRows(ValueForms::Text);
    let mut session = database.session();
    session.execute_as(sql, form).await.unwrap().encoded.is_some()
}

#[tokio::test(flavor = "multi_thread")]
async fn lines_are_the_same_as_where_the_gateway_writes_them() {
    let (served, client) = filled(4).await;
    for (sql, lines) in [
        ("COPY things TO STDOUT", 3_001),
        ("COPY things TO STDOUT (FORMAT csv)", 3_001),
        ("COPY things (id, t, w) TO STDOUT (FORMAT csv, HEADER, FORCE_QUOTE (t))", 3_002),
        ("COPY things TO STDOUT (FORMAT csv, DELIMITER ';', QUOTE '~', NULL 'none')", 3_001),
        ("COPY things TO STDOUT (DELIMITER '|', NULL '')", 3_001),
        ("COPY (SELECT id, n + 1 FROM things WHERE n % 3 = 0) TO STDOUT", 1_000),
        ("COPY (SELECT id FROM things WHERE id < 0) TO STDOUT", 0),
    ] {
        assert!(is_relayed(&served.cluster.gateway, sql).await, "{sql}");
        let (mut relayed, mut opened) =
            (copied(&client, sql).await.unwrap(), opened(&client, sql).await);
        assert_eq!(relayed.len(), lines, "{sql}");
        // A line of names comes first.
        let names = usize::from(sql.contains("HEADER"));
        assert_eq!(relayed[..names], opened[..names], "{sql}");
        relayed.sort();
        opened.sort();
        assert!(relayed == opened, "{sql}");
    }
    let limited = copied(&client, "COPY (SELECT id FROM things LIMIT 9) TO STDOUT").await.unwrap();
    assert_eq!(limited.len(), 9);
    assert!(
        !is_relayed(&served.cluster.gateway, "COPY (SELECT sum(n) FROM things) TO STDOUT").await
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn binary_rows_have_one_head_and_one_end() {
    let (served, client) = filled(3).await;
    for (sql, rows) in [
        ("COPY (SELECT id, b, d, t, y, a FROM things) TO STDOUT (FORMAT binary)", 3_001),
        ("COPY (SELECT id, t FROM things LIMIT 12) TO STDOUT (FORMAT binary)", 12),
        ("COPY (SELECT id FROM things WHERE id < 0) TO STDOUT (FORMAT binary)", 0),
    ] {
        assert!(is_relayed(&served.cluster.gateway, sql).await, "{sql}");
        let (relayed, opened) = (copied(&client, sql).await.unwrap(), opened(&client, sql).await);
        let [relayed, opened] = [relayed, opened].map(|mut messages| {
            let head: Vec<u8> = messages[0].drain(..HEAD_BYTES).collect();
            assert!(head.starts_with(b"PGCOPY\n\xff\r\n\0"), "{sql}");
            assert_eq!(messages.pop().unwrap(), END, "{sql}");
            assert_eq!(messages.len(), rows, "{sql}");
            messages.sort();
            messages
        });
        // Which rows a limit leaves is nobody's promise.
        assert!(relayed == opened || sql.contains("LIMIT"), "{sql}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_ends_a_copy_and_not_the_connection() {
    let (_served, client) = filled(3).await;
    let wrong = "COPY (SELECT id, 1000 / (n - 2000) FROM things) TO STDOUT";
    let error = copied(&client, wrong).await.unwrap_err();
    assert_eq!(error.as_db_error().unwrap().code().code(), "22012");
    client.batch_execute("SET statement_timeout = 100").await.unwrap();
    let long = "COPY (SELECT repeat(t, 500000) FROM things) TO STDOUT";
    let error = copied(&client, long).await.unwrap_err();
    assert_eq!(error.as_db_error().unwrap().code().code(), "57014");
    client.batch_execute("SET statement_timeout = 0").await.unwrap();
    assert_eq!(copied(&client, "COPY things TO STDOUT").await.unwrap().len(), 3_001);
    // Rows of the transaction's own are the gateway's to write.
    client.batch_execute("BEGIN; INSERT INTO things (id) VALUES (-1)").await.unwrap();
    assert_eq!(copied(&client, "COPY things TO STDOUT").await.unwrap().len(), 3_002);
    client.batch_execute("ROLLBACK").await.unwrap();
}
