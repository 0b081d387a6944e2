//! Redis as a peer: strings under keys, with a selectable durability of its log.

use std::ops::Range;
use std::path::Path;
use std::process::Command;

use thalweg_types::Result;

use super::daemon::{Daemon, free_port, on_core, program};
use crate::account::{Account, OWNER_BYTES, key};
use crate::errors::while_doing;
use crate::load::redis::{Resp, get, set};
use crate::load::{Line, Target};

/// A running Redis.
pub struct Redis {
    daemon: Daemon,
    port: u16,
    /// "Redis 7, AOF always".
    name: String,
}

impl Redis {
    /// Starts it on a core. `appendfsync` is `always`, `everysec`, or `off` for no log at all.
    /// `None` if Redis is not installed.
    pub async fn start(
        directory: &Path,
        core: Option<usize>,
        appendfsync: &str,
    ) -> Result<Option<Redis>> {
        let Some(redis) = program("redis-server") else { return Ok(None) };
        let said = Command::new(&redis).arg("--version").output();
        let said = said.map_err(while_doing("redis-server"))?.stdout;
        // "Redis server v=7.0.15 sha=…".
        let said = String::from_utf8_lossy(&said).into_owned();
        let major = said.split("v=").nth(1).and_then(|rest| rest.split('.').next());
        let port = free_port().await?;
        let files = directory.join(format!("redis-{port}"));
        std::fs::create_dir_all(&files).map_err(while_doing(files.display()))?;
        let mut command = on_core(core, &redis);
        command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", ""]);
        command.args(["--auto-aof-rewrite-percentage", "0", "--dir"]).arg(&files);
        match appendfsync {
            "off" => command.args(["--appendonly", "no"]),
            _ => command.args(["--appendonly", "yes", "--appendfsync", appendfsync]),
        };
        let ready = "Ready to accept connections";
        let daemon = Daemon::start(command, &files.join("log"), ready)?;
        let name = format!("Redis {}, AOF {appendfsync}", major.unwrap_or_default());
        Ok(Some(Redis { daemon, port, name }))
    }

    /// A load that writes rows of this many keys, or looks them up.
    pub fn work(&self, looks_up: bool, keys: u64) -> RedisWork<'_> {
        RedisWork { server: self, looks_up, keys }
    }
}

/// A load of Redis that writes rows or looks them up.
pub struct RedisWork<'a> {
    server: &'a Redis,
    looks_up: bool,
    keys: u64,
}

impl Target for RedisWork<'_> {
    fn name(&self) -> &str {
        &self.server.name
    }

    fn process(&self) -> u32 {
        self.server.daemon.process()
    }

    fn connect(&self) -> Result<Line> {
        Line::open(self.server.port, Box::new(Resp::default()))
    }

    fn requests(&self, numbers: Range<u64>, out: &mut Vec<u8>) {
        for number in numbers {
            match self.looks_up {
                true => get(key(number, self.keys), out),
                false => set(&Account::numbered(number, self.keys, OWNER_BYTES), out),
            }
        }
    }

    /// One iteration of its event loop, and thus one sync, covers the requests of all connections.
    fn lines(&self) -> usize {
        16
    }
}
