//! CRC-32C over bytes in several slices.

/// The checksum of the concatenation of `parts`.
pub fn checksum<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> u32 {
    parts.into_iter().fold(0, crc32c::crc32c_append)
}

/// True if a stored checksum equals the computed one.
pub fn matches(stored: u32, computed: u32) -> bool {
    #[cfg(test)]
    if canary::is_skipping() {
        return true;
    }
    stored == computed
}

/// A deliberate bug that skips the comparison of checksums. Tests that do not notice it prove
/// nothing.
#[cfg(test)]
pub mod canary {
    use std::cell::Cell;

    thread_local! {
        static SKIPPING: Cell<bool> = const { Cell::new(false) };
    }

    pub fn is_skipping() -> bool {
        SKIPPING.get()
    }

    /// Runs `body` with the bug in place.
    pub fn skip<T>(body: impl FnOnce() -> T) -> T {
        SKIPPING.set(true);
        let result = body();
        SKIPPING.set(false);
        result
    }
}
