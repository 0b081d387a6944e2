//! Checks that a history is linearizable: its operations can be ordered one at a time, each at a
//! moment between its beginning and its end.
//!
//! The search is that of Wing and Gong, "Testing and Verifying Concurrent Objects" (1993), with the
//! cache of Lowe, "Testing for Linearizability" (2017): a set of completed operations with a state
//! is not searched again once it has failed. A history is linearizable if that of each key is
//! (Herlihy and Wing 1990), so keys are judged one by one.

#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::fmt::{self, Debug};
use std::hash::Hash;

use crate::history::Operation;

/// Maximum length of a history. The time of the search may grow exponentially with the number of
/// overlapping operations.
pub const OPERATIONS_MAX: usize = 1_000;

/// The sequential specification: the results of operations that take place one at a time.
pub trait Model {
    type State: Clone + Eq + Hash + Debug;
    type Action: Debug;
    type Observed: Debug;

    fn initial() -> Self::State;

    /// The state after an action, if this result is possible; an operation in doubt has no result.
    fn step(
        state: &Self::State,
        action: &Self::Action,
        outcome: Option<&Self::Observed>,
    ) -> Option<Self::State>;
}

/// The reason why a history is not linearizable.
pub struct Violation {
    /// The longest order that was found, and the state after it.
    order: Vec<String>,
    state: String,
    /// The candidates for the next operation, none of which is possible.
    stuck: Vec<String>,
}

impl Debug for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const LAST: usize = 12;
        let skipped = self.order.len().saturating_sub(LAST);
        writeln!(f, "not linearizable. In order, after {skipped} others:")?;
        self.order[skipped..].iter().try_for_each(|operation| writeln!(f, "  {operation}"))?;
        writeln!(f, "then the state is {}, and none of these can be next:", self.state)?;
        self.stuck.iter().try_for_each(|operation| writeln!(f, "  {operation}"))
    }
}

/// Judges the history of one key.
///
/// # Errors
/// If no such order exists.
///
/// # Panics
/// If the history is longer than [`OPERATIONS_MAX`].
pub fn check<M: Model>(history: &[Operation<M::Action, M::Observed>]) -> Result<(), Violation> {
    assert!(history.len() <= OPERATIONS_MAX, "{} operations of one key", history.len());
    Search::<M>::new(history).run()
}

/// The beginning or the end of an operation, in a list sorted by time. Operations that got their
/// place in the order are removed from the list.
#[derive(Clone, Copy)]
struct Event {
    operation: usize,
    begins: bool,
    before: usize,
    after: usize,
}

/// A step that the search may have to undo.
struct Taken<S> {
    operation: usize,
    state: S,
    /// True if the operation was in doubt and is assumed not to have taken place.
    never: bool,
}

struct Search<'h, M: Model> {
    history: &'h [Operation<M::Action, M::Observed>],
    /// The first event is the sentinel at the beginning of the list, the last one that at its end.
    events: Vec<Event>,
    /// The two events of each operation.
    of: Vec<(usize, usize)>,
    state: M::State,
    done: Vec<u64>,
    taken: Vec<Taken<M::State>>,
    tried: HashSet<(Box<[u64]>, M::State)>,
    /// The longest order reached, and its state.
    furthest: (Vec<usize>, M::State),
}

impl<'h, M: Model> Search<'h, M> {
    fn new(history: &'h [Operation<M::Action, M::Observed>]) -> Self {
        let mut times: Vec<(u64, usize, bool)> = Vec::with_capacity(2 * history.len());
        for (place, operation) in history.iter().enumerate() {
            times.push((operation.invoked, place, true));
            times.push((operation.completed, place, false));
        }
        // Events at the same moment do not prove that one operation ended before another began.
        times.sort_by_key(|(moment, place, begins)| (*moment, !begins, *place));
        let last = times.len() + 1;
        let mut events = vec![Event { operation: 0, begins: false, before: 0, after: 1 }; last + 1];
        let mut of = vec![(0, 0); history.len()];
        for (number, (_, operation, begins)) in (1..).zip(times) {
            events[number] = Event { operation, begins, before: number - 1, after: number + 1 };
            if begins {
                of[operation].0 = number;
            } else {
                of[operation].1 = number;
            }
        }
        events[last].before = last - 1;
        Search {
            history,
            events,
            of,
            state: M::initial(),
            done: vec![0; history.len().div_ceil(64)],
            taken: Vec::new(),
            tried: HashSet::new(),
            furthest: (Vec::new(), M::initial()),
        }
    }

    fn run(mut self) -> Result<(), Violation> {
        let last = self.events.len() - 1;
        let mut at = self.events[0].after;
        // Operations in doubt have ends, too, so the walk meets an end before it meets the last
        // event.
        while self.events[0].after != last {
            let Event { operation, begins, after, .. } = self.events[at];
            let doubtful = self.history[operation].is_in_doubt();
            let next = match begins {
                true => {
                    let Operation { action, .. } = &self.history[operation];
                    M::step(&self.state, action, self.history[operation].result())
                }
                false => doubtful.then(|| self.state.clone()),
            };
            if let Some(next) = next
                && self.take(operation, next, !begins)
            {
                at = self.events[0].after;
            } else if begins {
                at = after;
            } else {
                at = self.take_back().ok_or_else(|| self.violation())?;
            }
        }
        Ok(())
    }

    /// Places an operation next in the order, unless this was tried before.
    fn take(&mut self, operation: usize, next: M::State, never: bool) -> bool {
        self.done[operation / 64] |= 1 << (operation % 64);
        if !self.tried.insert((self.done.clone().into(), next.clone())) {
            self.done[operation / 64] &= !(1 << (operation % 64));
            return false;
        }
        let state = std::mem::replace(&mut self.state, next);
        self.taken.push(Taken { operation, state, never });
        let (begin, end) = self.of[operation];
        for event in [begin, end] {
            let Event { before, after, .. } = self.events[event];
            self.events[before].after = after;
            self.events[after].before = before;
        }
        if self.taken.len() > self.furthest.0.len() {
            let order = self.taken.iter().map(|taken| taken.operation).collect();
            self.furthest = (order, self.state.clone());
        }
        true
    }

    /// Undoes the last step that has an alternative; returns the event to continue with.
    fn take_back(&mut self) -> Option<usize> {
        loop {
            let Taken { operation, state, never } = self.taken.pop()?;
            self.state = state;
            self.done[operation / 64] &= !(1 << (operation % 64));
            let (begin, end) = self.of[operation];
            for event in [end, begin] {
                let Event { before, after, .. } = self.events[event];
                self.events[before].after = event;
                self.events[after].before = event;
            }
            // A step with `never` was taken at its operation's end, past which nothing can be next.
            if !never {
                return Some(self.events[begin].after);
            }
        }
    }

    fn violation(&self) -> Violation {
        let (order, state) = &self.furthest;
        let outcome = |operation: &usize| format!("{:?}", self.history[*operation]);
        let rest = |operation: &usize| !order.contains(operation);
        let begun = (0..self.history.len()).filter(rest);
        let first_end = begun.clone().map(|operation| self.history[operation].completed).min();
        let open = begun.filter(|place| Some(self.history[*place].invoked) < first_end);
        Violation {
            order: order.iter().map(outcome).collect(),
            state: format!("{state:?}"),
            stuck: open.collect::<Vec<_>>().iter().map(outcome).collect(),
        }
    }
}
