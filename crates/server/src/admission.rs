//! How many statements run at once. Others wait in line, for so long and no longer.

use std::sync::Arc;
use std::time::Duration;

use thalweg_types::{Error, Result, SqlState};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

pub(crate) struct Admission {
    places: Arc<Semaphore>,
    timeout: Duration,
}

/// The right to run one statement, until it is dropped.
pub(crate) struct Permit {
    _place: OwnedSemaphorePermit,
}

impl Admission {
    pub(crate) fn new(statements: usize, timeout: Duration) -> Admission {
        let places = Arc::new(Semaphore::new(statements.clamp(1, Semaphore::MAX_PERMITS)));
        Admission { places, timeout }
    }

    /// Waits for a place.
    ///
    /// # Errors
    /// Where none came free in time.
    pub(crate) async fn admit(&self) -> Result<Permit> {
        if let Ok(place) = Arc::clone(&self.places).try_acquire_owned() {
            return Ok(Permit { _place: place });
        }
        let waiting = Arc::clone(&self.places).acquire_owned();
        match tokio::time::timeout(self.timeout, waiting).await {
            Ok(Ok(place)) => Ok(Permit { _place: place }),
            _ => {
                let message = "too many statements run at once, and none ended in time";
                Err(Error::new(SqlState::CONFIGURATION_LIMIT_EXCEEDED, message)
                    .with_hint("Try again later, or raise limits.statements."))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_statement_waits_for_another_to_end() {
        let admission = Arc::new(Admission::new(1, Duration::from_secs(600)));
        let first = admission.admit().await.unwrap();
        let second = tokio::spawn({
            let admission = Arc::clone(&admission);
            async move { admission.admit().await.map(drop) }
        });
        tokio::task::yield_now().await;
        assert!(!second.is_finished());
        drop(first);
        second.await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn waiting_has_an_end() {
        let admission = Admission::new(1, Duration::ZERO);
        let _first = admission.admit().await.unwrap();
        let refused = admission.admit().await.err().unwrap();
        assert_eq!(refused.state(), SqlState::CONFIGURATION_LIMIT_EXCEEDED);
    }
}
