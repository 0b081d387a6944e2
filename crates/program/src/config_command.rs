//! `thalweg config`: checks the configuration, or shows the resulting settings.
//!
//! A configuration is valid if `thalweg serve` accepts it. All errors are reported at once.

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

/// Checks the configuration, or shows it with the source of each value
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ConfigArguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Reports all errors that a server would find in the configuration
    Check(DatabaseArguments),
    /// Prints the settings in force as TOML, each with its source
    Dump(DatabaseArguments),
}

/// Runs `thalweg config`. Ends with [`Exit::Usage`] if the configuration is invalid.
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
