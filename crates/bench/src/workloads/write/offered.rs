//! Rows offered at fixed rates: the latency of their acknowledgements, and their cost.

use thalweg_protocol::v1::Durability;
use thalweg_types::Result;

use super::KEYS;
use super::peers::{fastest_tarantool, redis};
use crate::context::{Context, Scratch};
use crate::counters::{Calls, SystemCalls, percentile};
use crate::finding::{Finding, Findings, Unit, Wanted};
use crate::load::{self, Target};
use crate::peers::{Call, Ours, Server};
use crate::samples::Samples;
use crate::workloads::measure::{PERCENTILES, beside, connected, latency};

/// Rows a second.
const OFFERED: [f64; 2] = [10e3, 100e3];
const SECONDS: f64 = 5.0;
const BARE_SYNCS: u64 = 3_000;
/// Target for a row's latency relative to a bare durable write.
const BESIDE_BARE: f64 = 1.5;
/// Target for the system calls of a row under a flood relative to those at the lowest rate.
const FEWER_CALLS: f64 = 1.0 / 50.0;

/// Measures our server and its peers at each rate.
pub async fn run(
    context: &Context,
    server: &Server,
    scratch: &Scratch,
    findings: &mut Findings,
) -> Result<()> {
    let ours = Ours::new(server, Call::Write(Durability::Fsync), KEYS);
    let tarantool = fastest_tarantool(context, scratch, "fsync").await?;
    let redis = redis(context, scratch, "always").await?;
    let mut targets: Vec<Box<dyn Target + '_>> = vec![Box::new(ours)];
    if let Some((tarantool, setup)) = &tarantool {
        targets.push(Box::new(tarantool.work(false, KEYS, setup.lines)));
    }
    targets.extend(redis.iter().map(|redis| Box::new(redis.work(false, KEYS)) as Box<dyn Target>));
    for rate in OFFERED {
        // The disk's speed varies: it is measured in the same minute.
        let bare = context.bare_syncs(scratch.path(), BARE_SYNCS)?;
        let mut taken = Vec::new();
        for target in &targets {
            let mut lines = connected(target.as_ref())?;
            let latencies = load::latencies(target.as_ref(), &mut lines, rate, SECONDS)?;
            let [p50, p99, p999] = PERCENTILES.map(|(_, share)| percentile(&latencies, share));
            println!(
                "  {rate:.0}/s offered, {}: p50 {:.3} ms, p99 {:.3}, p99.9 {:.3}",
                target.name(),
                p50 * 1e3,
                p99 * 1e3,
                p999 * 1e3
            );
            taken.push((target.name(), latencies));
        }
        report(rate, &taken, &bare, findings);
    }
    calls(&ours, scratch, findings)
}

fn report(rate: f64, taken: &[(&str, Vec<f64>)], bare: &[f64], findings: &mut Findings) {
    let Some(((_, ours), peers)) = taken.split_first() else { return };
    for (name, share) in PERCENTILES {
        let work = format!("{name} of an fsync acknowledgement, {rate:.0}/s offered");
        let finding = latency(work, percentile(ours, share));
        let bare = Samples::from(percentile(bare, share));
        let mut beside_bare = finding.clone().beside("a bare fdatasync", bare);
        if rate == OFFERED[0] && share == 0.5 {
            beside_bare = beside_bare.wanted(Wanted::RatioAtMost(BESIDE_BARE));
        }
        findings.push(beside_bare);
        if !peers.is_empty() {
            let peers =
                peers.iter().map(|(name, taken)| (*name, Samples::from(percentile(taken, share))));
            findings.findings.extend(beside(&finding, peers));
        }
    }
}

/// System calls of each row under a flood beside those at the lowest rate.
fn calls(ours: &Ours<'_>, scratch: &Scratch, findings: &mut Findings) -> Result<()> {
    let rows = KEYS as f64;
    let pieces = load::pieces(ours, KEYS);
    let Some(flooded) = counted(ours, scratch, || load::flood(connected(ours)?, pieces).map(drop))?
    else {
        return Ok(());
    };
    let mut each_sync = Vec::new();
    let mut each_row = Vec::new();
    for rate in OFFERED {
        let mut lines = connected(ours)?;
        let offered = || load::latencies(ours, &mut lines, rate, SECONDS).map(drop);
        let Some(calls) = counted(ours, scratch, offered)? else { return Ok(()) };
        each_row.push(calls.all / (rate * SECONDS));
        each_sync.push(rate * SECONDS / calls.syncs);
        println!(
            "  {rate:.0}/s offered: {:.3} system calls a row, {:.1} rows an fdatasync",
            calls.all / (rate * SECONDS),
            rate * SECONDS / calls.syncs
        );
    }
    let work = "system calls a row, fsync, as many as it takes";
    findings.push(
        Finding::new(work, Unit::Number, flooded.all / rows)
            .beside("ours at 10000/s", Samples::from(each_row[0]))
            .wanted(Wanted::RatioAtMost(FEWER_CALLS)),
    );
    for (rate, rows) in OFFERED.iter().zip(each_sync) {
        let work = format!("rows an fdatasync, {rate:.0}/s offered");
        findings.push(Finding::new(work, Unit::Number, rows));
    }
    Ok(())
}

fn counted(
    ours: &Ours<'_>,
    scratch: &Scratch,
    work: impl FnOnce() -> Result<()>,
) -> Result<Option<Calls>> {
    let Some(counting) = SystemCalls::count(ours.process(), scratch.path())? else {
        return Ok(None);
    };
    work()?;
    counting.counted().map(Some)
}
