//! Acknowledgements of a stream's groups, in order.

use std::collections::VecDeque;

use parking_lot::Mutex;
use thalweg_query::{AcknowledgeRows, RowFailure, Written};
use thalweg_types::{Error, Lsn};

#[derive(Default)]
pub(super) struct Acknowledgements(Mutex<Waiting>);

#[derive(Default)]
struct Waiting {
    /// Number of the first waiting group.
    first: u64,
    groups: VecDeque<Group>,
    /// The first group that stopped the stream. The groups behind it are left out.
    stopped: Option<u64>,
}

/// A group that waits for answers of owners.
pub(super) struct Group {
    parts: usize,
    rows: u64,
    failures: Vec<RowFailure>,
    /// Error of a group that was sent to no owner.
    error: Option<Error>,
    stops: bool,
    /// True if only the first failure is reported.
    single: bool,
    acknowledge: AcknowledgeRows,
}

impl Group {
    /// A group of so many parts. `early` has the rows that failed before any owner was asked, or
    /// the error of the whole group.
    pub(super) fn new(
        parts: usize,
        early: Result<Vec<RowFailure>, Error>,
        acknowledge: AcknowledgeRows,
    ) -> Group {
        let (failures, error) = match early {
            Ok(failures) => (failures, None),
            Err(error) => (Vec::new(), Some(error)),
        };
        Group { parts, rows: 0, failures, error, stops: false, single: false, acknowledge }
    }

    /// Makes a failed row stop the stream.
    pub(super) fn stopping(mut self, single: bool) -> Group {
        self.stops = true;
        self.single = single;
        self
    }

    fn tell(mut self) {
        self.failures.sort_by_key(|failure| failure.place);
        if self.single {
            self.failures.truncate(1);
        }
        let written = Written { lsn: Lsn(0), rows: self.rows, failures: self.failures };
        (self.acknowledge)(self.error.map_or(Ok(written), Err));
    }
}

impl Acknowledgements {
    /// Adds a group and returns its number. `has_failed` says that one of its rows has failed
    /// already.
    pub(super) fn begin(&self, group: Group, has_failed: bool) -> u64 {
        let mut waiting = self.0.lock();
        let number = waiting.first + waiting.groups.len() as u64;
        let failed = has_failed || !group.failures.is_empty() || group.error.is_some();
        if group.stops && failed {
            waiting.stop(number);
        }
        waiting.groups.push_back(group);
        waiting.tell();
        number
    }

    /// Records one owner's answer to its part of a group.
    pub(super) fn part(&self, number: u64, rows: u64, failures: Vec<RowFailure>) {
        let mut waiting = self.0.lock();
        let place = (number - waiting.first) as usize;
        let Some(group) = waiting.groups.get_mut(place) else { return };
        group.parts -= 1;
        group.rows += rows;
        let stops = group.stops && !failures.is_empty();
        group.failures.extend(failures);
        if stops {
            waiting.stop(number);
        }
        waiting.tell();
    }

    pub(super) fn has_stopped(&self) -> bool {
        self.0.lock().stopped.is_some()
    }

    /// True if a group is behind one that stopped the stream.
    pub(super) fn is_left_out(&self, number: u64) -> bool {
        self.0.lock().stopped.is_some_and(|stopped| number > stopped)
    }
}

impl Waiting {
    fn stop(&mut self, number: u64) {
        self.stopped = Some(self.stopped.map_or(number, |stopped| stopped.min(number)));
    }

    /// Acknowledges the leading groups whose owners have all answered. The lock is held meanwhile,
    /// so that groups are acknowledged in order.
    fn tell(&mut self) {
        while self.groups.front().is_some_and(|group| group.parts == 0)
            && let Some(group) = self.groups.pop_front()
        {
            self.first += 1;
            group.tell();
        }
    }
}

#[cfg(test)]
mod tests {
    use thalweg_env::{Receiver, channel};

    use super::*;

    /// A group whose acknowledgement reports the number of written rows, and the offsets of failed
    /// ones.
    fn group(parts: usize) -> (Group, Receiver<(u64, Vec<u32>)>) {
        let (sender, receiver) = channel();
        let acknowledge = move |written: Result<Written, Error>| {
            let written = written.unwrap();
            let places = written.failures.iter().map(|failure| failure.place).collect();
            sender.send((written.rows, places)).unwrap();
        };
        (Group::new(parts, Ok(Vec::new()), Box::new(acknowledge)), receiver)
    }

    fn failures(places: &[u32]) -> Vec<RowFailure> {
        let failure = |place: &u32| RowFailure { place: *place, error: Error::internal("x") };
        places.iter().map(failure).collect()
    }

    #[test]
    fn a_group_waits_for_all_its_owners_and_for_those_before_it() {
        let acknowledgements = Acknowledgements::default();
        let ((one, first), (other, second)) = (group(2), group(1));
        let (one, other) =
            (acknowledgements.begin(one, false), acknowledgements.begin(other, false));
        acknowledgements.part(other, 3, Vec::new());
        acknowledgements.part(one, 1, failures(&[4]));
        assert!(first.try_recv().is_err() && second.try_recv().is_err());
        acknowledgements.part(one, 2, failures(&[1]));
        assert_eq!((first.recv().unwrap(), second.recv().unwrap()), ((3, vec![1, 4]), (3, vec![])));
        assert!(!acknowledgements.has_stopped());
        let (none, third) = group(0);
        acknowledgements.begin(none, false);
        assert_eq!(third.recv().unwrap(), (0, vec![]));
    }

    #[test]
    fn the_first_row_that_failed_stops_what_is_behind_it() {
        let acknowledgements = Acknowledgements::default();
        let groups = [group(1), group(2), group(1)].map(|(group, receiver)| {
            (acknowledgements.begin(group.stopping(true), false), receiver)
        });
        let [(first, one), (second, two), (third, three)] = groups;
        acknowledgements.part(second, 5, failures(&[9, 11]));
        assert!(
            acknowledgements.is_left_out(third)
                && !acknowledgements.is_left_out(second)
                && !acknowledgements.is_left_out(first)
        );
        acknowledgements.part(first, 2, failures(&[3]));
        assert!(acknowledgements.is_left_out(second));
        acknowledgements.part(second, 0, failures(&[2]));
        acknowledgements.part(third, 0, Vec::new());
        assert_eq!(one.recv().unwrap(), (2, vec![3]));
        assert_eq!(two.recv().unwrap(), (5, vec![2]));
        assert_eq!(three.recv().unwrap(), (0, vec![]));
    }
}
