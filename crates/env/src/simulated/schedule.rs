//! The threads and the time of a simulation.
//!
//! Simulated threads are threads of the system, of which exactly one runs at a time: the one that
//! has the *turn*. A thread passes the turn on where it would block. The seed picks the next thread
//! among those that can go on. If none can, time moves to the next timer or deadline. So the order
//! of all events follows from the seed.
//!
//! Invariants: only the thread with the turn runs, so it can evaluate the conditions of threads
//! that wait without a race. A thread must not wait while it holds a lock that another simulated
//! thread takes: locks do not pass the turn on.
//!
//! The thread that entered the schedule is its *loop*. It runs the asynchronous tasks of all nodes
//! and calls [`Schedule::idle`] when none of them can go on.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::io;
use std::mem::swap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::{Clock, Random, SeededRandom, SimulatedClock, ThreadHandle, Threads};

/// The schedule of a simulation: its threads, its clock and its timers. Clones share it.
#[derive(Clone)]
pub struct Schedule(Arc<Inner>);

struct Inner {
    random: SeededRandom,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    now: Duration,
    threads: BTreeMap<ThreadId, Thread>,
    /// The thread that has the turn.
    running: ThreadId,
    last_thread: ThreadId,
    timers: BTreeMap<(Duration, u64), Waker>,
    last_timer: u64,
    trace: Trace,
    /// Why the simulation cannot go on. The loop panics with it.
    stuck: Option<String>,
}

type ThreadId = u64;

/// The thread that entered the schedule and runs all asynchronous tasks.
const LOOP: ThreadId = 0;

struct Thread {
    name: String,
    wait: Wait,
    /// Notified when this thread gets the turn.
    turn: Arc<Condvar>,
}

enum Wait {
    Ready,
    /// The loop has no task that can go on.
    Idle,
    Until(Condition),
}

/// The condition of a thread that waits. Others evaluate it.
struct Condition {
    is_met: *mut (dyn FnMut() -> bool + Send),
    deadline: Option<Duration>,
}

// SAFETY: the closure behind the pointer is `Send`. The thread that evaluates it has the turn,
// while the owner waits in `Schedule::wait`.
unsafe impl Send for Condition {}

/// A hash of all events so far. Two runs with the same events have the same hash.
#[derive(Default)]
struct Trace {
    hash: u64,
    is_printed: bool,
}

impl Trace {
    fn note(&mut self, now: Duration, event: fmt::Arguments<'_>) {
        // The multiplier of FxHash.
        const MULTIPLIER: u64 = 0x517c_c1b7_2722_0a95;
        let text = format!("{} {event}", now.as_nanos());
        if self.is_printed {
            eprintln!("{text}");
        }
        for byte in text.bytes() {
            self.hash = (self.hash.rotate_left(5) ^ u64::from(byte)).wrapping_mul(MULTIPLIER);
        }
    }
}

thread_local! {
    static IS_SIMULATED: Cell<bool> = const { Cell::new(false) };
    static CURRENT: RefCell<Option<(Schedule, ThreadId)>> = const { RefCell::new(None) };
}

/// True if the calling thread belongs to a simulation.
#[must_use]
pub fn is_simulated() -> bool {
    IS_SIMULATED.get()
}

fn current() -> Option<(Schedule, ThreadId)> {
    if !is_simulated() {
        return None;
    }
    CURRENT.with_borrow(Clone::clone)
}

/// Waits until the condition is met or the timeout has passed, while other simulated threads run.
/// Returns true if the condition is met. On a thread that is not simulated it returns `None` at
/// once. A condition that is met must stay so until this returns.
pub(crate) fn wait_until(
    timeout: Option<Duration>,
    is_met: &mut (dyn FnMut() -> bool + Send),
) -> Option<bool> {
    let (schedule, thread) = current()?;
    Some(is_met() || schedule.wait(thread, timeout, is_met))
}

/// Leaves the schedule when the loop ends.
pub struct Entered(());

impl Drop for Entered {
    fn drop(&mut self) {
        IS_SIMULATED.set(false);
        CURRENT.with_borrow_mut(Option::take);
    }
}

impl Schedule {
    #[must_use]
    pub fn new(seed: u64) -> Schedule {
        let random = SeededRandom::new(seed);
        Schedule(Arc::new(Inner { random, state: Mutex::default() }))
    }

    /// The schedule that the calling thread belongs to.
    #[must_use]
    pub fn current() -> Option<Schedule> {
        current().map(|(schedule, _)| schedule)
    }

    /// Makes the calling thread the loop of this schedule, until the result is dropped.
    #[must_use]
    pub fn enter(&self) -> Entered {
        assert!(!is_simulated(), "a thread belongs to one simulation");
        let is_first = self.0.state.lock().threads.insert(LOOP, Thread::new("loop")).is_none();
        assert!(is_first, "a schedule has one loop");
        become_thread(self, LOOP);
        Entered(())
    }

    /// Lets another thread run, or time pass, since the loop has nothing to do. One of the two may
    /// have given it something to do when this returns.
    ///
    /// # Panics
    /// If nothing can ever happen again.
    pub fn idle(&self) {
        let mut state = self.0.state.lock();
        match self.runnable(&mut state) {
            Some(next) => {
                state.wait_of(LOOP, Wait::Idle);
                state.give_turn(next);
                self.until_turn(&mut state, LOOP);
            }
            None => match state.advance() {
                Some(due) => MutexGuard::unlocked(&mut state, || wake_all(due)),
                None => state.stuck = Some(state.describe()),
            },
        }
        state.check();
    }

    /// Adds an event to the trace.
    pub fn note(&self, event: fmt::Arguments<'_>) {
        let mut state = self.0.state.lock();
        let now = state.now;
        state.trace.note(now, event);
    }

    /// The hash of all events so far.
    #[must_use]
    pub fn trace(&self) -> u64 {
        self.0.state.lock().trace.hash
    }

    /// Prints each event from now on, to find out where two runs differ.
    pub fn print_events(&self) {
        self.0.state.lock().trace.is_printed = true;
    }

    /// A timer that is due after this time.
    #[must_use]
    pub fn timer(&self, after: Duration) -> Timer {
        let deadline = self.monotonic().saturating_add(after);
        Timer { schedule: self.clone(), deadline, number: None }
    }

    fn wait(
        &self,
        thread: ThreadId,
        timeout: Option<Duration>,
        is_met: &mut (dyn FnMut() -> bool + Send),
    ) -> bool {
        let pointer: *mut (dyn FnMut() -> bool + Send + '_) = is_met;
        // SAFETY: only the lifetime changes. The pointer is used while the wait of this thread is
        // `Until`, which ends before this function, and so the borrow, does.
        let pointer: *mut (dyn FnMut() -> bool + Send) = unsafe { std::mem::transmute(pointer) };
        let mut state = self.0.state.lock();
        let deadline = timeout.map(|timeout| state.now.saturating_add(timeout));
        state.wait_of(thread, Wait::Until(Condition { is_met: pointer, deadline }));
        self.pass_on(&mut state);
        self.until_turn(&mut state, thread);
        is_met()
    }

    /// Waits for the turn.
    fn until_turn(&self, state: &mut MutexGuard<'_, State>, thread: ThreadId) {
        let turn = Arc::clone(&state.threads[&thread].turn);
        while state.running != thread {
            turn.wait(state);
        }
        state.wait_of(thread, Wait::Ready);
        if thread == LOOP {
            state.check();
        }
    }

    /// Gives the turn to another thread: to the loop if it is idle, since it may have something to
    /// do now, and otherwise to any that can go on.
    fn pass_on(&self, state: &mut MutexGuard<'_, State>) {
        if state.threads.get(&LOOP).is_some_and(|thread| matches!(thread.wait, Wait::Idle)) {
            return state.give_turn(LOOP);
        }
        loop {
            if let Some(next) = self.runnable(state) {
                return state.give_turn(next);
            }
            let Some(due) = state.advance() else {
                state.stuck = Some(state.describe());
                return state.give_turn(LOOP);
            };
            MutexGuard::unlocked(state, || wake_all(due));
        }
    }

    /// Any thread that can go on.
    fn runnable(&self, state: &mut State) -> Option<ThreadId> {
        let (now, running) = (state.now, state.running);
        let is_idle_loop = |thread: &ThreadId| *thread == LOOP && running == LOOP;
        let mut ready = Vec::new();
        for (id, thread) in &mut state.threads {
            let goes_on = match &mut thread.wait {
                Wait::Ready => !is_idle_loop(id),
                Wait::Idle => false,
                Wait::Until(condition) => condition.is_over(now),
            };
            if goes_on {
                ready.push(*id);
            }
        }
        let count = ready.len() as u64;
        (count > 0).then(|| ready[self.0.random.below(count) as usize])
    }

    fn start(&self, name: &str) -> ThreadId {
        let mut state = self.0.state.lock();
        state.last_thread += 1;
        let thread = state.last_thread;
        state.threads.insert(thread, Thread::new(name));
        thread
    }

    fn end(&self, thread: ThreadId) {
        let mut state = self.0.state.lock();
        state.threads.remove(&thread);
        self.pass_on(&mut state);
    }
}

impl Condition {
    fn is_over(&mut self, now: Duration) -> bool {
        // SAFETY: the owner of the closure waits for the turn, which the caller has.
        self.deadline.is_some_and(|deadline| deadline <= now) || unsafe { (*self.is_met)() }
    }
}

impl Thread {
    fn new(name: &str) -> Thread {
        Thread { name: name.to_owned(), wait: Wait::Ready, turn: Arc::default() }
    }
}

impl State {
    fn wait_of(&mut self, thread: ThreadId, wait: Wait) {
        self.threads.get_mut(&thread).expect("a thread waits before it ends").wait = wait;
    }

    fn give_turn(&mut self, thread: ThreadId) {
        let next = &self.threads[&thread];
        self.trace.note(self.now, format_args!("turn {thread} {}", next.name));
        next.turn.notify_all();
        self.running = thread;
    }

    /// Moves time to the next timer or deadline; returns the wakers of the timers that are due.
    /// `None` if there is nothing to wait for.
    fn advance(&mut self) -> Option<Vec<Waker>> {
        let deadlines = self.threads.values().filter_map(|thread| match &thread.wait {
            Wait::Until(condition) => condition.deadline,
            _ => None,
        });
        let timers = self.timers.first_key_value().map(|((due, _), _)| *due);
        self.now = deadlines.chain(timers).min()?.max(self.now);
        let mut due = self.timers.split_off(&(self.now, u64::MAX));
        swap(&mut due, &mut self.timers);
        Some(due.into_values().collect())
    }

    fn describe(&self) -> String {
        let names: Vec<&str> = self.threads.values().map(|thread| thread.name.as_str()).collect();
        format!("all threads of the simulation wait for ever: {}", names.join(", "))
    }

    fn check(&self) {
        if let Some(stuck) = &self.stuck {
            panic!("{stuck}");
        }
    }
}

fn wake_all(due: Vec<Waker>) {
    due.into_iter().for_each(Waker::wake);
}

fn become_thread(schedule: &Schedule, thread: ThreadId) {
    CURRENT.with_borrow_mut(|current| *current = Some((schedule.clone(), thread)));
    IS_SIMULATED.set(true);
}

impl Clock for Schedule {
    fn now_micros(&self) -> i64 {
        SimulatedClock::micros_at(self.monotonic())
    }

    fn monotonic(&self) -> Duration {
        self.0.state.lock().now
    }

    /// Others run meanwhile.
    fn sleep(&self, duration: Duration) {
        let slept = wait_until(Some(duration), &mut || false);
        assert!(slept.is_some(), "only threads of the simulation sleep in its time");
    }
}

impl Threads for Schedule {
    fn spawn(
        &self,
        name: &str,
        body: Box<dyn FnOnce() + Send>,
    ) -> io::Result<Box<dyn ThreadHandle>> {
        self.spawn_with_stack(name, STACK_BYTES, body)
    }

    fn spawn_with_stack(
        &self,
        name: &str,
        stack_bytes: usize,
        body: Box<dyn FnOnce() + Send>,
    ) -> io::Result<Box<dyn ThreadHandle>> {
        let thread = self.start(name);
        let (schedule, outcome) = (self.clone(), Arc::new(AtomicU8::new(RUNS)));
        let end = Arc::clone(&outcome);
        let life = move || {
            become_thread(&schedule, thread);
            schedule.until_turn(&mut schedule.0.state.lock(), thread);
            let ended = catch_unwind(AssertUnwindSafe(body));
            end.store(if ended.is_ok() { ENDED } else { PANICKED }, Ordering::Release);
            schedule.end(thread);
        };
        let builder = std::thread::Builder::new().name(name.to_owned());
        if let Err(error) = builder.stack_size(stack_bytes.max(STACK_BYTES)).spawn(life) {
            self.0.state.lock().threads.remove(&thread);
            return Err(error);
        }
        Ok(Box::new(SimulatedHandle(outcome)))
    }
}

/// The smallest stack of a simulated thread, in bytes: enough for builds without optimisation.
const STACK_BYTES: usize = 8 << 20;

/// States of a thread.
const RUNS: u8 = 0;
const ENDED: u8 = 1;
const PANICKED: u8 = 2;

struct SimulatedHandle(Arc<AtomicU8>);

impl ThreadHandle for SimulatedHandle {
    fn join(self: Box<Self>) -> bool {
        let waited = wait_until(None, &mut || self.0.load(Ordering::Acquire) != RUNS);
        assert!(waited.is_some(), "only threads of the simulation wait for its threads");
        self.0.load(Ordering::Acquire) == ENDED
    }
}

/// A future that completes at a moment of simulated time.
pub struct Timer {
    schedule: Schedule,
    deadline: Duration,
    /// Number under which the waker is registered.
    number: Option<u64>,
}

impl Timer {
    /// Makes it due after this time.
    pub fn reset(&mut self, after: Duration) {
        self.forget();
        self.deadline = self.schedule.monotonic().saturating_add(after);
    }

    fn forget(&mut self) {
        let Some(number) = self.number.take() else { return };
        let waker = self.schedule.0.state.lock().timers.remove(&(self.deadline, number));
        drop(waker);
    }
}

impl Future for Timer {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let schedule = self.schedule.clone();
        let mut state = schedule.0.state.lock();
        if state.now >= self.deadline {
            return Poll::Ready(());
        }
        let number = *self.number.get_or_insert_with(|| {
            state.last_timer += 1;
            state.last_timer
        });
        let replaced = state.timers.insert((self.deadline, number), context.waker().clone());
        drop(state);
        drop(replaced);
        Poll::Pending
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        self.forget();
    }
}

impl Random for Schedule {
    fn next_u64(&self) -> u64 {
        self.0.random.next_u64()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Condvar as WaitingCondvar, channel};

    /// Runs a simulation on a thread of its own; returns its result and its trace.
    fn run<T: Send>(seed: u64, body: impl FnOnce(&Schedule) -> T + Send) -> (T, u64) {
        let schedule = Schedule::new(seed);
        std::thread::scope(|scope| {
            let ran = scope.spawn(|| {
                let _entered = schedule.enter();
                (body(&schedule), schedule.trace())
            });
            ran.join().unwrap()
        })
    }

    /// Numbers that three threads push in the order in which they run.
    fn pushed(seed: u64) -> (Vec<usize>, u64) {
        run(seed, |schedule| {
            let (sender, receiver) = channel();
            let threads: Vec<_> = (0..3)
                .map(|number| {
                    let (sender, clock) = (sender.clone(), schedule.clone());
                    let body = move || {
                        for _ in 0..4 {
                            sender.send(number).unwrap();
                            clock.sleep(Duration::from_millis(1));
                        }
                    };
                    schedule.spawn("pusher", Box::new(body)).unwrap()
                })
                .collect();
            drop(sender);
            let all = std::iter::from_fn(|| receiver.recv().ok()).collect();
            threads.into_iter().for_each(|thread| assert!(thread.join()));
            assert_eq!(schedule.monotonic(), Duration::from_millis(4));
            all
        })
    }

    #[test]
    fn a_seed_gives_the_same_order_again() {
        let orders: Vec<_> = (0..20).map(pushed).collect();
        assert_eq!(orders, (0..20).map(pushed).collect::<Vec<_>>());
        let mut different: Vec<_> = orders.iter().map(|(order, _)| order).collect();
        different.sort_unstable();
        different.dedup();
        assert!(different.len() > 10, "{different:?}");
    }

    #[test]
    fn waits_end_by_a_notification_or_by_the_time() {
        let (times, _) = run(1, |schedule| {
            let shared = Arc::new((Mutex::new(false), WaitingCondvar::new()));
            let (other, clock) = (Arc::clone(&shared), schedule.clone());
            let body = move || {
                clock.sleep(Duration::from_secs(3));
                *other.0.lock() = true;
                other.1.notify_one();
            };
            let thread = schedule.spawn("late", Box::new(body)).unwrap();
            let mut is_done = shared.0.lock();
            let timed_out = shared.1.wait_for(&mut is_done, Duration::from_secs(1));
            let first = (timed_out, *is_done, schedule.monotonic());
            while !*is_done {
                shared.1.wait(&mut is_done);
            }
            drop(is_done);
            assert!(thread.join());
            (first, schedule.monotonic())
        });
        assert_eq!(times, ((true, false, Duration::from_secs(1)), Duration::from_secs(3)));
    }

    #[test]
    fn a_wait_for_nothing_is_reported() {
        let stuck = std::panic::catch_unwind(|| {
            run(1, |_| {
                let (_sender, receiver) = channel::<()>();
                receiver.recv()
            })
        });
        assert!(stuck.is_err());
    }

    #[test]
    fn a_thread_that_panics_is_reported_to_who_joins_it() {
        let fails = || std::panic::resume_unwind(Box::new("on purpose"));
        let (joined, _) =
            run(1, |schedule| schedule.spawn("fails", Box::new(fails)).unwrap().join());
        assert!(!joined);
    }
}
