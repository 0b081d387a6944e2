//! The engine over a simulated disk, beside a model of what it must show.
//!
//! `THALWEG_CASES` sets how many seeds the random tests try.

mod canaries;
mod checkpoints;
mod crash_points;
mod damage;
#[expect(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests of several threads")]
mod failures;
mod foreign_keys;
#[cfg(feature = "shuttle")]
mod interleavings;
mod keyed;
mod maintenance;
mod model;
mod one_thread;
mod random;
mod roles;
mod row_locks;
mod sequences;
mod session;
mod steps;
mod storage;
mod versions;
mod world;

/// How many cases a test tries: few in the gate, as many as asked for in a long run.
fn cases(default: u64) -> u64 {
    std::env::var("THALWEG_CASES").ok().and_then(|count| count.parse().ok()).unwrap_or(default)
}
