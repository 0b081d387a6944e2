//! How long work is told to whoever watches.

/// What the numbers of a piece of work count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    Rows,
    Bytes,
}

/// Someone who watches long work. Pieces of work may overlap on several threads.
pub trait Progress: Send + Sync {
    fn begin(&self, what: &str, total: Option<u64>, unit: Unit);
    fn advance(&self, done: u64);
    fn end(&self);
}

/// Nobody watches.
pub struct Silent;

impl Progress for Silent {
    fn begin(&self, _: &str, _: Option<u64>, _: Unit) {}
    fn advance(&self, _: u64) {}
    fn end(&self) {}
}
