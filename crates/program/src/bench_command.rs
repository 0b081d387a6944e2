//! `thalweg bench`: measures Thalweg beside its peers.

use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::PossibleValuesParser;
use thalweg::{Error, Result};
use thalweg_bench::{Options, WORKLOADS, Workload, named};

use crate::exit::Exit;
use crate::report;

const EXAMPLES: &str = "\
Examples:
  thalweg bench tpch                 one workload, its table to the terminal
  thalweg bench all                  every workload; writes bench/RESULTS.md and bench/report.html
  thalweg bench write --only offered --no-peers
  thalweg bench load --scale 0.1 --python venv/bin/python

Data is made once and kept in the cache. Peers are measured beside where they are installed:
PostgreSQL with its pgbench and psql, Tarantool, Redis, a C++ compiler with libgrpc++-dev and
protobuf-compiler-grpc, and what python3 has of bench/peers/requirements.txt.";

/// Measures Thalweg beside its peers, in turns in one run
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct BenchArguments {
    /// Workload to measure
    #[arg(value_name = "WORKLOAD", default_value = ALL, value_parser = workload_names())]
    workload: String,
    /// Scale of the TPC-H data; 1 is six million line items
    #[arg(long, default_value_t = 1.0)]
    scale: f64,
    /// Measures only the parts of a workload whose names contain this text
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// The core reserved for servers, where they use only one; the load gets the next core. A core
    /// that serves the disk's interrupts is a good choice: `grep virtio.*req /proc/interrupts`
    #[arg(long, value_name = "N", default_value_t = 0)]
    server_core: usize,
    /// Leaves the peers out
    #[arg(long)]
    no_peers: bool,
    /// Number of measurements of each thing
    #[arg(long, value_name = "N", default_value_t = 3)]
    repetitions: usize,
    /// Rows of 500 bytes in the table when the mixed load starts
    #[arg(long, value_name = "N", default_value_t = 5_000_000)]
    records: u64,
    /// Directory of the report that `all` writes
    #[arg(long, value_name = "DIR", default_value = "bench")]
    report: PathBuf,
    /// The Python that has the peers' modules [default: python3]
    #[arg(long, value_name = "FILE")]
    python: Option<PathBuf>,
    /// The program whose server is measured [default: this one]
    #[arg(long, value_name = "FILE")]
    server: Option<PathBuf>,
    /// Directory of data that are kept between runs [default: thalweg/bench in the user's cache]
    #[arg(long, value_name = "DIR")]
    cache: Option<PathBuf>,
    /// Runs this process as a node that a workload has started
    #[arg(long, hide = true, num_args = 1.., value_name = "ROLE")]
    node: Vec<String>,
}

const ALL: &str = "all";

fn workload_names() -> PossibleValuesParser {
    let names = WORKLOADS.iter().map(|workload| workload.name);
    PossibleValuesParser::new(names.chain([ALL]))
}

/// Runs `thalweg bench`. Ends with [`Exit::StatementFailed`] if a measurement fails.
pub fn run(arguments: &BenchArguments) -> Exit {
    match measure(arguments) {
        Ok(()) => Exit::Success,
        Err(error) => {
            report::tell(&error);
            Exit::StatementFailed
        }
    }
}

fn measure(arguments: &BenchArguments) -> Result<()> {
    if !arguments.node.is_empty() {
        return thalweg_bench::run_node(&arguments.node);
    }
    let program = std::env::current_exe()
        .map_err(|error| Error::internal("this program cannot be found").with_source(error))?;
    let options = Options {
        scale: arguments.scale,
        repetitions: arguments.repetitions,
        records: arguments.records,
        server_core: arguments.server_core,
        only: arguments.only.clone(),
        peers: !arguments.no_peers,
        python: arguments.python.clone(),
        server: arguments.server.clone().unwrap_or_else(|| program.clone()),
        cache: arguments.cache.clone().unwrap_or_else(cache_directory),
    };
    match named(&arguments.workload) {
        Some(workload) => run_one(workload, &options),
        None => run_all(&options, &program, &arguments.report),
    }
}

fn run_one(workload: &Workload, options: &Options) -> Result<()> {
    let runtime = tokio::runtime::Runtime::new()
        .map_err(|error| Error::internal("no threads").with_source(error))?;
    runtime.block_on(thalweg_bench::run(workload, options)).map(drop)
}

fn run_all(options: &Options, program: &Path, directory: &Path) -> Result<()> {
    let arguments = |workload: &Workload| {
        let mut arguments = vec![
            "bench".to_owned(),
            workload.name.to_owned(),
            format!("--scale={}", options.scale),
            format!("--repetitions={}", options.repetitions),
            format!("--records={}", options.records),
            format!("--server={}", options.server.display()),
            format!("--cache={}", options.cache.display()),
            format!("--server-core={}", options.server_core),
        ];
        arguments.extend(options.only.iter().map(|only| format!("--only={only}")));
        arguments.extend((!options.peers).then(|| "--no-peers".to_owned()));
        arguments.extend(options.python.iter().map(|path| format!("--python={}", path.display())));
        arguments
    };
    thalweg_bench::run_all(options, program, arguments, directory)
}

fn cache_directory() -> PathBuf {
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).or_else(home);
    cache.unwrap_or_else(std::env::temp_dir).join("thalweg").join("bench")
}
