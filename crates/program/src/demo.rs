//! `thalweg demo`: real data, live writes, queries, and a crash that loses nothing.
//!
//! The demonstration checks everything that it shows. The first failed check ends it with an error.

mod crash;
mod dataset;
mod live;
mod questions;
mod screen;
mod workplace;

use std::path::PathBuf;

use clap::Args;
use indicatif::HumanCount;
use thalweg::{Database, Error, Result, Session};
use tokio::runtime::Runtime;

use crate::exit::Exit;
use crate::print::results;
use crate::report;
use live::Board;
use screen::Screen;
use workplace::Workplace;

/// The exact number of flights that left New York City in 2013.
const FLIGHTS: u64 = 336_776;

const EXAMPLES: &str = "\
Examples:
  thalweg demo                     leaves nothing behind
  thalweg demo --data ./flights    keeps the data, to go on with thalweg --data ./flights";

/// Demonstrates Thalweg on the flights that left New York City in 2013
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct DemoArguments {
    /// Directory that keeps the data; without it all data are removed at the end
    #[arg(short, long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// The part of the second process: writes and acknowledges until it is killed
    #[arg(long, hide = true, requires = "data")]
    write_until_killed: bool,
}

/// Runs `thalweg demo`. Ends with [`Exit::StatementFailed`] if a check fails.
pub fn run(arguments: &DemoArguments) -> Exit {
    let told = match (&arguments.data, arguments.write_until_killed) {
        (Some(directory), true) => runtime().and_then(|runtime| crash::write(&runtime, directory)),
        (directory, _) => Workplace::new(directory.clone()).and_then(|place| show(&place)),
    };
    match told {
        Ok(()) => Exit::Success,
        Err(error) => {
            report::tell(&error);
            Exit::StatementFailed
        }
    }
}

fn show(place: &Workplace) -> Result<()> {
    let screen = Screen::new();
    let runtime = runtime()?;
    screen.title("Thalweg demo: the flights that left New York City in 2013");
    let database = Database::open(place.data())?;
    let board = runtime.block_on(async {
        let mut session = database.session();
        screen.heading("Load into sharded tables, durable");
        let flights = dataset::load(&screen, &mut session, place.files()).await?;
        expect_equal("flights loaded", flights, FLIGHTS)?;
        screen.heading("Ask, while live updates come in");
        let board = Board::create(&mut session).await?;
        questions::ask_all(&screen, &database, &board).await?;
        board.check(&mut session).await?;
        crash::prepare(&mut session).await?;
        Ok::<Board, Error>(board)
    })?;
    database.close()?;
    screen.heading("Kill it in the middle of its writes");
    let acknowledged = crash::kill_writer(&screen, place.data())?;
    crash::check(&screen, &runtime, place.data(), &board, &acknowledged)?;
    screen.heading("Done");
    screen.line(&format!(
        "{} flights loaded, {} live updates and {} writes before the kill, all of them there.",
        HumanCount(FLIGHTS),
        HumanCount(board.acknowledged()),
        HumanCount(acknowledged.len() as u64),
    ));
    println!();
    place.say_how_to_go_on(&screen);
    Ok(())
}

fn runtime() -> Result<Runtime> {
    Runtime::new().map_err(|error| Error::internal("no threads").with_source(error))
}

fn expect_equal(what: &str, found: u64, expected: u64) -> Result<()> {
    match found == expected {
        true => Ok(()),
        false => Err(Error::internal(format!("{found} {what}, there should be {expected}"))),
    }
}

/// The single number that a query returns.
async fn number(session: &mut Session, sql: &str) -> Result<u64> {
    let rows = results::fetch(session, sql).await?;
    let text = rows.first().and_then(|row| row.first()).map_or("", String::as_str);
    text.parse().map_err(|_| Error::internal(format!("\"{text}\" is no number: {sql}")))
}

async fn run_all(session: &mut Session, statements: &[&str]) -> Result<()> {
    for statement in statements {
        session.execute(statement).await?;
    }
    Ok(())
}
