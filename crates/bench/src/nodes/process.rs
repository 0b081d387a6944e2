//! A node as a process of its own, which ends when the value is dropped.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

use thalweg_types::{Error, Result};

use crate::context::Context;
use crate::errors::while_doing;

/// A node of a measurement, and the ports on which it listens.
pub struct NodeProcess {
    child: Child,
    pub ports: Vec<u16>,
}

impl NodeProcess {
    /// Starts this program with a role, and waits until it listens.
    pub fn start(context: &Context, role: &[&str]) -> Result<NodeProcess> {
        let mut child = Command::new(context.program())
            .args(["bench", "--node"])
            .args(role)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(while_doing("starting a node"))?;
        let out = child.stdout.take().ok_or_else(|| Error::internal("a node says nothing"))?;
        let mut ports = Vec::new();
        for line in BufReader::new(out).lines() {
            let line = line.map_err(while_doing("reading what a node says"))?;
            if line == "ready" {
                return Ok(NodeProcess { child, ports });
            }
            ports.push(line.parse().map_err(while_doing("reading a node's port"))?);
        }
        let _ = child.wait();
        Err(Error::internal(format!("the node {} did not start", role.join(" "))))
    }

    /// The process id.
    pub fn process(&self) -> u32 {
        self.child.id()
    }
}

/// The address of a port on this machine.
pub fn local(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

impl Drop for NodeProcess {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
