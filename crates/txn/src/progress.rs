//! Progress reports of long work.

/// Unit of a piece of work's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    Rows,
    Bytes,
}

/// Receiver of progress reports. Pieces of work may overlap on several threads.
pub trait Progress: Send + Sync {
    fn begin(&self, what: &str, total: Option<u64>, unit: Unit);
    fn advance(&self, done: u64);
    fn end(&self);
}

/// Ignores all reports.
pub struct NoProgress;

impl Progress for NoProgress {
    fn begin(&self, _: &str, _: Option<u64>, _: Unit) {}
    fn advance(&self, _: u64) {}
    fn end(&self) {}
}
