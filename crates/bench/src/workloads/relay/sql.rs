//! `SELECT *` through the program itself: a gateway and its workers, with PostgreSQL and Flight
//! clients. Rows are relayed, or decoded and encoded again at the gateway (`SET relay`).
//!
//! The workers have a core of their own, as if on another machine; gateway and client share another
//! one. Each round has a new gateway: the first whole result measures its memory, and the second
//! one is timed. By then workers have cached the encodings of the first one, as far as they may.
//! Relaying is measured without this cache, too.

use std::ops::ControlFlow;

use thalweg_types::{Error, Result};

use crate::clients::{Connection, FrontEnd};
use crate::context::{Context, Scratch};
use crate::finding::{Finding, Findings, Unit, Wanted};
use crate::peers::{Cluster, ClusterOptions, Endpoint, OnDisk};
use crate::samples::Samples;
use crate::workloads::results::resting;
use crate::{counters, machine};

const WORKERS: usize = 2;
const ROWS: u64 = 4_000_000;
/// Loads gather in the gateway's memory, so they are split.
const ROWS_AT_ONCE: u64 = 500_000;

const CREATE: &str = "CREATE TABLE rows (id bigint PRIMARY KEY, customer integer, price double \
     precision, volume bigint, at timestamp, note text)";
const QUERY: &str = "SELECT * FROM rows";
const FIRST_QUERY: &str = "SELECT * FROM rows LIMIT 1000";

/// Treatment of rows at the gateway.
#[derive(Clone, Copy)]
enum Way {
    Relayed,
    /// Relayed, with workers that cache no encodings.
    MadeAnew,
    Opened,
}

const WAYS: [Way; 3] = [Way::Relayed, Way::MadeAnew, Way::Opened];

/// A cluster with rows that a gateway relays or decodes.
struct Filled(Cluster);

impl Filled {
    async fn start(context: &Context, scratch: &Scratch, way: Way) -> Result<Filled> {
        let (name, setting) = match way {
            Way::Relayed => ("relayed", ("THALWEG__CLUSTER__RELAY", "true")),
            Way::MadeAnew => ("made anew", ("THALWEG__CLUSTER__KEPT_ENCODINGS", "0")),
            Way::Opened => ("opened", ("THALWEG__CLUSTER__RELAY", "false")),
        };
        let settings = [(setting.0, setting.1.to_owned())];
        let on_disk = OnDisk::Gateway;
        let options =
            ClusterOptions { name, workers: WORKERS, logical: 1, on_disk, settings: &settings };
        let directory = scratch.path().join(name.replace(' ', "-"));
        let filled = Filled(Cluster::start(context.program(), &directory, &options).await?);
        filled.fill().await?;
        Ok(filled)
    }

    fn endpoint(&self) -> &Endpoint {
        &self.0.gateway.endpoint
    }

    async fn fill(&self) -> Result<()> {
        let mut connection = Connection::open(self.endpoint()).await?;
        connection.execute(CREATE).await?;
        for from in (0..ROWS).step_by(ROWS_AT_ONCE as usize) {
            let to = (from + ROWS_AT_ONCE).min(ROWS) - 1;
            let insert = format!(
                "INSERT INTO rows SELECT n, n % 10007, n / 8.0, n * 31, TIMESTAMP '2024-01-01' + n \
                 * INTERVAL '1 second', 'note ' || n FROM generate_series({from}, {to}) AS s(n)"
            );
            connection.execute(&insert).await?;
        }
        Ok(())
    }

    /// A gateway that has read nothing yet.
    async fn renew(&mut self, context: &Context) -> Result<()> {
        self.0.renew_gateway().await?;
        match context.core_for_servers()? {
            Some(core) => self.0.pin(core, context.core_beside(core)),
            None => Ok(()),
        }
    }

    async fn fetch(&self, client: FrontEnd) -> Result<()> {
        let mut go_on = |_| ControlFlow::Continue(());
        match client.query(&self.0.gateway, QUERY, &mut go_on).await? {
            ROWS => Ok(()),
            rows => Err(Error::internal(format!("{rows} rows of {ROWS} came"))),
        }
    }
}

const CLIENTS: [(FrontEnd, &str); 3] = [
    (FrontEnd::PostgresText, "SQL, PostgreSQL in text"),
    (FrontEnd::PostgresBinary, "SQL, PostgreSQL in binary"),
    (FrontEnd::FlightSql, "SQL, Flight"),
];

#[derive(Default)]
struct Measured {
    /// Rows a second.
    rates: Samples,
    /// CPU-seconds of the gateway for a million rows.
    cpu: Samples,
    memory: Samples,
}

/// Measures each client on a cluster that relays and on one that does not, in turns.
pub async fn measure(context: &Context, findings: &mut Findings) -> Result<()> {
    let scratch = context.scratch_for_servers("relay")?;
    let mut clusters = Vec::new();
    for way in WAYS {
        clusters.push(Filled::start(context, &scratch, way).await?);
    }
    for (client, name) in CLIENTS {
        let mut all = WAYS.map(|_| Measured::default());
        for _ in 0..context.repetitions {
            for (cluster, measured) in clusters.iter_mut().zip(&mut all) {
                cluster.renew(context).await?;
                one(context, cluster, client, name, measured).await?;
            }
        }
        tell(name, all, findings);
    }
    Ok(())
}

async fn one(
    context: &Context,
    cluster: &Filled,
    client: FrontEnd,
    name: &str,
    measured: &mut Measured,
) -> Result<()> {
    let gateway = &cluster.0.gateway;
    let rest = resting(gateway, client, FIRST_QUERY).await?;
    cluster.fetch(client).await?;
    let memory = machine::raised(gateway.process(), rest)?;
    let before = counters::cpu_seconds_of(gateway.process())?;
    let (seconds, ()) = context.timed(cluster.fetch(client)).await?;
    let cpu = (counters::cpu_seconds_of(gateway.process())? - before) * 1e6 / ROWS as f64;
    let rate = ROWS as f64 / seconds;
    measured.rates.push(rate);
    measured.cpu.push(cpu);
    measured.memory.push(memory);
    let how = &cluster.endpoint().name;
    println!("  {name}, {how}: {rate:.0} rows/s, {cpu:.3} s of CPU a million, {memory:.1} MiB");
    Ok(())
}

fn tell(name: &str, measured: [Measured; WAYS.len()], findings: &mut Findings) {
    let [relayed, made_anew, opened] = measured;
    let finding = |what: &str, unit, samples, beside, wanted| {
        Finding::new(format!("{name}: {what}"), unit, samples)
            .beside("opened", beside)
            .wanted(wanted)
    };
    let least = Wanted::RatioAtLeast(1.35);
    let rates = opened.rates.clone();
    findings.push(finding("rows relayed", Unit::RowsPerSecond, relayed.rates, rates, least));
    let work = format!("{name}: rows relayed, made anew");
    let anew = Finding::new(work, Unit::RowsPerSecond, made_anew.rates);
    findings.push(anew.beside("opened", opened.rates));
    let most = Wanted::RatioAtMost(0.5);
    let cpu = "gateway CPU a million rows";
    findings.push(finding(cpu, Unit::Seconds, relayed.cpu, opened.cpu, most));
    let memory = Wanted::RatioAtMost(0.82);
    findings.push(
        finding("gateway memory", Unit::Mebibytes, relayed.memory, opened.memory, memory)
            .noted("At its peak, above what it had after its first thousand rows."),
    );
}
