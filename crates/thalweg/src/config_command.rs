//! `thalweg config`: is the configuration right, and what does it come to?
//!
//! Right is what `thalweg serve` takes: whatever it would refuse is told here, all of it at once.

use clap::{Args, Subcommand};

use crate::cli::DatabaseArguments;
use crate::config::{self, Flags};
use crate::exit::Exit;
use crate::report;

const EXAMPLES: &str = "\
Examples:
  thalweg config check --data ./market
  THALWEG__DATABASE__MEMORY_LIMIT=4GB thalweg config dump
  thalweg config dump > thalweg.toml

Later sources win: defaults, thalweg.toml, THALWEG__SECTION__KEY, flags.";

/// Checks the configuration, or shows it with where each value came from
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ConfigArguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Tells everything that is wrong with the configuration, as a server would take it
    Check(DatabaseArguments),
    /// Prints the settings in force as TOML, each with its source
    Dump(DatabaseArguments),
}

pub fn run(arguments: &ConfigArguments) -> Exit {
    let flags = Flags::default();
    let text = match &arguments.action {
        Action::Check(database) => {
            let right = |_| "The configuration is right.\n".to_owned();
            database.load_server_config(flags).map(right)
        }
        Action::Dump(database) => database.load_config(flags).map(|config| config::dump(&config)),
    };
    match text {
        Ok(text) => report::to_stdout(&text),
        Err(errors) => report::usage(&errors),
    }
}
