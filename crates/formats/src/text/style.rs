//! The settings of a session that decide how values are read from text and written as text.
//!
//! A statement's work enters the style of its session ([`within`]) on each thread that works for
//! it, and code that reads or writes values asks for the [`current`] one. `None` is the default
//! style, so that most sessions pay for one comparison per column.

mod moments;

use std::cell::RefCell;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::zone::Zone;

pub use self::moments::{push_date, push_timestamp, push_timestamptz, push_xsd};

thread_local! {
    /// The style of the session that this thread works for; `None` for the default one.
    static CURRENT: RefCell<Option<Arc<SessionStyle>>> = const { RefCell::new(None) };
}

/// The form in which a session reads values from text and writes them as text.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SessionStyle {
    pub zone: Zone,
    pub dates: DateOutput,
    pub order: DateOrder,
    pub intervals: IntervalStyle,
    pub bytea: ByteaOutput,
    /// Above 0, floats have the fewest digits that read back as the same number.
    pub extra_float_digits: i8,
}

/// The first part of `DateStyle`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum DateOutput {
    /// `2013-01-31 05:00:00+00`
    #[default]
    Iso,
    /// `01/31/2013 05:00:00 UTC`
    Sql,
    /// `Thu Jan 31 05:00:00 2013 UTC`
    Postgres,
    /// `31.01.2013 05:00:00 UTC`
    German,
}

/// The second part of `DateStyle`: the order of a date's numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum DateOrder {
    #[default]
    Mdy,
    Dmy,
    Ymd,
}

/// `IntervalStyle`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum IntervalStyle {
    #[default]
    Postgres,
    Verbose,
    SqlStandard,
    Iso8601,
}

/// `bytea_output`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ByteaOutput {
    #[default]
    Hex,
    Escape,
}

impl Default for SessionStyle {
    fn default() -> SessionStyle {
        SessionStyle {
            zone: Zone::UTC,
            dates: DateOutput::default(),
            order: DateOrder::default(),
            intervals: IntervalStyle::default(),
            bytea: ByteaOutput::default(),
            extra_float_digits: 1,
        }
    }
}

impl SessionStyle {
    /// The style for [`within`]: `None` if it reads and writes all values as the default one.
    #[must_use]
    pub fn shared(self) -> Option<Arc<SessionStyle>> {
        let names_zones = self.dates != DateOutput::Iso;
        let has_default_zone = self.zone == Zone::UTC || (self.zone.is_utc() && !names_zones);
        let others = SessionStyle {
            zone: Zone::UTC,
            extra_float_digits: self.extra_float_digits.min(1),
            ..self.clone()
        };
        let is_default = has_default_zone && others == SessionStyle::default();
        (!is_default).then(|| Arc::new(self))
    }
}

/// The style of the session that this thread works for; `None` for the default one.
#[must_use]
pub fn current() -> Option<Arc<SessionStyle>> {
    CURRENT.with_borrow(Option::clone)
}

/// The zone of the session that this thread works for, unless its clocks show UTC.
#[must_use]
pub fn current_zone() -> Option<Zone> {
    CURRENT.with_borrow(|style| {
        let zone = &style.as_ref()?.zone;
        (!zone.is_utc()).then(|| zone.clone())
    })
}

/// True if the clocks of the current session's zone show UTC.
#[must_use]
pub fn is_utc() -> bool {
    CURRENT.with_borrow(|style| style.as_ref().is_none_or(|style| style.zone.is_utc()))
}

/// Works in a style on this thread.
pub fn within<T>(style: Option<&Arc<SessionStyle>>, work: impl FnOnce() -> T) -> T {
    let _previous = enter(style.cloned());
    work()
}

/// Enters a style on this thread until the result is dropped.
#[must_use]
pub fn enter(style: Option<Arc<SessionStyle>>) -> Entered {
    Entered(Some(CURRENT.replace(style)))
}

/// Restores the thread's previous style when it is dropped.
pub struct Entered(Option<Option<Arc<SessionStyle>>>);

impl Drop for Entered {
    fn drop(&mut self) {
        if let Some(previous) = self.0.take() {
            CURRENT.set(previous);
        }
    }
}

/// A future that is polled in a style.
pub struct Styled<F> {
    style: Option<Arc<SessionStyle>>,
    work: F,
}

impl<F> Styled<F> {
    pub fn new(style: Option<Arc<SessionStyle>>, work: F) -> Styled<F> {
        Styled { style, work }
    }
}

impl<F: Future + Unpin> Future for Styled<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let Styled { style, work } = &mut *self;
        within(style.as_ref(), || Pin::new(work).poll(context))
    }
}

#[cfg(test)]
mod tests;
