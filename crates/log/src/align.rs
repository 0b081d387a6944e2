//! The grid on which everything lies in a file.

/// Headers, payloads and sections begin at multiples of this. It divides a disk's sector, so that
/// a header lies in one sector, and it is what Arrow likes its buffers aligned to.
pub const ALIGNMENT: u64 = 64;

const ZEROS: [u8; ALIGNMENT as usize] = [0; ALIGNMENT as usize];

/// The zeros between the end of `length` bytes and the next multiple of [`ALIGNMENT`].
pub fn padding(length: u64) -> &'static [u8] {
    let over = (length % ALIGNMENT) as usize;
    if over == 0 { &[] } else { &ZEROS[over..] }
}

/// The first multiple of [`ALIGNMENT`] that is at least `length`. Nothing for lengths that no file
/// can have.
pub fn aligned(length: u64) -> Option<u64> {
    length.checked_next_multiple_of(ALIGNMENT)
}
