//! A transfer between two accounts: both changes happen, or neither does.
//!
//! ```sh
//! cargo run --release --example transactions
//! ```

use thalweg::{Database, Error, ErrorKind, Result, Session, SqlState};

/// Maximum number of attempts for a transfer that conflicts with others.
const ATTEMPTS_MAX: u32 = 10;

#[tokio::main]
async fn main() -> Result<()> {
    let database = Database::in_memory()?;
    let mut session = database.session();
    session
        .execute("CREATE TABLE accounts (id int PRIMARY KEY, balance int CHECK (balance >= 0))")
        .await?;
    session.execute("INSERT INTO accounts VALUES (1, 100), (2, 0)").await?;

    transfer(&mut session, 1, 2, 70).await?;
    match transfer(&mut session, 1, 2, 70).await {
        Err(error) if error.state() == SqlState::CHECK_VIOLATION => println!("refused: {error}"),
        other => other?,
    }
    Ok(())
}

/// Runs the transfer again when another transaction came first.
async fn transfer(session: &mut Session, from: i32, to: i32, amount: i32) -> Result<()> {
    for _ in 0..ATTEMPTS_MAX {
        match try_transfer(session, from, to, amount).await {
            Err(error) if error.kind() == ErrorKind::Conflict => {}
            result => return result,
        }
    }
    Err(Error::new(SqlState::SERIALIZATION_FAILURE, "the accounts are too busy"))
}

async fn try_transfer(session: &mut Session, from: i32, to: i32, amount: i32) -> Result<()> {
    session.execute("BEGIN").await?;
    for (account, change) in [(from, -amount), (to, amount)] {
        let update =
            format!("UPDATE accounts SET balance = balance + {change} WHERE id = {account}");
        if let Err(error) = session.execute(&update).await {
            session.execute("ROLLBACK").await?;
            return Err(error);
        }
    }
    match session.execute("COMMIT").await {
        Ok(_) => Ok(()),
        Err(error) => Err(error),
    }
}
