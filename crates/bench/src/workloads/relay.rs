//! `SELECT *` through a gateway without computation: relayed, decoded and encoded again, and beside
//! a bare relay of tonic's. Worker, gateway and client are processes.

mod huge;
mod sql;

use std::time::Duration;

use thalweg_cluster::node::FETCH;
use thalweg_types::{Error, Result};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::Workload;
use crate::context::Context;
use crate::errors::while_doing;
use crate::finding::{Finding, Findings, Unit, Wanted};
use crate::nodes::{BARE, BareClient, Format, MESSAGE_ROWS, NodeProcess, RowsWanted, local};
use crate::samples::Samples;
use crate::{counters, machine};

/// The workload, as registered in [`super::WORKLOADS`].
pub const WORKLOAD: Workload = Workload {
    name: "relay",
    about: "1 GB through worker, gateway and client, handed on unopened and not",
    run: |context| Box::pin(run(context)),
};

const ALL_BYTES: u64 = 1_000_000_000;
/// Bytes, about one message, that are read before memory is measured: this excludes the one-time
/// memory of the first result.
/// allocations.
const FIRST_BYTES: u64 = 300_000;
/// A result that no gateway can hold.
const HUGE_BYTES: u64 = 10 * ALL_BYTES;
/// Pause of a client that does not read.
const PAUSE: Duration = Duration::from_secs(3);
/// Maximum growth of a gateway's memory by the largest result.
const MEMORY_MIB_MAX: f64 = 64.0;

async fn run(context: &Context) -> Result<Findings> {
    let mut findings = Findings::default();
    if context.wants("links") {
        links(context, &mut findings).await?;
    }
    if context.wants("sql") {
        sql::measure(context, &mut findings).await?;
    }
    if context.wants("huge") {
        huge::measure(context, &mut findings).await?;
    }
    Ok(findings)
}

/// Measures links between nodes, without SQL.
async fn links(context: &Context, findings: &mut Findings) -> Result<()> {
    let rows = NodeProcess::start(context, &["rows"])?;
    let bare_rows = NodeProcess::start(context, &["bare-rows"])?;
    let (worker, bare_worker) = (rows.ports[0].to_string(), bare_rows.ports[0].to_string());
    let ways = [
        Way { name: "unopened", role: ["gateway", &worker, "unopened"].to_vec(), path: FETCH },
        Way { name: "recoded", role: ["gateway", &worker, "recoded"].to_vec(), path: FETCH },
        Way { name: "bare tonic", role: ["bare-gateway", &bare_worker].to_vec(), path: BARE },
    ];
    compare(context, "Flight", Client::Flight, &ways, findings).await?;
    compare(context, "PostgreSQL", Client::Postgres, &ways[..2], findings).await?;
    memory(&ways[0].start(context)?, findings).await
}

/// A way in which a gateway forwards rows.
struct Way<'a> {
    name: &'static str,
    role: Vec<&'a str>,
    path: &'static str,
}

impl Way<'_> {
    /// A gateway that has read nothing yet.
    fn start(&self, context: &Context) -> Result<Gateway> {
        Ok(Gateway { process: NodeProcess::start(context, &self.role)?, path: self.path })
    }
}

struct Gateway {
    process: NodeProcess,
    path: &'static str,
}

impl Gateway {
    fn id(&self) -> u32 {
        self.process.process()
    }
}

#[derive(Clone, Copy)]
enum Client {
    Flight,
    Postgres,
}

#[derive(Default)]
struct Measured {
    /// Rows a second.
    rates: Samples,
    /// CPU-seconds of the gateway for a gigabyte.
    cpu: Samples,
    /// Mebibytes of the gateway at its peak, above its rest.
    memory: Samples,
}

async fn compare(
    context: &Context,
    client_name: &str,
    client: Client,
    ways: &[Way<'_>],
    findings: &mut Findings,
) -> Result<()> {
    let mut all: Vec<Measured> = ways.iter().map(|_| Measured::default()).collect();
    for _ in 0..context.repetitions {
        for (way, measured) in ways.iter().zip(&mut all) {
            let gateway = way.start(context)?;
            fetch(client, &gateway, FIRST_BYTES).await?;
            let rest = machine::rest_of(gateway.id())?;
            fetch(client, &gateway, ALL_BYTES).await?;
            let memory = machine::raised(gateway.id(), rest)?;
            let before = counters::cpu_seconds_of(gateway.id())?;
            let (seconds, (rows, bytes)) =
                context.timed(fetch(client, &gateway, ALL_BYTES)).await?;
            let cpu = counters::cpu_seconds_of(gateway.id())? - before;
            measured.rates.push(rows as f64 / seconds);
            measured.cpu.push(cpu * 1e9 / bytes as f64);
            measured.memory.push(memory);
            let (name, rate) = (way.name, bytes as f64 / seconds / 1e9);
            println!("  {client_name}, {name}: {rate:.2} GB/s, {cpu:.2} s of CPU, {memory:.1} MiB");
        }
    }
    let mut all = all.into_iter();
    let (Some(ours), Some(recoded)) = (all.next(), all.next()) else { return Ok(()) };
    let work = |what: &str| format!("{client_name}, {what}");
    let rates = |what: &str| Finding::new(work(what), Unit::RowsPerSecond, ours.rates.clone());
    findings.push(
        rates("rows relayed").beside("recoded", recoded.rates).wanted(Wanted::RatioAtLeast(1.35)),
    );
    if let Some(bare) = all.next() {
        findings.push(
            rates("rows relayed")
                .beside("bare tonic", bare.rates)
                .wanted(Wanted::RatioAtLeast(0.9)),
        );
    }
    findings.push(
        Finding::new(work("gateway CPU a GB"), Unit::Seconds, ours.cpu)
            .beside("recoded", recoded.cpu)
            .wanted(Wanted::RatioAtMost(0.5)),
    );
    findings.push(
        Finding::new(work("gateway memory"), Unit::Mebibytes, ours.memory)
            .beside("recoded", recoded.memory)
            .wanted(Wanted::RatioAtMost(0.82))
            .noted("At its peak, above what it had after its first message."),
    );
    Ok(())
}

/// Reads about this many bytes; returns the numbers of rows and bytes.
async fn fetch(client: Client, gateway: &Gateway, bytes: u64) -> Result<(u64, u64)> {
    // A row has 66 bytes in Arrow and about 70 as PostgreSQL's text.
    let messages = bytes / (MESSAGE_ROWS as u64 * 66);
    let read = match client {
        Client::Flight => {
            let wanted = RowsWanted { messages, format: Format::Flight as i32 };
            let mut client = BareClient::connect(gateway.process.ports[0], gateway.path).await?;
            let mut stream = client.fetch(wanted).await.map_err(while_doing("asking"))?;
            let mut read = 0;
            while let Some(data) = stream.message().await.map_err(while_doing("reading"))? {
                read += (data.data_header.len() + data.data_body.len()) as u64;
            }
            read
        }
        Client::Postgres => plain(gateway.process.ports[1], messages).await?,
    };
    match read >= bytes / 2 {
        true => Ok((messages * MESSAGE_ROWS as u64, read)),
        false => Err(Error::internal(format!("only {read} bytes came"))),
    }
}

async fn plain(port: u16, messages: u64) -> Result<u64> {
    let failed = || "a plain client";
    let mut socket = TcpStream::connect(local(port)).await.map_err(while_doing(failed()))?;
    socket.write_u64_le(messages).await.map_err(while_doing(failed()))?;
    let mut buffer = vec![0; 256 << 10];
    let mut read = 0;
    loop {
        match socket.read(&mut buffer).await.map_err(while_doing(failed()))? {
            0 => return Ok(read),
            some => read += some as u64,
        }
    }
}

/// Measures the growth of a gateway's memory by a result of any size, and by a client that does not
/// read it.
async fn memory(gateway: &Gateway, findings: &mut Findings) -> Result<()> {
    fetch(Client::Flight, gateway, FIRST_BYTES).await?;
    let rest = machine::rest_of(gateway.id())?;
    fetch(Client::Flight, gateway, HUGE_BYTES).await?;
    let huge = machine::raised(gateway.id(), rest)?;
    machine::forget_peak_of(gateway.id())?;
    let messages = HUGE_BYTES / (MESSAGE_ROWS as u64 * 66);
    let mut client = BareClient::connect(gateway.process.ports[0], gateway.path).await?;
    let wanted = RowsWanted { messages, format: Format::Flight as i32 };
    let mut stream = client.fetch(wanted).await.map_err(while_doing("asking"))?;
    stream.message().await.map_err(while_doing("reading"))?;
    tokio::time::interval_at(tokio::time::Instant::now() + PAUSE, PAUSE).tick().await;
    let paused = machine::raised(gateway.id(), rest)?;
    drop(stream);
    for (work, mebibytes) in [
        ("gateway memory for a result of 10 GB", huge),
        ("gateway memory while a client does not read", paused),
    ] {
        println!("  {work}: {mebibytes:.1} MiB more");
        let finding = Finding::new(work, Unit::Mebibytes, mebibytes);
        findings.push(finding.wanted(Wanted::AtMost(MEMORY_MIB_MAX)));
    }
    Ok(())
}
