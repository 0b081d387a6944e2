//! Cancels of statements in the midst of one long operator: the time until the client gets the
//! error, and the time until the server's threads are free again.

mod statements;

use std::time::Duration;

use thalweg_types::{Error, Result};

use self::statements::{FILL, STATEMENTS, Statement, TABLES};
use super::Workload;
use crate::clients::Connection;
use crate::context::Context;
use crate::finding::{Finding, Findings, Unit, Wanted};
use crate::machine;
use crate::peers::Server;
use crate::samples::Samples;

/// The workload, as registered in [`super::WORKLOADS`].
pub const WORKLOAD: Workload = Workload {
    name: "cancel",
    about: "canceled statements over ten million rows: until the client is told, and until the \
            threads are free",
    run: |context| Box::pin(run(context)),
};

/// Times from sending a statement to canceling it: early in its operator, and later.
const MOMENTS: [Duration; 3] =
    [Duration::from_millis(60), Duration::from_millis(150), Duration::from_millis(400)];
const WANTED_SECONDS: f64 = 0.05;

/// Interval between checks of the threads, and the number of idle checks after which they rest.
const BETWEEN_LOOKS: Duration = Duration::from_millis(5);
const QUIET_LOOKS: usize = 4;
/// Share of one core that may be busy with other work while the server rests.
const QUIET_SHARE: f64 = 0.2;
/// Threads that are busy for this long are considered busy for good.
const PATIENCE_SECONDS: f64 = 10.0;

async fn run(context: &Context) -> Result<Findings> {
    let mut findings = Findings::default();
    let scratch = context.scratch_for_servers("cancel")?;
    let server = context.server(&scratch).await?;
    let mut connection = Connection::open(&server.endpoint).await?;
    connection.execute(TABLES).await?;
    connection.execute(FILL).await?;
    for statement in STATEMENTS.iter().filter(|statement| context.wants(statement.name)) {
        let sql = statement.sql(scratch.path());
        if !statement.setting.is_empty() {
            connection.execute(&format!("SET {}", statement.setting)).await?;
        }
        let mut times = Times::default();
        for moment in MOMENTS {
            match canceled(context, &server, &mut connection, &sql, moment).await? {
                Some((told, free)) => times.push(told, free),
                None if statement.undo.is_empty() => {}
                None => connection.execute(statement.undo).await.map(drop)?,
            }
        }
        connection.execute("RESET ALL").await?;
        times.tell(statement, &mut findings);
    }
    Ok(findings)
}

/// Seconds from sending a cancel.
#[derive(Default)]
struct Times {
    told: Samples,
    free: Samples,
}

impl Times {
    fn push(&mut self, told: f64, free: f64) {
        self.told.push(told);
        self.free.push(free);
    }

    /// Reports the longest of each, because the maximum is the promise.
    fn tell(&self, statement: &Statement, findings: &mut Findings) {
        let name = statement.name;
        if self.told.is_empty() {
            println!("  {name}: ended before it was canceled");
            return;
        }
        let (told, free) = (self.told.max(), self.free.max());
        println!("  {name}: told after {:.1} ms, free after {:.1} ms", told * 1e3, free * 1e3);
        let note = format!(
            "The longest of {}, canceled {} ms after they were sent or less. Threads are looked at \
             every {} ms.",
            self.told.len(),
            MOMENTS[MOMENTS.len() - 1].as_millis(),
            BETWEEN_LOOKS.as_millis()
        );
        let finding = |what: &str, seconds: f64| {
            Finding::new(format!("{name}: {what}"), Unit::Seconds, seconds)
                .wanted(Wanted::AtMost(WANTED_SECONDS))
        };
        findings.push(finding("the client is told", told));
        findings.push(finding("the threads are free", free).noted(note));
    }
}

/// Cancels a statement after a moment. Returns the seconds until its client got the error, and
/// until the server's threads were free; `None` if the statement ended before.
async fn canceled(
    context: &Context,
    server: &Server,
    connection: &mut Connection,
    sql: &str,
    moment: Duration,
) -> Result<Option<(f64, f64)>> {
    // Excludes work that an earlier statement left behind.
    rested(context, server)?;
    let canceler = connection.canceler(&server.endpoint);
    let running = async {
        let canceled = connection.is_canceled(sql).await?;
        Ok::<_, Error>((context.seconds(), canceled))
    };
    let canceling = async {
        // The statement is sent by now, and nothing else has to run here meanwhile.
        context.sleep(moment);
        let asked = context.seconds();
        canceler.cancel().await?;
        Ok::<_, Error>(asked)
    };
    let ((told, canceled), asked) = tokio::try_join!(running, canceling)?;
    match canceled {
        true => Ok(Some((told - asked, rested(context, server)? - asked))),
        false => Ok(None),
    }
}

/// Waits until the server's threads rest; returns the moment since which they do.
fn rested(context: &Context, server: &Server) -> Result<f64> {
    let begun = context.seconds();
    let (mut looked, mut ran) = (begun, machine::thread_seconds_of(server.process())?);
    let (mut quiet_since, mut quiet_looks) = (begun, 0);
    while quiet_looks < QUIET_LOOKS && looked - begun < PATIENCE_SECONDS {
        context.sleep(BETWEEN_LOOKS);
        let (now, so_far) = (context.seconds(), machine::thread_seconds_of(server.process())?);
        if so_far - ran < QUIET_SHARE * (now - looked) {
            quiet_looks += 1;
        } else {
            (quiet_since, quiet_looks) = (now, 0);
        }
        (looked, ran) = (now, so_far);
    }
    Ok(quiet_since)
}
