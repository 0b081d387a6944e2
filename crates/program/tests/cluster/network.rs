//! A network of a cluster's own: a namespace for each node, all joined by a bridge in another one,
//! and a link on which clients reach the first node, whatever is cut.

use std::net::Ipv4Addr;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// How a node is cut off from all others.
#[derive(Clone, Copy, Debug)]
pub enum Cut {
    /// Its link is down, and it is told so.
    Down,
    /// Its cable leads nowhere: packets get lost, and nobody is told.
    Unplugged,
}

impl Cut {
    pub const ALL: [Cut; 2] = [Cut::Down, Cut::Unplugged];
}

/// It ends with the test.
pub struct Network {
    /// What the names of its namespaces begin with.
    name: String,
    /// The clients' end of their link.
    link: String,
    nodes: usize,
    /// Where clients reach the first node.
    pub door: Ipv4Addr,
}

/// The address of a node among the others. No other network sees it.
pub fn address(node: usize) -> String {
    format!("10.77.0.{}", node + 1)
}

impl Network {
    /// # Errors
    /// Why this machine makes no such networks.
    pub fn new(nodes: usize) -> Result<Network, String> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let process = std::process::id();
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let net = Ipv4Addr::new(10, 204, 0, 0).to_bits() + process % 4096 * 64 + count % 16 * 4;
        let network = Network {
            name: format!("thalweg-test-{process}-{count}"),
            link: format!("twc{process}-{count}"),
            nodes,
            door: (net + 2).into(),
        };
        // What was made before a step that fails ends with the network.
        network.steps().iter().try_for_each(|step| ip(step))?;
        Ok(network)
    }

    fn steps(&self) -> Vec<String> {
        let Network { name, link, door, .. } = self;
        let switch = format!("{name}-switch");
        let mut steps = vec![
            format!("netns add {switch}"),
            format!("-n {switch} link add switch type bridge"),
            format!("-n {switch} link set switch up"),
        ];
        for node in 0..self.nodes {
            let (host, port, address) = (self.host(node), format!("port{node}"), address(node));
            steps.extend([
                format!("netns add {host}"),
                format!("-n {switch} link add {port} type veth peer name net netns {host}"),
                format!("-n {switch} link set {port} master switch"),
                format!("-n {switch} link set {port} up"),
                format!("-n {host} addr add {address}/24 dev net"),
                format!("-n {host} link set net up"),
                format!("-n {host} link set lo up"),
            ]);
        }
        let (first, clients) = (self.host(0), Ipv4Addr::from(door.to_bits() - 1));
        steps.extend([
            format!("link add {link} type veth peer name clients netns {first}"),
            format!("addr add {clients}/30 dev {link}"),
            format!("link set {link} up"),
            format!("-n {first} addr add {door}/30 dev clients"),
            format!("-n {first} link set clients up"),
        ]);
        steps
    }

    fn host(&self, node: usize) -> String {
        format!("{}-{node}", self.name)
    }

    /// A program that is going to run where a node does.
    pub fn command(&self, node: usize, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.host(node), program]);
        command
    }

    /// From now on the node and the others do not reach each other.
    pub fn cut(&self, node: usize, cut: Cut) {
        self.change(node, cut, ["down", "nomaster"]);
    }

    pub fn mend(&self, node: usize, cut: Cut) {
        self.change(node, cut, ["up", "master switch"]);
    }

    fn change(&self, node: usize, cut: Cut, [link, cable]: [&str; 2]) {
        let step = match cut {
            Cut::Down => format!("-n {} link set net {link}", self.host(node)),
            Cut::Unplugged => format!("-n {}-switch link set port{node} {cable}", self.name),
        };
        ip(&step).unwrap();
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        // A namespace may outlive its name for a while; its link to here does not have to.
        let _ = ip(&format!("link del {}", self.link));
        for node in 0..self.nodes {
            let _ = ip(&format!("netns del {}", self.host(node)));
        }
        let _ = ip(&format!("netns del {}-switch", self.name));
    }
}

fn ip(arguments: &str) -> Result<(), String> {
    let ran = Command::new("ip").args(arguments.split(' ')).output();
    let ran = ran.map_err(|error| format!("ip: {error}"))?;
    if ran.status.success() {
        return Ok(());
    }
    Err(format!("ip {arguments}: {}", String::from_utf8_lossy(&ran.stderr).trim()))
}
