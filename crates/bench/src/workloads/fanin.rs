//! Reads from many workers at once: the three modes side by side, in the table of the published
//! measurements.

use prost::Message as _;
use thalweg_cluster::chunks::Message;
use thalweg_cluster::link::NodeName;
use thalweg_cluster::times::Times;
use thalweg_env::Env;
use thalweg_types::{Error, Result};

use super::Workload;
use crate::context::Context;
use crate::fan_in::{FanIn, FanInOptions, Mode, Question, Reader, Stop};
use crate::finding::{Finding, Findings, Unit, Wanted};
use crate::machine;
use crate::nodes::{BytesWanted, NodeProcess, local};
use crate::samples::Samples;

/// The workload, as registered in [`super::WORKLOADS`].
pub const WORKLOAD: Workload = Workload {
    name: "fanin",
    about: "16 and 2,160 workers read at once, in the modes sync, async and hybrid",
    run: |context| Box::pin(run(context)),
};

const WORKERS: [usize; 2] = [16, 2_160];
const CHUNK_BYTES: [u64; 5] = [48, 141, 723, 21_700, 256 << 10];
const MODES: [Mode; 3] = [Mode::Sync, Mode::Async, Mode::Hybrid];
/// Maximum bytes that all workers send together, unless one chunk of each is more.
const ALL_BYTES: u64 = 1 << 30;
/// Files that a process needs beside a socket for each worker.
const SPARE_FILES: usize = 256;

async fn run(context: &Context) -> Result<Findings> {
    let mut findings = Findings::default();
    for workers in WORKERS {
        if machine::open_files_allowed()? < 2 * workers + SPARE_FILES {
            println!("  too few files may be open for {workers} workers: they are left out");
            continue;
        }
        let nodes = NodeProcess::start(context, &["workers", &workers.to_string()])?;
        // More threads than cores would measure the scheduler.
        let threads = [1, 2, 4, 16];
        for threads in threads.into_iter().filter(|threads| *threads <= machine::cores().max(2)) {
            let many = Many::new(&nodes, threads)?;
            if threads == 2 {
                openings(context, &many, &mut findings).await?;
            }
            for chunk_bytes in CHUNK_BYTES {
                row(context, &many, chunk_bytes, &mut findings).await?;
            }
        }
    }
    Ok(findings)
}

/// Workers, and the threads that read from them.
struct Many {
    workers: Vec<NodeName>,
    fan_in: FanIn,
}

impl Many {
    fn new(nodes: &NodeProcess, threads: usize) -> Result<Many> {
        let names = nodes.ports.iter().zip(0..);
        let workers: Vec<NodeName> =
            names.map(|(port, id)| NodeName { id, address: local(*port) }).collect();
        let fan_in = FanIn::new(&FanInOptions::new(threads, workers.len()), &Env::real())?;
        Ok(Many { workers, fan_in })
    }

    async fn read(&self, mode: Mode, wanted: BytesWanted) -> Result<Times> {
        let message: bytes::Bytes = wanted.encode_to_vec().into();
        let question =
            |worker: &NodeName| Question { worker: worker.clone(), message: message.clone() };
        let questions = self.workers.iter().map(question).collect();
        let (readers, times) = self.fan_in.gather(mode, questions, |_| Counting(0)).await?;
        let read: u64 = readers.iter().map(|reader| reader.0).sum();
        match read == wanted.chunks * wanted.chunk_bytes * self.workers.len() as u64 {
            true => Ok(times),
            false => Err(Error::internal(format!("{read} bytes were read, which is wrong"))),
        }
    }
}

struct Counting(u64);

impl Reader for Counting {
    fn message(&mut self, _: usize, message: Message<'_>) -> Result<(), Stop> {
        self.0 += message.len() as u64;
        Ok(())
    }
}

/// Measures the time until all workers have begun to answer.
async fn openings(context: &Context, many: &Many, findings: &mut Findings) -> Result<()> {
    let workers = many.workers.len();
    let one = BytesWanted { chunks: 1, chunk_bytes: 48 };
    let (mut cold, mut kept) = (Samples::default(), Samples::default());
    for _ in 0..context.repetitions {
        many.fan_in.disconnect().await;
        cold.push(many.read(Mode::Hybrid, one).await?.opened.as_secs_f64());
        kept.push(many.read(Mode::Hybrid, one).await?.opened.as_secs_f64());
    }
    for (name, samples, wanted) in [("cold", cold, 0.5), ("kept", kept, 0.15)] {
        println!("  {workers} workers open in {:.1} ms, {name}", samples.median() * 1e3);
        let work = format!("{workers} workers opened, {name} connections");
        let finding = Finding::new(work, Unit::Seconds, samples);
        findings.push(finding.wanted(Wanted::AtMost(wanted)));
    }
    Ok(())
}

/// Measures a row of the table: the modes in turns.
async fn row(
    context: &Context,
    many: &Many,
    chunk_bytes: u64,
    findings: &mut Findings,
) -> Result<()> {
    let workers = many.workers.len();
    let chunks = (ALL_BYTES / workers as u64 / chunk_bytes).max(1);
    let wanted = BytesWanted { chunks, chunk_bytes };
    let mut totals = <[Samples; 3]>::default();
    let mut reads = <[Samples; 3]>::default();
    // The first round warms connections and buffers up.
    for round in 0..=context.repetitions {
        for (place, mode) in MODES.into_iter().enumerate() {
            let times = many.read(mode, wanted).await?;
            if round > 0 {
                totals[place].push(times.total.as_secs_f64());
                reads[place].push(times.read().as_secs_f64());
            }
        }
    }
    let threads = many.fan_in.threads();
    let shape = format!("{workers} workers, {threads} threads, chunks of {chunk_bytes} B");
    let all = (chunks * chunk_bytes * workers as u64) as f64;
    for ((mode, total), read) in MODES.iter().zip(&totals).zip(&reads) {
        let rate = |seconds: &Samples| all / seconds.median() / 1e9;
        println!("  {shape}, {mode}: {:.2} GB/s in total, {:.2} read", rate(total), rate(read));
    }
    let [total_sync, total_async, total_hybrid] = totals;
    let [read_sync, _, read_hybrid] = reads;
    for (peer, samples) in [("sync", total_sync), ("async", total_async)] {
        let finding = Finding::new(format!("{shape}, total"), Unit::Seconds, total_hybrid.clone());
        findings.push(finding.beside(peer, samples).wanted(Wanted::RatioAtMost(1.0)));
    }
    let finding = Finding::new(format!("{shape}, read"), Unit::Seconds, read_hybrid);
    findings.push(finding.beside("sync", read_sync).wanted(Wanted::RatioAtMost(1.0)));
    Ok(())
}
