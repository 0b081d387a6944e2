use std::collections::BTreeMap;

use super::Step::{Append, Read};
use super::{Anomaly, Key, Step, Transaction, check};
use crate::history::{Operation, Outcome};

fn done(invoked: u64, completed: u64, steps: &[Step]) -> Transaction {
    let action = steps.to_vec();
    Operation { client: 0, invoked, completed, action, outcome: Outcome::Done(()) }
}

fn in_doubt(invoked: u64, completed: u64, steps: &[Step]) -> Transaction {
    let action = steps.to_vec();
    Operation { client: 0, invoked, completed, action, outcome: Outcome::InDoubt }
}

fn read(key: Key, list: &[u64]) -> Step {
    Read(key, list.to_vec())
}

fn judge(history: &[Transaction], last: &[(Key, &[u64])]) -> Option<Anomaly> {
    let last: BTreeMap<Key, Vec<u64>> =
        last.iter().map(|(key, list)| (*key, list.to_vec())).collect();
    check(history, &last).err().map(|violation| violation.anomaly)
}

#[test]
fn snapshots_one_after_the_other_are_fine() {
    let history = [
        done(0, 1, &[read(1, &[]), Append(1, 10), Append(2, 20)]),
        done(2, 3, &[read(1, &[10]), read(2, &[20]), Append(1, 11)]),
        in_doubt(4, 9, &[read(1, &[10, 11]), Append(1, 12)]),
        in_doubt(4, 9, &[Append(2, 21)]),
        done(10, 11, &[read(1, &[10, 11]), read(2, &[20, 21])]),
    ];
    assert_eq!(judge(&history, &[(1, &[10, 11]), (2, &[20, 21])]), None);
    let seen = judge(&history, &[(1, &[10, 11, 12]), (2, &[20, 21])]);
    assert_eq!(seen, Some(Anomaly::GSingle), "it happened before its era ended or never");
}

/// Each misses the other's write: allowed, and what makes snapshot isolation less than serial.
#[test]
fn write_skew_is_allowed() {
    let history = [
        done(0, 5, &[read(1, &[]), read(2, &[]), Append(1, 10)]),
        done(1, 4, &[read(1, &[]), read(2, &[]), Append(2, 20)]),
    ];
    assert_eq!(judge(&history, &[(1, &[10]), (2, &[20])]), None);
}

#[test]
fn a_lost_update_is_told() {
    let race =
        [done(0, 5, &[read(1, &[]), Append(1, 10)]), done(1, 4, &[read(1, &[]), Append(1, 11)])];
    assert_eq!(judge(&race, &[(1, &[11])]), Some(Anomaly::Lost));
    assert_eq!(judge(&race, &[(1, &[10, 11])]), Some(Anomaly::GSingle));
    let seen = [race[0].clone(), race[1].clone(), done(2, 3, &[read(1, &[10])])];
    assert_eq!(judge(&seen, &[(1, &[11])]), Some(Anomaly::IncompatibleOrder));
    assert_eq!(judge(&race, &[(1, &[10, 11, 10])]), Some(Anomaly::IncompatibleOrder));
}

#[test]
fn writes_in_a_circle_are_g0() {
    let history =
        [done(0, 5, &[Append(1, 10), Append(2, 20)]), done(1, 4, &[Append(1, 11), Append(2, 21)])];
    assert_eq!(judge(&history, &[(1, &[10, 11]), (2, &[20, 21])]), None);
    assert_eq!(judge(&history, &[(1, &[10, 11]), (2, &[21, 20])]), Some(Anomaly::G0));
}

#[test]
fn what_never_committed_must_not_be_read() {
    let history = [done(0, 1, &[read(1, &[7])])];
    assert_eq!(judge(&history, &[(1, &[])]), Some(Anomaly::G1a));
    assert_eq!(judge(&[], &[(1, &[7])]), Some(Anomaly::G1a));
}

#[test]
fn the_middle_of_another_transaction_must_not_be_read() {
    let writer = done(0, 5, &[Append(1, 10), Append(1, 11)]);
    let history = |list: &[u64]| [writer.clone(), done(1, 4, &[read(1, list)])];
    assert_eq!(judge(&history(&[10, 11]), &[(1, &[10, 11])]), None);
    assert_eq!(judge(&history(&[]), &[(1, &[10, 11])]), None);
    assert_eq!(judge(&history(&[10]), &[(1, &[10, 11])]), Some(Anomaly::G1b));
}

#[test]
fn information_in_a_circle_is_g1c() {
    let history = [
        done(0, 5, &[Append(1, 10), read(2, &[20])]),
        done(1, 4, &[Append(2, 20), read(1, &[10])]),
    ];
    assert_eq!(judge(&history, &[(1, &[10]), (2, &[20])]), Some(Anomaly::G1c));
}

#[test]
fn half_a_group_is_g_single() {
    let writer = done(0, 5, &[Append(1, 10), Append(2, 20)]);
    let history = [writer, done(1, 4, &[read(1, &[10]), read(2, &[])])];
    assert_eq!(judge(&history, &[(1, &[10]), (2, &[20])]), Some(Anomaly::GSingle));
    // Nor is half of one there at the end.
    let doubtful = [in_doubt(0, 5, &[Append(1, 10), Append(2, 20)])];
    assert_eq!(judge(&doubtful, &[(1, &[10]), (2, &[])]), Some(Anomaly::Lost));
    assert_eq!(judge(&doubtful, &[(1, &[]), (2, &[])]), None);
}

#[test]
fn two_readers_cannot_see_two_writers_in_different_orders() {
    let history = [
        done(0, 9, &[Append(1, 10)]),
        done(0, 9, &[Append(2, 20)]),
        done(0, 9, &[read(1, &[10]), read(2, &[])]),
        done(0, 9, &[read(1, &[]), read(2, &[20])]),
    ];
    assert_eq!(judge(&history, &[(1, &[10]), (2, &[20])]), Some(Anomaly::GNonadjacent));
}

#[test]
fn a_stale_snapshot_is_told_by_the_time() {
    let writer = done(0, 1, &[Append(1, 10)]);
    let reader = |begun| done(begun, 9, &[read(1, &[])]);
    assert_eq!(judge(&[writer.clone(), reader(0)], &[(1, &[10])]), None);
    assert_eq!(judge(&[writer, reader(2)], &[(1, &[10])]), Some(Anomaly::GSingle));
}

#[test]
fn a_transaction_sees_its_own_appends_and_nothing_that_moves() {
    let fine = [read(1, &[]), Append(1, 10), read(1, &[10]), read(1, &[10])];
    assert_eq!(judge(&[done(0, 1, &fine)], &[(1, &[10])]), None);
    let blind = [read(1, &[]), Append(1, 10), read(1, &[])];
    assert_eq!(judge(&[done(0, 1, &blind)], &[(1, &[10])]), Some(Anomaly::Internal));
}
