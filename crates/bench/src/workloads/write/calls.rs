//! System calls of each row, and rows of each `fdatasync`, under a flood.

use thalweg_types::Result;

use crate::context::Scratch;
use crate::finding::{Finding, Findings, Unit};
use crate::samples::Samples;
use crate::workloads::measure::{Work, beside};

/// Reports them for ours and for each peer.
pub fn flooded(scratch: &Scratch, works: &[Work<'_>], findings: &mut Findings) -> Result<()> {
    let mut each_row = Vec::new();
    let mut each_sync = Vec::new();
    for work in works {
        let Some(calls) = work.calls(scratch)? else {
            println!("  perf counts no system calls here");
            return Ok(());
        };
        let (name, rows) = (work.target.name(), work.operations() as f64);
        println!("  {name}: {:.4} system calls a row, {:.0} syncs", calls.all / rows, calls.syncs);
        each_row.push((name, calls.all / rows));
        // A server whose file was opened for synchronous writes makes no such calls.
        if calls.syncs > 0.0 {
            each_sync.push((name, rows / calls.syncs));
        }
    }
    for (what, unit, values) in [
        ("system calls a row, fsync, as many as it takes", Unit::Number, each_row),
        ("rows an fdatasync, as many as it takes", Unit::Number, each_sync),
    ] {
        let Some(((_, ours), peers)) = values.split_first() else { continue };
        let finding = Finding::new(what, unit, *ours);
        let peers = peers.iter().map(|(name, value)| (*name, Samples::from(*value)));
        findings.findings.extend(beside(&finding, peers));
    }
    Ok(())
}
