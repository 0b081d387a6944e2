//! Tarantool as a peer: a space in memory with a hash index, with a selectable durability of its
//! log.

use std::ops::Range;
use std::path::Path;
use std::process::Command;

use thalweg_types::Result;

use super::daemon::{Daemon, free_port, on_core, program};
use crate::account::{Account, OWNER_BYTES, key};
use crate::errors::while_doing;
use crate::load::iproto::{Iproto, SPACE, replace, select};
use crate::load::{Line, Target};

/// Bytes that it reads at once. With the default of 16 KiB, one connection stops at this limit long
/// before it reaches the limit of requests.
const READAHEAD: u32 = 1 << 20;

/// A running Tarantool.
pub struct Tarantool {
    daemon: Daemon,
    port: u16,
    /// "Tarantool 2.6, wal_mode=fsync".
    name: String,
}

/// Settings of Tarantool.
#[derive(Clone, Copy, Debug)]
pub struct TarantoolSetup {
    /// `none`, `write` or `fsync`.
    pub wal_mode: &'static str,
    /// Maximum number of requests in progress; 768 by default.
    pub net_msg_max: u32,
    pub lines: usize,
}

impl TarantoolSetup {
    /// The settings among which the fastest ones are chosen.
    pub fn all(wal_mode: &'static str) -> impl Iterator<Item = TarantoolSetup> {
        [(768, 1), (768, 4), (8_192, 1), (65_536, 1), (65_536, 4)]
            .into_iter()
            .map(move |(net_msg_max, lines)| TarantoolSetup { wal_mode, net_msg_max, lines })
    }
}

impl Tarantool {
    /// Starts Tarantool on a core; `None` if it is not installed.
    pub async fn start(
        directory: &Path,
        core: Option<usize>,
        setup: TarantoolSetup,
    ) -> Result<Option<Tarantool>> {
        let Some(tarantool) = program("tarantool") else { return Ok(None) };
        let said = Command::new(&tarantool).arg("--version").output();
        let said = said.map_err(while_doing("tarantool"))?.stdout;
        // "Tarantool 2.6.0-0-g47aa4e01e".
        let version = String::from_utf8_lossy(&said).split(['-', '\n']).next().map(str::to_owned);
        let TarantoolSetup { wal_mode, net_msg_max, lines } = setup;
        let connections = if lines == 1 { "1 connection" } else { "4 connections" };
        let name = format!(
            "{}, wal_mode={wal_mode}, net_msg_max={net_msg_max}, {connections}",
            version.unwrap_or_default()
        );
        let port = free_port().await?;
        let files = directory.join(format!("tarantool-{port}"));
        std::fs::create_dir_all(&files).map_err(while_doing(files.display()))?;
        let script = files.join("start.lua");
        write(&script, &start_script(&files, port, setup))?;
        let mut command = on_core(core, &tarantool);
        command.arg(&script).current_dir(&files);
        let daemon = Daemon::start(command, &files.join("log"), "Ready.")?;
        Ok(Some(Tarantool { daemon, port, name }))
    }

    /// A load that writes rows of this many keys, or looks them up.
    pub fn work(&self, looks_up: bool, keys: u64, lines: usize) -> TarantoolWork<'_> {
        TarantoolWork { server: self, looks_up, keys, lines }
    }
}

fn start_script(files: &Path, port: u16, setup: TarantoolSetup) -> String {
    let TarantoolSetup { wal_mode, net_msg_max, .. } = setup;
    let files = files.display();
    format!(
        "box.cfg{{listen = {port}, work_dir = '{files}', memtx_memory = 4 * 1024 ^ 3, \
         wal_mode = '{wal_mode}', net_msg_max = {net_msg_max}, readahead = {READAHEAD}, \
         checkpoint_interval = 0, log_level = 3}}\n\
         box.schema.user.grant('guest', 'read,write,execute', 'universe')\n\
         local space = box.schema.space.create('account', {{id = {SPACE}}})\n\
         space:create_index('primary', {{type = 'hash', parts = {{1, 'unsigned'}}}})\n\
         print('Ready.')\n\
         io.stdout:flush()\n"
    )
}

#[expect(clippy::disallowed_methods, reason = "a server's script, not a database's file")]
fn write(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text).map_err(while_doing(path.display()))
}

/// A load of Tarantool that writes rows or looks them up.
pub struct TarantoolWork<'a> {
    server: &'a Tarantool,
    looks_up: bool,
    keys: u64,
    lines: usize,
}

impl Target for TarantoolWork<'_> {
    fn name(&self) -> &str {
        &self.server.name
    }

    fn process(&self) -> u32 {
        self.server.daemon.process()
    }

    fn connect(&self) -> Result<Line> {
        Line::open(self.server.port, Box::new(Iproto::default()))
    }

    fn requests(&self, numbers: Range<u64>, out: &mut Vec<u8>) {
        for number in numbers {
            match self.looks_up {
                true => select(number as u32, key(number, self.keys), out),
                false => {
                    replace(number as u32, &Account::numbered(number, self.keys, OWNER_BYTES), out);
                }
            }
        }
    }

    fn lines(&self) -> usize {
        self.lines
    }
}
