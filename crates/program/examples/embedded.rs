//! A database inside a program: open it, load rows in bulk, query them.
//!
//! ```sh
//! cargo run --release --example embedded
//! ```

use std::sync::Arc;

use arrow::array::{Float64Array, Int64Array, RecordBatch, StringViewArray};
use futures::TryStreamExt as _;
use thalweg::{Database, Result};

#[tokio::main]
async fn main() -> Result<()> {
    // `Database::open("./market")` keeps the data in a directory.
    let database = Database::in_memory()?;
    let mut session = database.session();
    session
        .execute("CREATE TABLE trades (symbol text, price double precision, volume bigint)")
        .await?;

    // All appended rows become visible together, or none do.
    let mut appender = database.appender("trades")?;
    for day in 0..100 {
        appender.append(&trades(day))?;
    }
    let rows = appender.finish()?;
    println!("{rows} rows");

    // Rows arrive while the query runs; only one batch is in memory at a time.
    let query = "SELECT symbol, sum(volume) AS volume FROM trades GROUP BY symbol ORDER BY symbol";
    let outcome = session.execute(query).await?;
    let mut batches = outcome.rows.expect("a query has rows");
    while let Some(batch) = batches.try_next().await? {
        println!("{batch:?}");
    }
    database.close()
}

/// One day's trades, as columns.
fn trades(day: i64) -> RecordBatch {
    let symbols = StringViewArray::from(vec!["AAPL", "MSFT"]);
    let prices = Float64Array::from(vec![187.5, 402.25]);
    let volumes = Int64Array::from(vec![100 + day, 200 + day]);
    RecordBatch::try_from_iter([
        ("symbol", Arc::new(symbols) as _),
        ("price", Arc::new(prices) as _),
        ("volume", Arc::new(volumes) as _),
    ])
    .expect("the columns have the same length")
}
