//! The part of the server's statements that requests of the console may use.
//!
//! A browser can hold many requests open. The console has a part of `limits.statements`, so that
//! other clients are served whatever its users do. A request takes its place before its first
//! statement: it never waits for one while it holds a transaction that others wait for.

use std::sync::Arc;
use std::time::Duration;

use thalweg_types::Result;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::admission::none_ended;
use crate::config::LimitsConfig;

/// One in so many statements of the server may be one of the console.
const PART: usize = 4;

pub(super) struct Room {
    free: Arc<Semaphore>,
    timeout: Duration,
}

impl Room {
    pub(super) fn new(limits: &LimitsConfig) -> Room {
        let free = Arc::new(Semaphore::new(limits.statements.div_ceil(PART)));
        Room { free, timeout: limits.queue_timeout() }
    }

    /// Waits for a place, in the order of arrival.
    ///
    /// # Errors
    /// If none becomes free in time.
    pub(super) async fn place(&self) -> Result<OwnedSemaphorePermit> {
        let place = Arc::clone(&self.free).acquire_owned();
        let place = tokio::time::timeout(self.timeout, place).await.map_err(|_| none_ended())?;
        Ok(place.expect("the semaphore is never closed"))
    }
}
