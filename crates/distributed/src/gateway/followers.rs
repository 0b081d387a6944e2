//! The further gateways that follow this one.
//!
//! A follower reports its version, asks for more and waits for the answer (a long poll). Its next
//! request confirms that it applied the last answer. So this gateway never has to call a follower.
//!
//! Invariants: a definition counts as done only when all present gateways know it. A gateway that
//! does not ask again in time is forgotten until it does.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use thalweg_env::Clock;
use thalweg_protocol::cluster as wire;
use thalweg_runtime::timeout;
use thalweg_types::{Error, Result, SqlState};
use tokio::sync::watch;

use super::Shared;

/// Longest time that an answer waits for news.
const NEWS_WITHIN: Duration = Duration::from_secs(1);
/// Longest time that a gateway may take until it asks again.
const PATIENCE: Duration = Duration::from_secs(5);

pub(crate) struct Followers {
    /// Followers by gateway number.
    known: watch::Sender<BTreeMap<u64, Follower>>,
    /// Number of the last definition.
    last: watch::Sender<u64>,
    /// Counter of requests.
    asked: AtomicU64,
}

struct Follower {
    address: String,
    definitions: u64,
    storage: Vec<wire::StorageFault>,
    /// The number of what it asked last, and when that was answered; `None` while it waits.
    ask: u64,
    answered: Option<Duration>,
}

impl Follower {
    /// True if it waits for an answer, or got one not long ago.
    fn is_there(&self, now: Duration) -> bool {
        self.answered.is_none_or(|answered| now.saturating_sub(answered) < PATIENCE)
    }
}

impl Followers {
    /// No followers yet; `definitions` is the number of the last definition.
    pub(super) fn new(definitions: u64) -> Followers {
        Followers {
            known: watch::Sender::default(),
            last: watch::Sender::new(definitions),
            asked: AtomicU64::new(0),
        }
    }

    /// Waits until all present followers know a definition. A slow follower is forgotten and
    /// catches up later.
    pub(super) async fn follow(&self, definition: u64, clock: &dyn Clock) {
        let now = clock.monotonic();
        self.known.send_modify(|known| known.retain(|_, follower| follower.is_there(now)));
        self.last.send_replace(definition);
        let mut changes = self.known.subscribe();
        let all = changes
            .wait_for(|known| known.values().all(|follower| follower.definitions >= definition));
        let in_time = timeout(PATIENCE, all).await.is_ok();
        if !in_time {
            let forget = |known: &mut BTreeMap<u64, Follower>| {
                known.retain(|_, follower| follower.definitions >= definition);
            };
            self.known.send_modify(forget);
        }
    }

    pub(super) fn entries(&self, clock: &dyn Clock) -> Vec<wire::GatewayEntry> {
        let now = clock.monotonic();
        let known = self.known.borrow();
        let there = known.iter().filter(|(_, follower)| follower.is_there(now));
        let entries = there.map(|(gateway, follower)| wire::GatewayEntry {
            gateway: *gateway,
            address: follower.address.clone(),
            definitions: follower.definitions,
            defines: false,
            answers: true,
            storage: follower.storage.clone(),
        });
        entries.collect()
    }
}

/// A request that waits for its answer. Dropping it before the answer removes the follower.
struct Waiting {
    shared: Arc<Shared>,
    gateway: u64,
    ask: u64,
}

impl Waiting {
    /// Registers a request. Returns true if the follower is new.
    fn begin(shared: &Arc<Shared>, follow: &wire::Follow) -> (Waiting, bool) {
        let ask = shared.followers.asked.fetch_add(1, Ordering::Relaxed);
        let follower = Follower {
            address: follow.address.clone(),
            definitions: follow.definitions,
            storage: follow.storage.clone(),
            ask,
            answered: None,
        };
        let now = shared.clock.monotonic();
        let mut is_new = false;
        shared.followers.known.send_modify(|known| {
            known.retain(|_, other| other.is_there(now));
            is_new = known.insert(follow.gateway, follower).is_none();
        });
        (Waiting { shared: Arc::clone(shared), gateway: follow.gateway, ask }, is_new)
    }

    fn answered(self) {
        let now = self.shared.clock.monotonic();
        self.shared.followers.known.send_modify(|known| {
            let own = known.get_mut(&self.gateway).filter(|follower| follower.ask == self.ask);
            if let Some(follower) = own {
                follower.answered = Some(now);
            }
        });
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.shared.followers.known.send_modify(|known| {
            let waits =
                |follower: &Follower| follower.ask == self.ask && follower.answered.is_none();
            if known.get(&self.gateway).is_some_and(waits) {
                known.remove(&self.gateway);
            }
        });
    }
}

/// Answers a follower's request: at once if it is new or behind, otherwise when there is news or
/// after [`NEWS_WITHIN`].
///
/// # Errors
/// If it cannot follow this gateway.
pub(super) async fn answer(shared: &Arc<Shared>, follow: wire::Follow) -> Result<wire::News> {
    if let Some(following) = &shared.following {
        return Err(following.is_no_first());
    }
    let here = shared.last_definition();
    if follow.definitions > here {
        let message = format!(
            "the gateway at {} followed another one: it knows {} definitions, of which there are \
             {here} here",
            follow.address, follow.definitions
        );
        return Err(Error::new(SqlState::OBJECT_NOT_IN_STATE, message)
            .with_hint("Start it on an empty directory."));
    }
    let (waiting, is_new) = Waiting::begin(shared, &follow);
    if !is_new {
        let mut last = shared.followers.last.subscribe();
        let mut maps = shared.map().changes();
        let defined = async { last.wait_for(|last| *last > follow.definitions).await.is_ok() };
        let mapped =
            async { maps.wait_for(|map| map.version() > follow.map_version).await.is_ok() };
        let news = async {
            tokio::select! {
                _ = defined => {}
                _ = mapped => {}
            }
        };
        // If there is no news in time, the answer is empty.
        let _ = timeout(NEWS_WITHIN, news).await;
    }
    let map = shared.map().current();
    let news = wire::News {
        map: (map.version() > follow.map_version).then(|| map.to_wire()),
        definitions: shared.definitions_after(follow.definitions),
        gateways: shared.gateways(),
    };
    waiting.answered();
    Ok(news)
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;
    use thalweg_env::SimulatedClock;

    use super::*;

    fn follower(definitions: u64, answered: Option<Duration>) -> Follower {
        Follower { address: String::new(), definitions, storage: Vec::new(), ask: 0, answered }
    }

    #[tokio::test]
    async fn a_definition_waits_for_those_that_are_there() {
        let (followers, clock) = (Followers::new(3), SimulatedClock::new());
        let gone = follower(3, Some(clock.monotonic()));
        followers.known.send_modify(|known| drop(known.insert(1, gone)));
        clock.advance(PATIENCE);
        assert!(followers.follow(4, &clock).now_or_never().is_some());
        followers.known.send_modify(|known| drop(known.insert(2, follower(4, None))));
        assert_eq!(followers.entries(&clock).len(), 1);
        let mut waits = Box::pin(followers.follow(5, &clock));
        assert!((&mut waits).now_or_never().is_none());
        assert_eq!(*followers.last.borrow(), 5, "it is told that there is more");
        followers.known.send_modify(|known| drop(known.insert(2, follower(5, None))));
        waits.await;
    }
}
