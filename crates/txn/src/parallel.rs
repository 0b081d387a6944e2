//! Work over a list of items, divided among a few threads.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use thalweg_store::{ForkJoin, TableState};
use thalweg_types::{Error, Index, Result};

/// Threads that are started for one piece of work and end with it. The calling thread is one of
/// them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Threads(pub(crate) usize);

impl ForkJoin for Threads {
    #[expect(
        clippy::disallowed_methods,
        reason = "in a simulation there is one thread, and none is started"
    )]
    fn run(&self, pieces: usize, work: &(dyn Fn(usize) + Sync)) {
        let next = AtomicUsize::new(0);
        let worker = || {
            loop {
                let piece = next.fetch_add(1, Ordering::Relaxed);
                if piece >= pieces {
                    return;
                }
                work(piece);
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..self.0.min(pieces) {
                scope.spawn(worker);
            }
            worker();
        });
    }
}

/// Threads that skip pieces that have not begun once the work is unwanted.
struct Stoppable<'a> {
    threads: Threads,
    is_unwanted: &'a AtomicBool,
}

impl ForkJoin for Stoppable<'_> {
    fn run(&self, pieces: usize, work: &(dyn Fn(usize) + Sync)) {
        self.threads.run(pieces, &|piece| {
            if !self.is_unwanted.load(Ordering::Relaxed) {
                work(piece);
            }
        });
    }
}

/// Builds the missing runs of an index, which the table need not have yet. Once it is unwanted,
/// this returns after at most one more chunk for each thread.
pub fn prepare_index(state: &TableState, index: &Index, threads: usize, is_unwanted: &AtomicBool) {
    let threads = Threads(threads);
    state.prepare(index, &Stoppable { threads, is_unwanted });
}

/// Calls `work` once for each item; stops at the first error.
pub(crate) fn for_each<T: Sync>(
    items: &[T],
    threads: Threads,
    work: impl Fn(&T) -> Result<()> + Sync,
) -> Result<()> {
    let stop = AtomicBool::new(false);
    let failure: Mutex<Option<Error>> = Mutex::new(None);
    threads.run(items.len(), &|place| {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        if let Err(error) = work(&items[place]) {
            stop.store(true, Ordering::Relaxed);
            let mut failure = failure.lock().expect("nobody panics while holding the failure");
            failure.get_or_insert(error);
        }
    });
    failure.into_inner().expect("nobody panicked holding the failure").map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_item_is_visited_once() {
        let seen: Vec<AtomicUsize> = (0..1000).map(|_| AtomicUsize::new(0)).collect();
        let items: Vec<usize> = (0..1000).collect();
        for_each(&items, Threads(4), |item| {
            seen[*item].fetch_add(1, Ordering::Relaxed);
            Ok(())
        })
        .unwrap();
        assert!(seen.iter().all(|count| count.load(Ordering::Relaxed) == 1));
    }

    #[test]
    fn the_first_error_comes_back() {
        let result = for_each(&[1, 2, 3], Threads(2), |item| {
            if *item == 2 { Err(Error::internal("two")) } else { Ok(()) }
        });
        assert_eq!(result.unwrap_err().message(), "two");
    }
}
