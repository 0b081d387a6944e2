//! Room for planning: a statement of a few hundred words takes more stack than the threads of an
//! ordinary runtime have, and running out of it would end the whole process.
//!
//! The depth of statements and plans is bounded (`thalweg_dialect::parse`, [`crate::plan_depth`]).
//! At these bounds everything fits into [`LEAST_BYTES`] that recurses without looking at its stack:
//! clones, destructors, comparisons and renderings of trees. What DataFusion guards against
//! overflows (its feature `recursive_protection`) begins another stack where less than that is
//! left; by default it waits until 128 KB are left, and a rendering that begins there overflows.

use std::future::{Future, poll_fn};
use std::pin::pin;

/// Where less than this is left of a thread's stack, work goes on on another one.
const LEAST_BYTES: usize = 32 << 20;

/// What threads of queries have. Pages that are not used take no memory.
pub(crate) const STACK_BYTES: usize = 64 << 20;

/// Where a recursion grows its stack as it goes on: what one level may take.
const LEVEL_BYTES: usize = 128 << 10;

/// By how much it grows.
const GROWTH_BYTES: usize = 4 << 20;

/// The stack of a thread that plans: work goes on on another one for the deepest statements only.
pub(crate) const PLANNING_STACK_BYTES: usize = STACK_BYTES + LEAST_BYTES;

/// What is enough for plans of a few operators and short expressions, in bytes.
const LITTLE_BYTES: usize = 512 << 10;

/// Trees of shorter texts take little stack outside of planning.
const SHORT_TEXT_BYTES: usize = 512;

/// Has DataFusion leave as much room as the bounds of depth ask for. It is a setting of the whole
/// process.
pub(crate) fn leave_room() {
    recursive::set_minimum_stack_size(LEAST_BYTES);
    recursive::set_stack_allocation_size(STACK_BYTES);
}

/// Does work that takes little stack on the one that there is, where that has room for it.
pub(crate) fn roomy<T>(work: impl FnOnce() -> T) -> T {
    stacker::maybe_grow(LITTLE_BYTES, STACK_BYTES, work)
}

/// Does one level of a recursion whose depth has no limit.
pub(crate) fn growing<T>(level: impl FnOnce() -> T) -> T {
    stacker::maybe_grow(LEVEL_BYTES, GROWTH_BYTES, level)
}

/// Does some work with enough stack under it.
pub(crate) async fn with_room<F: Future>(work: F) -> F::Output {
    let mut work = pin!(work);
    poll_fn(|context| stacker::maybe_grow(LEAST_BYTES, STACK_BYTES, || work.as_mut().poll(context)))
        .await
}

/// Whether a statement's tree may take more stack than any thread has.
pub(crate) fn is_long(sql: &str) -> bool {
    sql.len() > SHORT_TEXT_BYTES
}

/// Does what a statement asks for, whose tree is walked outside of planning too.
pub(crate) async fn with_room_for<F: Future>(sql: &str, work: F) -> F::Output {
    match is_long(sql) {
        true => with_room(work).await,
        false => work.await,
    }
}
