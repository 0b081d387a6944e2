//! What is done about a connection that was lost.

use std::time::Duration;

use tokio::time::{Instant, timeout_at};
use tonic::Status;

use crate::Error;

/// How often something is tried again after a lost connection, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retries {
    /// How often in a row; 0 for never.
    pub count: u32,
    /// How long the first one waits. Each further one waits twice as long as the one before it.
    pub wait: Duration,
    /// None waits longer than this.
    pub wait_max: Duration,
}

impl Retries {
    /// The first loss of a connection is told.
    pub const NEVER: Retries = Retries { count: 0, wait: Duration::ZERO, wait_max: Duration::ZERO };

    /// How long to wait after so many tries that failed, the first one included.
    fn wait_after(self, failed: u32) -> Duration {
        let doublings = failed.saturating_sub(1).min(31);
        self.wait.saturating_mul(1 << doublings).min(self.wait_max)
    }
}

impl Default for Retries {
    /// Eight within eight seconds: time enough for a server that is started again.
    fn default() -> Retries {
        let [wait, wait_max] = [50, 2_500].map(Duration::from_millis);
        Retries { count: 8, wait, wait_max }
    }
}

/// What is tried until it works, is refused, was tried often enough, or takes too long.
pub(crate) struct Tries {
    retries: Retries,
    until: Option<Instant>,
    /// How many have failed in a row.
    failed: u32,
}

impl Tries {
    pub(crate) fn new(retries: Retries, until: Option<Instant>) -> Tries {
        Tries { retries, until, failed: 0 }
    }

    /// Notes that the last try got somewhere.
    pub(crate) fn went_on(&mut self) {
        self.failed = 0;
    }

    /// Waits until it is time for another try after one that failed.
    ///
    /// # Errors
    /// Why there is none.
    pub(crate) async fn wait(&mut self, failure: Error) -> Result<(), Error> {
        if !failure.is_lost_connection() || self.failed >= self.retries.count {
            return Err(failure);
        }
        self.failed += 1;
        let wait = self.retries.wait_after(self.failed);
        within(self.until, pause(wait)).await
    }
}

#[expect(clippy::disallowed_methods, reason = "a server comes back in real time")]
async fn pause(wait: Duration) -> Result<(), Error> {
    tokio::time::sleep(wait).await;
    Ok(())
}

/// Does something that must have ended at some time, if at any.
///
/// # Errors
/// Its own, and where it takes too long.
pub(crate) async fn within<T>(
    until: Option<Instant>,
    work: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    let Some(until) = until else { return work.await };
    let late = |_| Err(Status::deadline_exceeded("the deadline has passed").into());
    timeout_at(until, work).await.unwrap_or_else(late)
}

#[cfg(test)]
mod tests {
    use tonic::Code;

    use super::*;
    use crate::error::ended;

    #[test]
    fn waits_double_up_to_the_longest() {
        let retries = Retries::default();
        let waits = [1, 2, 3, 6, 7, 8, u32::MAX].map(|failed| retries.wait_after(failed));
        assert_eq!(waits.map(|wait| wait.as_millis()), [50, 100, 200, 1_600, 2_500, 2_500, 2_500]);
    }

    #[tokio::test]
    async fn tries_end_with_their_number_the_deadline_or_a_refusal() {
        let wait = Duration::from_millis(1);
        let retries = Retries { count: 2, wait, wait_max: wait };
        let mut tries = Tries::new(retries, None);
        assert!(tries.wait(ended()).await.is_ok() && tries.wait(ended()).await.is_ok());
        assert!(tries.wait(ended()).await.is_err());
        tries.went_on();
        assert!(tries.wait(ended()).await.is_ok());
        let refused = Status::invalid_argument("no").into();
        assert!(tries.wait(refused).await.is_err());
        let long = Duration::from_secs(3_600);
        let retries = Retries { count: 2, wait: long, wait_max: long };
        let late = Tries::new(retries, Some(Instant::now())).wait(ended()).await.unwrap_err();
        assert!(matches!(late, Error::Ended(status) if status.code() == Code::DeadlineExceeded));
    }
}
