//! State kept between a client's calls: connections, transactions, prepared statements and waiting
//! results. Each has an unguessable handle and is dropped after it was idle for some time.

use std::collections::HashMap;
use std::collections::hash_map::Entry as MapEntry;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use thalweg_env::Clock;
use thalweg_types::{Error, Result, SqlState};

/// A random name of 128 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Handle([u8; 16]);

impl Handle {
    pub(crate) const HEX_DIGITS: usize = 32;

    pub(crate) fn random() -> Result<Handle> {
        let mut bits = [0; 16];
        getrandom::fill(&mut bits).map_err(|error| {
            Error::internal("the system gives no randomness").with_source(error)
        })?;
        Ok(Handle(bits))
    }

    pub(crate) fn of_bytes(bytes: &[u8]) -> Option<Handle> {
        bytes.try_into().ok().map(Handle)
    }

    pub(crate) fn to_bytes(self) -> Bytes {
        Bytes::copy_from_slice(&self.0)
    }

    /// The handle for use in headers.
    pub(crate) fn to_hex(self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    pub(crate) fn of_hex(text: &str) -> Option<Handle> {
        let mut bits = [0; 16];
        if text.len() != Handle::HEX_DIGITS || !text.is_ascii() {
            return None;
        }
        for (index, byte) in bits.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&text[2 * index..2 * index + 2], 16).ok()?;
        }
        Some(Handle(bits))
    }
}

/// Entries of one kind, found by handle.
pub(crate) struct HandleMap<T> {
    things: Mutex<HandleEntries<T>>,
    /// Time after which an unused entry is idle.
    idle: Duration,
    most: usize,
    name: &'static str,
    clock: Arc<dyn Clock>,
}

type HandleEntries<T> = HashMap<Handle, HandleEntry<T>>;

struct HandleEntry<T> {
    value: Arc<T>,
    used: Duration,
}

/// Keeps an entry until this guard is dropped.
pub(crate) struct InUse<T> {
    handle_map: Arc<HandleMap<T>>,
    handle: Handle,
    value: Arc<T>,
}

impl<T> Drop for InUse<T> {
    fn drop(&mut self) {
        // Another entry may have replaced it under the same handle.
        self.handle_map.take_if(self.handle, |found| std::ptr::eq(found, &*self.value));
    }
}

impl<T> HandleMap<T> {
    /// `name` is the plural of the kind, for the error when there are too many.
    pub(crate) fn new(
        name: &'static str,
        most: usize,
        idle: Duration,
        clock: &Arc<dyn Clock>,
    ) -> HandleMap<T> {
        HandleMap { things: Mutex::default(), idle, most, name, clock: Arc::clone(clock) }
    }

    /// # Errors
    /// If there are too many entries.
    pub(crate) fn keep(&self, value: Arc<T>) -> Result<Handle> {
        let handle = Handle::random()?;
        self.keep_as(handle, value)?;
        Ok(handle)
    }

    /// # Errors
    /// If there are too many entries.
    pub(crate) fn keep_as(&self, handle: Handle, value: Arc<T>) -> Result<()> {
        self.insert(&mut self.things.lock(), handle, value)
    }

    /// Keeps an entry unless the handle has one already. Returns the entry of the handle.
    ///
    /// # Errors
    /// If there are too many entries.
    pub(crate) fn keep_first(&self, handle: Handle, value: Arc<T>) -> Result<Arc<T>> {
        let mut things = self.things.lock();
        if let Some(thing) = things.get_mut(&handle) {
            thing.used = self.clock.monotonic();
            return Ok(Arc::clone(&thing.value));
        }
        self.insert(&mut things, handle, Arc::clone(&value))?;
        Ok(value)
    }

    fn insert(&self, things: &mut HandleEntries<T>, handle: Handle, value: Arc<T>) -> Result<()> {
        if things.len() >= self.most {
            let message = format!("there are {} open {} already", things.len(), self.name);
            return Err(Error::new(SqlState::CONFIGURATION_LIMIT_EXCEEDED, message)
                .with_hint("Close some, or wait until idle ones are forgotten."));
        }
        things.insert(handle, HandleEntry { value, used: self.clock.monotonic() });
        Ok(())
    }

    /// # Errors
    /// If there are too many entries.
    pub(crate) fn keep_while(self: &Arc<Self>, handle: Handle, value: Arc<T>) -> Result<InUse<T>> {
        self.keep_as(handle, Arc::clone(&value))?;
        Ok(InUse { handle_map: Arc::clone(self), handle, value })
    }

    /// Number of entries for which `is` returns true.
    pub(crate) fn count(&self, is: impl Fn(&T) -> bool) -> usize {
        self.things.lock().values().filter(|thing| is(&thing.value)).count()
    }

    pub(crate) fn find(&self, handle: Handle) -> Option<Arc<T>> {
        let mut things = self.things.lock();
        let thing = things.get_mut(&handle)?;
        thing.used = self.clock.monotonic();
        Some(Arc::clone(&thing.value))
    }

    /// The entry for which `is` returns true, if there is exactly one.
    pub(crate) fn find_only(&self, is: impl Fn(&T) -> bool) -> Option<Arc<T>> {
        let mut things = self.things.lock();
        let mut found = things.values_mut().filter(|thing| is(&thing.value));
        let (only, None) = (found.next()?, found.next()) else { return None };
        only.used = self.clock.monotonic();
        Some(Arc::clone(&only.value))
    }

    pub(crate) fn take(&self, handle: Handle) -> Option<Arc<T>> {
        self.things.lock().remove(&handle).map(|thing| thing.value)
    }

    /// Takes the entry of a handle if `is` returns true for it.
    pub(crate) fn take_if(&self, handle: Handle, is: impl Fn(&T) -> bool) -> Option<Arc<T>> {
        match self.things.lock().entry(handle) {
            MapEntry::Occupied(thing) if is(&thing.get().value) => Some(thing.remove().value),
            _ => None,
        }
    }

    /// Takes all entries for which `is` returns true.
    pub(crate) fn take_all_if(&self, is: impl Fn(&T) -> bool) -> Taken<T> {
        taken(self.things.lock().extract_if(|_, thing| is(&thing.value)))
    }

    /// Drops entries that no call uses at the moment.
    pub(crate) fn forget_unused(&self) {
        let gone: Vec<HandleEntry<T>> = {
            let mut things = self.things.lock();
            let unused = things.extract_if(|_, thing| Arc::strong_count(&thing.value) == 1);
            unused.map(|(_, thing)| thing).collect()
        };
        drop(gone);
    }

    /// Takes entries that were idle for too long. An entry that a call uses at the moment is not
    /// idle.
    pub(crate) fn take_idle(&self) -> Taken<T> {
        let now = self.clock.monotonic();
        let mut things = self.things.lock();
        for thing in things.values_mut() {
            if Arc::strong_count(&thing.value) > 1 {
                thing.used = now;
            }
        }
        taken(things.extract_if(|_, thing| now - thing.used > self.idle))
    }
}

/// Entries that were taken. They must be dropped outside the lock, since dropping a session can
/// take a while.
pub(crate) type Taken<T> = Vec<(Handle, Arc<T>)>;

fn taken<T>(things: impl Iterator<Item = (Handle, HandleEntry<T>)>) -> Taken<T> {
    things.map(|(handle, thing)| (handle, thing.value)).collect()
}

#[cfg(test)]
mod tests {
    use thalweg_env::SimulatedClock;

    use super::*;

    fn handle_map(clock: SimulatedClock) -> HandleMap<&'static str> {
        let clock: Arc<dyn Clock> = Arc::new(clock);
        HandleMap::new("things", 2, Duration::from_secs(60), &clock)
    }

    #[test]
    fn idle_things_are_forgotten_and_used_ones_are_not() {
        let clock = SimulatedClock::new();
        let handle_map = handle_map(clock.clone());
        let idle = handle_map.keep(Arc::new("idle")).unwrap();
        let busy = handle_map.keep(Arc::new("busy")).unwrap();
        let working = handle_map.find(busy).unwrap();
        clock.advance(Duration::from_secs(61));
        assert_eq!(handle_map.take_idle().len(), 1);
        assert!(handle_map.find(idle).is_none());
        assert_eq!(*working, "busy");
        drop(working);
        clock.advance(Duration::from_secs(59));
        assert!(handle_map.take_idle().is_empty());
        assert!(handle_map.find(busy).is_some());
    }

    #[test]
    fn too_many_are_refused() {
        let handle_map = handle_map(SimulatedClock::new());
        handle_map.keep(Arc::new("one")).unwrap();
        let two = handle_map.keep(Arc::new("two")).unwrap();
        let error = handle_map.keep(Arc::new("three")).unwrap_err();
        assert_eq!(error.state().0, "53400");
        assert!(handle_map.take_if(two, |thing| *thing == "one").is_none());
        assert!(handle_map.take_if(two, |thing| *thing == "two").is_some());
        handle_map.keep(Arc::new("three")).unwrap();
    }

    #[test]
    fn what_is_kept_for_a_while_goes_with_it() {
        let handle_map = Arc::new(handle_map(SimulatedClock::new()));
        let handle = Handle::random().unwrap();
        let listed = handle_map.keep_while(handle, Arc::new("sending")).unwrap();
        assert!(handle_map.find(handle).is_some());
        let again = handle_map.keep_while(handle, Arc::new("sending again")).unwrap();
        drop(listed);
        assert!(handle_map.find(handle).is_some());
        drop(again);
        assert!(handle_map.find(handle).is_none());
    }

    #[test]
    fn the_first_of_a_name_stays() {
        let handle_map = handle_map(SimulatedClock::new());
        let handle = Handle::random().unwrap();
        assert_eq!(*handle_map.keep_first(handle, Arc::new("one")).unwrap(), "one");
        assert_eq!(*handle_map.keep_first(handle, Arc::new("two")).unwrap(), "one");
        assert_eq!((handle_map.count(|thing| *thing == "one"), handle_map.count(|_| true)), (1, 1));
        handle_map.keep(Arc::new("three")).unwrap();
        assert!(handle_map.keep_first(Handle::random().unwrap(), Arc::new("four")).is_err());
    }

    #[test]
    fn one_of_several_is_not_guessed() {
        let handle_map = handle_map(SimulatedClock::new());
        handle_map.keep(Arc::new("one")).unwrap();
        assert_eq!(handle_map.find_only(|thing| *thing == "one").as_deref(), Some(&"one"));
        handle_map.keep(Arc::new("two")).unwrap();
        assert!(handle_map.find_only(|_| true).is_none());
        assert!(handle_map.find_only(|thing| *thing == "three").is_none());
    }

    #[test]
    fn handles_survive_bytes_and_text() {
        let handle = Handle::random().unwrap();
        assert!(Handle::of_bytes(&handle.to_bytes()) == Some(handle));
        assert!(Handle::of_hex(&handle.to_hex()) == Some(handle));
        assert!(Handle::of_hex("zz").is_none() && Handle::of_bytes(b"short").is_none());
    }
}
