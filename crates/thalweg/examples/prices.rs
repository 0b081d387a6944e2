//! A program that embeds the database: `cargo run --release -p thalweg --example prices [DIR]`.
//!
//! It keeps its rows in the directory that it is given, or in memory without one.

use futures::TryStreamExt as _;
use thalweg::{Database, Result, Session};

#[tokio::main]
async fn main() -> Result<()> {
    let database = match std::env::args_os().nth(1) {
        Some(directory) => Database::open(directory)?,
        None => Database::in_memory()?,
    };
    let mut session = database.session();
    create(&mut session).await?;
    let rows = print_averages(&mut session).await?;
    println!("{rows} symbols");
    Ok(())
}

async fn create(session: &mut Session) -> Result<()> {
    let table = "CREATE TABLE IF NOT EXISTS prices (
        symbol text, day date, price numeric(12, 4) NOT NULL, PRIMARY KEY (symbol, day))";
    session.execute(table).await?;
    let rows = "INSERT INTO prices VALUES
        ('AAPL', '2026-01-02', 187.5), ('AAPL', '2026-01-05', 189), ('MSFT', '2026-01-02', 402.25)
        ON CONFLICT (symbol, day) DO UPDATE SET price = excluded.price";
    session.execute(rows).await?;
    Ok(())
}

/// Prints the average price of each symbol and returns the number of symbols.
async fn print_averages(session: &mut Session) -> Result<usize> {
    let question = "SELECT symbol, avg(price) FROM prices GROUP BY symbol ORDER BY symbol";
    let outcome = session.execute(question).await?;
    let mut batches = outcome.rows.expect("a query returns rows");
    let mut rows = 0;
    while let Some(batch) = batches.try_next().await? {
        println!("{batch:?}");
        rows += batch.num_rows();
    }
    Ok(rows)
}
