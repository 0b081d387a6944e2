//! The mixed load that was published for another system: equal numbers of clients that look rows up
//! and of clients that insert them, with few rows that are requested often.

use bytes::Bytes;
use thalweg_protocol::{RowWriter, SERVICE, v1};
use thalweg_types::Result;

use super::Workload;
use crate::clients::Connection;
use crate::clients::records::{
    Durable, Found, Summary, announced, framed, looked_up, searched, upserts,
};
use crate::context::Context;
use crate::counters::cpu_seconds_of;
use crate::finding::{Finding, Findings, Unit};
use crate::load::grpc::Grpc;
use crate::load::{self, Line};
use crate::peers::Server;
use crate::samples::Samples;
use crate::zipf::{Zipf, scattered};

/// The workload, as registered in [`super::WORKLOADS`].
pub const WORKLOAD: Workload = Workload {
    name: "mixed",
    about: "look-ups and inserts of large rows from 50 clients, the server on one core",
    run: |context| Box::pin(run(context)),
};

const TEXTS: usize = 10;
const TEXT_BYTES: usize = 50;
const THETA: f64 = 0.9;
/// Number of clients that look up, and of those that insert; each has a connection of its own.
const PAIRS: usize = 25;
/// Operations that a client has in flight.
const AHEAD: [u64; 2] = [1, 32];
/// Operations of one measurement.
const OPERATIONS: [u64; 2] = [400_000, 1_000_000];
const MESSAGE_ROWS: u64 = 100;
const PUBLISHED: &str = "Published of another system: 128809/s to 452039/s, on 4 cores.";

async fn run(context: &Context) -> Result<Findings> {
    let mut findings = Findings::default();
    let scratch = context.scratch_for_servers("mixed")?;
    let server = context.server_on_one_core(&scratch).await?;
    let texts: Vec<String> = (0..TEXTS).map(|text| format!("t{text} text NOT NULL")).collect();
    let create = format!("CREATE TABLE record (id bigint PRIMARY KEY, {})", texts.join(", "));
    Connection::open(&server.endpoint).await?.execute(&create).await?;
    let (seconds, ()) = context.timed(async { preload(&server, context.records) }).await?;
    println!("  {} rows in {seconds:.1} s", context.records);
    let preloaded = Finding::new(
        format!("{} rows preloaded, {MESSAGE_ROWS} a message, durability none", context.records),
        Unit::RowsPerSecond,
        context.records as f64 / seconds,
    );
    findings.push(preloaded);
    let mut load = Mixed::new(&server, context.records);
    for (ahead, operations) in AHEAD.into_iter().zip(OPERATIONS) {
        let (mut rates, mut cpu) = (Samples::default(), Samples::default());
        for _ in 0..context.repetitions {
            let before = cpu_seconds_of(server.process())?;
            let began = context.seconds();
            load.run(operations, ahead)?;
            let rate = operations as f64 / (context.seconds() - began);
            let used = cpu_seconds_of(server.process())? - before;
            println!("  {ahead} ahead: {rate:.0} op/s, {used:.2} s");
            rates.push(rate);
            cpu.push(used / operations as f64 * 1e6);
        }
        let work = format!("half look-ups, half inserts with fsync, {ahead} under way a client");
        findings.push(
            Finding::new(&work, Unit::StatementsPerSecond, rates)
                .noted(format!("{PUBLISHED} Ours: one core for the server, Zipf {THETA}.")),
        );
        findings.push(Finding::new(format!("server CPU a million, {work}"), Unit::Seconds, cpu));
    }
    Ok(findings)
}

fn row(id: u64) -> Vec<u8> {
    let mut row = RowWriter::new(TEXTS + 1, false);
    row.int8(id.cast_signed());
    let digits = format!("{:0width$}", scattered(id), width = TEXT_BYTES);
    for _ in 0..TEXTS {
        row.text(&digits);
    }
    row.finish()
}

fn preload(server: &Server, rows: u64) -> Result<()> {
    let wire = Grpc::new(format!("/{SERVICE}/Upsert"), Summary::default());
    let mut line = Line::open(server.grpc_port, Box::new(wire))?;
    let mut first = Vec::new();
    announced("record", v1::Durability::None, &mut first);
    line.push(first);
    let pieces = (0..rows).step_by(MESSAGE_ROWS as usize).map(|start| {
        let end = rows.min(start + MESSAGE_ROWS);
        let mut out = Vec::new();
        upserts((start..end).map(row), &mut out);
        (Bytes::from(out), end - start)
    });
    load::flood(vec![line], pieces).map(drop)
}

struct Mixed<'a> {
    server: &'a Server,
    keys: Zipf,
    preloaded: u64,
    /// The number of the next row that is inserted.
    next: u64,
}

/// One client that looks up and one that inserts; they proceed at the same pace.
struct Pair {
    search: Line,
    write: Line,
    searched: u64,
    written: u64,
}

impl Mixed<'_> {
    fn new(server: &Server, preloaded: u64) -> Mixed<'_> {
        let keys = Zipf::new(preloaded, THETA, preloaded);
        Mixed { server, keys, preloaded, next: preloaded }
    }

    fn run(&mut self, operations: u64, ahead: u64) -> Result<()> {
        let pairs: Result<Vec<Pair>> = (0..PAIRS).map(|_| self.pair()).collect();
        let mut pairs = pairs?;
        let each = operations / (2 * PAIRS as u64);
        let mut left = PAIRS;
        while left > 0 {
            left = 0;
            for pair in &mut pairs {
                let answered = pair.search.answered().min(pair.write.answered());
                if answered == each {
                    continue;
                }
                left += 1;
                self.ask(pair, each.min(answered + ahead));
                if pair.search.answered() < pair.searched {
                    pair.search.turn()?;
                }
                if pair.write.answered() < pair.written {
                    pair.write.turn()?;
                }
            }
        }
        assert!(pairs.iter().all(|pair| pair.search.found() == each), "every row is there");
        Ok(())
    }

    /// Sends requests in both, up to this number.
    fn ask(&mut self, pair: &mut Pair, through: u64) {
        let mut requests = Vec::new();
        for _ in pair.searched..through {
            let key = scattered(self.keys.draw()) % self.preloaded;
            looked_up(vec![Bytes::copy_from_slice(&key.to_le_bytes())], &mut requests);
        }
        pair.search.push(std::mem::take(&mut requests));
        for _ in pair.written..through {
            insert(self.next, &mut requests);
            self.next += 1;
        }
        pair.write.push(requests);
        (pair.searched, pair.written) = (through, through);
    }

    fn pair(&self) -> Result<Pair> {
        let port = self.server.grpc_port;
        let search = Grpc::new(format!("/{SERVICE}/Search"), Found::default());
        let write = Grpc::new(format!("/{SERVICE}/Write"), Durable::default());
        let mut search = Line::open(port, Box::new(search))?;
        let mut write = Line::open(port, Box::new(write))?;
        let mut first = Vec::new();
        searched("record", &mut first);
        search.push(std::mem::take(&mut first));
        announced("record", v1::Durability::Fsync, &mut first);
        write.push(first);
        Ok(Pair { search, write, searched: 0, written: 0 })
    }
}

fn insert(id: u64, out: &mut Vec<u8>) {
    let operation = v1::Operation::Create.into();
    let packed = vec![Bytes::from(row(id))];
    let rows = v1::Rows { operation, packed, ..v1::Rows::default() };
    framed(&v1::WriteRequest { rows: vec![rows], ..v1::WriteRequest::default() }, out);
}
