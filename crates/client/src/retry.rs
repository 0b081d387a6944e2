//! Retries after a lost connection.

use std::time::Duration;

use tokio::time::{Instant, timeout_at};
use tonic::Status;

use crate::Error;

/// Number and timing of retries after a lost connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retries {
    /// Maximum number of consecutive retries; 0 for none.
    pub count: u32,
    /// Wait before the first retry. Each further wait is twice as long as the one before it.
    pub wait: Duration,
    /// Upper limit of a wait.
    pub wait_max: Duration,
}

impl Retries {
    /// No retries: the first lost connection is reported.
    pub const NEVER: Retries = Retries { count: 0, wait: Duration::ZERO, wait_max: Duration::ZERO };

    /// The wait after this number of consecutive failures.
    fn wait_after(self, failed: u32) -> Duration {
        let doublings = failed.saturating_sub(1).min(31);
        self.wait.saturating_mul(1 << doublings).min(self.wait_max)
    }
}

impl Default for Retries {
    /// Eight retries within about eight seconds, enough for a server that restarts.
    fn default() -> Retries {
        let [wait, wait_max] = [50, 2_500].map(Duration::from_millis);
        Retries { count: 8, wait, wait_max }
    }
}

/// The retries of one operation, limited by their number and by a deadline.
pub(crate) struct Tries {
    retries: Retries,
    until: Option<Instant>,
    /// Number of consecutive failures.
    failed: u32,
}

impl Tries {
    pub(crate) fn new(retries: Retries, until: Option<Instant>) -> Tries {
        Tries { retries, until, failed: 0 }
    }

    /// Resets the count of failures after progress.
    pub(crate) fn went_on(&mut self) {
        self.failed = 0;
    }

    /// Waits before the next retry.
    ///
    /// # Errors
    /// The failure itself if it may not be retried, or an error if the deadline has passed.
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

/// Runs work with a deadline, if there is one.
///
/// # Errors
/// The work's own error, or an error if the deadline has passed.
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
