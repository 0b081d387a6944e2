//! Limits how fast passwords can be guessed, on any number of connections.
//!
//! An attempt takes tokens before its password is checked, and gets them back if the password is
//! right. The rate of wrong passwords is thus limited, not the rate of logins. There are token
//! buckets
//!
//! - for each pair of user and address, and for each address. If one of them is empty, attempts
//!   wait for tokens, the newest first, and are not checked without one.
//! - for each user, and for all attempts together. If one of them is empty, an attempt only waits
//!   for a short time, unless its address has let this user in before. Guesses from elsewhere
//!   therefore cannot lock a user out.
//!
//! The newest attempt goes first because a guesser's attempts fill every queue. A user who arrives
//! between them is served next, and no order gives a guesser more tokens.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, RandomState};
use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use tokio::sync::oneshot;

/// Maximum entries of each table. The least important entries are dropped first.
const ENTRIES_MAX: usize = 10_000;
/// Maximum attempts that wait for one bucket; a newer one displaces the oldest, which is refused.
const WAITING_MAX: usize = 1_024;
/// Maximum time that an attempt waits for a token.
const WAIT_MAX: Duration = Duration::from_secs(10);
/// Delay of an attempt caused by guesses from other addresses.
const SHORT_WAIT: Duration = Duration::from_millis(500);

/// Size and refill rate of a bucket.
#[derive(Clone, Copy)]
struct Rate {
    /// Tokens in a full bucket.
    burst: f64,
    per_second: f64,
}

const OF_PAIR: Rate = Rate { burst: 10.0, per_second: 2.0 };
const OF_ADDRESS: Rate = Rate { burst: 50.0, per_second: 5.0 };
const OF_USER: Rate = Rate { burst: 50.0, per_second: 5.0 };
const OF_ALL: Rate = Rate { burst: 500.0, per_second: 50.0 };

/// A pair of user and address, or an address. The user's name is stored as a hash, since names from
/// unauthenticated clients may be long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Lane {
    Pair(u64, IpAddr),
    Address(IpAddr),
}

/// The outcome of taking a token.
pub(super) enum Turn {
    Now,
    /// The receiver resolves when the token is granted, and closes without one if it never will be.
    /// Call [`Throttle::grant`] after the given time.
    Wait(oneshot::Receiver<()>, Duration),
}

pub(super) struct Throttle {
    hasher: RandomState,
    lanes: HashMap<Lane, Queue>,
    users: HashMap<u64, Bucket>,
    all: Bucket,
    /// Pairs of user and address that succeeded, with the time of the last success.
    known: HashMap<Lane, Duration>,
    pub(super) wait_max: Duration,
}

struct Bucket {
    rate: Rate,
    tokens: f64,
    filled: Duration,
}

struct Queue {
    bucket: Bucket,
    /// In order of arrival; the newest is the last.
    waiting: Vec<oneshot::Sender<()>>,
}

impl Throttle {
    /// For a server whose clients have this long to authenticate.
    pub(super) fn within(time: Duration) -> Throttle {
        Throttle {
            hasher: RandomState::new(),
            lanes: HashMap::new(),
            users: HashMap::new(),
            all: Bucket::full(OF_ALL, Duration::ZERO),
            known: HashMap::new(),
            wait_max: WAIT_MAX.min(time / 2),
        }
    }

    /// The lanes in which an attempt needs a token each. The pair comes first, so that an attempt
    /// waiting in it takes no token from other users of the address.
    pub(super) fn lanes(&self, user: &str, peer: IpAddr) -> [Lane; 2] {
        let network = network(peer);
        [Lane::Pair(self.hasher.hash_one(user), network), Lane::Address(network)]
    }

    /// Takes a token, or a place in the queue.
    pub(super) fn take(&mut self, lane: Lane, now: Duration) -> Turn {
        self.grant(lane, now);
        let queue = self.queue(lane, now);
        if queue.waiting.is_empty() && queue.bucket.take(now) {
            return Turn::Now;
        }
        if queue.waiting.len() >= WAITING_MAX {
            queue.waiting.retain(|waiting| !waiting.is_closed());
            if queue.waiting.len() >= WAITING_MAX {
                queue.waiting.remove(0);
            }
        }
        let (sender, receiver) = oneshot::channel();
        queue.waiting.push(sender);
        Turn::Wait(receiver, queue.bucket.time_to_next())
    }

    /// Grants available tokens to waiting attempts, and returns the time until the next token.
    pub(super) fn grant(&mut self, lane: Lane, now: Duration) -> Duration {
        let Some(queue) = self.lanes.get_mut(&lane) else { return Duration::ZERO };
        queue.bucket.fill(now);
        while queue.bucket.tokens >= 1.0 {
            let Some(newest) = queue.waiting.pop() else { break };
            if newest.send(()).is_ok() {
                queue.bucket.tokens -= 1.0;
            }
        }
        queue.bucket.time_to_next()
    }

    /// Returns the token of an attempt that was no wrong guess.
    pub(super) fn give_back(&mut self, lane: Lane, now: Duration) {
        if let Some(queue) = self.lanes.get_mut(&lane) {
            queue.bucket.give_back();
        }
        self.grant(lane, now);
    }

    /// Delay of an attempt that has its tokens, caused by guesses from other addresses.
    pub(super) fn short_wait(&mut self, user: &str, peer: IpAddr, now: Duration) -> Duration {
        let [pair, _] = self.lanes(user, peer);
        if self.known.contains_key(&pair) {
            return Duration::ZERO;
        }
        let user = self.hasher.hash_one(user);
        if self.users.len() >= ENTRIES_MAX && !self.users.contains_key(&user) {
            make_room(&mut self.users, |bucket| bucket.tokens_at(now));
        }
        let of_user = self.users.entry(user).or_insert_with(|| Bucket::full(OF_USER, now));
        let (of_user, of_all) = (of_user.take(now), self.all.take(now));
        if of_user && of_all { Duration::ZERO } else { SHORT_WAIT.min(self.wait_max) }
    }

    /// Records a right password: returns all tokens and remembers the address for this user.
    pub(super) fn succeeded(&mut self, user: &str, peer: IpAddr, now: Duration) {
        let lanes = self.lanes(user, peer);
        lanes.into_iter().for_each(|lane| self.give_back(lane, now));
        if self.known.len() >= ENTRIES_MAX && !self.known.contains_key(&lanes[0]) {
            // The weight is the age, so the older half is dropped.
            make_room(&mut self.known, |seen| (now.saturating_sub(*seen)).as_secs_f64());
        }
        if self.known.insert(lanes[0], now).is_none() {
            let user = self.hasher.hash_one(user);
            self.users.entry(user).and_modify(Bucket::give_back);
            self.all.give_back();
        }
    }

    fn queue(&mut self, lane: Lane, now: Duration) -> &mut Queue {
        if self.lanes.len() >= ENTRIES_MAX && !self.lanes.contains_key(&lane) {
            make_room(&mut self.lanes, |queue| match queue.waiting.is_empty() {
                true => queue.bucket.tokens_at(now) / queue.bucket.rate.burst,
                false => 0.0,
            });
        }
        let rate = match lane {
            Lane::Pair(..) => OF_PAIR,
            Lane::Address(_) => OF_ADDRESS,
        };
        let queue = || Queue { bucket: Bucket::full(rate, now), waiting: Vec::new() };
        self.lanes.entry(lane).or_insert_with(queue)
    }
}

impl Bucket {
    fn full(rate: Rate, now: Duration) -> Bucket {
        Bucket { rate, tokens: rate.burst, filled: now }
    }

    fn tokens_at(&self, now: Duration) -> f64 {
        let since = now.saturating_sub(self.filled).as_secs_f64();
        (self.tokens + since * self.rate.per_second).min(self.rate.burst)
    }

    fn fill(&mut self, now: Duration) {
        self.tokens = self.tokens_at(now);
        self.filled = self.filled.max(now);
    }

    fn take(&mut self, now: Duration) -> bool {
        self.fill(now);
        let has_one = self.tokens >= 1.0;
        if has_one {
            self.tokens -= 1.0;
        }
        has_one
    }

    fn give_back(&mut self) {
        self.tokens = (self.tokens + 1.0).min(self.rate.burst);
    }

    fn time_to_next(&self) -> Duration {
        Duration::from_secs_f64(((1.0 - self.tokens) / self.rate.per_second).max(0.0))
    }
}

/// Removes the half of a table's entries with the highest weight, which matter least.
fn make_room<K: Copy + Eq + Hash, V>(table: &mut HashMap<K, V>, weight: impl Fn(&V) -> f64) {
    let mut weighed: Vec<(f64, K)> = table.iter().map(|(key, v)| (weight(v), *key)).collect();
    let half = weighed.len() / 2;
    weighed.select_nth_unstable_by(half, |(one, _), (other, _)| other.total_cmp(one));
    for (_, key) in &weighed[..half.max(1)] {
        table.remove(key);
    }
}

/// An IPv4 address, or the /64 network of an IPv6 address, since a host usually has all of its 2^64
/// addresses.
fn network(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V6(address) => {
            let bits = address.to_bits() & !u128::from(u64::MAX);
            IpAddr::V6(Ipv6Addr::from_bits(bits))
        }
        v4 => v4,
    }
}

#[cfg(test)]
mod tests;
