//! Groupings over as many workers as a large cluster has, beside one process with the same rows.
//!
//! Each worker has a socket, a log and rows of its own. A gateway can ask all workers of a process
//! through one stream. If it asks each worker separately, the measurement shows the costs of each
//! request for the gateway, and of requests for few rows for the workers.

use thalweg_types::Result;

use super::queries::{QueryTimes, Systems};
use super::{GROUPED_ROWS, ONE, QUESTIONS, answered};
use crate::clients::Connection;
use crate::context::Context;
use crate::finding::{Finding, Findings, Unit, Wanted};
use crate::h2o::{GROUP_BY, Table, grouped};
use crate::{counters, machine};

const WORKERS: usize = 2_160;
const RATIO_MAX: f64 = 3.0;
/// Seconds for which the idle cluster is observed.
const AT_REST_SECONDS: u64 = 10;

/// Distribution of the workers over processes, and the way they are asked.
struct Shape {
    name: &'static str,
    processes: usize,
    together: bool,
}

/// The published measurement has 36 threads of a gateway with 60 workers each.
const SHAPES: [Shape; 3] = [
    Shape { name: "2160 workers", processes: 1, together: true },
    Shape { name: "2160 workers in 36 processes", processes: 36, together: true },
    Shape { name: "2160 workers, each for itself", processes: 1, together: false },
];

/// Measures groupings on each shape of cluster.
pub async fn measure(context: &Context, findings: &mut Findings) -> Result<()> {
    let rows = (context.scale * GROUPED_ROWS) as u64;
    let tables = grouped(context.cache(), rows)?;
    for shape in &SHAPES {
        measure_shape(context, shape, &tables, findings).await?;
    }
    Ok(())
}

async fn measure_shape(
    context: &Context,
    shape: &Shape,
    tables: &[Table],
    findings: &mut Findings,
) -> Result<()> {
    let Shape { name, processes, together } = shape;
    let settings = [("THALWEG__CLUSTER__TOGETHER", together.to_string())];
    let scratch = format!("cluster-thousands-{processes}-{together}");
    let started = context.seconds();
    let mut systems =
        Systems::start(context, &scratch, *processes, WORKERS / processes, &settings).await?;
    let started = context.seconds() - started;
    println!("  {name}: joined after {started:.1} s");
    findings.push(
        Finding::new(format!("{name}, started"), Unit::Seconds, started)
            .noted("From its start until the gateway has given buckets to all of them."),
    );
    at_rest(context, shape, &systems, findings)?;
    let gateway = systems.cluster.gateway.process();
    let rest = machine::rest_of(gateway)?;
    for table in tables {
        load(context, shape, &systems, table, findings).await?;
    }
    findings.push(Finding::new(
        format!("gateway memory, COPY to {name}"),
        Unit::Mebibytes,
        machine::raised(gateway, rest)?,
    ));
    machine::forget_peak_of(gateway)?;
    let mut all = Vec::new();
    for (question, number) in GROUP_BY[..QUESTIONS].iter().zip(1..) {
        let work = format!("group-by {number} over {name}");
        all.push(ask(context, shape, &mut systems, (question, &work), findings).await?);
    }
    findings.push(
        Finding::new(
            format!("gateway memory, group-by over {name}"),
            Unit::Mebibytes,
            machine::raised(gateway, rest)?,
        )
        .noted("At its peak while it was asked, above its rest before any row was there."),
    );
    findings.push(answered(&format!("group-by over {name}"), &all));
    Ok(())
}

/// Measures the cost of this many idle workers.
fn at_rest(
    context: &Context,
    shape: &Shape,
    systems: &Systems,
    findings: &mut Findings,
) -> Result<()> {
    let before = cpu(systems)?;
    context.sleep(std::time::Duration::from_secs(AT_REST_SECONDS));
    let spent = (cpu(systems)?.0 - before.0) / AT_REST_SECONDS as f64;
    println!("  at rest: {spent:.2} s of CPU a second");
    findings.push(
        Finding::new(format!("CPU a second at rest, {}", shape.name), Unit::Seconds, spent)
            .noted("Of gateway and workers together: joining again and looking at each other."),
    );
    Ok(())
}

/// Processor seconds of the cluster, and of one process.
fn cpu(systems: &Systems) -> Result<(f64, f64)> {
    let mut cluster = counters::cpu_seconds_of(systems.cluster.gateway.process())?;
    for worker in systems.cluster.workers() {
        cluster += counters::cpu_seconds_of(worker)?;
    }
    Ok((cluster, counters::cpu_seconds_of(systems.one.process())?))
}

async fn load(
    context: &Context,
    shape: &Shape,
    systems: &Systems,
    table: &Table,
    findings: &mut Findings,
) -> Result<()> {
    let create = format!("CREATE TABLE {} ({})", table.name, table.columns);
    let copy = format!("COPY {} FROM '{}' (FORMAT parquet)", table.name, table.path.display());
    let mut seconds = [0.0; 2];
    for (server, seconds) in [&systems.cluster.gateway, &systems.one].into_iter().zip(&mut seconds)
    {
        let mut connection = Connection::open(&server.endpoint).await?;
        connection.execute(&create).await?;
        *seconds = context.timed(connection.execute(&copy)).await?.0;
    }
    let [cluster, one] = seconds;
    println!("  COPY: {cluster:.2} s over {}, {one:.2} s in {ONE}", shape.name);
    findings.push(
        Finding::new(format!("COPY to {}", shape.name), Unit::Seconds, cluster)
            .beside(ONE, one.into()),
    );
    Ok(())
}

/// Runs a prepared query.
async fn ask(
    context: &Context,
    shape: &Shape,
    systems: &mut Systems,
    (question, work): (&str, &str),
    findings: &mut Findings,
) -> Result<QueryTimes> {
    let before = cpu(systems)?;
    let asked = systems.ask(context, question).await?;
    let after = cpu(systems)?;
    let (cluster_cpu, one_cpu) = (after.0 - before.0, after.1 - before.1);
    println!("  {}; CPU {cluster_cpu:.2} s beside {one_cpu:.2} s", asked.line(work));
    if asked.cluster.is_empty() {
        return Ok(asked);
    }
    // Each query ran once more than it was measured.
    let asks = (context.repetitions + 1) as f64;
    let time = Finding::new(work, Unit::Seconds, asked.cluster.clone())
        .beside(ONE, asked.one.clone())
        .noted(question);
    findings.push(match shape.together {
        true => time.wanted(Wanted::RatioAtMost(RATIO_MAX)),
        false => time,
    });
    findings.push(
        Finding::new(format!("{work}, CPU"), Unit::Seconds, cluster_cpu / asks)
            .beside(ONE, (one_cpu / asks).into())
            .noted("Of all processes of the cluster, with what they need at rest."),
    );
    Ok(asked)
}
