//! Work that falls into independent pieces, for whoever has threads to do it.

/// Does pieces of work, on as many threads as it likes.
pub trait Workers {
    /// Calls `work` once with each number below `pieces`, and returns when all calls have.
    fn run(&self, pieces: usize, work: &(dyn Fn(usize) + Sync));
}

/// The calling thread, which does one piece after the other.
pub struct ThisThread;

impl Workers for ThisThread {
    fn run(&self, pieces: usize, work: &(dyn Fn(usize) + Sync)) {
        (0..pieces).for_each(work);
    }
}
