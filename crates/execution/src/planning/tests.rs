use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use futures::executor::block_on;
use futures::future::{poll_immediate, try_join_all};
use thalweg_env::{Clock as _, RealClock, RealThreads};
use thalweg_values::statement_control;

use super::*;

/// How long a test waits for what must happen.
const PATIENCE: Duration = Duration::from_secs(10);
const A_MOMENT: Duration = Duration::from_millis(1);
/// The role of all statements whose role does not matter.
const ROLE: RoleId = RoleId(1);

fn threads() -> PlanningThreads {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
    let handle = runtime.handle().clone();
    runtime.shutdown_background();
    PlanningThreads::new(2, Arc::new(RealThreads), handle)
}

fn until(what: impl Fn() -> bool) {
    let clock = RealClock::new();
    while !what() {
        assert!(clock.monotonic() < PATIENCE, "it did not happen in time");
        clock.sleep(A_MOMENT);
    }
}

/// Work that gives its thread to nobody until the flag is set. It tells when it has begun.
fn pass(
    begun: &Arc<AtomicUsize>,
    may_end: &Arc<AtomicBool>,
) -> impl Future<Output = Result<()>> + use<> {
    let (begun, may_end) = (Arc::clone(begun), Arc::clone(may_end));
    async move {
        begun.fetch_add(1, Ordering::Relaxed);
        while !may_end.load(Ordering::Relaxed) {
            RealClock::new().sleep(A_MOMENT);
        }
        Ok(())
    }
}

#[test]
fn work_gives_what_it_gives() {
    let threads = threads();
    assert_eq!(block_on(threads.run(ROLE, async { Ok(7) })).unwrap(), 7);
    let failing = async { Err::<(), _>(Error::new(SqlState::SYNTAX_ERROR, "wrong")) };
    assert_eq!(block_on(threads.run(ROLE, failing)).unwrap_err().state(), SqlState::SYNTAX_ERROR);
    let panicking = async { panic!("on purpose") };
    let error = block_on(threads.run::<()>(ROLE, panicking)).unwrap_err();
    assert_eq!(error.state(), SqlState::INTERNAL_ERROR);
    until(|| threads.figures() == PlanningMetrics::default());
}

#[test]
fn work_that_waits_is_woken() {
    let threads = threads();
    let (sender, receiver) = oneshot::channel();
    let work = threads.run(ROLE, async move { Ok(receiver.await.unwrap()) });
    until(|| threads.figures() == PlanningMetrics::default());
    sender.send(3).unwrap();
    assert_eq!(block_on(work).unwrap(), 3);
}

#[test]
fn work_that_waits_is_dropped_with_who_waits_for_it() {
    let threads = threads();
    let held = Arc::new(());
    let holding = Arc::clone(&held);
    let work = threads.run(ROLE, async move {
        std::future::pending::<()>().await;
        drop(holding);
        Ok(())
    });
    until(|| threads.figures() == PlanningMetrics::default());
    assert_eq!(Arc::strong_count(&held), 2);
    drop(work);
    assert_eq!(Arc::strong_count(&held), 1);
}

#[test]
fn long_passes_do_not_hold_up_others() {
    let threads = threads();
    let (begun, may_end) = (Arc::default(), Arc::default());
    let passes: Vec<_> = (0..10).map(|_| threads.run(ROLE, pass(&begun, &may_end))).collect();
    until(|| begun.load(Ordering::Relaxed) == 10);
    assert_eq!(threads.figures().busy, 10);
    assert!(block_on(threads.run(ROLE, async { Ok(()) })).is_ok());
    may_end.store(true, Ordering::Relaxed);
    block_on(try_join_all(passes)).unwrap();
    until(|| threads.figures() == PlanningMetrics::default());
}

/// Where all threads have long passes, work waits, and a pass that is abandoned makes room.
#[test]
fn an_abandoned_pass_is_replaced() {
    let threads = threads();
    let (begun, may_end) = (Arc::default(), Arc::default());
    let most = 2 * THREADS_PER_CORE;
    let mut passes: Vec<_> = (0..most).map(|_| threads.run(ROLE, pass(&begun, &may_end))).collect();
    until(|| begun.load(Ordering::Relaxed) == most);
    let mut waiting = threads.run(ROLE, async { Ok(()) });
    assert_eq!(threads.figures().waiting, 1);
    assert!(block_on(poll_immediate(&mut waiting)).is_none());
    drop(passes.pop());
    block_on(waiting).unwrap();
    assert_eq!(threads.figures().abandoned, 1);
    may_end.store(true, Ordering::Relaxed);
    block_on(try_join_all(passes)).unwrap();
    until(|| threads.figures() == PlanningMetrics::default());
}

#[test]
fn an_abandoned_pass_hears_of_it() {
    let threads = threads();
    let begun = Arc::new(AtomicBool::new(false));
    let begins = Arc::clone(&begun);
    let work = threads.run::<()>(ROLE, async move {
        begins.store(true, Ordering::Relaxed);
        loop {
            statement_control::check_cancelled()?;
        }
    });
    until(|| begun.load(Ordering::Relaxed));
    drop(work);
    until(|| threads.figures() == PlanningMetrics::default());
}

#[test]
fn too_many_abandoned_passes_are_refused() {
    let threads = threads();
    let (begun, may_end) = (Arc::new(AtomicUsize::new(0)), Arc::default());
    let refused = |role: u32| {
        let done = block_on(threads.run(RoleId(role), async { Ok(()) }));
        done.err().map(|error| error.state())
    };
    for count in 0..ABANDONED_MAX {
        let role = (count / ABANDONED_OF_ROLE_MAX) as u32;
        assert_eq!(refused(role), None);
        let work = threads.run(RoleId(role), pass(&begun, &may_end));
        until(|| begun.load(Ordering::Relaxed) == count + 1);
        drop(work);
        if (count + 1) % ABANDONED_OF_ROLE_MAX == 0 {
            assert_eq!(refused(role), Some(SqlState::TOO_MANY_CONNECTIONS), "its own are many");
            assert_eq!(refused(role + 1), None, "others have none");
        }
    }
    assert_eq!(refused(u32::MAX), Some(SqlState::TOO_MANY_CONNECTIONS), "there are too many");
    may_end.store(true, Ordering::Relaxed);
    until(|| refused(0).is_none() && refused(u32::MAX).is_none());
    until(|| threads.figures() == PlanningMetrics::default());
}

#[test]
fn work_left_in_the_queue_ends_with_the_threads() {
    let threads = threads();
    let (begun, may_end) = (Arc::new(AtomicUsize::new(0)), Arc::default());
    let most = 2 * THREADS_PER_CORE;
    let passes: Vec<_> = (0..most).map(|_| threads.run(ROLE, pass(&begun, &may_end))).collect();
    until(|| begun.load(Ordering::Relaxed) == most);
    let waiting = threads.run(ROLE, async { Ok(()) });
    drop(threads);
    assert!(block_on(waiting).is_err());
    may_end.store(true, Ordering::Relaxed);
    block_on(try_join_all(passes)).unwrap();
}
