//! Decides from the amount of data how a scan is parallelized.

use std::fmt;

/// How threads share a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The calling thread does all the work.
    Serial,
    /// Each free thread takes the next chunk.
    Chunked,
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Mode::Serial => "SERIAL",
            Mode::Chunked => "CHUNKED",
        })
    }
}

/// The size of a scan before it starts.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub rows: usize,
    pub chunks: usize,
    pub threads: usize,
}

impl Shape {
    /// Default of the number of rows below which waking another thread does not pay.
    pub const SERIAL_ROWS: usize = 100_000;

    /// A scan of fewer than `serial_rows` rows uses one thread.
    #[must_use]
    pub fn mode(&self, serial_rows: usize) -> Mode {
        match self.threads > 1 && self.chunks > 1 && self.rows >= serial_rows {
            true => Mode::Chunked,
            false => Mode::Serial,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mode_follows_from_the_shape() {
        let mode = |rows, chunks, threads| {
            let shape = Shape { rows, chunks, threads };
            [Shape::SERIAL_ROWS, 0, 5_000_000].map(|serial_rows| shape.mode(serial_rows))
        };
        let (serial, chunked) = (Mode::Serial, Mode::Chunked);
        assert_eq!(mode(99_999, 8, 2), [serial, chunked, serial]);
        assert_eq!(mode(100_000, 2, 2), [chunked, chunked, serial]);
        assert_eq!(mode(10_000_000, 160, 2), [chunked; 3]);
        // There is nothing to share out, or nobody to share it with.
        assert_eq!(mode(10_000_000, 1, 2), [serial; 3]);
        assert_eq!(mode(10_000_000, 160, 1), [serial; 3]);
    }
}
