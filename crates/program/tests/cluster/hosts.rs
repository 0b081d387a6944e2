//! Hosts of a cluster's workers: network namespaces, each with a link to where the tests run.

use std::net::Ipv4Addr;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// A host on this machine, which ends with the test.
pub struct Host {
    name: String,
    /// Its own address.
    pub inside: Ipv4Addr,
    /// That of everybody else, as seen from it.
    pub outside: Ipv4Addr,
}

/// Which way packets are lost.
#[derive(Clone, Copy, Debug)]
pub enum Way {
    To,
    From,
}

impl Host {
    /// A new one; `None` where this machine makes no such hosts.
    pub fn new() -> Option<Host> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let process = std::process::id();
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("tw{process}-{count}");
        let net = Ipv4Addr::new(10, 203, 0, 0).to_bits() + (process % 1000) * 64 + count * 4;
        let host = Host { name, inside: (net + 2).into(), outside: (net + 1).into() };
        let Host { name, inside, outside } = &host;
        if !ip(&format!("netns add {name}")) {
            return None;
        }
        let steps = [
            format!("link add {name} type veth peer name inside netns {name}"),
            format!("addr add {outside}/30 dev {name}"),
            format!("link set {name} up"),
            format!("-n {name} addr add {inside}/30 dev inside"),
            format!("-n {name} link set inside up"),
            format!("-n {name} link set lo up"),
        ];
        steps.iter().all(|step| ip(step)).then_some(host)
    }

    /// A program that is going to run there.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name, program]);
        command
    }

    /// From now on packets of one way get lost.
    pub fn cut(&self, way: Way) {
        assert!(ip(&self.route("add", way)));
    }

    pub fn mend(&self, way: Way) {
        assert!(ip(&self.route("del", way)));
    }

    fn route(&self, change: &str, way: Way) -> String {
        let Host { name, inside, outside } = self;
        match way {
            Way::To => format!("route {change} blackhole {inside}/32"),
            Way::From => format!("-n {name} route {change} blackhole {outside}/32"),
        }
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let way_to = self.route("del", Way::To);
        let _ = (ip(&way_to), ip(&format!("netns del {}", self.name)));
    }
}

fn ip(arguments: &str) -> bool {
    let ran = Command::new("ip").args(arguments.split(' ')).output();
    ran.is_ok_and(|ran| ran.status.success())
}
