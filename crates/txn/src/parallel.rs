//! Work over a list of things, shared by a few threads.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use thalweg_types::{Error, Result};

/// Calls `work` once for each item on up to `threads` threads; stops at the first error.
pub(crate) fn for_each<T: Sync>(
    items: &[T],
    threads: usize,
    work: impl Fn(&T) -> Result<()> + Sync,
) -> Result<()> {
    let next = AtomicUsize::new(0);
    let stop = AtomicBool::new(false);
    let failure: Mutex<Option<Error>> = Mutex::new(None);
    let worker = || {
        while !stop.load(Ordering::Relaxed)
            && let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed))
        {
            if let Err(error) = work(item) {
                stop.store(true, Ordering::Relaxed);
                let mut failure = failure.lock().expect("nobody panics while holding the failure");
                failure.get_or_insert(error);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads.min(items.len()) {
            scope.spawn(worker);
        }
        worker();
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
        for_each(&items, 4, |item| {
            seen[*item].fetch_add(1, Ordering::Relaxed);
            Ok(())
        })
        .unwrap();
        assert!(seen.iter().all(|count| count.load(Ordering::Relaxed) == 1));
    }

    #[test]
    fn the_first_error_comes_back() {
        let result =
            for_each(
                &[1, 2, 3],
                2,
                |item| {
                    if *item == 2 { Err(Error::internal("two")) } else { Ok(()) }
                },
            );
        assert_eq!(result.unwrap_err().message(), "two");
    }
}
