//! `thalweg gateway`: the server of a cluster, which holds no rows.

use std::net::SocketAddr;
use std::num::NonZeroUsize;

use clap::Args;

use crate::config::FanIn;
use crate::exit::Exit;
use crate::node_arguments::{NodeArguments, address};
use crate::serve_command::{self, ServeArguments};

const EXAMPLES: &str = "\
Examples:
  thalweg gateway --data ./gateway --expect-workers 2
  thalweg worker --data ./worker-1 --listen 127.0.0.1:7480 --join 127.0.0.1:7473
  psql -h 127.0.0.1 -p 7471 -U thalweg thalweg

A further gateway, which reads and writes as the first one does and leaves definitions to it:
  thalweg gateway --data ./gateway-2 --join 127.0.0.1:7473 --nodes 127.0.0.1:7573 \\
      --postgres-port 7571 --grpc-port 7570 --http-port 7572";

/// Serves a cluster: plans SQL, and asks workers for rows
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct GatewayArguments {
    #[command(flatten)]
    serve: ServeArguments,
    /// Address where workers join
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:7473")]
    pub nodes: SocketAddr,
    /// The first gateway, if this is a further one: the address where workers join it
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = address)]
    pub join: Option<SocketAddr>,
    /// Workers that must have joined before tables can be made [default: 1]
    #[arg(long, value_name = "N")]
    pub expect_workers: Option<NonZeroUsize>,
    /// End together with the process that holds the other end of standard input
    #[arg(long, hide = true)]
    pub ends_with_parent: bool,
    /// Order in which statements open and read workers [default: hybrid]
    #[arg(long, value_name = "MODE")]
    pub fan_in: Option<FanIn>,
    /// Accept workers whose directories are older copies: what was written since is lost
    #[arg(long)]
    pub accept_restored: bool,
    #[command(flatten)]
    pub cluster: NodeArguments,
}

/// Runs `thalweg gateway`: a server that is part of a cluster.
pub fn run(arguments: &GatewayArguments) -> Exit {
    serve_command::run_as(&arguments.serve, Some(arguments))
}
