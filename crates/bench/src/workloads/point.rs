//! Rows looked up by key, over gRPC and over PostgreSQL's wire: the server on one core, the load on
//! another, peers in the same way.

use thalweg_types::Result;

use super::Workload;
use super::measure::{Work, WorkTargets, connected, in_turns, report};
use crate::account::CREATE;
use crate::clients::Connection;
use crate::context::{Context, Scratch};
use crate::finding::{Findings, Wanted};
use crate::load::{self, Target};
use crate::peers::{
    Call, Endpoint, Ours, Postgres, PreparedRows, Redis, Server, Tarantool, TarantoolSetup,
};

/// The workload, as registered in [`super::WORKLOADS`].
pub const WORKLOAD: Workload = Workload {
    name: "point",
    about: "rows looked up by key, the server on one core",
    run: |context| Box::pin(run(context)),
};

const KEYS: u64 = 1_000_000;
const ROUNDS: usize = 3;
/// Statements in one measurement of PostgreSQL's wire, and statements before each `Sync`.
const STATEMENTS: u64 = 200_000;
const TOGETHER: u64 = 100;

async fn run(context: &Context) -> Result<Findings> {
    let mut findings = Findings::default();
    let scratch = context.scratch_for_servers("point")?;
    let server = context.server_on_one_core(&scratch).await?;
    fill(&server.endpoint).await?;
    if context.wants("look-ups by key") {
        by_key(context, &server, &scratch, &mut findings).await?;
    }
    if context.wants("prepared SELECT by key") {
        statements(context, &server, &scratch, &mut findings).await?;
    }
    Ok(findings)
}

/// Creates a table with one row for each key.
pub async fn fill(endpoint: &Endpoint) -> Result<()> {
    let mut connection = Connection::open(endpoint).await?;
    connection.execute(CREATE).await?;
    let fill = format!(
        "INSERT INTO account SELECT i, i, lpad(i::text, 8, '0') \
         FROM generate_series(0, {}) AS s(i)",
        KEYS - 1
    );
    connection.execute(&fill).await.map(drop)
}

/// One key in each message, beside one in each request.
async fn by_key(
    context: &Context,
    server: &Server,
    scratch: &Scratch,
    findings: &mut Findings,
) -> Result<()> {
    let core = context.core_for_servers()?;
    let setup = TarantoolSetup { wal_mode: "none", net_msg_max: 65_536, lines: 1 };
    let (mut tarantool, mut redis) = (None, None);
    if context.peers {
        tarantool = Tarantool::start(scratch.path(), core, setup).await?;
        redis = Redis::start(scratch.path(), core, "off").await?;
    }
    let mut targets: Vec<Box<dyn Target + '_>> =
        vec![Box::new(Ours::new(server, Call::Search, KEYS))];
    for (missing, program) in
        [(tarantool.is_none(), "tarantool"), (redis.is_none(), "redis-server")]
    {
        if missing && context.peers {
            println!("  {program} is not installed: nothing is put beside it");
        }
    }
    if let Some(tarantool) = &tarantool {
        filled(&tarantool.work(false, KEYS, 1))?;
        targets.push(Box::new(tarantool.work(true, KEYS, 1)));
    }
    if let Some(redis) = &redis {
        filled(&redis.work(false, KEYS))?;
        targets.push(Box::new(redis.work(true, KEYS)));
    }
    let mut works: Vec<Work<'_>> =
        targets.iter().map(|target| Work::new(target.as_ref(), KEYS, ROUNDS)).collect();
    in_turns(context, &mut works)?;
    let note = format!("One stream; {KEYS} keys, each asked for {ROUNDS} times.");
    let work = "look-ups by key, 1 a message";
    let (rate, cpu) = (Wanted::AtLeast(1e6), Wanted::Nothing);
    report(&WorkTargets { work, rate, cpu, note: &note }, &works, findings);
    let batched = Ours::new(server, Call::Search, KEYS).batched(100);
    let mut works = [Work::new(&batched, KEYS, ROUNDS)];
    in_turns(context, &mut works)?;
    let work = "look-ups by key, 100 a message";
    report(&WorkTargets { work, rate: Wanted::Nothing, cpu, note: "" }, &works, findings);
    Ok(())
}

fn filled(target: &dyn Target) -> Result<()> {
    load::flood(connected(target)?, load::pieces(target, KEYS)).map(drop)
}

/// Prepared statements over PostgreSQL's wire, beside PostgreSQL.
async fn statements(
    context: &Context,
    server: &Server,
    scratch: &Scratch,
    findings: &mut Findings,
) -> Result<()> {
    let core = context.core_for_servers()?;
    let postgres = match context.postgres_programs() {
        Some(programs) => Some(Postgres::start_with(&programs, scratch.path(), core, &[]).await?),
        None => None,
    };
    if let Some(postgres) = &postgres {
        fill(&postgres.endpoint).await?;
        Connection::open(&postgres.endpoint).await?.execute("VACUUM ANALYZE account").await?;
    }
    for (together, rate) in [(TOGETHER, Wanted::AtLeast(200e3)), (1, Wanted::Nothing)] {
        let ours = Ours::new(server, Call::Select(together), KEYS);
        let peer = postgres.as_ref().map(|server| PreparedRows {
            server,
            name: server.endpoint.name.clone(),
            looks_up: true,
            keys: KEYS,
            together,
            lines: 1,
        });
        let mut works = vec![Work::new(&ours, STATEMENTS, 1)];
        works.extend(peer.as_ref().map(|peer| Work::new(peer, STATEMENTS, 1)));
        in_turns(context, &mut works)?;
        let work = format!("prepared SELECT by key, pipelined, Sync after {together}");
        let note = "One connection of PostgreSQL's wire, one core for the server.";
        let told = WorkTargets { work: &work, rate, cpu: Wanted::Nothing, note };
        report(&told, &works, findings);
    }
    Ok(())
}
