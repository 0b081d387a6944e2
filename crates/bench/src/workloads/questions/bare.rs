//! Baselines of queries: a loop over the same bytes, and fragments without work.

use std::future::poll_fn;
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use thalweg_env::RealThreads;
use thalweg_scan::LocalScheduler;
use thalweg_types::Result;

use crate::context::Context;
use crate::samples::Samples;

/// Seconds in which this many threads add up 64-bit integers in memory.
pub(super) async fn sums(context: &Context, rows: u64, threads: usize) -> Result<Samples> {
    let numbers: Vec<u64> = (0..rows).collect();
    let share = numbers.len().div_ceil(threads);
    let mut samples = Samples::default();
    for _ in 0..super::ASKED {
        let sum = async {
            thread::scope(|scope| {
                for numbers in numbers.chunks(share).skip(1) {
                    scope.spawn(move || black_box(black_box(numbers).iter().sum::<u64>()));
                }
                black_box(black_box(&numbers[..share]).iter().sum::<u64>());
            });
            Ok(())
        };
        samples.push(context.timed(sum).await?.0);
    }
    Ok(samples)
}

/// Seconds from passing empty fragments to two idle threads until the waiting caller is notified.
///
/// The caller runs none of them, as with queries, and none ends before all have begun: so each
/// thread gets one.
pub(super) async fn rounds(context: &Context) -> Result<Samples> {
    const THREADS: usize = 2;
    let scheduler = LocalScheduler::start(THREADS, &RealThreads)?;
    let mut samples = Samples::default();
    for _ in 0..super::ASKED_OFTEN {
        let begun = Arc::new(AtomicUsize::new(0));
        let body = move |_: usize| {
            begun.fetch_add(1, Ordering::AcqRel);
            while begun.load(Ordering::Acquire) < THREADS {
                // The other thread may need this core to begin.
                thread::yield_now();
            }
        };
        let round = async {
            let round = scheduler.scatter(THREADS, body);
            poll_fn(|waiting| round.poll(waiting)).await
        };
        samples.push(context.timed(round).await?.0);
    }
    Ok(samples)
}
