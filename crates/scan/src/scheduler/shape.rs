//! How a question is shared out, by the shape of the data.

use std::fmt;

/// How threads share the work on a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// One thread does it all, the one that asks.
    Serial,
    /// Whichever thread is free takes the next chunk.
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

/// What is known of the work before it begins.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub rows: usize,
    pub chunks: usize,
    pub threads: usize,
}

impl Shape {
    /// Fewer rows are not worth waking another thread for, where nobody says otherwise.
    pub const SERIAL_ROWS: usize = 100_000;

    /// Fewer than `serial_rows` are one thread's.
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
