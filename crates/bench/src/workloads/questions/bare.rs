//! What questions are measured against: a loop over the same bytes, and work that is none.

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

/// Seconds that so many threads take to add up whole numbers of 64 bits in memory.
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

/// Seconds from handing fragments without work to two threads that rest until whoever waits for
/// them is told.
///
/// Who asks works on none of them, as queries do not, and none ends before all have begun: each
/// thread has one.
pub(super) async fn rounds(context: &Context) -> Result<Samples> {
    const THREADS: usize = 2;
    let scheduler = LocalScheduler::start(THREADS, &RealThreads)?;
    let mut samples = Samples::default();
    for _ in 0..super::ASKED_OFTEN {
        let begun = Arc::new(AtomicUsize::new(0));
        let body = move |_: usize| {
            begun.fetch_add(1, Ordering::AcqRel);
            while begun.load(Ordering::Acquire) < THREADS {
                // The other one may need this core to begin.
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
