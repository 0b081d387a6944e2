//! Entry point of the program: parses the command line and runs the subcommand.

use std::process::ExitCode;

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

fn main() -> ExitCode {
    RealMemory::gives_back_with(allocator::give_back);
    allocator::start_trimming();
    let cli = Cli::parse();
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
    exit.into()
}
