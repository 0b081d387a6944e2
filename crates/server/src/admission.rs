//! Limits the number of statements that run at once. Others queue for a limited time.
//!
//! A statement holds a permit while it computes. While a connection waits for its client it gives
//! the permit back, and takes another one to continue. Statements about advisory locks need no
//! permit: they wait, and the holder of the lock may need a permit to release it. Superusers have
//! reserved permits, so that they can still work on a full server.

use std::sync::Arc;
use std::time::Duration;

use thalweg_query::{Session, takes_locks};
use thalweg_types::{Error, Result, SqlState};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Permits reserved for superusers.
const RESERVED: usize = 3;

pub(crate) struct Admission {
    slots: Arc<Semaphore>,
    reserve: Arc<Semaphore>,
    timeout: Duration,
}

/// The right to run one statement, released on drop.
pub(crate) struct Permit {
    _place: OwnedSemaphorePermit,
}

/// The kind of user that asks for a permit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asker {
    Anybody,
    Superuser,
}

impl Asker {
    /// The kind of a session's user.
    pub(crate) fn of(session: &Session) -> Asker {
        let is_superuser = session.setting("is_superuser").is_some_and(|setting| setting == "on");
        if is_superuser { Asker::Superuser } else { Asker::Anybody }
    }
}

impl Admission {
    pub(crate) fn new(statements: usize, timeout: Duration) -> Admission {
        let slots = Arc::new(Semaphore::new(statements.clamp(1, Semaphore::MAX_PERMITS)));
        Admission { slots, reserve: Arc::new(Semaphore::new(RESERVED)), timeout }
    }

    /// Waits for a permit.
    ///
    /// # Errors
    /// If no permit became free in time.
    pub(crate) async fn admit(&self, asker: Asker) -> Result<Permit> {
        if let Some(permit) = self.try_admit() {
            return Ok(permit);
        }
        let waiting = self.permit(asker);
        tokio::time::timeout(self.timeout, waiting).await.map_err(|_| none_ended())
    }

    /// Waits for a permit for a statement; `None` if it needs none.
    ///
    /// # Errors
    /// Like [`Admission::admit`].
    pub(crate) async fn admit_statement(&self, asker: Asker, sql: &str) -> Result<Option<Permit>> {
        match takes_locks(sql) {
            true => Ok(None),
            false => self.admit(asker).await.map(Some),
        }
    }

    /// Waits without a time limit for a permit for a statement that has already begun.
    pub(crate) async fn readmit(&self, asker: Asker) -> Permit {
        match self.try_admit() {
            Some(permit) => permit,
            None => self.permit(asker).await,
        }
    }

    fn try_admit(&self) -> Option<Permit> {
        let slot = Arc::clone(&self.slots).try_acquire_owned().ok()?;
        Some(Permit { _place: slot })
    }

    async fn permit(&self, asker: Asker) -> Permit {
        let slots = Arc::clone(&self.slots).acquire_owned();
        let reserve = Arc::clone(&self.reserve).acquire_owned();
        let slot = tokio::select! {
            biased;
            slot = slots => slot,
            slot = reserve, if asker == Asker::Superuser => slot,
        };
        Permit { _place: slot.expect("places are never closed") }
    }
}

/// The error of a statement that waited in vain.
pub(crate) fn none_ended() -> Error {
    let message = "too many statements run at once, and none ended in time";
    Error::new(SqlState::CONFIGURATION_LIMIT_EXCEEDED, message)
        .with_hint("Try again later, or raise limits.statements.")
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    fn full() -> (Admission, Permit) {
        let admission = Admission::new(1, Duration::ZERO);
        let permit = admission.admit(Asker::Anybody).now_or_never().unwrap().unwrap();
        (admission, permit)
    }

    #[tokio::test]
    async fn a_statement_waits_for_another_to_end() {
        let admission = Admission::new(1, Duration::from_secs(600));
        let first = admission.admit(Asker::Anybody).await.unwrap();
        let mut second = Box::pin(admission.admit(Asker::Anybody));
        assert!(second.as_mut().now_or_never().is_none());
        drop(first);
        second.await.unwrap();
    }

    #[tokio::test]
    async fn waiting_has_an_end() {
        let (admission, _permit) = full();
        let refused = admission.admit(Asker::Anybody).await.err().unwrap();
        assert_eq!(refused.state(), SqlState::CONFIGURATION_LIMIT_EXCEEDED);
    }

    #[tokio::test]
    async fn superusers_have_a_reserve_that_has_an_end_too() {
        let (admission, _permit) = full();
        let mut reserve = Vec::new();
        for _ in 0..RESERVED {
            reserve.push(admission.admit(Asker::Superuser).await.unwrap());
        }
        assert!(admission.admit(Asker::Superuser).await.is_err());
        reserve.pop();
        assert!(admission.admit(Asker::Anybody).await.is_err());
        assert!(admission.admit(Asker::Superuser).await.is_ok());
    }

    #[tokio::test]
    async fn who_waits_for_a_lock_needs_no_place() {
        let (admission, _permit) = full();
        let lock = "SELECT pg_advisory_lock($1)";
        assert!(admission.admit_statement(Asker::Anybody, lock).await.unwrap().is_none());
        assert!(admission.admit_statement(Asker::Anybody, "SELECT 1").await.is_err());
    }

    #[tokio::test]
    async fn a_statement_that_has_begun_waits_without_an_end() {
        let (admission, permit) = full();
        let mut again = Box::pin(admission.readmit(Asker::Anybody));
        assert!(again.as_mut().now_or_never().is_none());
        drop(permit);
        again.await;
    }
}
