//! Memory that was freed, and that the allocator has not given back to the system.

use std::sync::OnceLock;

/// The allocator, as far as one asks more of it than memory.
pub trait Memory: Send + Sync {
    /// Gives freed memory back to the system. Allocators keep it for a while, in case it is needed
    /// again, and many look at it only when they are called the next time: never, once all is
    /// still.
    fn give_back(&self);
}

/// The allocator of this process.
pub struct RealMemory;

static GIVE_BACK: OnceLock<fn()> = OnceLock::new();

impl RealMemory {
    /// Says how the process's allocator gives memory back. The program that chose the allocator
    /// does so once; without it nothing is given back before the allocator does it by itself.
    pub fn gives_back_with(give_back: fn()) {
        // There is one allocator for a process, so whoever came first said the same.
        GIVE_BACK.get_or_init(|| give_back);
    }
}

impl Memory for RealMemory {
    fn give_back(&self) {
        if let Some(give_back) = GIVE_BACK.get() {
            give_back();
        }
    }
}

/// An allocator that keeps nothing.
pub struct NoSpareMemory;

impl Memory for NoSpareMemory {
    fn give_back(&self) {}
}
