//! Recycles large blocks: freed ones are kept for the next allocation.
//!
//! Message buffers have about a megabyte, and one thread allocates what another frees. mimalloc
//! alone spreads such blocks all over its arena, and each stays resident until it is purged. Here
//! the block that was freed last is reused first: it is resident, often even cached.
//!
//! Up to [`KEPT_BYTES_MAX`] bytes are kept, and blocks that were not reused for a while are freed.
//! Sizes are rounded up to one of four steps for each doubling, the classes. Every block of a class
//! has the layout of the class and fits any request of the class.
//!
//! The tests run under Miri: `cargo +nightly miri test -p thalweg-env recycling`.

use std::alloc::{GlobalAlloc, Layout};
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Blocks larger than `ABOVE` and up to `UP_TO` bytes are kept.
const ABOVE: usize = 128 << 10;
const UP_TO: usize = 4 << 20;

/// Classes for each doubling of the size, and in total.
const STEPS: usize = 4;
const CLASSES: usize = STEPS * (UP_TO / ABOVE).ilog2() as usize;

/// Alignment of kept blocks, two cache lines. Requests with a larger one are not served from here.
const ALIGNMENT: usize = 128;

/// Most kept blocks of a class.
const DEPTH: usize = 48;

/// Most kept bytes of all classes.
const KEPT_BYTES_MAX: usize = 48 << 20;

/// An allocator that keeps some of the large blocks of the one beneath it.
pub struct Recycling<A> {
    beneath: A,
    classes: [Mutex<Stack>; CLASSES],
    kept_bytes: AtomicUsize,
}

/// Kept blocks of one class, the last freed on top.
struct Stack {
    blocks: [*mut u8; DEPTH],
    length: usize,
    /// Number of blocks at the bottom that were not reused since the last [`Recycling::trim`].
    unwanted: usize,
}

// SAFETY: a kept block has no other owner than its stack, and its content is unused.
unsafe impl Send for Stack {}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Class(usize);

impl Class {
    /// The class of a layout; `None` if such blocks are not kept.
    fn of(layout: Layout) -> Option<Class> {
        let size = layout.size();
        if size <= ABOVE || size > UP_TO || layout.align() > ALIGNMENT {
            return None;
        }
        let doubling = (size - 1).ilog2();
        let steps = size.div_ceil((1 << doubling) / STEPS);
        let above = (doubling - ABOVE.ilog2()) as usize;
        Some(Class(above * STEPS + (steps - STEPS - 1)))
    }

    fn layout(self) -> Layout {
        let step = (ABOVE << (self.0 / STEPS)) / STEPS;
        let size = step * (STEPS + 1 + self.0 % STEPS);
        Layout::from_size_align(size, ALIGNMENT).expect("a few megabytes")
    }
}

impl<A: GlobalAlloc> Recycling<A> {
    /// Wraps an allocator; usable in the initializer of a static.
    #[must_use]
    pub const fn new(beneath: A) -> Recycling<A> {
        let classes = [const { Mutex::new(Stack::new()) }; CLASSES];
        Recycling { beneath, classes, kept_bytes: AtomicUsize::new(0) }
    }

    /// Frees all kept blocks.
    pub fn give_back(&self) {
        for class in (0..CLASSES).map(Class) {
            while let Some(block) = self.take(class, Stack::pop) {
                self.free(class, block);
            }
        }
    }

    /// Frees the blocks that were not reused since the last call.
    pub fn trim(&self) {
        for class in (0..CLASSES).map(Class) {
            while let Some(block) = self.take(class, Stack::pop_unwanted) {
                self.free(class, block);
            }
            let mut stack = self.stack(class);
            stack.unwanted = stack.length;
        }
    }

    fn free(&self, class: Class, block: *mut u8) {
        // SAFETY: blocks of a class were allocated with its layout, and the caller owns this one.
        unsafe { self.beneath.dealloc(block, class.layout()) };
    }

    fn take(&self, class: Class, pop: fn(&mut Stack) -> Option<*mut u8>) -> Option<*mut u8> {
        let block = pop(&mut self.stack(class))?;
        self.kept_bytes.fetch_sub(class.layout().size(), Ordering::Relaxed);
        Some(block)
    }

    /// Keeps a block; returns false if there is no room.
    fn keep(&self, class: Class, block: *mut u8) -> bool {
        let size = class.layout().size();
        let fits = self.kept_bytes.fetch_add(size, Ordering::Relaxed) + size <= KEPT_BYTES_MAX;
        let kept = fits && self.stack(class).push(block);
        if !kept {
            self.kept_bytes.fetch_sub(size, Ordering::Relaxed);
        }
        kept
    }

    fn stack(&self, class: Class) -> MutexGuard<'_, Stack> {
        self.classes[class.0].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Stack {
    const fn new() -> Stack {
        Stack { blocks: [ptr::null_mut(); DEPTH], length: 0, unwanted: 0 }
    }

    fn pop(&mut self) -> Option<*mut u8> {
        self.length = self.length.checked_sub(1)?;
        self.unwanted = self.unwanted.min(self.length);
        Some(self.blocks[self.length])
    }

    /// Removes the lowest block if it was not reused.
    fn pop_unwanted(&mut self) -> Option<*mut u8> {
        self.unwanted = self.unwanted.checked_sub(1)?;
        let block = self.blocks[0];
        self.blocks.copy_within(1..self.length, 0);
        self.length -= 1;
        Some(block)
    }

    fn push(&mut self, block: *mut u8) -> bool {
        let Some(top) = self.blocks.get_mut(self.length) else { return false };
        *top = block;
        self.length += 1;
        true
    }
}

// SAFETY: blocks of a class are allocated beneath with the layout of the class, which is as large
// and as aligned as any request of the class, and are kept, reused and freed with that layout. The
// class of a block follows from any layout with which it was requested. All other blocks belong to
// the allocator beneath. Nothing here allocates or panics: locks ignore poison, and indexes are
// within the classes.
unsafe impl<A: GlobalAlloc> GlobalAlloc for Recycling<A> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let Some(class) = Class::of(layout) else {
            // SAFETY: as the caller promises.
            return unsafe { self.beneath.alloc(layout) };
        };
        let kept = self.take(class, Stack::pop);
        // SAFETY: a class has no layout without bytes.
        kept.unwrap_or_else(|| unsafe { self.beneath.alloc(class.layout()) })
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let Some(class) = Class::of(layout) else {
            // SAFETY: as the caller promises.
            return unsafe { self.beneath.alloc_zeroed(layout) };
        };
        if let Some(block) = self.take(class, Stack::pop) {
            // SAFETY: the block is as large as was asked for, or larger.
            unsafe { ptr::write_bytes(block, 0, layout.size()) };
            return block;
        }
        // SAFETY: a class has no layout without bytes.
        unsafe { self.beneath.alloc_zeroed(class.layout()) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        let Some(class) = Class::of(layout) else {
            // SAFETY: as the caller promises.
            return unsafe { self.beneath.dealloc(block, layout) };
        };
        if !self.keep(class, block) {
            self.free(class, block);
        }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller promises that the size is one of a layout.
        let wanted = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
        match (Class::of(layout), Class::of(wanted)) {
            // SAFETY: as the caller promises.
            (None, None) => unsafe { self.beneath.realloc(block, layout, size) },
            (had, wants) if had == wants => block,
            // SAFETY: as the caller promises; the two blocks are not the same one.
            _ => unsafe {
                let moved = self.alloc(wanted);
                if !moved.is_null() {
                    ptr::copy_nonoverlapping(block, moved, layout.size().min(size));
                    self.dealloc(block, layout);
                }
                moved
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::alloc::System;

    use super::*;

    /// Counts what is taken from the system and not given back.
    #[derive(Default)]
    struct Counted(AtomicUsize);

    // SAFETY: all is the system's.
    unsafe impl GlobalAlloc for Counted {
        unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
            self.0.fetch_add(layout.size(), Ordering::Relaxed);
            // SAFETY: as the caller promises.
            unsafe { System.alloc(layout) }
        }

        unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
            self.0.fetch_sub(layout.size(), Ordering::Relaxed);
            // SAFETY: as the caller promises.
            unsafe { System.dealloc(block, layout) }
        }
    }

    fn allocator() -> Recycling<Counted> {
        Recycling::new(Counted::default())
    }

    fn layout(size: usize) -> Layout {
        Layout::from_size_align(size, 64).unwrap()
    }

    #[test]
    fn every_size_fits_its_class_and_takes_no_more_than_a_quarter_above() {
        for size in (ABOVE - 2_000..UP_TO + 2_000).step_by(997).chain([ABOVE, ABOVE + 1, UP_TO]) {
            let class = Class::of(layout(size));
            assert_eq!(class.is_some(), size > ABOVE && size <= UP_TO, "{size}");
            let Some(class) = class else { continue };
            let rounded = class.layout();
            assert!(rounded.size() >= size && rounded.size() <= size + size / STEPS, "{size}");
            assert!(Class::of(rounded) == Some(class), "{size}");
        }
        assert!(Class::of(Layout::from_size_align(1 << 20, 4_096).unwrap()).is_none());
        assert!(Class::of(layout(UP_TO)) == Some(Class(CLASSES - 1)));
    }

    #[test]
    fn the_block_that_was_freed_last_is_used_first() {
        let allocator = allocator();
        // SAFETY: blocks are used within their sizes, and freed once.
        unsafe {
            let (first, second) =
                (allocator.alloc(layout(1 << 20)), allocator.alloc(layout(1 << 20)));
            allocator.dealloc(first, layout(1 << 20));
            allocator.dealloc(second, layout((1 << 20) - 5));
            assert_eq!(allocator.alloc(layout((1 << 20) - 70)), second);
            assert_eq!(allocator.alloc(layout(1 << 20)), first);
            for block in [first, second] {
                allocator.dealloc(block, layout(1 << 20));
            }
        }
        allocator.give_back();
        assert_eq!(allocator.beneath.0.load(Ordering::Relaxed), 0);
        assert_eq!(allocator.kept_bytes.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn what_nobody_wants_is_given_up() {
        let allocator = allocator();
        let held = || allocator.beneath.0.load(Ordering::Relaxed) >> 20;
        let sized = layout(1 << 20);
        // SAFETY: blocks are freed once, with their layout.
        unsafe {
            let blocks: Vec<_> = (0..5).map(|_| allocator.alloc(sized)).collect();
            for block in blocks {
                allocator.dealloc(block, sized);
            }
            allocator.trim();
            assert_eq!(held(), 5);
            let (first, second) = (allocator.alloc(sized), allocator.alloc(sized));
            allocator.dealloc(first, sized);
            allocator.trim();
            assert_eq!(held(), 2);
            assert_eq!(allocator.alloc(sized), first);
            allocator.dealloc(first, sized);
            allocator.dealloc(second, sized);
        }
        allocator.trim();
        assert_eq!(held(), 2);
        allocator.trim();
        assert_eq!(held(), 0);
        assert_eq!(allocator.kept_bytes.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn no_more_is_kept_than_there_is_room_for() {
        let allocator = allocator();
        for size in [300 << 10, 1 << 20, 3 << 20, 4 << 20] {
            // SAFETY: blocks are freed once, with their layout.
            unsafe {
                let blocks: Vec<_> =
                    (0..2 * DEPTH).map(|_| allocator.alloc(layout(size))).collect();
                for block in blocks {
                    allocator.dealloc(block, layout(size));
                }
            }
            let held = allocator.beneath.0.load(Ordering::Relaxed);
            assert_eq!(held, allocator.kept_bytes.load(Ordering::Relaxed));
            assert!(held > 0 && held <= KEPT_BYTES_MAX, "{held}");
        }
        allocator.give_back();
        assert_eq!(allocator.beneath.0.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn blocks_keep_their_bytes_as_they_grow_and_are_zero_where_asked() {
        let allocator = allocator();
        // SAFETY: blocks are used within their sizes, and freed once.
        unsafe {
            let (mut block, mut size) = (allocator.alloc(layout(10_000)), 10_000);
            for new in [200_000, 400_000, 430_000, 3_000_000, 9_000_000, 700_000, 100] {
                ptr::write_bytes(block, 7, size);
                block = allocator.realloc(block, layout(size), new);
                let kept = std::slice::from_raw_parts(block, size.min(new));
                assert!(kept.iter().step_by(997).all(|byte| *byte == 7));
                size = new;
            }
            allocator.dealloc(block, layout(size));

            let zeroed = allocator.alloc_zeroed(layout(410_000));
            let bytes = std::slice::from_raw_parts(zeroed, 410_000);
            assert!(bytes.iter().step_by(997).all(|byte| *byte == 0));
            allocator.dealloc(zeroed, layout(410_000));
        }
        allocator.give_back();
        assert_eq!(allocator.beneath.0.load(Ordering::Relaxed), 0);
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a test of several threads")]
    fn threads_never_share_a_block() {
        let allocator = allocator();
        std::thread::scope(|scope| {
            for mark in 0..4_u8 {
                let allocator = &allocator;
                scope.spawn(move || {
                    for _ in 0..if cfg!(miri) { 5 } else { 500 } {
                        // SAFETY: the block is used within its size, and freed once.
                        unsafe {
                            let block = allocator.alloc(layout(300_000));
                            ptr::write_bytes(block, mark, 1_000);
                            std::thread::yield_now();
                            let seen = std::slice::from_raw_parts(block, 1_000);
                            assert!(seen.iter().all(|byte| *byte == mark));
                            allocator.dealloc(block, layout(300_000));
                        }
                    }
                });
            }
        });
        allocator.give_back();
        assert_eq!(allocator.beneath.0.load(Ordering::Relaxed), 0);
    }
}
