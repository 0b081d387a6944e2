//! Rows looked up by key over gRPC, and the three patterns of communication: the server on one
//! core, the load on another.

use bytes::Bytes;
use prost::Message as _;
use thalweg_protocol::v1;
use thalweg_protocol::v1::Durability;
use thalweg_types::{Error, Result};

use super::Workload;
use crate::clients::Connection;
use crate::clients::records::{
    RecordStream, announcement, answered, durable, look_ups, searched, upserts,
};
use crate::context::Context;
use crate::errors::while_doing;
use crate::finding::{Finding, Findings, Unit, Wanted};
use crate::machine;
use crate::peers::Server;
use crate::samples::Samples;

pub const WORKLOAD: Workload = Workload {
    name: "point",
    about: "rows looked up by key over gRPC, the server on one core",
    run: |context| Box::pin(point(context)),
};

pub const PATTERNS: Workload = Workload {
    name: "patterns",
    about: "reads and writes that alternate, that wait for all, and that wait for nothing",
    run: |context| Box::pin(patterns(context)),
};

const KEYS: u32 = 1_000_000;
const ROUNDS: u64 = 3;
const PIECE_BYTES: usize = 64 << 10;
/// Operations that wait for each other, one after the other.
const ALTERNATING: u64 = 20_000;

const CREATE: &str =
    "CREATE TABLE account (id integer PRIMARY KEY, amount integer NOT NULL, owner text NOT NULL)";

async fn filled(server: &Server) -> Result<()> {
    let mut connection = Connection::open(&server.endpoint).await?;
    connection.execute(CREATE).await?;
    let fill = format!(
        "INSERT INTO account SELECT i, i, lpad(i::text, 8, '0') \
         FROM generate_series(0, {}) AS s(i)",
        KEYS - 1
    );
    connection.execute(&fill).await.map(drop)
}

async fn point(context: &Context) -> Result<Findings> {
    let mut findings = Findings::default();
    let scratch = context.scratch_for_servers("point")?;
    let server = context.server_on_one_core(&scratch).await?;
    filled(&server).await?;
    let pieces = look_ups(KEYS, PIECE_BYTES);
    let (mut rates, mut seconds) = (Samples::default(), Samples::default());
    for _ in 0..context.repetitions {
        let (rate, cpu) = search(context, &server, &pieces).await?;
        println!("  {rate:.0} look-ups/s, {cpu:.2} s a million");
        rates.push(rate);
        seconds.push(cpu);
    }
    findings.push(
        Finding::new("look-ups by key, 1 a message", Unit::RowsPerSecond, rates)
            .wanted(Wanted::AtLeast(1e6))
            .noted(format!("One stream; {KEYS} keys, each asked for {ROUNDS} times.")),
    );
    findings.push(Finding::new("server CPU a million look-ups", Unit::Seconds, seconds));
    Ok(findings)
}

/// Asks as fast as it is answered; rows a second, and the server's CPU-seconds a million.
async fn search(context: &Context, server: &Server, pieces: &[(Bytes, u64)]) -> Result<(f64, f64)> {
    let mut stream = RecordStream::open(server.grpc_port, "Search").await?;
    let sender = stream.pieces();
    let keys = u64::from(KEYS) * ROUNDS;
    let before = machine::cpu_seconds_of(server.process())?;
    let load = async move {
        sender.send(searched("account")).await.map_err(|_| ended())?;
        for _ in 0..ROUNDS {
            for (piece, _) in pieces {
                sender.send(piece.clone()).await.map_err(|_| ended())?;
            }
        }
        Ok(())
    };
    let follow = async {
        let mut rows = 0;
        while let Some(reply) = stream.reply().await? {
            let (through, found) = answered(&reply)?;
            rows += found;
            if through >= keys {
                break;
            }
        }
        if rows == keys { Ok(()) } else { Err(ended()) }
    };
    let (seconds, ()) = context.timed(async { futures::try_join!(load, follow).map(drop) }).await?;
    let cpu = machine::cpu_seconds_of(server.process())? - before;
    Ok((keys as f64 / seconds, cpu / keys as f64 * 1e6))
}

async fn patterns(context: &Context) -> Result<Findings> {
    let mut findings = Findings::default();
    let scratch = context.scratch_for_servers("patterns")?;
    let server = context.server_on_one_core(&scratch).await?;
    filled(&server).await?;
    let upserts = upserts(KEYS, 1, PIECE_BYTES);
    let look_ups = look_ups(KEYS, PIECE_BYTES);
    let mut samples = [Samples::default(), Samples::default(), Samples::default()];
    for _ in 0..context.repetitions {
        samples[0].push(alternate(context, &server).await?);
        samples[1].push(search(context, &server, &look_ups).await?.0);
        samples[2].push(no_response(context, &server, &upserts).await?);
        for (name, samples) in NAMES.iter().zip(&samples) {
            println!("  {name}: {:.0} op/s", samples.iter().last().unwrap_or_default());
        }
    }
    for ((name, wanted), samples) in NAMES.iter().zip([20e3, 1e6, 1.5e6]).zip(samples) {
        findings.push(
            Finding::new(*name, Unit::RowsPerSecond, samples).wanted(Wanted::AtLeast(wanted)),
        );
    }
    Ok(findings)
}

const NAMES: [&str; 3] = [
    "write and look up in turns, each waited for",
    "look up all, then receive all",
    "upsert all without a reply to each",
];

/// A write, its acknowledgement, a look-up, its answer, and again.
async fn alternate(context: &Context, server: &Server) -> Result<f64> {
    let mut write = RecordStream::open(server.grpc_port, "Write").await?;
    let mut search = RecordStream::open(server.grpc_port, "Search").await?;
    let (rows, keys) = (write.pieces(), search.pieces());
    rows.send(announcement("account", Durability::None)).await.map_err(|_| ended())?;
    keys.send(searched("account")).await.map_err(|_| ended())?;
    let (one_row, one_key) = (upserts(1, 1, 1), look_ups(1, 1));
    let turns = async {
        for turn in 1..=ALTERNATING / 2 {
            rows.send(one_row[0].0.clone()).await.map_err(|_| ended())?;
            while durable(&write.reply().await?.ok_or_else(ended)?)? < turn {}
            keys.send(one_key[0].0.clone()).await.map_err(|_| ended())?;
            while answered(&search.reply().await?.ok_or_else(ended)?)?.0 < turn {}
        }
        Ok(())
    };
    let (seconds, ()) = context.timed(turns).await?;
    Ok(ALTERNATING as f64 / seconds)
}

/// A stream that is answered once.
async fn no_response(context: &Context, server: &Server, pieces: &[(Bytes, u64)]) -> Result<f64> {
    let mut stream = RecordStream::open(server.grpc_port, "Upsert").await?;
    let sender = stream.pieces();
    let rows = u64::from(KEYS) * ROUNDS;
    let load = async move {
        sender.send(announcement("account", Durability::None)).await.map_err(|_| ended())?;
        for _ in 0..ROUNDS {
            for (piece, _) in pieces {
                sender.send(piece.clone()).await.map_err(|_| ended())?;
            }
        }
        Ok(())
    };
    let follow = async {
        let reply = stream.reply().await?.ok_or_else(ended)?;
        let summary = v1::WriteSummary::decode(reply.as_slice());
        let summary = summary.map_err(while_doing("reading a reply"))?;
        if summary.rows == rows { Ok(()) } else { Err(ended()) }
    };
    let (seconds, ()) = context.timed(async { futures::try_join!(load, follow).map(drop) }).await?;
    Ok(rows as f64 / seconds)
}

fn ended() -> Error {
    Error::internal("the stream of records ended")
}
