//! Bytes that one writer appends while readers see the earlier ones.
//!
//! Invariants:
//!
//! 1. An allocation has exactly one [`BytesWriter`], which is not `Clone` and writes through
//!    `&mut self` only.
//! 2. The allocation's state is a pair (`shared`, `written`) in one atomic word, with
//!    `shared <= written <= capacity`. Bytes below `written` are initialised.
//! 3. The writer writes at `written` and above, and raises `written` (release) afterwards.
//! 4. Bytes below `shared` never change again: readers may hold slices of them. `shared` only
//!    grows, never beyond `written`. The writer lowers `written` (to discard unpublished rows)
//!    never below `shared`; both are checked in the same atomic step.
//!
//! So no byte is ever written while a slice of it exists outside the writer.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::buffer::Buffer;

/// The alignment of Arrow's own buffers: a cache line.
const ALIGNMENT: usize = 64;

/// The readers' half of an allocation.
pub(crate) struct SharedBytes {
    pointer: NonNull<u8>,
    layout: Layout,
    state: AtomicU64,
}

// SAFETY: the pointer is owned; access from several threads follows the module's invariants.
unsafe impl Send for SharedBytes {}
// SAFETY: as above.
unsafe impl Sync for SharedBytes {}

fn pack(shared: usize, written: usize) -> u64 {
    ((shared as u64) << 32) | written as u64
}

fn unpack(state: u64) -> (usize, usize) {
    ((state >> 32) as usize, (state & 0xFFFF_FFFF) as usize)
}

impl SharedBytes {
    /// Returns the first `length` bytes, which never change from now on.
    ///
    /// Panics if they have not all been written.
    pub fn share(self: &Arc<Self>, length: usize) -> Buffer {
        self.freeze(length);
        // SAFETY: the bytes are initialised (2) and never change again (4); the `Arc` that goes
        // with the buffer keeps the allocation alive.
        unsafe { Buffer::from_custom_allocation(self.pointer, length, Arc::clone(self) as _) }
    }

    /// Returns all bytes written so far, which never change from now on.
    pub fn share_all(self: &Arc<Self>) -> Buffer {
        let (_, written) = unpack(self.state.load(Ordering::Acquire));
        self.share(written)
    }

    fn freeze(&self, length: usize) {
        let raised = self.state.fetch_update(Ordering::AcqRel, Ordering::Acquire, |state| {
            let (shared, written) = unpack(state);
            (length <= written).then(|| pack(shared.max(length), written))
        });
        assert!(raised.is_ok(), "only what is written can be shared");
    }

    /// Size of the allocation in bytes.
    pub fn capacity(&self) -> usize {
        self.layout.size()
    }
}

impl Drop for SharedBytes {
    fn drop(&mut self) {
        // SAFETY: allocated in `BytesWriter::with_capacity` with this layout; no reference is left.
        unsafe { dealloc(self.pointer.as_ptr(), self.layout) }
    }
}

/// The only writer of an allocation.
pub(crate) struct BytesWriter {
    shared: Arc<SharedBytes>,
    written: usize,
}

impl BytesWriter {
    /// Allocates `capacity` bytes, at least one. Panics from 4 GiB on.
    pub fn with_capacity(capacity: usize) -> BytesWriter {
        assert!(u32::try_from(capacity).is_ok(), "an allocation is below 4 GiB");
        let layout = Layout::from_size_align(capacity.max(1), ALIGNMENT)
            .expect("below 4 GiB, aligned to a power of two");
        // SAFETY: the layout's size is not zero.
        let pointer = unsafe { alloc(layout) };
        let Some(pointer) = NonNull::new(pointer) else { handle_alloc_error(layout) };
        let shared = Arc::new(SharedBytes { pointer, layout, state: AtomicU64::new(0) });
        BytesWriter { shared, written: 0 }
    }

    /// The readers' half.
    pub fn shared(&self) -> &Arc<SharedBytes> {
        &self.shared
    }

    /// Number of bytes written.
    pub fn written(&self) -> usize {
        self.written
    }

    /// Number of bytes that still fit.
    pub fn remaining(&self) -> usize {
        self.shared.capacity() - self.written
    }

    /// Appends bytes. Panics if they do not fit.
    pub fn append(&mut self, bytes: &[u8]) {
        assert!(bytes.len() <= self.remaining(), "the writer reserved too little");
        // SAFETY: the target lies within the allocation, at and above `written`, where no slice
        // exists (3, 4); `bytes` is not part of it, as slices end below `written`.
        unsafe {
            let target = self.shared.pointer.as_ptr().add(self.written);
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), target, bytes.len());
        }
        self.written += bytes.len();
        self.shared.state.fetch_add(bytes.len() as u64, Ordering::Release);
    }

    /// Discards the bytes at `length` and above.
    ///
    /// Panics if some of them have been shared.
    pub fn rewind(&mut self, length: usize) {
        assert!(length <= self.written, "rewinding goes backwards");
        let lowered =
            self.shared.state.fetch_update(Ordering::AcqRel, Ordering::Acquire, |state| {
                let (shared, _) = unpack(state);
                (shared <= length).then(|| pack(shared, length))
            });
        assert!(lowered.is_ok(), "what readers have seen is never undone");
        self.written = length;
    }

    /// All written bytes, for the writer itself.
    pub fn as_slice(&self) -> &[u8] {
        // SAFETY: initialised (2); while the slice borrows the writer nothing is written (1).
        unsafe { std::slice::from_raw_parts(self.shared.pointer.as_ptr(), self.written) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readers_keep_what_they_hold() {
        let mut writer = BytesWriter::with_capacity(8);
        writer.append(b"abc");
        let held = writer.shared().share(3);
        writer.append(b"defg");
        writer.rewind(3);
        writer.append(b"XY");
        assert_eq!((held.as_slice(), writer.as_slice()), (&b"abc"[..], &b"abcXY"[..]));
        assert_eq!(writer.shared().share_all().as_slice(), b"abcXY");
        drop(writer);
        assert_eq!(held.as_slice(), b"abc");
    }

    #[test]
    #[should_panic(expected = "never undone")]
    fn what_was_shared_stays() {
        let mut writer = BytesWriter::with_capacity(8);
        writer.append(b"abcd");
        let _held = writer.shared().share(2);
        writer.rewind(1);
    }

    #[test]
    #[should_panic(expected = "only what is written")]
    fn what_is_not_written_is_not_shared() {
        let writer = BytesWriter::with_capacity(8);
        let _ = writer.shared().share(1);
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a test of two threads")]
    fn a_reader_on_another_thread_sees_whole_values() {
        let mut writer = BytesWriter::with_capacity(8 * 1_000);
        let shared = Arc::clone(writer.shared());
        let reader = std::thread::spawn(move || {
            loop {
                let buffer = shared.share_all();
                let values = buffer.typed_data::<u64>();
                assert!(values.iter().enumerate().all(|(index, value)| *value == index as u64));
                if values.len() == 1_000 {
                    break;
                }
            }
        });
        for value in 0..1_000_u64 {
            writer.append(&value.to_le_bytes());
        }
        reader.join().unwrap();
    }
}
