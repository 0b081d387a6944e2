//! The program `thalweg`: parses the command line and runs the subcommand.
//!
//! It is a library, so that the Python package has the program in its shared object. Everything
//! that links it has the program's allocator.

use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::Once;

use clap::Parser as _;
use thalweg_env::RealMemory;

mod allocator;
mod backup_command;
#[cfg(feature = "bench")]
mod bench_command;
mod check_command;
mod cli;
mod cluster_command;
mod config;
mod config_command;
mod demo;
mod exit;
mod first_password;
mod gateway_command;
mod launcher;
mod node_arguments;
mod print;
mod progress;
mod remove_worker_command;
mod repair_command;
mod report;
mod serve_command;
mod shell;
mod sql_command;
mod status_command;
mod terminal;
mod worker_command;

use cli::{Cli, Command};

pub use launcher::set_launcher;

/// Prepares the process for databases: memory is returned to the system, at once if it is short.
/// Further calls have no effect.
pub fn prepare_memory() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        RealMemory::gives_back_with(allocator::give_back);
        allocator::start_trimming();
    });
}

/// Runs the program with a command line, whose first word is the program's name.
///
/// Ends the process if the command line is wrong or asks for help.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    ExitCode::from(status(arguments))
}

/// Like [`run`], with the exit status as a number.
pub fn status(arguments: impl IntoIterator<Item = OsString>) -> u8 {
    prepare_memory();
    let cli = Cli::parse_from(arguments);
    let exit = match &cli.command {
        None => sql_command::run(&cli.sql),
        Some(Command::Sql(arguments)) => sql_command::run(arguments),
        Some(Command::Serve(arguments)) => serve_command::run(arguments),
        Some(Command::Gateway(arguments)) => gateway_command::run(arguments),
        Some(Command::Worker(arguments)) => worker_command::run(arguments),
        Some(Command::Cluster(arguments)) => cluster_command::run(arguments),
        Some(Command::Status(arguments)) => status_command::run(arguments),
        Some(Command::RemoveWorker(arguments)) => remove_worker_command::run(arguments),
        Some(Command::Check(arguments)) => check_command::run(arguments),
        Some(Command::Backup(arguments)) => backup_command::run(arguments),
        Some(Command::Repair(arguments)) => repair_command::run(arguments),
        Some(Command::Config(arguments)) => config_command::run(arguments),
        Some(Command::Demo(arguments)) => demo::run(arguments),
        #[cfg(feature = "bench")]
        Some(Command::Bench(arguments)) => bench_command::run(arguments),
    };
    exit.code()
}
