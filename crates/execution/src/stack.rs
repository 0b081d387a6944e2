//! Stack space for planning. A statement of a few hundred words needs more stack than the threads
//! of an ordinary runtime have, and an overflow would end the whole process.
//!
//! The depth of statements and plans is bounded (`thalweg_dialect::parse`, [`crate::plan_depth`]).
//! At these bounds, all recursion that does not check its stack fits into [`LEAST_BYTES`]: clones,
//! destructors, comparisons and renderings of trees. The recursion that DataFusion guards (its
//! feature `recursive_protection`) switches to another stack if less than that is left.
//! DataFusion's default is 128 KB, and a rendering that begins there overflows.

use std::future::{Future, poll_fn};
use std::pin::pin;

/// If less than this is left of a thread's stack, work continues on another stack.
const LEAST_BYTES: usize = 32 << 20;

/// The stack size of query threads. Unused pages take no memory.
pub(crate) const STACK_BYTES: usize = 64 << 20;

/// Stack that one level of a recursion needs, if the recursion grows its stack.
const LEVEL_BYTES: usize = 128 << 10;

/// The size of each additional stack.
const GROWTH_BYTES: usize = 4 << 20;

/// The stack size of a planning thread: only the deepest statements need another stack.
pub(crate) const PLANNING_STACK_BYTES: usize = STACK_BYTES + LEAST_BYTES;

/// Stack that is enough for plans of a few operators and short expressions, in bytes.
const LITTLE_BYTES: usize = 512 << 10;

/// The trees of shorter texts need little stack outside of planning.
const SHORT_TEXT_BYTES: usize = 512;

/// Sets the stack space that DataFusion keeps free to the size that the depth bounds need. The
/// setting applies to the whole process.
pub(crate) fn leave_room() {
    recursive::set_minimum_stack_size(LEAST_BYTES);
    recursive::set_stack_allocation_size(STACK_BYTES);
}

/// Does work that needs little stack on the current one, if that has room for it.
pub(crate) fn roomy<T>(work: impl FnOnce() -> T) -> T {
    stacker::maybe_grow(LITTLE_BYTES, STACK_BYTES, work)
}

/// Runs one level of a recursion of unlimited depth.
pub(crate) fn growing<T>(level: impl FnOnce() -> T) -> T {
    stacker::maybe_grow(LEVEL_BYTES, GROWTH_BYTES, level)
}

/// Does some work with enough stack under it.
pub async fn with_room<F: Future>(work: F) -> F::Output {
    let mut work = pin!(work);
    poll_fn(|context| stacker::maybe_grow(LEAST_BYTES, STACK_BYTES, || work.as_mut().poll(context)))
        .await
}

/// True if a statement's tree may need more stack than any thread has.
pub fn is_long(sql: &str) -> bool {
    sql.len() > SHORT_TEXT_BYTES
}

/// Executes a statement whose tree is also walked outside of planning.
pub async fn with_room_for<F: Future>(sql: &str, work: F) -> F::Output {
    match is_long(sql) {
        true => with_room(work).await,
        false => work.await,
    }
}
