//! Durable rows over gRPC: the server on one core, the load on another.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use thalweg_protocol::v1::Durability;
use thalweg_types::{Error, Result};

use super::Workload;
use crate::clients::Connection;
use crate::clients::records::{RecordStream, announcement, durable, upserts};
use crate::context::Context;
use crate::finding::{Finding, Findings, Unit, Wanted};
use crate::machine;
use crate::peers::Server;
use crate::samples::Samples;

pub const WORKLOAD: Workload = Workload {
    name: "write",
    about: "durable rows a second over gRPC, the server on one core",
    run: |context| Box::pin(run(context)),
};

const KEYS: u32 = 1_000_000;
/// How often all keys are written in one measurement.
const ROUNDS: u64 = 5;
const PIECE_BYTES: usize = 64 << 10;
/// A row in a message of its own, with its prefix.
const ROW_BYTES: usize = 26;

const CREATE: &str =
    "CREATE TABLE account (id integer PRIMARY KEY, amount integer NOT NULL, owner text NOT NULL)";

/// Rows of a message, what they must survive, and what is wanted.
const SHAPES: [(usize, Durability, f64); 4] = [
    (1, Durability::Fsync, 1e6),
    (100, Durability::Fsync, 3e6),
    (1, Durability::Write, 1e6),
    (1, Durability::None, 2e6),
];

/// Rates at which rows are offered, and how many each second is divided into.
const OFFERED: [u64; 2] = [10_000, 100_000];
const TICKS: u64 = 1_000;
const OFFERED_SECONDS: u64 = 5;

async fn run(context: &Context) -> Result<Findings> {
    let mut findings = Findings::default();
    let scratch = context.scratch_for_servers("write")?;
    let server = context.server_on_one_core(&scratch).await?;
    Connection::open(&server.endpoint).await?.execute(CREATE).await?;
    for (message_rows, durability, wanted) in SHAPES {
        let pieces = upserts(KEYS, message_rows, PIECE_BYTES);
        // The first time, all rows are new.
        flood(context, &server, &pieces, 1, durability).await?;
        let (mut rates, mut seconds) = (Samples::default(), Samples::default());
        for _ in 0..context.repetitions {
            let (rate, cpu) = flood(context, &server, &pieces, ROUNDS, durability).await?;
            println!(
                "  {message_rows} a message, {durability:?}: {rate:.0}/s, {cpu:.2} s a million"
            );
            rates.push(rate);
            seconds.push(cpu);
        }
        let shape = format!("{message_rows} a message, {}", name(durability));
        findings.push(
            Finding::new(format!("upserts, {shape}"), Unit::RowsPerSecond, rates)
                .wanted(Wanted::AtLeast(wanted))
                .noted(format!("One stream; {KEYS} keys, each written {ROUNDS} times.")),
        );
        findings.push(
            Finding::new(format!("server CPU a million, {shape}"), Unit::Seconds, seconds)
                .wanted(Wanted::AtMost(0.8)),
        );
    }
    for rate in OFFERED {
        latencies(context, &server, rate, &mut findings).await?;
    }
    Ok(findings)
}

fn name(durability: Durability) -> &'static str {
    match durability {
        Durability::Unspecified | Durability::Fsync => "fsync",
        Durability::Write => "write",
        Durability::None => "none",
    }
}

/// Sends as fast as it is taken; rows a second, and the server's CPU-seconds a million.
async fn flood(
    context: &Context,
    server: &Server,
    pieces: &[(Bytes, u64)],
    rounds: u64,
    durability: Durability,
) -> Result<(f64, f64)> {
    let mut stream = RecordStream::open(server.grpc_port, "Write").await?;
    let sender = stream.pieces();
    let rows: u64 = pieces.iter().map(|(_, rows)| rows).sum::<u64>() * rounds;
    let before = machine::cpu_seconds_of(server.process())?;
    let load = async move {
        sender.send(announcement("account", durability)).await.map_err(|_| ended())?;
        for _ in 0..rounds {
            for (piece, _) in pieces {
                sender.send(piece.clone()).await.map_err(|_| ended())?;
            }
        }
        Ok(())
    };
    let follow = async {
        while let Some(reply) = stream.reply().await? {
            if durable(&reply)? >= rows {
                return Ok(());
            }
        }
        Err(ended())
    };
    let both = async { futures::try_join!(load, follow).map(drop) };
    let (seconds, ()) = context.timed(both).await?;
    let cpu = machine::cpu_seconds_of(server.process())? - before;
    Ok((rows as f64 / seconds, cpu / rows as f64 * 1e6))
}

/// Sends at a fixed rate; how long rows take to be acknowledged.
async fn latencies(
    context: &Context,
    server: &Server,
    rate: u64,
    findings: &mut Findings,
) -> Result<()> {
    let mut stream = RecordStream::open(server.grpc_port, "Write").await?;
    let sender = stream.pieces();
    let tick_rows = rate / TICKS;
    // A piece of each tick: a row is 26 bytes with all that is around it.
    let pieces = upserts(KEYS, 1, tick_rows as usize * ROW_BYTES);
    let mut pieces = pieces.iter().filter(|(_, rows)| *rows == tick_rows).cycle();
    let ticks = TICKS * OFFERED_SECONDS;
    sender.send(announcement("account", Durability::Fsync)).await.map_err(|_| ended())?;
    let began = context.seconds();
    let mut due = VecDeque::new();
    let (mut sent, mut acknowledged) = (0_u64, 0_u64);
    let mut taken = Vec::with_capacity((ticks * tick_rows) as usize);
    let mut clock = tokio::time::interval(Duration::from_micros(1_000_000 / TICKS));
    while acknowledged < ticks * tick_rows {
        tokio::select! {
            _ = clock.tick(), if sent < ticks * tick_rows => {
                // What is late was due all the same.
                let at = began + (sent / tick_rows) as f64 / TICKS as f64;
                sent += tick_rows;
                due.push_back((sent, at));
                let (piece, _) = pieces.next().ok_or_else(ended)?;
                sender.send(piece.clone()).await.map_err(|_| ended())?;
            }
            reply = stream.reply() => {
                acknowledged = durable(&reply?.ok_or_else(ended)?)?;
                let now = context.seconds();
                while due.front().is_some_and(|(through, _)| *through <= acknowledged) {
                    let (_, at) = due.pop_front().expect("it was looked at");
                    taken.push(now - at);
                }
            }
        }
    }
    taken.sort_by(f64::total_cmp);
    for (name, share) in [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999)] {
        let place = ((taken.len() - 1) as f64 * share) as usize;
        println!("  {rate}/s offered: {name} {:.2} ms", taken[place] * 1e3);
        let work = format!("{name} of an fsync acknowledgement, {rate}/s offered");
        findings.push(Finding::new(work, Unit::Seconds, taken[place]));
    }
    Ok(())
}

fn ended() -> Error {
    Error::internal("the stream of records ended")
}
