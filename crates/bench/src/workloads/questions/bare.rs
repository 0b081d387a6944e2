//! What questions are measured against: a loop over the same bytes, and work that is none.

use std::hint::black_box;
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

/// Seconds from handing fragments without work to two threads until all of them are told of.
pub(super) async fn rounds(context: &Context) -> Result<Samples> {
    const THREADS: usize = 2;
    let scheduler = LocalScheduler::start(THREADS, &RealThreads)?;
    let mut samples = Samples::default();
    for _ in 0..super::ASKED_OFTEN {
        let round = async {
            scheduler
                .scatter(THREADS, |fragment| {
                    black_box(fragment);
                })
                .wait()
        };
        samples.push(context.timed(round).await?.0);
    }
    Ok(samples)
}
