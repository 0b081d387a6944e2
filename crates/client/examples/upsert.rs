//! Sends rows without waiting for each acknowledgement, then checks the results.
//!
//! The server needs this table:
//!
//! ```sql
//! CREATE TABLE account (id integer PRIMARY KEY, amount integer NOT NULL, owner text NOT NULL);
//! ```
//!
//! `cargo run --release -p thalweg-client --example upsert [http://127.0.0.1:7470]`

use thalweg_client::{Client, Durability, Error, RowWriter};

const ROWS: i32 = 1_000_000;

#[tokio::main]
async fn main() -> Result<(), Error> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "http://127.0.0.1:7470".to_owned());
    let client = Client::connect(&url).await?;
    let mut writer = client.writer().await?;
    // A row counts as written once it survives a failure of the machine.
    writer.durability(Durability::Fsync).await?;
    // An empty list means all columns. None of them may be NULL.
    let account = writer.table("account", &[]).await?;
    let mut row = RowWriter::new(3, false);
    for id in 0..ROWS {
        // Waits only if the server is thousands of rows behind.
        writer.upsert(account, row.int4(id).int4(100).text("somebody").finish()).await?;
        if id % 100_000 == 0 {
            println!("{} rows sent, {} written", id + 1, writer.acknowledged());
        }
    }
    writer.flush().await?;
    println!("all {} rows are written", writer.acknowledged());
    // The future of a row returns its result. A refused row does not end the stream.
    let taken = writer.create(account, row.int4(7).int4(0).text("taken").finish()).await?;
    match taken.await {
        Err(Error::Refused(failure)) => println!("{}: {}", failure.sqlstate, failure.detail),
        other => other?,
    }
    Ok(())
}
