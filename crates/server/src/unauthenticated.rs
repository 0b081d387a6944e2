//! Bookkeeping of sockets and of connections whose clients have not authenticated.
//!
//! Promises: unauthenticated connections take a bounded number of sockets, and a new one always
//! gets in, since it evicts the oldest. All sockets together leave descriptors for the database's
//! files.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::host::sockets_max;

tokio::task_local! {
    /// The connection of the current call.
    static CONNECTION: Arc<UnauthenticatedConnection>;
}

/// All open connections of all front ends.
pub(crate) struct Unauthenticated {
    sockets_max: usize,
    unauthenticated_max: usize,
    sockets: AtomicUsize,
    /// Notified when a socket is closed.
    closed: Notify,
    by_age: Mutex<ByAge>,
}

#[derive(Default)]
struct ByAge {
    last: u64,
    waiting: BTreeMap<u64, Arc<Notify>>,
}

/// An open connection. It counts as an unauthenticated connection until
/// [`UnauthenticatedConnection::is_known`] is called.
pub(crate) struct UnauthenticatedConnection {
    all: Arc<Unauthenticated>,
    number: u64,
    evicted: Arc<Notify>,
}

impl Unauthenticated {
    /// For a server that wants this many sockets; the descriptor limit may allow fewer.
    pub(crate) fn new(sockets_wanted: usize) -> Arc<Unauthenticated> {
        let sockets_max = sockets_wanted.min(sockets_max());
        Arc::new(Unauthenticated {
            sockets_max,
            // Strangers get half of a scarce number, since sessions need sockets, too.
            unauthenticated_max: match sockets_max < sockets_wanted {
                true => (sockets_max / 2).max(1),
                false => sockets_max,
            },
            sockets: AtomicUsize::new(0),
            closed: Notify::new(),
            by_age: Mutex::default(),
        })
    }

    /// Maximum number of sockets.
    pub(crate) fn sockets_max(&self) -> usize {
        self.sockets_max
    }

    /// Admits a connection. `None` if there is no room and no unauthenticated connection to evict.
    pub(crate) fn enter(self: &Arc<Self>) -> Option<Arc<UnauthenticatedConnection>> {
        let sockets = self.sockets.fetch_add(1, Ordering::Relaxed);
        let mut by_age = self.by_age.lock();
        let is_full =
            sockets >= self.sockets_max || by_age.waiting.len() >= self.unauthenticated_max;
        if is_full && !by_age.evict() {
            drop(by_age);
            self.sockets.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        by_age.last += 1;
        let (number, evicted) = (by_age.last, Arc::new(Notify::new()));
        by_age.waiting.insert(number, Arc::clone(&evicted));
        drop(by_age);
        Some(Arc::new(UnauthenticatedConnection { all: Arc::clone(self), number, evicted }))
    }

    /// Resolves when the number of sockets is within the limit. An evicted connection keeps its
    /// socket until its task has ended.
    pub(crate) async fn has_room(&self) {
        loop {
            let closed = self.closed.notified();
            if self.sockets.load(Ordering::Relaxed) <= self.sockets_max {
                return;
            }
            closed.await;
        }
    }

    /// Evicts the oldest unauthenticated connection, to be called when the system has no descriptor
    /// left.
    pub(crate) fn evict_oldest(&self) {
        self.by_age.lock().evict();
    }
}

impl ByAge {
    fn evict(&mut self) -> bool {
        let Some((_, oldest)) = self.waiting.pop_first() else { return false };
        oldest.notify_one();
        true
    }
}

impl UnauthenticatedConnection {
    /// Marks the client as authenticated, so that its connection is not evicted any more.
    pub(crate) fn is_known(&self) {
        self.all.by_age.lock().waiting.remove(&self.number);
    }

    /// Resolves when the connection must end in favour of a newer one.
    pub(crate) async fn evicted(&self) {
        self.evicted.notified().await;
    }

    /// Runs a call within the scope of this connection; see [`caller_is_known`].
    pub(crate) fn call<F: Future>(
        self: Arc<Self>,
        call: F,
    ) -> impl Future<Output = F::Output> + use<F> {
        CONNECTION.scope(self, call)
    }
}

impl Drop for UnauthenticatedConnection {
    fn drop(&mut self) {
        self.is_known();
        self.all.sockets.fetch_sub(1, Ordering::Relaxed);
        self.all.closed.notify_waiters();
    }
}

/// Marks the client of the current call as authenticated.
pub(crate) fn caller_is_known() {
    let _ = CONNECTION.try_with(|connection| connection.is_known());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unauthenticated(sockets_max: usize, unauthenticated_max: usize) -> Arc<Unauthenticated> {
        let (sockets, by_age) = (AtomicUsize::new(0), Mutex::default());
        let closed = Notify::new();
        Arc::new(Unauthenticated { sockets_max, unauthenticated_max, sockets, closed, by_age })
    }

    fn has_to_go(unauthenticated_connection: &UnauthenticatedConnection) -> bool {
        futures::FutureExt::now_or_never(unauthenticated_connection.evicted()).is_some()
    }

    #[test]
    fn the_oldest_stranger_goes_and_clients_that_are_known_stay() {
        let all = unauthenticated(10, 3);
        let known = all.enter().unwrap();
        known.is_known();
        let three = [(); 3].map(|()| all.enter().unwrap());
        assert!(
            three.iter().all(|unauthenticated_connection| !has_to_go(unauthenticated_connection))
        );
        let fourth = all.enter().unwrap();
        assert_eq!(
            three
                .each_ref()
                .map(|unauthenticated_connection| has_to_go(unauthenticated_connection)),
            [true, false, false]
        );
        drop((three, fourth));
        assert!(!has_to_go(&known));
        assert_eq!(all.sockets.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn nothing_is_accepted_until_an_evicted_socket_is_closed() {
        let all = unauthenticated(1, 1);
        let first = all.enter().unwrap();
        assert!(futures::FutureExt::now_or_never(all.has_room()).is_some());
        let _second = all.enter().unwrap();
        assert!(has_to_go(&first));
        assert!(futures::FutureExt::now_or_never(all.has_room()).is_none());
        drop(first);
        assert!(futures::FutureExt::now_or_never(all.has_room()).is_some());
    }

    #[test]
    fn there_is_no_room_beside_clients_that_are_known() {
        let all = unauthenticated(2, 2);
        let two = [(); 2].map(|()| all.enter().unwrap());
        two[0].is_known();
        two[1].is_known();
        assert!(all.enter().is_none());
        drop(two);
        assert!(all.enter().is_some());
        assert_eq!(all.sockets.load(Ordering::Relaxed), 0);
    }

    #[tokio::test]
    async fn a_call_makes_its_own_connection_known() {
        let all = unauthenticated(2, 2);
        let (one, other) = (all.enter().unwrap(), all.enter().unwrap());
        Arc::clone(&one).call(async { caller_is_known() }).await;
        let third = all.enter().unwrap();
        assert!(!has_to_go(&one) && has_to_go(&other) && !has_to_go(&third));
    }
}
