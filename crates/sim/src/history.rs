//! What clients asked for, when, and what they were told.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Numbers moments in the order in which they happen.
#[derive(Clone, Default)]
pub struct Moments(Arc<AtomicU64>);

impl Moments {
    /// A moment after all that were asked for before, whoever asked.
    #[must_use]
    pub fn next(&self) -> u64 {
        self.0.fetch_add(1, Ordering::SeqCst)
    }
}

/// One thing that a client asked for. What certainly never happened is not part of a history.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Operation<A, R> {
    pub client: usize,
    pub invoked: u64,
    /// Before this moment it took place, if it did.
    pub completed: u64,
    pub action: A,
    pub outcome: Outcome<R>,
}

/// What a client was told.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Outcome<R> {
    Done(R),
    /// Nothing: it may have taken place or not.
    InDoubt,
}

impl<A, R> Operation<A, R> {
    #[must_use]
    pub fn is_in_doubt(&self) -> bool {
        matches!(self.outcome, Outcome::InDoubt)
    }

    #[must_use]
    pub fn result(&self) -> Option<&R> {
        match &self.outcome {
            Outcome::Done(result) => Some(result),
            Outcome::InDoubt => None,
        }
    }
}

/// A client's part of a history, as it is written down.
pub struct Notes<A, R> {
    client: usize,
    moments: Moments,
    operations: Vec<Operation<A, R>>,
}

impl<A, R> Notes<A, R> {
    #[must_use]
    pub fn new(client: usize, moments: &Moments) -> Notes<A, R> {
        Notes { client, moments: moments.clone(), operations: Vec::new() }
    }

    /// The moment at which something is about to be asked for.
    #[must_use]
    pub fn begin(&self) -> u64 {
        self.moments.next()
    }

    /// Notes what came of actions that were asked for as one.
    pub fn end(&mut self, invoked: u64, told: impl IntoIterator<Item = (A, Outcome<R>)>) {
        let (client, completed) = (self.client, self.moments.next());
        let operation = |(action, outcome)| {
            // What is in doubt is so until the era is over, and `close` says when that was.
            Operation { client, invoked, completed, action, outcome }
        };
        self.operations.extend(told.into_iter().map(operation));
    }

    /// Ends an era: what is in doubt happens before its end or never.
    #[must_use]
    pub fn close(self, end: u64) -> Vec<Operation<A, R>> {
        let mut operations = self.operations;
        for operation in operations.iter_mut().filter(|operation| operation.is_in_doubt()) {
            operation.completed = end;
        }
        operations
    }
}
