//! `thalweg config`: is the configuration right, and what does it come to?

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
    /// Tells everything that is wrong with the configuration
    Check(DatabaseArguments),
    /// Prints the settings in force as TOML, each with its source
    Dump(DatabaseArguments),
}

pub fn run(arguments: &ConfigArguments) -> Exit {
    let (Action::Check(database) | Action::Dump(database)) = &arguments.action;
    match database.load_config(Flags::default()) {
        Err(errors) => report::usage(&errors),
        Ok(config) => {
            let text = match &arguments.action {
                Action::Check(_) => "The configuration is right.\n".to_owned(),
                Action::Dump(_) => config::dump(&config),
            };
            report::to_stdout(&text)
        }
    }
}
