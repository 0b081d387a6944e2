//! `thalweg repair`: copies the undamaged parts of a damaged database.

use std::path::PathBuf;

use clap::Args;
use thalweg_env::Env;
use thalweg_log::salvage;

use crate::backup_command::describe;
use crate::exit::Exit;
use crate::report;

const EXAMPLES: &str = "\
Examples:
  thalweg repair ./market                                   tells what would be lost
  thalweg repair ./market --into ./market-new --accept-loss

It keeps the newest sound checkpoint, and the log after it up to the first damage. The damaged
directory is not changed. Restore a backup instead, if there is one. Exit status: 0 nothing is
lost, 3 the directory could not be read or is in use, 4 something is lost.";

/// Salvages the undamaged parts of a damaged database into a new directory
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct RepairArguments {
    /// The damaged database's directory
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// The new directory; without it, nothing is written
    #[arg(long, value_name = "TARGET", requires = "accept_loss")]
    into: Option<PathBuf>,
    /// Accepts that the new directory lacks the data reported as lost
    #[arg(long)]
    accept_loss: bool,
}

/// Runs `thalweg repair`: reports each damaged part, and copies the others if a target is given.
pub fn run(arguments: &RepairArguments) -> Exit {
    let mut problems = 0;
    let target = arguments.into.as_deref();
    let salvaged = salvage(&Env::real(), &arguments.directory, target, &mut |error| {
        problems += 1;
        report::tell(&error);
    });
    let copied = match salvaged {
        Ok(copied) => copied,
        Err(error) => return report::not_opened(&error),
    };
    let text = match target {
        Some(_) => describe(&copied),
        None => format!("Sound up to group {}. Nothing was written.\n", copied.lsn),
    };
    match report::to_stdout(&text) {
        Exit::Success if problems > 0 => Exit::Damaged,
        exit => exit,
    }
}
