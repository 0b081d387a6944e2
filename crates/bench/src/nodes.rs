//! Processes of a cluster that workloads start: workers that send data, and gateways between them
//! and a client.
//!
//! Each process is this program with a role. It prints the ports on which it listens, and exits
//! when its standard input closes, so that no process survives a crashed workload.

mod bare;
mod gateway;
mod process;
mod relay;
mod rows;
mod workers;

use std::io::{Read as _, Write as _};

use thalweg_types::{Error, Result, SqlState};

use crate::errors::while_doing;

pub use bare::{BARE, BareClient};
pub use process::{NodeProcess, local};
pub use rows::{Format, MESSAGE_ROWS, RowsWanted};
pub use workers::BytesWanted;

/// Runs this process as a node, until the process that started it ends.
pub fn run_node(arguments: &[String]) -> Result<()> {
    let mut words = arguments.iter().map(String::as_str);
    let (role, rest) = (words.next().unwrap_or_default(), words.collect::<Vec<_>>());
    // One thread, as a gateway has for each of its cores: relayed messages stay on their core.
    let threads = if role.starts_with("gateway") || role == "bare-gateway" { 1 } else { 2 };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(threads)
        .enable_all()
        .build()
        .map_err(while_doing("starting threads"))?;
    runtime.block_on(async {
        let ports = match (role, rest.as_slice()) {
            ("workers", [count]) => workers::start(number(count)?)?,
            ("rows", []) => rows::start()?,
            ("bare-rows", []) => vec![bare::start_rows().await?],
            ("gateway", [worker, way]) => gateway::start(number(worker)?, way).await?,
            ("bare-gateway", [worker]) => vec![bare::start_gateway(number(worker)?).await?],
            _ => return Err(unknown(arguments)),
        };
        announce(&ports)?;
        let ended = tokio::task::spawn_blocking(|| std::io::stdin().read(&mut [0]));
        // An error ends it, too.
        let _ = ended.await;
        Ok(())
    })
}

fn announce(ports: &[u16]) -> Result<()> {
    let lines: String = ports.iter().map(|port| format!("{port}\n")).collect();
    let mut out = std::io::stdout().lock();
    out.write_all(lines.as_bytes())
        .and_then(|()| out.write_all(b"ready\n"))
        .and_then(|()| out.flush())
        .map_err(while_doing("telling the ports"))
}

fn number<N: std::str::FromStr>(text: &str) -> Result<N> {
    text.parse().map_err(|_| unknown(&[text.to_owned()]))
}

fn unknown(arguments: &[String]) -> Error {
    let message = format!("there is no node \"{}\"", arguments.join(" "));
    Error::new(SqlState::INVALID_PARAMETER_VALUE, message)
}
