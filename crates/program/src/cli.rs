//! The command line. Each subcommand's arguments live in the subcommand's own file.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::available_parallelism;

use clap::{Args, Parser, Subcommand};
use thalweg::{Database, DatabaseBuilder, Error, Progress};
use thalweg_env::machine_memory_bytes;
use tokio::runtime::Runtime;

use crate::backup_command::BackupArguments;
#[cfg(feature = "bench")]
use crate::bench_command::BenchArguments;
use crate::check_command::CheckArguments;
use crate::cluster_command::ClusterArguments;
use crate::config::{self, Config, DatabaseSettings, Durability, Flags, Size};
use crate::config_command::ConfigArguments;
use crate::demo::DemoArguments;
use crate::gateway_command::GatewayArguments;
use crate::remove_worker_command::RemoveWorkerArguments;
use crate::repair_command::RepairArguments;
use crate::serve_command::ServeArguments;
use crate::sql_command::SqlArguments;
use crate::status_command::StatusArguments;
use crate::worker_command::WorkerArguments;

const EXAMPLES: &str = "\
Examples:
  thalweg                                 a shell on a database in memory
  thalweg --data ./market                 a shell on a durable database
  thalweg -c 'SELECT 1 + 1'               run a statement
  thalweg --data ./market -f load.sql     run a script
  thalweg sql -c \"SELECT * FROM 'prices.csv'\" --format parquet --output prices.parquet
  thalweg serve --data ./market           a server for psql, drivers and tools
  thalweg cluster --workers 4             a cluster of processes on this machine
  thalweg check ./market                  look for damage
  thalweg backup ./market ./copy          copy a database, in use or not
  thalweg demo                            see what it does, on real data

Exit status: 0 done, 1 a statement failed, 2 wrong usage or configuration, 3 the database could
not be opened, 4 damage was found, 130 interrupted.";

/// A memory-first SQL database for live data.
///
/// Without a subcommand this is `thalweg sql`.
#[derive(Debug, Parser)]
#[command(name = "thalweg", version, after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Option<Command>,
    #[command(flatten)]
    pub sql: SqlArguments,
}

/// A subcommand with its arguments.
#[derive(Debug, Subcommand)]
pub enum Command {
    Sql(Box<SqlArguments>),
    Serve(Box<ServeArguments>),
    Gateway(Box<GatewayArguments>),
    Worker(Box<WorkerArguments>),
    Cluster(ClusterArguments),
    Status(StatusArguments),
    RemoveWorker(RemoveWorkerArguments),
    Check(CheckArguments),
    Backup(BackupArguments),
    Repair(RepairArguments),
    Config(ConfigArguments),
    Demo(DemoArguments),
    #[cfg(feature = "bench")]
    Bench(BenchArguments),
}

/// The database and its settings, for every subcommand that opens one.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Database")]
pub struct DatabaseArguments {
    /// Directory of a durable database, created when missing; without it all is in memory
    #[arg(short, long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// Configuration file [default: thalweg.toml in the data directory, if there]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Threads that queries run on [default: one for each core]
    #[arg(long, value_name = "N")]
    pub threads: Option<NonZeroUsize>,
    /// Memory that queries may take before they spill to disk, such as 4GB
    #[arg(long, value_name = "SIZE")]
    pub memory_limit: Option<Size>,
    /// When a change counts as done
    #[arg(long, value_name = "WHEN")]
    pub durability: Option<Durability>,
}

/// Stack size of threads. Planning is recursive: psql's queries for `\d` overflow the default stack
/// of 2 MiB, which ends the process. Statements as deep as the limits allow use half of this size.
/// Stack memory that is never touched costs nothing.
const STACK_BYTES: usize = 64 << 20;

impl DatabaseArguments {
    /// The configuration with these flags and the subcommand's own.
    pub fn load_config(&self, mut flags: Flags) -> Result<Config, Vec<Error>> {
        self.add_to(&mut flags);
        config::load(self.config_file().as_deref(), flags)
    }

    /// Like [`Self::load_config`], for a server, which rejects more settings.
    pub fn load_server_config(&self, mut flags: Flags) -> Result<Config, Vec<Error>> {
        self.add_to(&mut flags);
        config::load_for_server(self.config_file().as_deref(), flags)
    }

    fn add_to(&self, flags: &mut Flags) {
        flags.set("database.threads", self.threads);
        flags.set("database.memory_limit", self.memory_limit);
        flags.set("database.durability", self.durability);
    }

    fn config_file(&self) -> Option<PathBuf> {
        config::file_for(self.config.as_deref(), self.data.as_deref())
    }

    /// Opens the database. On a terminal, long work shows its progress.
    pub fn open(
        &self,
        settings: &DatabaseSettings,
        progress: Option<Arc<dyn Progress>>,
    ) -> Result<Database, Error> {
        let builder = self.builder(settings);
        match progress {
            Some(progress) => builder.progress(progress).open(),
            None => builder.open(),
        }
    }

    /// The database builder with these settings.
    pub fn builder(&self, settings: &DatabaseSettings) -> DatabaseBuilder {
        let mut builder = Database::builder()
            .durability(match settings.durability {
                Durability::Fsync => thalweg::Durability::Fsync,
                Durability::Write => thalweg::Durability::Write,
                Durability::None => thalweg::Durability::None,
            })
            .checkpoint_bytes(settings.checkpoint_size.0)
            .serial_rows(settings.serial_rows)
            .spill_limit(settings.spill_limit.0)
            .hands_over();
        if let Some(directory) = &self.data {
            builder = builder.directory(directory);
        }
        if let Some(threads) = settings.threads {
            builder = builder.threads(threads.get());
        }
        if let Some(Size(bytes)) = settings.memory_limit {
            builder = builder.memory_limit(usize::try_from(bytes).unwrap_or(usize::MAX));
        }
        let of_machine = || machine_memory_bytes().map(|bytes| bytes / 10 * 9);
        if let Some(bytes) = settings.process_memory_limit.map(|size| size.0).or_else(of_machine) {
            builder = builder.process_memory_limit(bytes);
        }
        if let Some(directory) = &settings.spill_directory {
            builder = builder.spill_directory(directory);
        }
        builder
    }

    /// The threads that queries run on.
    pub fn runtime(settings: &DatabaseSettings) -> std::io::Result<Runtime> {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        builder.thread_stack_size(STACK_BYTES);
        let all = || available_parallelism().map_or(1, NonZeroUsize::get);
        let threads = settings.threads.map_or_else(all, NonZeroUsize::get);
        // At least two, so that one long-running task does not block all others.
        builder.worker_threads(threads.max(2)).enable_all().build()
    }
}
