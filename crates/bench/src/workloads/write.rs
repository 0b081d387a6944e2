//! Durable rows over gRPC: the server on one core, the load on another, peers in the same way.

mod calls;
mod offered;
mod peers;

use thalweg_protocol::v1::Durability;
use thalweg_types::Result;

use self::peers::Peers;
use super::Workload;
use super::measure::{Flood, Work, WorkTargets, in_turns, report};
use crate::account::CREATE;
use crate::clients::Connection;
use crate::context::Context;
use crate::finding::{Finding, Findings, Unit, Wanted};
use crate::peers::{Call, Ours};
use crate::samples::Samples;

/// The workload, as registered in [`super::WORKLOADS`].
pub const WORKLOAD: Workload = Workload {
    name: "write",
    about: "durable rows a second over gRPC, the server on one core",
    run: |context| Box::pin(run(context)),
};

const KEYS: u64 = 1_000_000;
/// Number of times that one measurement writes all keys.
const ROUNDS: usize = 3;

/// A way to send rows.
struct Shape {
    name: &'static str,
    call: Call,
    message_rows: u64,
    /// Rows a second.
    wanted: f64,
}

const SHAPES: [Shape; 5] = [
    Shape { name: "fsync", call: Call::Write(Durability::Fsync), message_rows: 1, wanted: 1e6 },
    Shape {
        name: "fsync, 100 rows a message",
        call: Call::Write(Durability::Fsync),
        message_rows: 100,
        wanted: 3e6,
    },
    Shape {
        name: "fsync, Arrow batches of 1000",
        call: Call::WriteArrow(Durability::Fsync),
        message_rows: 1_000,
        wanted: 3e6,
    },
    Shape { name: "write", call: Call::Write(Durability::Write), message_rows: 1, wanted: 1e6 },
    Shape { name: "none", call: Call::Write(Durability::None), message_rows: 1, wanted: 2e6 },
];

/// Target for a million rows: at most this many seconds of the server's processor.
const CPU_WANTED: f64 = 0.8;
/// Target for the rows per second of processor time, relative to Tarantool's.
const BESIDE_TARANTOOL: f64 = 2.0;

async fn run(context: &Context) -> Result<Findings> {
    let mut findings = Findings::default();
    let scratch = context.scratch_for_servers("write")?;
    let server = context.server_on_one_core(&scratch).await?;
    Connection::open(&server.endpoint).await?.execute(CREATE).await?;
    let mut ours_fsync = None;
    for shape in SHAPES.iter().filter(|shape| context.wants(shape.name)) {
        println!("  {}:", shape.name);
        let peers = Peers::start(context, &scratch, shape.name).await?;
        let ours = Ours::new(&server, shape.call, KEYS).batched(shape.message_rows);
        let targets = peers.targets();
        let mut works = vec![Work::new(&ours, KEYS, ROUNDS)];
        works.extend(targets.iter().map(|(target, operations)| {
            Work::new(target.as_ref(), *operations, Peers::rounds(*operations))
        }));
        in_turns(context, &mut works)?;
        let told = WorkTargets {
            work: &format!("upserts, {}", shape.name),
            rate: Wanted::AtLeast(shape.wanted),
            cpu: Wanted::AtMost(CPU_WANTED),
            note: &format!("One stream; {KEYS} keys, each written {ROUNDS} times."),
        };
        report(&told, &works, &mut findings);
        match shape.name {
            "fsync" => {
                calls::flooded(&scratch, &works, &mut findings)?;
                ours_fsync = Some(works[0].flood.clone());
            }
            "write" => a_cpu_second(ours_fsync.as_ref(), &works, &mut findings),
            _ => {}
        }
    }
    if context.wants("offered") {
        offered::run(context, &server, &scratch, &mut findings).await?;
    }
    Ok(findings)
}

/// Reports our synced rows beside Tarantool's unsynced ones, for the same processor time.
fn a_cpu_second(ours: Option<&Flood>, works: &[Work<'_>], findings: &mut Findings) {
    let each_second = |flood: &Flood| flood.cpu.iter().map(|cpu| 1e6 / cpu).collect::<Samples>();
    let tarantool = works.iter().find(|work| work.target.name().starts_with("Tarantool"));
    if let (Some(ours), Some(tarantool)) = (ours, tarantool) {
        let work = "upserts a CPU-second, ours with fsync";
        findings.push(
            Finding::new(work, Unit::RowsPerSecond, each_second(ours))
                .beside(tarantool.target.name(), each_second(&tarantool.flood))
                .wanted(Wanted::RatioAtLeast(BESIDE_TARANTOOL)),
        );
    }
}
