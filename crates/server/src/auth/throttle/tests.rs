use super::*;

const PEER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));
const OTHER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2));
const NOW: Duration = Duration::from_secs(1000);
const SECOND: Duration = Duration::from_secs(1);

fn throttle() -> Throttle {
    Throttle::within(Duration::from_secs(30))
}

/// How many of so many attempts at one moment get both tokens.
fn checked(
    throttle: &mut Throttle,
    user: &str,
    peer: IpAddr,
    count: usize,
    now: Duration,
) -> usize {
    let lanes = throttle.lanes(user, peer);
    let mut turn = |lane| matches!(throttle.take(lane, now), Turn::Now);
    (0..count).filter(|_| lanes.into_iter().all(&mut turn)).count()
}

#[test]
fn wrong_passwords_are_checked_at_a_rate_whatever_the_number_of_attempts() {
    let mut throttle = throttle();
    assert_eq!(checked(&mut throttle, "ann", PEER, 1000, NOW), OF_PAIR.burst as usize);
    for second in 1..60 {
        let now = NOW + SECOND * second;
        assert_eq!(checked(&mut throttle, "ann", PEER, 1000, now), 2);
    }
    assert_eq!(checked(&mut throttle, "ann", OTHER, 1, NOW), 1, "another address is not slowed");
}

#[test]
fn many_users_of_one_address_share_its_rate() {
    let mut throttle = throttle();
    let all: usize =
        (0..1000).map(|user| checked(&mut throttle, &format!("u{user}"), PEER, 1, NOW)).sum();
    assert_eq!(all, OF_ADDRESS.burst as usize);
    assert_eq!(checked(&mut throttle, "ann", OTHER, 1, NOW), 1);
}

#[test]
fn hosts_of_one_network_are_one_address() {
    let mut throttle = throttle();
    let host = |bits: u128| IpAddr::V6(Ipv6Addr::from_bits(0x2001_0db8 << 96 | bits));
    let all: usize = (0..1000).map(|n| checked(&mut throttle, "ann", host(n), 1, NOW)).sum();
    assert_eq!(all, OF_PAIR.burst as usize);
    assert_eq!(checked(&mut throttle, "ann", host(1 << 64), 1, NOW), 1);
    let mapped = "::ffff:10.0.0.1".parse().unwrap();
    assert_eq!(throttle.lanes("ann", mapped), throttle.lanes("ann", PEER));
}

#[test]
fn right_passwords_cost_nothing() {
    let mut throttle = throttle();
    for _ in 0..1000 {
        assert_eq!(checked(&mut throttle, "ann", PEER, 1, NOW), 1);
        assert_eq!(throttle.short_wait("ann", PEER, NOW), Duration::ZERO);
        throttle.succeeded("ann", PEER, NOW);
    }
}

#[test]
fn the_newest_attempt_gets_the_next_token() {
    let mut throttle = throttle();
    checked(&mut throttle, "ann", PEER, 10, NOW);
    let [lane, _] = throttle.lanes("ann", PEER);
    let mut waiting: Vec<_> = (0..100)
        .map(|_| match throttle.take(lane, NOW) {
            Turn::Wait(receiver, next) => {
                assert!(next <= SECOND);
                receiver
            }
            Turn::Now => panic!("there is no token"),
        })
        .collect();
    throttle.grant(lane, NOW + SECOND);
    let served: Vec<bool> = waiting.iter_mut().map(|one| one.try_recv().is_ok()).collect();
    assert_eq!(served.iter().filter(|served| **served).count(), 2);
    assert!(served[99] && served[98]);
    // One who left takes no token.
    waiting.truncate(50);
    throttle.grant(lane, NOW + SECOND * 2);
    assert!(waiting[49].try_recv().is_ok() && waiting[48].try_recv().is_ok());
}

#[test]
fn guesses_from_everywhere_delay_others_by_a_short_time_and_known_addresses_not_at_all() {
    let mut throttle = throttle();
    throttle.succeeded("ann", OTHER, NOW);
    for n in 0..10_000_u32 {
        let from = IpAddr::V4(std::net::Ipv4Addr::from_bits(n));
        let wait = throttle.short_wait("ann", from, NOW);
        assert_eq!(wait, if n < OF_USER.burst as u32 { Duration::ZERO } else { SHORT_WAIT });
    }
    assert_eq!(throttle.short_wait("ann", OTHER, NOW), Duration::ZERO);
    assert!(throttle.short_wait("bob", PEER, NOW) <= SHORT_WAIT);
}

#[test]
fn no_wait_outlasts_the_time_to_log_in() {
    for seconds in [30, 2] {
        let time = Duration::from_secs(seconds);
        assert!(Throttle::within(time).wait_max <= time / 2);
    }
}

#[test]
fn memory_is_bounded_and_empty_buckets_stay() {
    let mut throttle = throttle();
    let guessed = checked(&mut throttle, "ann", PEER, 10, NOW);
    assert_eq!(guessed, 10);
    for number in 0..3 * ENTRIES_MAX as u32 {
        let from = IpAddr::V4(std::net::Ipv4Addr::from_bits(0x0b00_0000 + number));
        let user = format!("user {number}");
        checked(&mut throttle, &user, from, 1, NOW);
        throttle.short_wait(&user, from, NOW);
        throttle.succeeded(&user, from, NOW + Duration::from_micros(u64::from(number)));
    }
    for entries in [throttle.lanes.len(), throttle.users.len(), throttle.known.len()] {
        assert!(entries <= ENTRIES_MAX);
    }
    assert_eq!(checked(&mut throttle, "ann", PEER, 1, NOW), 0);
    let [lane, _] = throttle.lanes("ann", PEER);
    let held: Vec<_> = (0..3 * WAITING_MAX).map(|_| throttle.take(lane, NOW)).collect();
    assert!(throttle.lanes[&lane].waiting.len() <= WAITING_MAX);
    drop(held);
}
