//! The additional time of a query over PostgreSQL's wire, compared with an embedded one.

use std::path::Path;

use thalweg_types::Result;

use super::Embedded;
use crate::clients::Connection;
use crate::context::Context;
use crate::samples::Samples;

/// Seconds of a prepared query, run in turns.
pub(super) struct Turns {
    pub embedded: Samples,
    /// Over the wire, to a server with the same rows.
    pub over_wire: Samples,
}

impl Turns {
    /// The additional time over the wire, compared with the embedded run right before. Negative if
    /// the machine's noise exceeds the wire's cost.
    pub fn longer(&self) -> Samples {
        let pairs = self.over_wire.iter().zip(self.embedded.iter());
        pairs.map(|(over_wire, embedded)| over_wire - embedded).collect()
    }
}

/// Queries the rows of a file, embedded and over the wire in turns.
pub(super) async fn turns(
    context: &Context,
    path: &Path,
    question: &str,
    repetitions: usize,
) -> Result<Turns> {
    let scratch = context.scratch_for_servers("questions")?;
    let server = context.server(&scratch).await?;
    let mut connection = Connection::open(&server.endpoint).await?;
    connection.execute("CREATE TABLE trades (symbol text, volume bigint)").await?;
    connection.execute(&format!("COPY trades FROM '{}' (FORMAT parquet)", path.display())).await?;
    connection.prepare("asked", question).await?;
    let mut embedded = Embedded::over(path, super::TURNS_THREADS, question).await?;
    let mut turns = Turns { embedded: Samples::default(), over_wire: Samples::default() };
    for repetition in 0..=repetitions {
        let here = embedded.ask(context).await?;
        let (there, _) = context.timed(connection.execute_prepared("asked", &[])).await?;
        if repetition > 0 {
            turns.embedded.push(here);
            turns.over_wire.push(there);
        }
    }
    Ok(turns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_is_of_neighbours_and_may_be_less_than_nothing() {
        let turns = Turns {
            embedded: Samples::from_iter([2.0, 8.0, 4.0]),
            over_wire: Samples::from_iter([1.0, 8.5, 8.0]),
        };
        assert_eq!(turns.longer(), Samples::from_iter([-1.0, 0.5, 4.0]));
    }
}
