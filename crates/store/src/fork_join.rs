//! An interface to threads for work that splits into independent pieces.

/// Runs the pieces of one work in parallel, on as many threads as the implementation likes.
pub trait ForkJoin {
    /// Calls `work` once with each number below `pieces`, and returns when all calls have returned.
    fn run(&self, pieces: usize, work: &(dyn Fn(usize) + Sync));
}

/// Runs all pieces on the calling thread, one after the other.
pub struct ThisThread;

impl ForkJoin for ThisThread {
    fn run(&self, pieces: usize, work: &(dyn Fn(usize) + Sync)) {
        (0..pieces).for_each(work);
    }
}
