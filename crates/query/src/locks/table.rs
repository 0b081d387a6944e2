//! The lock table: holders and waiters of each lock, and the search for deadlocks among them.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};

use parking_lot::Mutex;
use thalweg_types::{Error, Result, SqlState};
use tokio::sync::oneshot;

/// Maximum number of locks of one session, counting repetitions.
pub(super) const TAKEN_MAX: usize = 10_000;

/// The key of a lock. PostgreSQL distinguishes one number from two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Key {
    One(i64),
    Two(i32, i32),
}

/// The mode of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Mode {
    Share,
    Exclusive,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lock {
    pub(super) key: Key,
    pub(super) mode: Mode,
}

impl Key {
    /// The columns `classid`, `objid` and `objsubid` of PostgreSQL's `pg_locks`.
    pub(crate) fn parts(self) -> (u32, u32, u32) {
        match self {
            Key::One(number) => ((number >> 32) as u32, number as u32, 1),
            Key::Two(first, second) => (first as u32, second as u32, 2),
        }
    }
}

impl Mode {
    /// The mode's name in PostgreSQL.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Mode::Share => "ShareLock",
            Mode::Exclusive => "ExclusiveLock",
        }
    }

    fn excludes(self, other: Mode) -> bool {
        self == Mode::Exclusive || other == Mode::Exclusive
    }
}

/// The owner of locks: a session.
#[derive(Debug, Default)]
pub(super) struct Owner {
    process_id: AtomicI32,
    /// Number of locks taken, in all terms of the session.
    taken: AtomicUsize,
}

impl Owner {
    pub(super) fn introduce(&self, process_id: i32) {
        self.process_id.store(process_id, Ordering::Relaxed);
    }

    fn process_id(&self) -> i32 {
        self.process_id.load(Ordering::Relaxed)
    }

    /// # Errors
    /// If the session has the maximum number of locks.
    fn check_room(&self) -> Result<()> {
        if self.taken.load(Ordering::Relaxed) < TAKEN_MAX {
            return Ok(());
        }
        let hint = format!("A session has {TAKEN_MAX} advisory locks at most: give some back.");
        Err(Error::new(SqlState::OUT_OF_MEMORY, "out of shared memory").with_hint(hint))
    }
}

/// The duration of locks: a session, or a transaction.
#[derive(Debug)]
pub(super) struct Term {
    owner: Arc<Owner>,
    /// In the order in which the locks were taken.
    taken: Mutex<Vec<Lock>>,
}

impl Term {
    pub(super) fn new(owner: &Arc<Owner>) -> Arc<Term> {
        Arc::new(Term { owner: Arc::clone(owner), taken: Mutex::default() })
    }

    pub(super) fn owner(&self) -> &Arc<Owner> {
        &self.owner
    }

    /// Number of locks of the term.
    pub(super) fn count(&self) -> usize {
        self.taken.lock().len()
    }

    /// Records that a lock was taken.
    fn take(&self, lock: Lock) {
        self.taken.lock().push(lock);
        self.owner.taken.fetch_add(1, Ordering::Relaxed);
    }

    /// Removes a lock once. Returns false if it was not taken.
    pub(super) fn give_back(&self, lock: Lock) -> bool {
        let mut taken = self.taken.lock();
        let Some(at) = taken.iter().rposition(|held| *held == lock) else { return false };
        taken.remove(at);
        self.owner.taken.fetch_sub(1, Ordering::Relaxed);
        true
    }

    /// Removes and returns all but the first `kept` locks.
    pub(super) fn cut(&self, kept: usize) -> Vec<Lock> {
        let mut taken = self.taken.lock();
        let kept = kept.min(taken.len());
        let cut = taken.split_off(kept);
        self.owner.taken.fetch_sub(cut.len(), Ordering::Relaxed);
        cut
    }
}

/// A lock that a session holds or waits for.
pub(crate) struct Listed {
    pub(crate) key: Key,
    pub(crate) mode: Mode,
    pub(crate) process_id: i32,
    pub(crate) is_held: bool,
}

/// A position in a queue: its number, and the channel that reports that the lock was granted.
pub(super) type Place = (u64, oneshot::Receiver<()>);

#[derive(Default)]
pub(super) struct Table {
    /// Only locks that are held or waited for have an entry.
    entries: HashMap<Key, Entry>,
    /// All waiters, for any lock.
    waits: Vec<Wait>,
    /// Number of waits since the database was opened.
    numbered: u64,
}

#[derive(Default)]
struct Entry {
    held: Vec<Held>,
    queue: VecDeque<Waiter>,
}

struct Held {
    owner: Arc<Owner>,
    mode: Mode,
    /// Number of times that the lock was taken.
    times: usize,
}

struct Waiter {
    number: u64,
    term: Arc<Term>,
    mode: Mode,
    granted_sender: oneshot::Sender<()>,
}

struct Wait {
    number: u64,
    owner: Arc<Owner>,
    lock: Lock,
}

impl Table {
    /// Takes a lock unless another session is in the way.
    ///
    /// # Errors
    /// If the session has too many locks.
    pub(super) fn try_take(&mut self, term: &Arc<Term>, lock: Lock) -> Result<bool> {
        let owner = term.owner();
        owner.check_room()?;
        let is_closed = |entry: &Entry| entry.is_closed_to(owner, lock.mode, entry.queue.len());
        if self.entries.get(&lock.key).is_some_and(is_closed) {
            return Ok(false);
        }
        term.take(lock);
        self.entries.entry(lock.key).or_default().hold(owner, lock.mode);
        Ok(true)
    }

    /// Takes a position in the queue of a lock that is not free. A session that holds the lock
    /// already is placed ahead of sessions that wait for it to release that lock.
    ///
    /// # Errors
    /// If the wait would be a deadlock.
    pub(super) fn wait(&mut self, term: &Arc<Term>, lock: Lock) -> Result<Place> {
        let owner = term.owner();
        if let Some(circle) = self.circle(owner, lock) {
            return Err(deadlock(&circle));
        }
        let (granted_sender, given) = oneshot::channel();
        self.numbered += 1;
        let number = self.numbered;
        let entry = self.entries.entry(lock.key).or_default();
        let at = match entry.has(owner) {
            true => entry.queue.iter().take_while(|ahead| entry.has(ahead.term.owner())).count(),
            false => entry.queue.len(),
        };
        let waiter = Waiter { number, term: Arc::clone(term), mode: lock.mode, granted_sender };
        entry.queue.insert(at, waiter);
        self.waits.push(Wait { number, owner: Arc::clone(owner), lock });
        Ok((number, given))
    }

    /// Gives up a position in a queue. Returns false if the lock was granted already.
    pub(super) fn leave_queue(&mut self, number: u64, key: Key) -> bool {
        let Some(entry) = self.entries.get_mut(&key) else { return false };
        let at = entry.queue.iter().position(|waiter| waiter.number == number);
        let Some(at) = at else { return false };
        entry.queue.remove(at);
        self.waits.retain(|wait| wait.number != number);
        self.serve(key);
        true
    }

    /// Releases a lock once.
    pub(super) fn release(&mut self, owner: &Arc<Owner>, lock: Lock) {
        let Some(entry) = self.entries.get_mut(&lock.key) else { return };
        let is_it = |held: &Held| Arc::ptr_eq(&held.owner, owner) && held.mode == lock.mode;
        let Some(at) = entry.held.iter().position(is_it) else { return };
        entry.held[at].times -= 1;
        if entry.held[at].times == 0 {
            entry.held.swap_remove(at);
            self.serve(lock.key);
        }
    }

    /// Grants a lock to the waiters in its queue that can have it now.
    fn serve(&mut self, key: Key) {
        let Some(entry) = self.entries.get_mut(&key) else { return };
        let mut at = 0;
        while at < entry.queue.len() {
            let Waiter { term, mode, .. } = &entry.queue[at];
            if entry.is_closed_to(term.owner(), *mode, at) {
                at += 1;
                continue;
            }
            let Some(Waiter { number, term, mode, granted_sender }) = entry.queue.remove(at) else {
                break;
            };
            self.waits.retain(|wait| wait.number != number);
            term.take(Lock { key, mode });
            entry.hold(term.owner(), mode);
            // A waiter that stopped listening releases the lock itself when its wait is dropped.
            let _ = granted_sender.send(());
        }
        if entry.held.is_empty() && entry.queue.is_empty() {
            self.entries.remove(&key);
        }
    }

    pub(super) fn listed(&self) -> Vec<Listed> {
        let entries = self.entries.iter();
        let held = entries.flat_map(|(key, entry)| entry.held.iter().map(|held| (*key, held)));
        let held = held.map(|(key, held)| Listed {
            key,
            mode: held.mode,
            process_id: held.owner.process_id(),
            is_held: true,
        });
        let awaited = self.waits.iter().map(|wait| Listed {
            key: wait.lock.key,
            mode: wait.lock.mode,
            process_id: wait.owner.process_id(),
            is_held: false,
        });
        held.chain(awaited).collect()
    }

    /// The cycle that would close if a session waited for a lock. A waiter waits for all holders of
    /// the lock, even those it could share it with: in that case a waiter ahead of it could not.
    fn circle(&self, owner: &Arc<Owner>, lock: Lock) -> Option<Vec<Edge>> {
        let mut edges = self.edges(owner, lock, None);
        let mut at = 0;
        while at < edges.len() {
            let holder = Arc::clone(&edges[at].holder);
            if Arc::ptr_eq(&holder, owner) {
                return Some(path(edges, at));
            }
            if !edges[..at].iter().any(|edge| Arc::ptr_eq(&edge.holder, &holder)) {
                let waits = self.waits.iter().filter(|wait| Arc::ptr_eq(&wait.owner, &holder));
                let further = waits.flat_map(|wait| self.edges(&holder, wait.lock, Some(at)));
                edges.extend(further);
            }
            at += 1;
        }
        None
    }

    fn edges(&self, waiter: &Arc<Owner>, lock: Lock, before: Option<usize>) -> Vec<Edge> {
        let held = self.entries.get(&lock.key).into_iter().flat_map(|entry| &entry.held);
        let others = held.filter(|held| !Arc::ptr_eq(&held.owner, waiter));
        let edge = |held: &Held| Edge {
            waiter: Arc::clone(waiter),
            lock,
            holder: Arc::clone(&held.owner),
            before,
        };
        others.map(edge).collect()
    }
}

impl Entry {
    fn has(&self, owner: &Arc<Owner>) -> bool {
        self.held.iter().any(|held| Arc::ptr_eq(&held.owner, owner))
    }

    fn hold(&mut self, owner: &Arc<Owner>, mode: Mode) {
        let is_it = |held: &&mut Held| Arc::ptr_eq(&held.owner, owner) && held.mode == mode;
        match self.held.iter_mut().find(is_it) {
            Some(held) => held.times += 1,
            None => self.held.push(Held { owner: Arc::clone(owner), mode, times: 1 }),
        }
    }

    /// True if another session holds the lock in a mode that excludes this one.
    fn is_held_against(&self, owner: &Arc<Owner>, mode: Mode) -> bool {
        let excludes = |held: &Held| held.mode.excludes(mode) && !Arc::ptr_eq(&held.owner, owner);
        self.held.iter().any(excludes)
    }

    /// True if a session cannot have the lock behind `ahead` waiters. A session that holds the lock
    /// already passes waiters that wait for it.
    fn is_closed_to(&self, owner: &Arc<Owner>, mode: Mode, ahead: usize) -> bool {
        self.is_held_against(owner, mode)
            || !self.has(owner) && self.is_awaited_against(ahead, owner, mode)
    }

    /// True if another session, among the first `ahead` in the queue, waits for a mode that
    /// excludes this one.
    fn is_awaited_against(&self, ahead: usize, owner: &Arc<Owner>, mode: Mode) -> bool {
        self.queue
            .iter()
            .take(ahead)
            .any(|waiter| waiter.mode.excludes(mode) && !Arc::ptr_eq(waiter.term.owner(), owner))
    }
}

/// One session waits for another one, because of a lock.
struct Edge {
    waiter: Arc<Owner>,
    lock: Lock,
    holder: Arc<Owner>,
    /// The edge that led here.
    before: Option<usize>,
}

/// The edges that lead to one, from the first on.
fn path(edges: Vec<Edge>, last: usize) -> Vec<Edge> {
    let mut places = vec![last];
    let mut at = last;
    while let Some(before) = edges[at].before {
        places.push(before);
        at = before;
    }
    let on_path = edges.into_iter().enumerate().filter(|(place, _)| places.contains(place));
    on_path.map(|(_, edge)| edge).collect()
}

fn deadlock(circle: &[Edge]) -> Error {
    let granted_sender = circle.iter().map(|Edge { waiter, lock, holder, .. }| {
        let (class, object, kind) = lock.key.parts();
        format!(
            "Process {} waits for {} on advisory lock [{class},{object},{kind}]; blocked by \
             process {}.",
            waiter.process_id(),
            lock.mode.name(),
            holder.process_id(),
        )
    });
    Error::new(SqlState::DEADLOCK_DETECTED, "deadlock detected")
        .with_detail(granted_sender.collect::<Vec<_>>().join("\n"))
        .with_hint("Take locks in the same order everywhere.")
}
