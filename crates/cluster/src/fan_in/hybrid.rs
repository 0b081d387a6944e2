//! All workers at once, each read on its own lane: no queue between the socket and the reader, and
//! nothing that threads share.

use std::sync::Arc;

use thalweg_types::Error;
use tokio::task::JoinSet;

use super::gather::{Share, read};
use super::{Reader, Stop};

pub(super) async fn run<R: Reader>(share: Share<R>) -> Result<(), Stop> {
    // The runtime's own list of tasks that can go on is the list of workers that have sent
    // something: a slow one keeps nobody waiting.
    let mut streams = JoinSet::new();
    for asked in share.asked {
        let (reader, watch) = (share.reader.clone(), Arc::clone(&share.watch));
        streams.spawn(async move {
            let opened = asked.open(&watch).await?;
            read(opened, &reader, &watch).await
        });
    }
    finish(streams).await
}

/// Waits for all streams, or for the first that stops. The others are dropped then.
pub(super) async fn finish(mut streams: JoinSet<Result<(), Stop>>) -> Result<(), Stop> {
    while let Some(ended) = streams.join_next().await {
        ended.map_err(|died| Error::internal(died.to_string()))??;
    }
    Ok(())
}
