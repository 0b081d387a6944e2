//! Rows looked up by their keys, one by one and a range of them: those that the example `upsert`
//! has written.
//!
//! `cargo run --release -p thalweg-client --example search [http://127.0.0.1:7470]`

use thalweg_client::{
    Client, Kind, Malformed, PackedRow, Range, RowWriter, Searcher, Value, Values,
};

type Outcome = Result<(), Box<dyn std::error::Error>>;

#[tokio::main]
async fn main() -> Outcome {
    let url = std::env::args().nth(1).unwrap_or_else(|| "http://127.0.0.1:7470".to_owned());
    let mut searcher = Client::connect(&url).await?.searcher().await?;
    // Only these columns are wanted. None of them may be NULL.
    let account = searcher.table("account", &["id", "amount", "owner"]);
    keys(&mut searcher, account).await?;
    range(&mut searcher, account).await
}

/// Three keys, answered at once.
async fn keys(searcher: &mut Searcher, account: u32) -> Outcome {
    let ids = [1, 2, -1];
    let keys = ids.map(|id| RowWriter::new(1, false).int4(id).finish());
    for (id, row) in ids.iter().zip(searcher.look_up(account, keys.to_vec()).await?) {
        match row {
            // A write that expects this version fails where another one came first.
            Some(row) => println!("{}, version {}", shown(&row.packed)?, row.version),
            None => println!("there is no account {id}"),
        }
    }
    Ok(())
}

/// The last five accounts below a hundred.
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

/// A row as it is packed, in words.
fn shown(packed: &[u8]) -> Result<String, Malformed> {
    let mut row = PackedRow::new(packed, 3, false)?;
    let (id, amount, owner) = (row.int4()?, row.int4()?, row.text()?);
    let [id, amount] = [id, amount].map(Option::unwrap_or_default);
    Ok(format!("account {id} has {amount} and is {}'s", owner.unwrap_or_default()))
}
