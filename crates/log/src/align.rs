//! Alignment of everything in a file.

/// Headers, payloads and sections begin at multiples of this. It divides the size of a disk's
/// sector, so that a header lies within one sector, and it is the alignment that Arrow recommends
/// for buffers.
pub const ALIGNMENT: u64 = 64;

const ZEROS: [u8; ALIGNMENT as usize] = [0; ALIGNMENT as usize];

/// The zeros between the end of `length` bytes and the next multiple of [`ALIGNMENT`].
pub fn padding(length: u64) -> &'static [u8] {
    let over = (length % ALIGNMENT) as usize;
    if over == 0 { &[] } else { &ZEROS[over..] }
}

/// The first multiple of [`ALIGNMENT`] that is at least `length`; `None` on overflow.
pub fn aligned(length: u64) -> Option<u64> {
    length.checked_next_multiple_of(ALIGNMENT)
}
