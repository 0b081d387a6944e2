//! Peers with the durability of a shape of ours, each with its fastest settings.

use thalweg_types::Result;

use super::{KEYS, ROUNDS};
use crate::account::CREATE;
use crate::clients::Connection;
use crate::context::{Context, Scratch};
use crate::load::{self, Target};
use crate::peers::{Postgres, PreparedRows, Redis, Tarantool, TarantoolSetup};
use crate::workloads::measure::connected;

/// Rows that PostgreSQL writes in one measurement, each in a transaction of its own.
const POSTGRES_ROWS: u64 = 64_000;
const POSTGRES_CONNECTIONS: usize = 16;
/// Rows of the trials that find the fastest settings.
const TRIED_ROWS: u64 = 400_000;

/// The peers that are installed and running.
#[derive(Default)]
pub struct Peers {
    tarantool: Option<(Tarantool, TarantoolSetup)>,
    redis: Option<Redis>,
    postgres: Option<(Postgres, u64, String)>,
}

impl Peers {
    /// Starts the peers of a shape.
    pub async fn start(context: &Context, scratch: &Scratch, shape: &str) -> Result<Peers> {
        let core = context.core_for_servers()?;
        let (wal_mode, appendfsync, commit, together) = match shape {
            "fsync" => (Some("fsync"), Some("always"), Some("on"), 1),
            "fsync, 100 rows a message" => (None, None, Some("on"), 100),
            "write" => (Some("write"), Some("everysec"), Some("off"), 1),
            "none" => (Some("none"), Some("off"), None, 1),
            _ => (None, None, None, 1),
        };
        let mut peers = Peers::default();
        if let Some(wal_mode) = wal_mode {
            peers.tarantool = fastest_tarantool(context, scratch, wal_mode).await?;
        }
        if let Some(appendfsync) = appendfsync {
            peers.redis = redis(context, scratch, appendfsync).await?;
        }
        if let (Some(commit), Some(programs)) = (commit, context.postgres_programs()) {
            let directory = scratch.path().join(format!("postgres-{commit}-{together}"));
            let setting = format!("synchronous_commit={commit}");
            let postgres = Postgres::start_with(&programs, &directory, core, &[&setting]).await?;
            Connection::open(&postgres.endpoint).await?.execute(CREATE).await?;
            let rows = if together == 1 { "a row".to_owned() } else { format!("{together} rows") };
            let name = format!("{}, {setting}, {rows} a transaction", postgres.endpoint.name);
            peers.postgres = Some((postgres, together, name));
        }
        Ok(peers)
    }

    /// The load of each peer, and its number of operations.
    pub fn targets(&self) -> Vec<(Box<dyn Target + '_>, u64)> {
        let mut targets: Vec<(Box<dyn Target + '_>, u64)> = Vec::new();
        if let Some((tarantool, setup)) = &self.tarantool {
            targets.push((Box::new(tarantool.work(false, KEYS, setup.lines)), KEYS));
        }
        if let Some(redis) = &self.redis {
            targets.push((Box::new(redis.work(false, KEYS)), KEYS));
        }
        if let Some((server, together, name)) = &self.postgres {
            let rows = PreparedRows {
                server,
                name: name.clone(),
                looks_up: false,
                keys: KEYS,
                together: *together,
                lines: POSTGRES_CONNECTIONS,
            };
            targets.push((Box::new(rows), POSTGRES_ROWS));
        }
        targets
    }

    /// Number of times that a measurement repeats its operations.
    pub fn rounds(operations: u64) -> usize {
        if operations < KEYS { 1 } else { ROUNDS }
    }
}

/// Tarantool with its fastest settings.
pub async fn fastest_tarantool(
    context: &Context,
    scratch: &Scratch,
    wal_mode: &'static str,
) -> Result<Option<(Tarantool, TarantoolSetup)>> {
    if !context.peers {
        return Ok(None);
    }
    let core = context.core_for_servers()?;
    let mut fastest: Option<(f64, TarantoolSetup)> = None;
    for setup in TarantoolSetup::all(wal_mode) {
        let Some(server) = Tarantool::start(scratch.path(), core, setup).await? else { break };
        let work = server.work(false, KEYS, setup.lines);
        let pieces = load::pieces(&work, TRIED_ROWS);
        load::flood(connected(&work)?, pieces.iter().cloned())?;
        let began = context.seconds();
        load::flood(connected(&work)?, pieces)?;
        let seconds = context.seconds() - began;
        println!("  tried {}: {:.0}/s", work.name(), TRIED_ROWS as f64 / seconds);
        if fastest.is_none_or(|(least, _)| seconds < least) {
            fastest = Some((seconds, setup));
        }
    }
    told_missing("tarantool", fastest.is_none());
    let Some((_, setup)) = fastest else { return Ok(None) };
    let server = Tarantool::start(scratch.path(), core, setup).await?;
    Ok(server.map(|server| (server, setup)))
}

/// Redis with the given setting of `appendfsync`.
pub async fn redis(
    context: &Context,
    scratch: &Scratch,
    appendfsync: &str,
) -> Result<Option<Redis>> {
    if !context.peers {
        return Ok(None);
    }
    let core = context.core_for_servers()?;
    let redis = Redis::start(scratch.path(), core, appendfsync).await?;
    told_missing("redis-server", redis.is_none());
    Ok(redis)
}

fn told_missing(program: &str, missing: bool) {
    if missing {
        println!("  {program} is not installed: nothing is put beside it");
    }
}
