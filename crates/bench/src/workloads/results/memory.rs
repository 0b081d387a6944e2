//! Memory of the server during a result that is larger than memory, with a reader that keeps up and
//! with one that does not.

use std::ops::ControlFlow;
use std::time::Duration;

use thalweg_types::{Error, Result};

use super::{at_scale, made_up};
use crate::clients::FrontEnd;
use crate::context::Context;
use crate::finding::{Finding, Findings, Unit, Wanted};
use crate::machine;
use crate::peers::Server;

const WANTED_MEBIBYTES: f64 = 64.0;
const MILLIONS: f64 = 100.0;
/// Rows that are read before the measurement, to exclude the one-time memory of the first query.
const FIRST_ROWS: u64 = 1000;

/// Behavior of a slow reader: the rows between stalls, the length and the number of stalls.
const ROWS_BETWEEN_STALLS: u64 = 100_000;
const STALL: Duration = Duration::from_secs(3);
const STALLS: u64 = 3;
/// The same behavior in words, for the report.
pub(in crate::workloads) const SLOWLY: &str =
    "The reader stops for 3 s each 100000 rows, and leaves after 3 times.";

/// Measures the server's peak memory at each front end.
pub async fn measure(context: &Context, findings: &mut Findings) -> Result<()> {
    let (rows, called) = at_scale(context, MILLIONS);
    for front_end in FrontEnd::ALL {
        let name = front_end.name();
        let (raised, seconds) = to_the_end(context, front_end, rows).await?;
        println!("  {called}, {name}: {raised:.1} MiB, {seconds:.1} s");
        findings.push(
            Finding::new(format!("memory for {called}, {name}"), Unit::Mebibytes, raised)
                .wanted(Wanted::AtMost(WANTED_MEBIBYTES))
                .noted(
                    "The most that the server's process had in RAM while the rows were sent, \
                     above its rest before. Their columns are integer, bigint, double precision, \
                     text and date.",
                ),
        );
        findings.push(Finding::new(
            format!("rate of {called}, {name}"),
            Unit::RowsPerSecond,
            rows as f64 / seconds,
        ));
        let raised = slowly(context, front_end, rows).await?;
        println!("  {called}, slow reader, {name}: {raised:.1} MiB");
        findings.push(
            Finding::new(
                format!("memory for {called}, slow reader, {name}"),
                Unit::Mebibytes,
                raised,
            )
            .wanted(Wanted::AtMost(WANTED_MEBIBYTES))
            .noted(SLOWLY),
        );
    }
    Ok(())
}

/// Reads all rows; returns the mebibytes that the server used for this, and the seconds.
async fn to_the_end(context: &Context, front_end: FrontEnd, rows: u64) -> Result<(f64, f64)> {
    let scratch = context.scratch_for_servers("memory")?;
    let server = context.server(&scratch).await?;
    let rest = resting(&server, front_end, &made_up(FIRST_ROWS)).await?;
    let sql = made_up(rows);
    let mut go_on = |_| ControlFlow::Continue(());
    let (seconds, came) = context.timed(front_end.query(&server, &sql, &mut go_on)).await?;
    if came != rows {
        return Err(Error::internal(format!("{}: {came} rows of {rows} came", front_end.name())));
    }
    Ok((machine::raised(server.process(), rest)?, seconds))
}

async fn slowly(context: &Context, front_end: FrontEnd, rows: u64) -> Result<f64> {
    let scratch = context.scratch_for_servers("memory")?;
    let server = context.server(&scratch).await?;
    let rest = resting(&server, front_end, &made_up(FIRST_ROWS)).await?;
    front_end.query(&server, &made_up(rows), &mut slow_reader(context)).await?;
    machine::raised(server.process(), rest)
}

/// A client that stops reading now and then, and leaves at last.
pub(in crate::workloads) fn slow_reader(context: &Context) -> impl FnMut(u64) -> ControlFlow<()> {
    let mut stalls = 0;
    move |rows| {
        if rows > (stalls + 1) * ROWS_BETWEEN_STALLS {
            context.sleep(STALL);
            stalls += 1;
        }
        if stalls == STALLS { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

/// The memory of a server after it has answered a query.
pub(in crate::workloads) async fn resting(
    server: &Server,
    front_end: FrontEnd,
    sql: &str,
) -> Result<u64> {
    front_end.query(server, sql, &mut |_| ControlFlow::Continue(())).await?;
    machine::rest_of(server.process())
}
