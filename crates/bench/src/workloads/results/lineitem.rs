//! All rows of TPC-H's lineitem to clients in Python, and to one that discards them.

use std::ops::ControlFlow;

use serde::Deserialize;
use thalweg_types::{Error, Result};

use crate::clients::Connection;
use crate::context::{Context, Scratch};
use crate::data::TpchFiles;
use crate::finding::{Finding, Findings, Unit, Wanted};
use crate::peers::{Endpoint, Postgres, Python, Server, copy};
use crate::samples::Samples;
use crate::tpch::lineitem;

const PSYCOPG: &str = include_str!("../../../../../bench/peers/psycopg_rows.py");
const ADBC: &str = include_str!("../../../../../bench/peers/adbc_rows.py");

const QUERY: &str = "SELECT * FROM lineitem";

/// Ways to fetch all rows from a PostgreSQL port.
#[derive(Clone, Copy)]
enum Client {
    PsycopgObjects,
    PsycopgResult,
    Discarding,
}

use Client::{Discarding, PsycopgObjects, PsycopgResult};

const CLIENTS: [Client; 3] = [PsycopgObjects, PsycopgResult, Discarding];

impl Client {
    fn work(self) -> &'static str {
        match self {
            PsycopgObjects => "psycopg",
            PsycopgResult => "psycopg, left in libpq",
            Discarding => "thrown away",
        }
    }

    fn note(self) -> &'static str {
        match self {
            PsycopgObjects => {
                "In binary. Every value becomes a Python object, which takes this client far \
                 longer than any server needs to send it."
            }
            PsycopgResult => "The same library without the objects.",
            Discarding => "A client of our own that only counts messages: the server alone.",
        }
    }

    fn wanted(self) -> Wanted {
        match self {
            PsycopgObjects => Wanted::RatioAtLeast(1.5),
            PsycopgResult | Discarding => Wanted::Nothing,
        }
    }
}

/// Output of a script.
#[derive(Deserialize)]
struct Fetched {
    rows: u64,
    seconds: f64,
}

/// Measures the rate of rows at each client, ours beside PostgreSQL's.
pub async fn measure(context: &Context, findings: &mut Findings) -> Result<()> {
    let scratch = context.scratch_for_servers("lineitem")?;
    let measurement = Measurement::start(context, &scratch).await?;
    let mut psycopg = Rates::default();
    for client in CLIENTS {
        let rates = measurement.through(client).await?;
        if rates.ours.is_empty() {
            continue;
        }
        let work = format!("lineitem, scale {}: {}", context.scale, client.work());
        findings.push(
            Finding::new(work, Unit::RowsPerSecond, rates.ours.clone())
                .beside(&measurement.peer_name(), rates.peer.clone())
                .wanted(client.wanted())
                .noted(client.note()),
        );
        if let PsycopgObjects = client {
            psycopg = rates;
        }
    }
    let adbc = measurement.through_adbc()?;
    if !adbc.is_empty() {
        let work = format!("lineitem, scale {}: ADBC Flight SQL", context.scale);
        findings.push(
            Finding::new(work, Unit::RowsPerSecond, adbc)
                .beside(&format!("{}, psycopg", measurement.peer_name()), psycopg.peer)
                .wanted(Wanted::RatioAtLeast(10.0))
                .noted("Arrow batches in Python, beside the peer's rows as Python objects."),
        );
    }
    Ok(())
}

/// Rows a second.
#[derive(Default)]
struct Rates {
    ours: Samples,
    peer: Samples,
}

/// The servers that hold the table, and its clients.
struct Measurement<'a> {
    context: &'a Context,
    server: Server,
    postgres: Option<Postgres>,
    psycopg: Option<Python>,
    adbc: Option<Python>,
    rows: u64,
}

impl<'a> Measurement<'a> {
    async fn start(context: &'a Context, scratch: &Scratch) -> Result<Measurement<'a>> {
        let files = context.tpch()?;
        let server = context.server(scratch).await?;
        let mut connection = Connection::open(&server.endpoint).await?;
        connection.execute(&lineitem().create()).await?;
        connection.execute(&copy(&files, "lineitem")).await?;
        Ok(Measurement {
            context,
            server,
            postgres: Measurement::peer(context, scratch, &files).await?,
            psycopg: context.python("psycopg"),
            adbc: context.python("adbc_driver_flightsql"),
            rows: files.rows("lineitem")?,
        })
    }

    /// PostgreSQL with the table, if it is installed.
    async fn peer(
        context: &Context,
        scratch: &Scratch,
        files: &TpchFiles,
    ) -> Result<Option<Postgres>> {
        let Some(programs) = context.postgres_programs() else { return Ok(None) };
        let csv = files.csv("lineitem")?;
        let postgres = Postgres::start(&programs, scratch.path()).await?;
        let mut connection = Connection::open(&postgres.endpoint).await?;
        connection.execute(&lineitem().create()).await?;
        let statement = format!("\\copy lineitem FROM '{}' (FORMAT csv)", csv.display());
        programs.run("psql", &postgres.endpoint, &["-X", "-c", &statement])?;
        // Otherwise the first reader of each row would set its hint bits and pay for this.
        connection.execute("VACUUM ANALYZE lineitem").await?;
        Ok(Some(postgres))
    }

    fn peer_name(&self) -> String {
        self.postgres.as_ref().map_or_else(String::new, |peer| peer.endpoint.name.clone())
    }

    /// Fetches the table from both servers in turns; empty without the client.
    async fn through(&self, client: Client) -> Result<Rates> {
        let mut rates = Rates::default();
        for _ in 0..self.context.repetitions {
            if let Some(rate) = self.rate(client, &self.server.endpoint).await? {
                rates.ours.push(rate);
            }
            if let Some(postgres) = &self.postgres
                && let Some(rate) = self.rate(client, &postgres.endpoint).await?
            {
                rates.peer.push(rate);
            }
        }
        Ok(rates)
    }

    async fn rate(&self, client: Client, endpoint: &Endpoint) -> Result<Option<f64>> {
        let mode = match client {
            PsycopgObjects => "objects",
            PsycopgResult => "result",
            Discarding => return self.discarding(endpoint).await.map(Some),
        };
        let Some(python) = &self.psycopg else { return Ok(None) };
        let target = endpoint.connection_string();
        let fetched = python.run(PSYCOPG, &[mode, &target, QUERY])?;
        self.checked(&format!("{}, {}", endpoint.name, client.work()), &fetched).map(Some)
    }

    async fn discarding(&self, endpoint: &Endpoint) -> Result<f64> {
        let mut connection = Connection::open(endpoint).await?;
        let mut go_on = |_| ControlFlow::Continue(());
        let (seconds, rows) =
            self.context.timed(connection.query_binary(QUERY, &mut go_on)).await?;
        self.checked(
            &format!("{}, {}", endpoint.name, Discarding.work()),
            &Fetched { rows, seconds },
        )
    }

    fn through_adbc(&self) -> Result<Samples> {
        let mut rates = Samples::default();
        let Some(python) = &self.adbc else { return Ok(rates) };
        let address = format!("grpc://127.0.0.1:{}", self.server.grpc_port);
        for _ in 0..self.context.repetitions {
            let fetched = python.run(ADBC, &[&address, QUERY])?;
            rates.push(self.checked("Thalweg, ADBC", &fetched)?);
        }
        Ok(rates)
    }

    /// The rate of rows a second, after a check that all of them came.
    fn checked(&self, what: &str, fetched: &Fetched) -> Result<f64> {
        let Fetched { rows, seconds } = *fetched;
        if rows != self.rows {
            return Err(Error::internal(format!("{what}: {rows} rows of {} came", self.rows)));
        }
        println!("  {what}: {rows} rows in {seconds:.2} s");
        Ok(rows as f64 / seconds)
    }
}
