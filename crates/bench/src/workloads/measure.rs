//! Measurements of any server with rows by key: rates, processor time, latencies and system calls.

use bytes::Bytes;
use thalweg_types::{Error, Result};

use crate::context::{Context, Scratch};
use crate::counters::{Calls, SystemCalls, cpu_seconds_of};
use crate::finding::{Finding, Findings, Unit, Wanted};
use crate::load::{self, Line, Target};
use crate::samples::Samples;

/// Measurements of a flood of operations.
#[derive(Clone, Debug, Default)]
pub struct Flood {
    pub rates: Samples,
    /// Seconds of the server's processor for a million operations.
    pub cpu: Samples,
}

/// Operations that were encoded ahead, and the number of times that they are sent.
pub struct Work<'a> {
    pub target: &'a dyn Target,
    pieces: Vec<(Bytes, u64)>,
    rounds: usize,
    pub flood: Flood,
}

impl<'a> Work<'a> {
    /// Encodes the requests of `operations` operations, which one flood sends `rounds` times.
    pub fn new(target: &'a dyn Target, operations: u64, rounds: usize) -> Work<'a> {
        let pieces = load::pieces(target, operations);
        Work { target, pieces, rounds, flood: Flood::default() }
    }

    /// Number of operations of one flood.
    pub fn operations(&self) -> u64 {
        self.pieces.iter().map(|(_, operations)| operations).sum::<u64>() * self.rounds as u64
    }

    /// Sends all operations once without measuring: the first time, rows are new.
    pub fn warm(&self) -> Result<()> {
        load::flood(connected(self.target)?, self.pieces.iter().cloned()).map(drop)
    }

    /// Sends operations at full speed and records the rate.
    pub fn run(&mut self, context: &Context) -> Result<()> {
        let lines = connected(self.target)?;
        let pieces = (0..self.rounds).flat_map(|_| self.pieces.iter().cloned());
        let (cpu, began) = (cpu_seconds_of(self.target.process())?, context.seconds());
        let (operations, found) = load::flood(lines, pieces)?;
        let seconds = context.seconds() - began;
        let cpu = (cpu_seconds_of(self.target.process())? - cpu) / operations as f64 * 1e6;
        if found != 0 && found != operations {
            return Err(Error::internal(format!("{found} rows for {operations} look-ups")));
        }
        let rate = operations as f64 / seconds;
        println!("  {}: {rate:.0}/s, {cpu:.2} s a million", self.target.name());
        self.flood.rates.push(rate);
        self.flood.cpu.push(cpu);
        Ok(())
    }

    /// The system calls of one flood; `None` if they cannot be counted.
    pub fn calls(&self, scratch: &Scratch) -> Result<Option<Calls>> {
        let lines = connected(self.target)?;
        let counting = SystemCalls::count(self.target.process(), scratch.path())?;
        let Some(counting) = counting else { return Ok(None) };
        let pieces = (0..self.rounds).flat_map(|_| self.pieces.iter().cloned());
        load::flood(lines, pieces)?;
        Ok(Some(counting.counted()?))
    }
}

/// All connections of a load, opened anew.
pub fn connected(target: &dyn Target) -> Result<Vec<Line>> {
    (0..target.lines()).map(|_| target.connect()).collect()
}

/// Runs ours and its peers in turns.
pub fn in_turns(context: &Context, works: &mut [Work<'_>]) -> Result<()> {
    for work in works.iter() {
        work.warm()?;
    }
    for _ in 0..context.repetitions {
        for work in works.iter_mut() {
            work.run(context)?;
        }
    }
    Ok(())
}

/// The name of a work in the report, its targets and its note.
pub struct WorkTargets<'a> {
    pub work: &'a str,
    pub rate: Wanted,
    pub cpu: Wanted,
    pub note: &'a str,
}

/// Reports rates and processor time of the first work, which is ours, beside those of each peer.
pub fn report(told: &WorkTargets<'_>, works: &[Work<'_>], findings: &mut Findings) {
    let Some((ours, peers)) = works.split_first() else { return };
    let peers = |samples: fn(&Flood) -> &Samples| {
        peers.iter().map(move |peer| (peer.target.name(), samples(&peer.flood).clone()))
    };
    let rate = Finding::new(told.work, Unit::RowsPerSecond, ours.flood.rates.clone());
    let rate = rate.wanted(told.rate).noted(told.note);
    findings.findings.extend(beside(&rate, peers(|flood| &flood.rates)));
    let work = format!("server CPU a million, {}", told.work);
    let cpu = Finding::new(work, Unit::Seconds, ours.flood.cpu.clone()).wanted(told.cpu);
    findings.findings.extend(beside(&cpu, peers(|flood| &flood.cpu)));
}

/// A finding about ours beside each peer, or about ours alone if no peer is installed.
pub fn beside<'a>(
    finding: &Finding,
    peers: impl IntoIterator<Item = (&'a str, Samples)>,
) -> Vec<Finding> {
    let beside = |(name, samples)| finding.clone().beside(name, samples);
    let findings: Vec<Finding> = peers.into_iter().map(beside).collect();
    if findings.is_empty() { vec![finding.clone()] } else { findings }
}

/// The name of a latency, and the share of operations that are faster.
pub const PERCENTILES: [(&str, f64); 3] = [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999)];

/// A finding in seconds.
pub fn latency(work: String, seconds: f64) -> Finding {
    Finding::new(work, Unit::Seconds, seconds)
}
