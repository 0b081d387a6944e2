//! How many bytes each thread has allocated and not freed: what work on one thread takes beside what
//! it reserves. [`Recycling`](crate::Recycling) counts; in a program with another allocator the
//! count stays at zero.

use std::cell::Cell;

thread_local! {
    /// Blocks may be freed by another thread than the one that allocated them: only differences
    /// within the same work mean something. Has no destructor, so that an allocator may use it.
    static BYTES: Cell<isize> = const { Cell::new(0) };
}

/// Bytes that the calling thread has allocated, less those that it has freed.
#[must_use]
pub fn thread_allocated_bytes() -> isize {
    BYTES.get()
}

#[inline]
pub(crate) fn add(bytes: usize) {
    BYTES.set(BYTES.get().wrapping_add(bytes.cast_signed()));
}

#[inline]
pub(crate) fn subtract(bytes: usize) {
    BYTES.set(BYTES.get().wrapping_sub(bytes.cast_signed()));
}
