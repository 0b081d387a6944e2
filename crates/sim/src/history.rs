//! Histories: the operations of clients, their times and their results.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A logical clock: numbers moments in the order in which they happen.
#[derive(Clone, Default)]
pub struct Moments(Arc<AtomicU64>);

impl Moments {
    /// A moment after all earlier ones of every client.
    #[must_use]
    pub fn next(&self) -> u64 {
        self.0.fetch_add(1, Ordering::SeqCst)
    }
}

/// One operation of a client. A history leaves out operations that certainly never took place.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Operation<A, R> {
    pub client: usize,
    pub invoked: u64,
    /// If the operation took place, it did so before this moment.
    pub completed: u64,
    pub action: A,
    pub outcome: Outcome<R>,
}

/// The result that a client got.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Outcome<R> {
    Done(R),
    /// No result: the operation may have taken place or not.
    InDoubt,
}

impl<A, R> Operation<A, R> {
    /// True if the client does not know whether the operation took effect.
    #[must_use]
    pub fn is_in_doubt(&self) -> bool {
        matches!(self.outcome, Outcome::InDoubt)
    }

    /// The result; `None` if the operation is in doubt.
    #[must_use]
    pub fn result(&self) -> Option<&R> {
        match &self.outcome {
            Outcome::Done(result) => Some(result),
            Outcome::InDoubt => None,
        }
    }
}

/// A client's part of a history, while it is being recorded.
pub struct Notes<A, R> {
    client: usize,
    moments: Moments,
    operations: Vec<Operation<A, R>>,
}

impl<A, R> Notes<A, R> {
    /// An empty history of one client. `moments` numbers the starts and ends of operations.
    #[must_use]
    pub fn new(client: usize, moments: &Moments) -> Notes<A, R> {
        Notes { client, moments: moments.clone(), operations: Vec::new() }
    }

    /// The moment before an operation starts.
    #[must_use]
    pub fn begin(&self) -> u64 {
        self.moments.next()
    }

    /// Records the outcomes of actions that were requested together.
    pub fn end(&mut self, invoked: u64, told: impl IntoIterator<Item = (A, Outcome<R>)>) {
        let (client, completed) = (self.client, self.moments.next());
        let operation = |(action, outcome)| {
            // An operation in doubt may take place until the end of the era, which `close` sets.
            Operation { client, invoked, completed, action, outcome }
        };
        self.operations.extend(told.into_iter().map(operation));
    }

    /// Ends an era: operations in doubt take place before its end or never.
    #[must_use]
    pub fn close(self, end: u64) -> Vec<Operation<A, R>> {
        let mut operations = self.operations;
        for operation in operations.iter_mut().filter(|operation| operation.is_in_doubt()) {
            operation.completed = end;
        }
        operations
    }
}
