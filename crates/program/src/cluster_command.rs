//! `thalweg cluster`: a gateway and workers on this machine, as processes, for development.

use std::net::SocketAddr;
use std::num::NonZeroU16;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use thalweg::Error;
use thalweg_cluster::link::LinkOptions;
use thalweg_env::{allowed_cores, share_of_cores};
use tokio::time::interval;

use crate::exit::Exit;
use crate::serve_command::Signals;
use crate::status_command::all_answer;
use crate::{launcher, report};

/// Interval between checks of the processes.
const LOOK_EVERY: Duration = Duration::from_millis(200);

const EXAMPLES: &str = "\
Examples:
  thalweg cluster --workers 4
  thalweg cluster --workers 4 --data ./cluster     rows are there again the next time";

/// Starts a cluster of processes on this machine, and ends it with Ctrl-C
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ClusterArguments {
    /// Number of workers
    #[arg(long, value_name = "N", default_value = "4")]
    workers: NonZeroU16,
    /// Directory of the nodes' directories; without it the data is gone when the cluster ends
    #[arg(short, long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Port for PostgreSQL clients
    #[arg(long, value_name = "PORT", default_value = "7471")]
    postgres_port: u16,
    /// Port for Flight SQL and other gRPC clients
    #[arg(long, value_name = "PORT", default_value = "7470")]
    grpc_port: u16,
    /// Port for HTTP
    #[arg(long, value_name = "PORT", default_value = "7472")]
    http_port: u16,
    /// Port where workers join
    #[arg(long, value_name = "PORT", default_value = "7473")]
    nodes_port: u16,
    /// When a change counts as done: fsync, write or none
    #[arg(long, value_name = "WHEN", default_value = "fsync")]
    durability: String,
}

/// Runs `thalweg cluster` until a signal or the end of a node.
pub fn run(arguments: &ClusterArguments) -> Exit {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => return report::not_opened(&Error::internal(error.to_string())),
    };
    match runtime.block_on(serve(arguments)) {
        Ok(()) => Exit::Success,
        Err(error) => report::not_opened(&error),
    }
}

/// Processes that end with this one.
struct Processes(Vec<(String, Child)>);

impl Drop for Processes {
    fn drop(&mut self) {
        for (_, child) in &mut self.0 {
            // One that has ended already cannot be ended again.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Processes {
    fn start(&mut self, name: String, arguments: &[String]) -> Result<(), Error> {
        let failed = |error| Error::internal(format!("{name} could not be started: {error}"));
        let mut command = launcher::itself().map_err(failed)?;
        // Each node exits when the pipe closes, which happens however this process ends. Once all
        // workers have joined, this process prints the gateway's greeting itself.
        let arguments = arguments.iter().map(String::as_str).chain(["--ends-with-parent"]);
        let child = command.args(arguments).stdin(Stdio::piped()).stderr(Stdio::null());
        let child = child.spawn().map_err(failed)?;
        self.0.push((name, child));
        Ok(())
    }

    /// # Errors
    /// When one has ended.
    fn look(&mut self) -> Result<(), Error> {
        for (name, child) in &mut self.0 {
            if let Ok(Some(status)) = child.try_wait() {
                return Err(Error::internal(format!("{name} has ended: {status}"))
                    .with_hint("Start it by itself to see what it says."));
            }
        }
        Ok(())
    }
}

async fn serve(arguments: &ClusterArguments) -> Result<(), Error> {
    let mut signals = Signals::new(false)?;
    let temporary = tempfile::tempdir()
        .map_err(|error| Error::internal(format!("there is no temporary directory: {error}")))?;
    let data = arguments.data.as_deref().unwrap_or(temporary.path());
    let mut processes = Processes(Vec::new());
    start(arguments, data, &mut processes)?;
    let nodes = SocketAddr::from(([127, 0, 0, 1], arguments.nodes_port));
    let options = Arc::new(LinkOptions::default());
    let wanted = usize::from(arguments.workers.get());
    let mut ticks = interval(LOOK_EVERY);
    let mut is_ready = false;
    loop {
        tokio::select! {
            () = signals.next() => break,
            _ = ticks.tick() => {}
        }
        processes.look()?;
        if !is_ready && all_answer(nodes, wanted, &options).await {
            is_ready = true;
            announce(arguments, data, &processes);
        }
    }
    eprintln!("Ending.");
    Ok(())
}

fn start(
    arguments: &ClusterArguments,
    data: &Path,
    processes: &mut Processes,
) -> Result<(), Error> {
    let node = |name: &str| data.join(name).display().to_string();
    let gateway = format!("127.0.0.1:{}", arguments.nodes_port);
    let mut given = vec!["gateway".to_owned(), "--data".to_owned(), node("gateway")];
    given.extend(["--nodes".to_owned(), gateway.clone()]);
    for (flag, port) in [
        ("--postgres-port", arguments.postgres_port),
        ("--grpc-port", arguments.grpc_port),
        ("--http-port", arguments.http_port),
    ] {
        given.extend([flag.to_owned(), port.to_string()]);
    }
    given.extend(["--expect-workers".to_owned(), arguments.workers.to_string()]);
    given.extend(["--durability".to_owned(), arguments.durability.clone()]);
    processes.start("the gateway".to_owned(), &given)?;
    let workers = usize::from(arguments.workers.get());
    for number in 1..=workers {
        let [flag, share] = share_of_machine(workers, number - 1);
        let given = [
            "worker".to_owned(),
            "--data".to_owned(),
            node(&format!("worker-{number}")),
            "--listen".to_owned(),
            "127.0.0.1:0".to_owned(),
            "--join".to_owned(),
            gateway.clone(),
            flag,
            share,
            "--durability".to_owned(),
            arguments.durability.clone(),
        ];
        processes.start(format!("worker {number}"), &given)?;
    }
    Ok(())
}

/// Workers share the machine's cores. If the cores divide evenly, each worker gets its own.
fn share_of_machine(workers: usize, number: usize) -> [String; 2] {
    let cores = allowed_cores();
    if let Some(share) = share_of_cores(&cores, workers, number) {
        return ["--cores".to_owned(), share];
    }
    let threads = std::thread::available_parallelism().map_or(1, usize::from) / workers;
    ["--threads".to_owned(), threads.max(1).to_string()]
}

fn announce(arguments: &ClusterArguments, data: &Path, processes: &Processes) {
    for (name, child) in &processes.0 {
        eprintln!("{name:<12} process {}", child.id());
    }
    eprintln!("Data in {}", data.display());
    let ClusterArguments { postgres_port, nodes_port, .. } = arguments;
    eprintln!("Nodes: thalweg status --connect 127.0.0.1:{nodes_port}");
    eprintln!("Ready. Try: psql -h 127.0.0.1 -p {postgres_port} -U thalweg thalweg");
}
