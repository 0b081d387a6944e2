//! Timers: tokio's on ordinary threads, those of the schedule on threads of a simulation. A timer
//! keeps its kind for life.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::OnceLock;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use hyper::rt::Timer as HyperTimer;
use thalweg_env::{Clock as _, Schedule, Timer};

/// A future that completes after some time.
pub struct Sleep(Kind);

enum Kind {
    Real(Pin<Box<tokio::time::Sleep>>),
    Simulated(Timer),
}

/// Completes after this time.
#[expect(clippy::disallowed_methods, reason = "these are the real timers")]
#[must_use]
pub fn sleep(time: Duration) -> Sleep {
    Sleep(match Schedule::current() {
        None => Kind::Real(Box::pin(tokio::time::sleep(time))),
        Some(schedule) => Kind::Simulated(schedule.timer(time)),
    })
}

impl Sleep {
    /// Lets it complete after this time, from now.
    #[expect(clippy::disallowed_methods, reason = "these are the real timers")]
    pub fn reset(&mut self, time: Duration) {
        match &mut self.0 {
            Kind::Real(sleep) => sleep.as_mut().reset(tokio::time::Instant::now() + time),
            Kind::Simulated(timer) => timer.reset(time),
        }
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        match &mut self.0 {
            Kind::Real(sleep) => sleep.as_mut().poll(context),
            Kind::Simulated(timer) => Pin::new(timer).poll(context),
        }
    }
}

impl hyper::rt::Sleep for Sleep {}

/// The time of a [`timeout`] is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elapsed;

impl fmt::Display for Elapsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the time is over")
    }
}

impl std::error::Error for Elapsed {}

/// Runs work for at most this time. Work that is done at the last moment counts as done.
///
/// # Errors
/// If the time is over before.
pub async fn timeout<T>(time: Duration, work: impl Future<Output = T>) -> Result<T, Elapsed> {
    let (mut work, mut over) = (pin!(work), sleep(time));
    poll_fn(|context| {
        if let Poll::Ready(done) = work.as_mut().poll(context) {
            return Poll::Ready(Ok(done));
        }
        Pin::new(&mut over).poll(context).map(|()| Err(Elapsed))
    })
    .await
}

/// Ticks. After a late tick, the next one comes a whole period later.
pub struct Interval {
    sleep: Sleep,
    period: Duration,
}

/// Ticks at once, and then again after each period.
#[must_use]
pub fn interval(period: Duration) -> Interval {
    assert!(!period.is_zero(), "an interval has a period");
    Interval { sleep: sleep(Duration::ZERO), period }
}

impl Interval {
    pub async fn tick(&mut self) {
        poll_fn(|context| self.poll_tick(context)).await;
    }

    pub fn poll_tick(&mut self, context: &mut Context<'_>) -> Poll<()> {
        ready!(Pin::new(&mut self.sleep).poll(context));
        self.sleep.reset(self.period);
        Poll::Ready(())
    }

    /// Lets the next tick come a whole period from now.
    pub fn reset(&mut self) {
        self.sleep.reset(self.period);
    }

    /// Lets the next tick come after this time.
    pub fn reset_after(&mut self, time: Duration) {
        self.sleep.reset(time);
    }
}

/// The timers of HTTP connections.
#[derive(Clone, Copy, Debug, Default)]
pub struct HttpTimer;

/// An instant at simulated time zero: an `Instant` cannot be made out of nothing.
static ORIGIN: OnceLock<Instant> = OnceLock::new();

impl HyperTimer for HttpTimer {
    fn sleep(&self, time: Duration) -> Pin<Box<dyn hyper::rt::Sleep>> {
        Box::pin(sleep(time))
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn hyper::rt::Sleep>> {
        HyperTimer::sleep(self, deadline.saturating_duration_since(self.now()))
    }

    #[expect(clippy::disallowed_methods, reason = "these are the real timers")]
    fn now(&self) -> Instant {
        match Schedule::current() {
            None => Instant::now(),
            Some(schedule) => *ORIGIN.get_or_init(Instant::now) + schedule.monotonic(),
        }
    }
}
