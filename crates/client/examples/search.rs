//! Looks up the rows that the example `upsert` has written: single keys, a range at once, and a
//! range as a stream.
//!
//! `cargo run --release -p thalweg-client --example search [http://127.0.0.1:7470]`

use futures::StreamExt as _;
use thalweg_client::{
    Client, Kind, Malformed, PackedRow, Range, RowWriter, Searcher, Value, Values,
};

type Outcome = Result<(), Box<dyn std::error::Error>>;

#[tokio::main]
async fn main() -> Outcome {
    let url = std::env::args().nth(1).unwrap_or_else(|| "http://127.0.0.1:7470".to_owned());
    let client = Client::connect(&url).await?;
    let mut searcher = client.searcher().await?;
    // Only these columns are requested. None of them may be NULL.
    let account = searcher.table("account", &["id", "amount", "owner"]);
    keys(&mut searcher, account).await?;
    range(&mut searcher, account).await?;
    sum(&searcher, account).await?;
    many(&client).await
}

/// Looks up three keys with one request.
async fn keys(searcher: &mut Searcher, account: u32) -> Outcome {
    let ids = [1, 2, -1];
    let keys = ids.map(|id| RowWriter::new(1, false).int4(id).finish());
    for (id, row) in ids.iter().zip(searcher.look_up(account, keys.to_vec()).await?) {
        match row {
            // A write that expects this version fails if another write came first.
            Some(row) => println!("{}, version {}", shown(&row.packed)?, row.version),
            None => println!("there is no account {id}"),
        }
    }
    Ok(())
}

/// Prints the last five accounts below number 100.
async fn range(searcher: &mut Searcher, account: u32) -> Outcome {
    let to = Values { values: vec![Value { kind: Some(Kind::Int(100)) }] };
    let range = Range {
        table: account,
        to: Some(to),
        to_excluded: true,
        descending: true,
        limit: 5,
        ..Range::default()
    };
    for packed in searcher.range(range).await? {
        println!("{}", shown(&packed)?);
    }
    Ok(())
}

/// Sums the amounts of all accounts. Rows are streamed, so their number does not matter.
async fn sum(searcher: &Searcher, account: u32) -> Outcome {
    let mut rows = searcher.stream_range(Range { table: account, ..Range::default() });
    let mut sum = 0;
    while let Some(packed) = rows.next().await {
        let packed = packed?;
        let mut row = PackedRow::new(&packed, 3, false)?;
        let (_id, amount) = (row.int4()?, row.int4()?);
        sum += i64::from(amount.unwrap_or_default());
    }
    println!("all accounts have {sum}");
    Ok(())
}

/// Sends a thousand look-ups without waiting for each answer.
async fn many(client: &Client) -> Outcome {
    let searcher = client.pipelined_searcher().await?;
    let account = searcher.table("account", &["id"]);
    let mut key = RowWriter::new(1, false);
    let mut answers = Vec::new();
    for id in 0..1_000 {
        answers.push(searcher.look_up(account, vec![key.int4(id).finish()]).await?);
    }
    let mut there = 0;
    for answer in answers {
        there += answer.await?.iter().flatten().count();
    }
    println!("{there} of 1000 accounts are there");
    Ok(())
}

/// A packed row as text.
fn shown(packed: &[u8]) -> Result<String, Malformed> {
    let mut row = PackedRow::new(packed, 3, false)?;
    let (id, amount, owner) = (row.int4()?, row.int4()?, row.text()?);
    let [id, amount] = [id, amount].map(Option::unwrap_or_default);
    Ok(format!("account {id} has {amount} and is {}'s", owner.unwrap_or_default()))
}
