//! Rows and requests for tests, and what comes back.

use futures::StreamExt;
use thalweg_client::v1::value::Kind;
use thalweg_client::v1::{Rows, Table, WriteRequest};
use thalweg_client::{RowWriter, Value, Values};
use thalweg_formats::text::format_value;
use thalweg_query::Session;
use tonic::{Code, Status};

pub const ACCOUNT: &str =
    "CREATE TABLE account (id integer PRIMARY KEY, amount integer NOT NULL, owner text NOT NULL)";

/// The rows of a statement as text, `a|b` each.
pub async fn rows(session: &mut Session, sql: &str) -> Vec<String> {
    let outcome = session.execute(sql).await.unwrap();
    let mut lines = Vec::new();
    let Some(mut batches) = outcome.rows else { return lines };
    while let Some(batch) = batches.next().await {
        let batch = batch.unwrap();
        for row in 0..batch.num_rows() {
            let values = batch.columns().iter().map(|column| {
                let mut text = String::new();
                match column.is_null(row) {
                    true => text.push_str("NULL"),
                    false => format_value(column, row, &mut text).unwrap(),
                }
                text
            });
            lines.push(values.collect::<Vec<_>>().join("|"));
        }
    }
    lines
}

/// A packed row of `account`.
pub fn account(id: i32, amount: i32, owner: &str) -> Vec<u8> {
    RowWriter::new(3, false).int4(id).int4(amount).text(owner).finish()
}

/// A packed key of `account`.
pub fn id(id: i32) -> Vec<u8> {
    id.to_le_bytes().to_vec()
}

pub fn values<const N: usize>(kinds: [Option<Kind>; N]) -> Values {
    Values { values: kinds.map(|kind| Value { kind }).into() }
}

pub fn int(value: i64) -> Option<Kind> {
    Some(Kind::Int(value))
}

pub fn text(value: &str) -> Option<Kind> {
    Some(Kind::Text(value.to_owned()))
}

/// A table as number 0.
pub fn announce(name: &str) -> WriteRequest {
    let table = Table { number: 0, name: name.to_owned(), columns: Vec::new() };
    WriteRequest { tables: vec![table], ..WriteRequest::default() }
}

/// Packed rows of table 0.
pub fn packed(rows: impl IntoIterator<Item = Vec<u8>>) -> WriteRequest {
    let packed = rows.into_iter().map(Into::into).collect();
    WriteRequest { rows: vec![Rows { packed, ..Rows::default() }], ..WriteRequest::default() }
}

/// gRPC's code and the SQLSTATE.
pub fn codes(status: &Status) -> (Code, String) {
    let sqlstate = status.metadata().get("sqlstate").expect("errors have a SQLSTATE");
    (status.code(), sqlstate.to_str().unwrap().to_owned())
}

/// A number that the trailers tell.
pub fn number(status: &Status, name: &str) -> u64 {
    status.metadata().get(name).expect("it is told").to_str().unwrap().parse().unwrap()
}
