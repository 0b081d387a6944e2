//! Whoever guesses passwords waits, longer each time.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

/// The wait after the first failure; it doubles with each further one.
const FIRST_WAIT: Duration = Duration::from_millis(100);
const STEP_MAX: Duration = Duration::from_secs(10);
/// However many attempts are made at once, none waits longer: a client has to live to hear that its
/// password is wrong, or right.
const WAIT_MAX: Duration = STEP_MAX;
/// After this long without a failure all is forgotten.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(600);
/// How many pairs of user and peer are remembered.
const REMEMBERED_MAX: usize = 10_000;

type Key = (String, IpAddr);

/// Failures by user and peer. Another peer is not slowed down: nobody can lock a user out from
/// elsewhere.
pub(super) struct Throttle {
    failures: HashMap<Key, Failures>,
    wait_max: Duration,
}

#[derive(Clone, Copy)]
struct Failures {
    count: u32,
    last: Duration,
    /// When the next attempt may be made.
    next: Duration,
}

impl Default for Throttle {
    fn default() -> Throttle {
        Throttle { failures: HashMap::new(), wait_max: WAIT_MAX }
    }
}

impl Throttle {
    /// For a server that gives clients so much time to show who they are.
    pub(super) fn within(time: Duration) -> Throttle {
        Throttle { wait_max: WAIT_MAX.min(time / 2), ..Throttle::default() }
    }

    /// How long an attempt has to wait. Attempts that are made at once wait for each other, so that
    /// guessing on many connections is no faster.
    pub(super) fn wait(&mut self, user: &str, peer: IpAddr, now: Duration) -> Duration {
        let found = self.failures.get_mut(&(user.to_owned(), peer));
        let Some(failures) = found.filter(|failures| !failures.is_forgotten(now)) else {
            return Duration::ZERO;
        };
        let step = failures.step();
        let turn = failures.next.max(now + step).min(now + self.wait_max);
        failures.next = turn + step;
        turn - now
    }

    pub(super) fn failed(&mut self, user: &str, peer: IpAddr, now: Duration) {
        let key = (user.to_owned(), peer);
        if !self.failures.contains_key(&key) && self.failures.len() >= REMEMBERED_MAX {
            self.make_room(now);
        }
        let failures =
            self.failures.entry(key).or_insert(Failures { count: 0, last: now, next: now });
        if failures.is_forgotten(now) {
            failures.count = 0;
        }
        failures.count = failures.count.saturating_add(1);
        failures.last = now;
    }

    pub(super) fn succeeded(&mut self, user: &str, peer: IpAddr) {
        self.failures.remove(&(user.to_owned(), peer));
    }

    /// Forgets what is old; where nothing is, the older half.
    fn make_room(&mut self, now: Duration) {
        self.failures.retain(|_, failures| !failures.is_forgotten(now));
        if self.failures.len() < REMEMBERED_MAX {
            return;
        }
        let mut times: Vec<Duration> = self.failures.values().map(|f| f.last).collect();
        let half = times.len() / 2;
        let (_, median, _) = times.select_nth_unstable(half);
        let median = *median;
        self.failures.retain(|_, failures| failures.last > median);
    }
}

impl Failures {
    fn step(&self) -> Duration {
        let factor = 2_u32.saturating_pow(self.count.saturating_sub(1));
        FIRST_WAIT.saturating_mul(factor).min(STEP_MAX)
    }

    fn is_forgotten(&self, now: Duration) -> bool {
        now.saturating_sub(self.last) > FORGOTTEN_AFTER
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PEER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));
    const OTHER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2));
    const NOW: Duration = Duration::from_secs(1000);

    #[test]
    fn waits_grow_to_a_limit_for_that_user_and_peer_only() {
        let mut throttle = Throttle::default();
        assert_eq!(throttle.wait("ann", PEER, NOW), Duration::ZERO);
        let (mut now, mut waits) = (NOW, Vec::new());
        for _ in 0..40 {
            throttle.failed("ann", PEER, now);
            waits.push(throttle.wait("ann", PEER, now));
            now += waits[waits.len() - 1];
        }
        assert_eq!(waits[..3], [100, 200, 400].map(Duration::from_millis));
        assert_eq!(waits[39], STEP_MAX);
        assert_eq!(throttle.wait("ann", OTHER, now), Duration::ZERO);
        assert_eq!(throttle.wait("bob", PEER, now), Duration::ZERO);
    }

    #[test]
    fn attempts_that_are_made_at_once_wait_for_each_other() {
        let mut throttle = Throttle::default();
        throttle.failed("ann", PEER, NOW);
        let waits: Vec<Duration> = (0..1000).map(|_| throttle.wait("ann", PEER, NOW)).collect();
        assert_eq!(waits[..3], [100, 200, 300].map(Duration::from_millis));
        assert_eq!(waits[999], WAIT_MAX);
    }

    #[test]
    fn no_wait_outlasts_the_time_to_log_in() {
        let limits = crate::LimitsConfig::default();
        for time in [limits.startup_timeout(), Duration::from_secs(2)] {
            let mut throttle = Throttle::within(time);
            (0..40).for_each(|_| throttle.failed("ann", PEER, NOW));
            assert!((0..100).all(|_| throttle.wait("ann", PEER, NOW) <= time / 2));
        }
    }

    #[test]
    fn success_and_time_forgive() {
        let mut throttle = Throttle::default();
        throttle.failed("ann", PEER, NOW);
        assert_eq!(throttle.wait("ann", PEER, NOW + FORGOTTEN_AFTER * 2), Duration::ZERO);
        throttle.succeeded("ann", PEER);
        assert_eq!(throttle.wait("ann", PEER, NOW), Duration::ZERO);
    }

    #[test]
    fn memory_is_bounded_and_the_newest_failures_stay() {
        let mut throttle = Throttle::default();
        for number in 0..3 * REMEMBERED_MAX as u64 {
            throttle.failed(&format!("user {number}"), PEER, NOW + Duration::from_micros(number));
        }
        assert!(throttle.failures.len() <= REMEMBERED_MAX);
        let newest = format!("user {}", 3 * REMEMBERED_MAX - 1);
        assert!(throttle.wait(&newest, PEER, NOW) > Duration::ZERO);
    }

    #[test]
    fn many_failures_at_one_moment_leave_room() {
        let mut throttle = Throttle::default();
        for number in 0..=REMEMBERED_MAX {
            throttle.failed(&format!("user {number}"), PEER, NOW);
        }
        assert!(throttle.failures.len() <= REMEMBERED_MAX);
    }
}
