//! Keeps messages of a stream in order while several of them are under way.
//!
//! Each message waits for its predecessor. A late message must not run after a later one: a gateway
//! gives up a worker that hangs and goes on when it is back, while the abandoned message may still
//! be in a socket.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use thalweg_runtime::timeout;
use thalweg_types::{Error, Result, SqlState};
use tokio::sync::watch;

/// Longest time that a message waits for its predecessor, which is under way when it is sent.
const PATIENCE: Duration = Duration::from_secs(10);
/// Size of one generation of remembered streams.
const STREAMS_MAX: usize = 65_536;

#[derive(Default)]
pub(crate) struct MessageOrder(Mutex<Streams>);

/// Number of the last message of each stream, in two generations. A stream that sends nothing while
/// [`STREAMS_MAX`] others come is forgotten.
#[derive(Default)]
struct Streams {
    young: HashMap<u64, Arc<watch::Sender<u64>>>,
    old: HashMap<u64, Arc<watch::Sender<u64>>>,
}

impl MessageOrder {
    /// Runs `work` in a message's turn, which is once message `behind` is done. Messages of one
    /// stream never run concurrently. If the future is dropped before, nothing is done.
    ///
    /// # Errors
    /// If a later message was done already, or the predecessor does not arrive in time.
    pub(crate) async fn take(
        &self,
        stream: u64,
        (behind, turn): (u64, u64),
        work: impl FnOnce(),
    ) -> Result<()> {
        let last = self.0.lock().last(stream);
        let mut before = last.subscribe();
        let before = timeout(PATIENCE, before.wait_for(|last| *last >= behind));
        // The channel cannot be closed while `last` is held.
        let came = before.await.is_ok();
        if !came {
            let message = format!("message {turn} is behind message {behind}, which did not come");
            return Err(Error::new(SqlState::CONNECTION_FAILURE, message));
        }
        let mut work = Some(work);
        last.send_if_modified(|last| {
            if turn <= *last {
                return false;
            }
            *last = turn;
            work.take().into_iter().for_each(|work| work());
            true
        });
        match work {
            None => Ok(()),
            Some(_) => {
                let message = format!("message {turn} comes behind a later one of its stream");
                Err(Error::new(SqlState::SERIALIZATION_FAILURE, message))
            }
        }
    }
}

impl Streams {
    fn last(&mut self, stream: u64) -> Arc<watch::Sender<u64>> {
        if self.young.len() >= STREAMS_MAX {
            self.old = std::mem::take(&mut self.young);
        }
        let old = &mut self.old;
        let last =
            self.young.entry(stream).or_insert_with(|| old.remove(&stream).unwrap_or_default());
        Arc::clone(last)
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    /// True if a message is done at once, false if it fails; `None` if it waits.
    fn now(turns: &MessageOrder, stream: u64, behind: u64, turn: u64) -> Option<bool> {
        // The runtime's budget would make a task wait that has run for long.
        let taken = tokio::task::unconstrained(turns.take(stream, (behind, turn), || {}));
        Some(taken.now_or_never()?.is_ok())
    }

    #[tokio::test]
    async fn a_late_message_is_not_done() {
        let turns = MessageOrder::default();
        assert_eq!(now(&turns, 1, 0, 1), Some(true));
        assert_eq!(now(&turns, 2, 0, 1), Some(true));
        assert_eq!(now(&turns, 1, 0, 3), Some(true));
        assert_eq!(now(&turns, 1, 1, 2), Some(false));
        assert_eq!(now(&turns, 1, 0, 3), Some(false));
        assert_eq!(now(&turns, 2, 1, 2), Some(true));
    }

    #[tokio::test]
    async fn a_message_waits_for_the_one_before_it() {
        let turns = MessageOrder::default();
        let done = Mutex::new(Vec::new());
        let pushed = &done;
        let take = |behind, turn| turns.take(1, (behind, turn), move || pushed.lock().push(turn));
        assert_eq!(now(&turns, 1, 1, 2), None, "and is not done where nobody waits any more");
        let all = futures::join!(take(2, 3), take(1, 2), take(0, 1));
        assert!(all.0.is_ok() && all.1.is_ok() && all.2.is_ok());
        assert_eq!(*done.lock(), [1, 2, 3]);
    }

    #[tokio::test]
    async fn streams_that_go_on_are_remembered_and_others_are_not_for_ever() {
        let turns = MessageOrder::default();
        let streams = 3 * STREAMS_MAX as u64;
        for stream in 1..=streams {
            assert_eq!(now(&turns, 0, stream - 1, stream), Some(true));
            assert_eq!(now(&turns, stream, 0, 9), Some(true));
        }
        let streams = turns.0.lock();
        assert!(streams.young.len() + streams.old.len() <= 2 * STREAMS_MAX);
    }
}
