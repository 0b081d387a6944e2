//! What a question takes longer over PostgreSQL's wire than embedded.

use std::path::Path;

use thalweg_types::Result;

use crate::clients::Connection;
use crate::context::Context;
use crate::samples::Samples;

/// Seconds of a prepared question to a server that has the rows of a file.
pub(super) async fn asked(
    context: &Context,
    path: &Path,
    question: &str,
    repetitions: usize,
) -> Result<Samples> {
    let scratch = context.scratch_for_servers("questions")?;
    let server = context.server(&scratch).await?;
    let mut connection = Connection::open(&server.endpoint).await?;
    connection.execute("CREATE TABLE trades (symbol text, volume bigint)").await?;
    connection.execute(&format!("COPY trades FROM '{}' (FORMAT parquet)", path.display())).await?;
    connection.prepare("asked", question).await?;
    let mut samples = Samples::default();
    for repetition in 0..=repetitions {
        let (seconds, _) = context.timed(connection.execute_prepared("asked")).await?;
        if repetition > 0 {
            samples.push(seconds);
        }
    }
    Ok(samples)
}
