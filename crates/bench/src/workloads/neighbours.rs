//! Clients that share a server: writers with a permanently running scan, and small clients with one
//! that sends as much as it can.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use thalweg_protocol::v1::Durability;
use thalweg_types::{Error, Result};

use super::Workload;
use super::measure::{PERCENTILES, latency};
use crate::account::CREATE;
use crate::clients::Connection;
use crate::context::Context;
use crate::counters::percentile;
use crate::errors::while_doing;
use crate::finding::{Finding, Findings, Unit, Wanted};
use crate::load::{self, Line, Pace, Target};
use crate::machine;
use crate::peers::{Call, Endpoint, Ours, Server};
use crate::samples::Samples;

/// The workload, as registered in [`super::WORKLOADS`].
pub const WORKLOAD: Workload = Workload {
    name: "neighbours",
    about: "writers beside a scan, and a thousand small clients beside a firehose",
    run: |context| Box::pin(run(context)),
};

const KEYS: u64 = 1_000_000;
/// Rows a second that the writer offers while a scan runs.
const OFFERED: f64 = 500e3;
const SECONDS: f64 = 5.0;
const SCAN: &str = "SELECT amount % 100, count(*), sum(amount), max(owner) FROM account GROUP BY 1";
const KEPT: f64 = 0.75;

const SMALL_CLIENTS: usize = 1_000;
/// Rows a second that all small clients together offer.
const SMALL_RATE: f64 = 10e3;
const SLOWER: f64 = 5.0;
/// Files and sockets that this process has open beside its clients, with room to spare.
const OTHER_FILES: usize = 100;

async fn run(context: &Context) -> Result<Findings> {
    let mut findings = Findings::default();
    if context.wants("scan") {
        scan(context, &mut findings).await?;
    }
    if context.wants("firehose") {
        firehose(context, &mut findings).await?;
    }
    Ok(findings)
}

/// The server has every core, including the load's.
async fn scan(context: &Context, findings: &mut Findings) -> Result<()> {
    let scratch = context.scratch_for_servers("scan")?;
    let server = context.server(&scratch).await?;
    let ours = filled(&server).await?;
    let (mut alone, mut beside, mut scans) =
        (Samples::default(), Samples::default(), Samples::default());
    for _ in 0..context.repetitions {
        alone.push(offered(&ours)?);
        let scanning = Scanning::start(&server.endpoint);
        let rate = offered(&ours)?;
        scans.push(scanning.end().await? as f64 / SECONDS);
        beside.push(rate);
        println!("  {:.0} rows/s, {rate:.0} beside a scan", alone.iter().last().unwrap_or(rate));
    }
    let work = format!("rows a second of {OFFERED:.0} offered, fsync, beside a scan");
    findings.push(
        Finding::new(work, Unit::RowsPerSecond, beside)
            .beside("ours without a scan", alone)
            .wanted(Wanted::RatioAtLeast(KEPT))
            .noted(format!("All of two cores for the server, the load and `{SCAN}`.")),
    );
    findings.push(Finding::new("scans of a million rows a second meanwhile", Unit::Number, scans));
    Ok(())
}

async fn filled(server: &Server) -> Result<Ours<'_>> {
    Connection::open(&server.endpoint).await?.execute(CREATE).await?;
    let ours = Ours::new(server, Call::Write(Durability::Fsync), KEYS);
    load::flood(vec![ours.connect()?], load::pieces(&ours, KEYS))?;
    Ok(ours)
}

/// Acknowledged rows a second, at the fixed rate of offered rows.
fn offered(ours: &Ours<'_>) -> Result<f64> {
    let mut lines = vec![ours.connect()?];
    let offer = (OFFERED, SECONDS);
    let seconds = load::offer(ours, &mut lines, offer, Pace::Rest, |_| {}, || Ok(()))?;
    Ok(OFFERED * SECONDS / seconds)
}

/// A connection that repeats a query.
struct Scanning {
    end: Arc<AtomicBool>,
    scans: Arc<AtomicU64>,
    task: tokio::task::JoinHandle<Result<()>>,
}

impl Scanning {
    fn start(server: &Endpoint) -> Scanning {
        let (end, scans) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (ended, counted, server) = (Arc::clone(&end), Arc::clone(&scans), server.clone());
        let task = tokio::spawn(async move {
            let mut connection = Connection::open(&server).await?;
            while !ended.load(Ordering::Relaxed) {
                connection.execute(SCAN).await?;
                counted.fetch_add(1, Ordering::Relaxed);
            }
            Ok(())
        });
        Scanning { end, scans, task }
    }

    /// Stops and returns the number of scans.
    async fn end(self) -> Result<u64> {
        self.end.store(true, Ordering::Relaxed);
        let ended = self.task.await.map_err(while_doing("a scan"))?;
        ended.map(|()| self.scans.load(Ordering::Relaxed))
    }
}

/// The server runs on one core, all clients on the other.
async fn firehose(context: &Context, findings: &mut Findings) -> Result<()> {
    let scratch = context.scratch_for_servers("firehose")?;
    let server = context.server_on_one_core(&scratch).await?;
    let ours = filled(&server).await?;
    let clients = SMALL_CLIENTS.min(machine::open_files_allowed()?.saturating_sub(OTHER_FILES));
    let lines: Result<Vec<Line>> = (0..clients).map(|_| ours.connect()).collect();
    let mut lines = lines?;
    // The first rows open the streams.
    for line in &mut lines {
        let mut row = Vec::new();
        ours.requests(0..1, &mut row);
        line.push(row);
    }
    while lines.iter().any(|line| line.answered() == 0) {
        for line in &mut lines {
            line.turn()?;
        }
    }
    let unloaded = load::latencies(&ours, &mut lines, SMALL_RATE, SECONDS)?;
    let pieces = load::pieces(&ours, KEYS);
    let mut all = pieces.iter().cycle();
    let mut hose = ours.connect()?;
    let mut loaded = Vec::new();
    let flood = || {
        if hose.has_room() {
            let (piece, _) = all.next().ok_or_else(|| Error::internal("no rows to send"))?;
            hose.push(piece.clone());
        }
        hose.turn().map(drop)
    };
    let offer = (SMALL_RATE, SECONDS);
    let told = |latency| loaded.push(latency);
    let seconds = load::offer(&ours, &mut lines, offer, Pace::Spin, told, flood)?;
    loaded.sort_by(f64::total_cmp);
    let rate = hose.answered() as f64 / seconds;
    println!("  the firehose: {rate:.0} rows/s");
    for (name, share) in PERCENTILES {
        let (with, without) = (percentile(&loaded, share), percentile(&unloaded, share));
        println!("  {name}: {:.2} ms, {:.2} without the firehose", with * 1e3, without * 1e3);
        let work = format!("{name} of {clients} small clients beside a firehose, fsync");
        let finding = latency(work, with).beside("ours without it", Samples::from(without));
        findings.push(match name {
            "p99" => finding.wanted(Wanted::RatioAtMost(SLOWER)),
            _ => finding,
        });
    }
    findings.push(Finding::new("what the firehose writes meanwhile", Unit::RowsPerSecond, rate));
    Ok(())
}
