//! An allocator that counts the memory of each thread.
//!
//! A statement runs on few threads, one piece of work at a time on each. The difference of a
//! thread's count before and after a piece of work is the memory that it allocated, whatever code
//! did it: operators, functions, aggregate states, hash tables of libraries. Counting adds to a
//! thread-local number at each allocation; nothing is shared between threads.

use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;

thread_local! {
    /// Bytes that the thread has allocated, minus those that it has freed. Negative if the thread
    /// frees blocks that others allocated.
    static NET_BYTES: Cell<i64> = const { Cell::new(0) };
}

/// Bytes that the calling thread has allocated through a [`Metered`] allocator so far, minus those
/// that it has freed. Only differences within one thread are meaningful. Always 0 if the process
/// uses another global allocator.
#[inline]
#[must_use]
pub fn thread_net_bytes() -> i64 {
    NET_BYTES.get()
}

/// An allocator that counts what each thread allocates from the one beneath it.
pub struct Metered<A> {
    beneath: A,
}

impl<A> Metered<A> {
    /// Wraps an allocator; usable in the initializer of a static.
    #[must_use]
    pub const fn new(beneath: A) -> Metered<A> {
        Metered { beneath }
    }

    /// The wrapped allocator.
    #[must_use]
    pub const fn beneath(&self) -> &A {
        &self.beneath
    }
}

#[inline]
fn count(block: *mut u8, bytes: i64) -> *mut u8 {
    if !block.is_null() {
        // The number has no destructor, so it is accessible until the thread ends.
        NET_BYTES.set(NET_BYTES.get().wrapping_add(bytes));
    }
    block
}

// SAFETY: all is the allocator's beneath. Counting neither allocates nor panics.
unsafe impl<A: GlobalAlloc> GlobalAlloc for Metered<A> {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as the caller promises.
        count(unsafe { self.beneath.alloc(layout) }, layout.size() as i64)
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as the caller promises.
        count(unsafe { self.beneath.alloc_zeroed(layout) }, layout.size() as i64)
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        count(block, -(layout.size() as i64));
        // SAFETY: as the caller promises.
        unsafe { self.beneath.dealloc(block, layout) };
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as the caller promises.
        let moved = unsafe { self.beneath.realloc(block, layout, size) };
        count(moved, size as i64 - layout.size() as i64)
    }
}

#[cfg(test)]
mod tests {
    use std::alloc::System;

    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a test of two threads")]
    fn a_thread_counts_what_it_takes_and_frees() {
        let allocator = Metered::new(System);
        let layout = |size| Layout::from_size_align(size, 8).unwrap();
        let before = thread_net_bytes();
        let taken = || thread_net_bytes() - before;
        // SAFETY: blocks are freed once, with their layout.
        unsafe {
            let block = allocator.alloc(layout(1_000));
            assert_eq!(taken(), 1_000);
            let block = allocator.realloc(block, layout(1_000), 5_000);
            assert_eq!(taken(), 5_000);
            let zeroed = allocator.alloc_zeroed(layout(10));
            assert_eq!(taken(), 5_010);
            allocator.dealloc(block, layout(5_000));
            let elsewhere = zeroed as usize;
            let free = move || {
                let before = thread_net_bytes();
                Metered::new(System).dealloc(elsewhere as *mut u8, layout(10));
                thread_net_bytes() - before
            };
            let freed = std::thread::scope(|scope| scope.spawn(free).join().unwrap());
            assert_eq!(freed, -10);
        }
        assert_eq!(taken(), 10);
    }
}
