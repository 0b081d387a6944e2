//! The three patterns of communication over gRPC, beside grpc++ without a database: the server on
//! one core, the load on another.

use thalweg_protocol::v1::Durability;
use thalweg_types::Result;

use super::Workload;
use crate::context::Context;
use crate::finding::{Finding, Findings, Unit, Wanted};
use crate::load::{self, Target};
use crate::peers::{Call, GrpcBaseline, Ours, Pattern, Server};
use crate::samples::Samples;
use crate::workloads::point::fill;

/// The workload, as registered in [`super::WORKLOADS`].
pub const WORKLOAD: Workload = Workload {
    name: "patterns",
    about: "reads and writes that alternate, that wait for all, and that wait for nothing",
    run: |context| Box::pin(run(context)),
};

const KEYS: u64 = 1_000_000;
/// Makes the message of a row 24 bytes long.
const OWNER_BYTES: usize = 11;

/// A pattern, its name, the operations of one measurement, and the target rate of messages of one
/// operation.
const PATTERNS: [(Pattern, &str, u64, f64); 3] = [
    (Pattern::Each, "write and look up in turns, each waited for", 20_000, 20e3),
    (Pattern::All, "look up all, then receive all", 1_000_000, 1e6),
    (Pattern::None, "upsert all without a reply to each", 1_000_000, 1.5e6),
];

/// Number of operations of the published measurement.
const OPERATIONS: u64 = 540_000;
const BATCHES: [u64; 4] = [1, 10, 100, 1_000];
/// A smaller number, for messages that wait for the previous one.
const OPERATIONS_IN_TURNS: u64 = 54_000;
/// Published rates of patterns with one operation a message, and of batches in turns.
const PUBLISHED: [(Pattern, u64, &str); 5] = [
    (Pattern::Each, 1, "9960/s"),
    (Pattern::All, 1, "34197/s"),
    (Pattern::None, 1, "71489/s"),
    (Pattern::Each, 10, "85479/s"),
    (Pattern::Each, 100, "622246/s"),
];

async fn run(context: &Context) -> Result<Findings> {
    let mut findings = Findings::default();
    let scratch = context.scratch_for_servers("patterns")?;
    let core = context.core_for_servers()?;
    let grpc = match context.peers {
        true => GrpcBaseline::start(scratch.path(), core).await?,
        false => None,
    };
    if context.peers && grpc.is_none() {
        println!("  libgrpc++-dev with a compiler is not installed: nothing is put beside it");
    }
    let server = context.server_on_one_core(&scratch).await?;
    fill(&server.endpoint).await?;
    let wanted = PATTERNS.into_iter().filter(|(_, name, ..)| context.wants(name));
    for (pattern, name, operations, wanted) in wanted {
        let (mut ours, mut peers) = (Samples::default(), Samples::default());
        for _ in 0..context.repetitions {
            ours.push(rate(context, &server, pattern, operations, 1)?);
            if let Some(grpc) = &grpc {
                peers.push(baseline(grpc, pattern, operations, 1)?);
            }
        }
        report(name, 1, &ours, &peers);
        findings.push(
            Finding::new(name, Unit::StatementsPerSecond, ours)
                .beside("grpc++", peers)
                .wanted(Wanted::AtLeast(wanted))
                .noted("A message of a row is 24 bytes long; durability none."),
        );
    }
    for (pattern, name, ..) in PATTERNS {
        for batch in BATCHES {
            let in_turns = pattern == Pattern::Each && batch == 1;
            let operations = if in_turns { OPERATIONS_IN_TURNS } else { OPERATIONS };
            let work = format!("{operations} operations, {batch} a message: {name}");
            if !context.wants(&work) {
                continue;
            }
            let ours = Samples::from(rate(context, &server, pattern, operations, batch)?);
            let peers = match &grpc {
                Some(grpc) => Samples::from(baseline(grpc, pattern, operations, batch)?),
                None => Samples::default(),
            };
            report(name, batch, &ours, &peers);
            let finding = Finding::new(work, Unit::StatementsPerSecond, ours);
            findings.push(finding.beside("grpc++", peers).noted(published(pattern, batch)));
        }
    }
    Ok(findings)
}

fn report(name: &str, batch: u64, ours: &Samples, peers: &Samples) {
    let peers: Vec<String> = peers.iter().map(|rate| format!("{rate:.0}")).collect();
    println!("  {name}, {batch} a message: {:.0} op/s, grpc++ {}", ours.median(), peers.join(" "));
}

fn published(pattern: Pattern, batch: u64) -> String {
    let found = PUBLISHED.iter().find(|(of, size, _)| (*of, *size) == (pattern, batch));
    found.map_or_else(String::new, |(_, _, rate)| format!("Published of another system: {rate}."))
}

/// The rate of grpc++. Without answers, its messages may be joined or not; the better rate counts.
fn baseline(grpc: &GrpcBaseline, pattern: Pattern, operations: u64, batch: u64) -> Result<f64> {
    let plain = grpc.rate(pattern, operations, batch, false)?;
    match pattern {
        Pattern::None => Ok(plain.max(grpc.rate(pattern, operations, batch, true)?)),
        Pattern::Each | Pattern::All => Ok(plain),
    }
}

/// Our rate of operations a second.
fn rate(
    context: &Context,
    server: &Server,
    pattern: Pattern,
    operations: u64,
    batch: u64,
) -> Result<f64> {
    let ours = |call| Ours::new(server, call, KEYS).batched(batch).owners(OWNER_BYTES);
    let search = ours(Call::Search);
    let (began, operations) = match pattern {
        Pattern::Each => {
            let write = ours(Call::Write(Durability::None));
            let mut targets: [(&dyn Target, _); 2] =
                [(&write, write.connect()?), (&search, search.connect()?)];
            let began = context.seconds();
            (began, load::alternate(&mut targets, operations, batch)?)
        }
        Pattern::All => flooded(context, &search, operations)?,
        Pattern::None => flooded(context, &ours(Call::Upsert(Durability::None)), operations)?,
    };
    Ok(operations as f64 / (context.seconds() - began))
}

/// The start time, and the number of completed operations.
fn flooded(context: &Context, target: &dyn Target, operations: u64) -> Result<(f64, u64)> {
    let pieces = load::pieces(target, operations);
    let line = target.connect()?;
    let began = context.seconds();
    let (done, _) = load::flood(vec![line], pieces)?;
    Ok((began, done))
}
