//! `thalweg backup`: a consistent copy of a database, in use or not.

use std::path::PathBuf;

use clap::Args;
use thalweg_env::Env;
use thalweg_log::{Copied, backup};

use crate::exit::Exit;
use crate::report;

const EXAMPLES: &str = "\
Examples:
  thalweg backup ./market /backups/market-monday
  thalweg serve --data /backups/market-monday

The copy holds every change that was acknowledged with durability `fsync` before the command began,
and never a part of one. The database may be served meanwhile; it need not be. A copy that was
interrupted is refused when it is opened. Run it on the server's machine, as the server's user.";

/// Copies a database into a new directory, even while it is in use
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct BackupArguments {
    /// The database's directory
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// The new directory
    #[arg(value_name = "TARGET")]
    target: PathBuf,
}

/// Runs `thalweg backup`. Ends with [`Exit::Damaged`] if the source is corrupt.
pub fn run(arguments: &BackupArguments) -> Exit {
    match backup(&Env::real(), &arguments.directory, &arguments.target) {
        Ok(copied) => report::to_stdout(&describe(&copied)),
        Err(error) if error.kind() == thalweg::ErrorKind::Corrupt => {
            report::tell(&error);
            Exit::Damaged
        }
        Err(error) => report::not_opened(&error),
    }
}

/// A one-line summary of a copy.
pub fn describe(copied: &Copied) -> String {
    let checkpoint = match copied.checkpoint_lsn {
        Some(lsn) => format!("the checkpoint of group {lsn}"),
        None => "no checkpoint".to_owned(),
    };
    let (lsn, records, size) = (copied.lsn, copied.records, indicatif::HumanBytes(copied.bytes));
    format!("Copied up to group {lsn}: {checkpoint}, {records} records of the log, {size}.\n")
}
