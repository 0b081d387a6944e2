//! Time until a client gets the first row of all rows of a table.

use std::ops::ControlFlow;
use std::time::Duration;

use thalweg_types::{Error, Result};

use super::{at_scale, made_up};
use crate::clients::{Connection, FrontEnd};
use crate::context::Context;
use crate::finding::{Finding, Findings, Unit, Wanted};
use crate::peers::Server;
use crate::samples::Samples;

const WANTED_SECONDS: f64 = 0.05;
const MILLIONS: f64 = 10.0;
const QUERY: &str = "SELECT * FROM long";
/// Number of measurements for each of the run's repetitions: each one is short.
const TIMES: usize = 5;
/// Pause between clients: one that left midway causes work, which must not affect the next one.
const BETWEEN: Duration = Duration::from_millis(200);

/// Measures the time to the first row at each front end.
pub async fn measure(context: &Context, findings: &mut Findings) -> Result<()> {
    let scratch = context.scratch_for_servers("first-row")?;
    let server = context.server(&scratch).await?;
    let mut connection = Connection::open(&server.endpoint).await?;
    let (rows, called) = at_scale(context, MILLIONS);
    connection.execute(&format!("CREATE TABLE long AS {}", made_up(rows))).await?;
    for front_end in FrontEnd::ALL {
        let mut seconds = Samples::default();
        for _ in 0..context.repetitions * TIMES {
            context.sleep(BETWEEN);
            seconds.push(wait(context, &server, front_end).await?);
        }
        println!("  first row, {}: {:.1} ms", front_end.name(), seconds.median() * 1000.0);
        findings.push(
            Finding::new(
                format!("first row of {called}, {}", front_end.name()),
                Unit::Seconds,
                seconds,
            )
            .wanted(Wanted::AtMost(WANTED_SECONDS))
            .noted("SELECT * of a table, from opening the connection on."),
        );
    }
    Ok(())
}

async fn wait(context: &Context, server: &Server, front_end: FrontEnd) -> Result<f64> {
    let mut look = |rows| match rows {
        0 => ControlFlow::Continue(()),
        _ => ControlFlow::Break(()),
    };
    let (seconds, rows) = context.timed(front_end.query(server, QUERY, &mut look)).await?;
    match rows {
        0 => Err(Error::internal(format!("{}: no row came", front_end.name()))),
        _ => Ok(seconds),
    }
}
