//! Room for planning: a statement of a few hundred words takes more stack than the threads of an
//! ordinary runtime have, and running out of it would end the whole process.

use std::future::{Future, poll_fn};
use std::pin::pin;

/// Where less than this is left of a thread's stack, work goes on on another one.
const LEAST_BYTES: usize = 4 << 20;

pub(crate) const STACK_BYTES: usize = 16 << 20;

/// The stack of a thread that plans: work goes on on another one for the deepest statements only.
pub(crate) const PLANNING_STACK_BYTES: usize = STACK_BYTES + LEAST_BYTES;

/// What is enough for plans of a few operators and short expressions, in bytes.
const LITTLE_BYTES: usize = 512 << 10;

/// Does work that takes little stack on the one that there is, where that has room for it.
pub(crate) fn roomy<T>(work: impl FnOnce() -> T) -> T {
    stacker::maybe_grow(LITTLE_BYTES, STACK_BYTES, work)
}

/// Does some work with enough stack under it.
pub(crate) async fn with_room<F: Future>(work: F) -> F::Output {
    let mut work = pin!(work);
    poll_fn(|context| stacker::maybe_grow(LEAST_BYTES, STACK_BYTES, || work.as_mut().poll(context)))
        .await
}
