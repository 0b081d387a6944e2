//! A second process writes until it is killed; the first one counts the acknowledged writes.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};

use indicatif::HumanCount;
use thalweg::{Database, Error, Result, Session, SqlState};
use tokio::runtime::Runtime;

use super::live::{Board, WRITERS};
use super::screen::{Screen, milliseconds};
use super::{FLIGHTS, expect_equal, number, run_all};
use crate::launcher;
use crate::print::results;

/// Number of acknowledged writes after which the second process is killed.
const KILLED_AFTER: usize = 500;

/// Creates the table to which the second process writes.
pub async fn prepare(session: &mut Session) -> Result<()> {
    run_all(session, &["CREATE TABLE events (id bigint PRIMARY KEY, note text NOT NULL)"]).await
}

/// The second process: each of its writers prints the key of a row when the row is acknowledged.
pub fn write(runtime: &Runtime, directory: &Path) -> Result<()> {
    let database = Database::open(directory)?;
    runtime.block_on(async {
        let mut writers = Vec::new();
        for writer in 0..WRITERS {
            let mut session = database.session();
            writers.push(tokio::spawn(async move {
                for id in (writer..).step_by(WRITERS) {
                    let insert = format!("INSERT INTO events VALUES ({id}, 'gate {writer}')");
                    session.execute(&insert).await?;
                    println!("{id}");
                }
                Ok::<(), Error>(())
            }));
        }
        for writer in writers {
            writer.await.map_err(|error| Error::internal("broke off").with_source(error))??;
        }
        Ok(())
    })
}

/// Starts the second process, kills it while it writes, and returns the acknowledged keys.
pub fn kill_writer(screen: &Screen, directory: &Path) -> Result<BTreeSet<u64>> {
    let failed = |error| {
        let message = format!("the second process could not be started: {error}");
        Error::new(SqlState::IO_ERROR, message)
    };
    let mut child = launcher::itself()
        .map_err(failed)?
        .args(["demo", "--write-until-killed", "--data"])
        .arg(directory)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    let acknowledged = follow(&mut child)?;
    screen.line(&format!(
        "A second process ({WRITERS} writers) opened the data; kill -9 after {} acknowledged \
         writes.",
        HumanCount(acknowledged.len() as u64),
    ));
    Ok(acknowledged)
}

/// Collects the acknowledged keys, and kills the process midway.
fn follow(child: &mut Child) -> Result<BTreeSet<u64>> {
    let told = BufReader::new(child.stdout.take().expect("standard output is a pipe"));
    let mut acknowledged = BTreeSet::new();
    let mut was_killed = false;
    // Includes keys that were printed before the kill and not yet read.
    for line in told.lines() {
        let Some(id) = line.ok().and_then(|line| line.parse().ok()) else { continue };
        acknowledged.insert(id);
        if acknowledged.len() == KILLED_AFTER {
            was_killed = child.kill().is_ok();
        }
    }
    let ended = child.wait();
    match was_killed {
        true => Ok(acknowledged),
        false => Err(Error::internal(format!(
            "the second process ended by itself after {} writes: {ended:?}",
            acknowledged.len()
        ))),
    }
}

/// Opens the database again and compares its rows with the acknowledged keys.
pub fn check(
    screen: &Screen,
    runtime: &Runtime,
    directory: &Path,
    board: &Board,
    acknowledged: &BTreeSet<u64>,
) -> Result<()> {
    let began = screen.now();
    let database = Database::open(directory)?;
    let took = screen.now() - began;
    let found = runtime.block_on(async {
        let mut session = database.session();
        let rows = results::fetch(&mut session, "SELECT id FROM events").await?;
        let ids = rows.iter().filter_map(|row| row.first()?.parse().ok());
        let found: BTreeSet<u64> = ids.collect();
        let flights = number(&mut session, "SELECT count(*) FROM flights").await?;
        expect_equal("flights after the kill", flights, FLIGHTS)?;
        board.check(&mut session).await?;
        Ok::<_, Error>(found)
    })?;
    database.close()?;
    let lost: Vec<&u64> = acknowledged.difference(&found).collect();
    if !lost.is_empty() {
        return Err(Error::internal(format!("acknowledged and lost: {lost:?}")));
    }
    screen.line(&format!(
        "Opened again in {}: {} of {} acknowledged writes are there, and {} on their way.",
        milliseconds(took),
        HumanCount((acknowledged.len() - lost.len()) as u64),
        HumanCount(acknowledged.len() as u64),
        found.len() - acknowledged.len(),
    ));
    screen.line(&format!(
        "{} flights and {} changes of the board are there as well.",
        HumanCount(FLIGHTS),
        HumanCount(board.acknowledged()),
    ));
    Ok(())
}
