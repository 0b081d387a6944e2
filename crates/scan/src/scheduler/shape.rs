//! How a question is shared out, by the shape of the data.

use std::fmt;

/// How threads share the work on a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// One thread does it all, the one that asks.
    Serial,
    /// Each partition of the table is one thread's.
    Partition,
    /// Whichever thread is free takes the next chunk.
    Chunked,
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Mode::Serial => "SERIAL",
            Mode::Partition => "PARTITION",
            Mode::Chunked => "CHUNKED",
        })
    }
}

/// What is known of the work before it begins.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub rows: usize,
    /// Parts of the table that no row is in two of.
    pub partitions: usize,
    pub chunks: usize,
    pub threads: usize,
}

impl Shape {
    /// Fewer rows are not worth waking another thread for.
    pub const PARALLEL_ROWS_MIN: usize = 100_000;

    #[must_use]
    pub fn mode(&self) -> Mode {
        self.mode_above(Shape::PARALLEL_ROWS_MIN)
    }

    /// As [`Shape::mode`], with another number of rows from which on several threads work.
    #[must_use]
    pub fn mode_above(&self, parallel_rows_min: usize) -> Mode {
        let divides = self.partitions > 1 || self.chunks > 1;
        if self.threads <= 1 || self.rows < parallel_rows_min || !divides {
            Mode::Serial
        } else if self.partitions >= self.threads {
            Mode::Partition
        } else {
            Mode::Chunked
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mode_follows_from_the_shape() {
        let mode =
            |rows, partitions, chunks, threads| Shape { rows, partitions, chunks, threads }.mode();
        assert_eq!(mode(99_999, 8, 8, 2), Mode::Serial);
        assert_eq!(mode(10_000_000, 8, 160, 1), Mode::Serial);
        assert_eq!(mode(100_000, 1, 1, 2), Mode::Serial);
        assert_eq!(mode(100_000, 1, 2, 2), Mode::Chunked);
        assert_eq!(mode(100_000, 2, 2, 2), Mode::Partition);
        assert_eq!(mode(100_000, 2, 2, 4), Mode::Chunked);
    }
}
