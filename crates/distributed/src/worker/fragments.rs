//! Fragments that gateways ask for again and again: sent once, then run by their numbers.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use parking_lot::Mutex;
use thalweg_protocol::cluster as wire;
use thalweg_types::{Error, Result, SqlState};

use crate::rows;

/// How many are kept. Whoever asks for one that had to go sends it again.
const KEPT_MAX: usize = 1_024;

/// A fragment without what differs from run to run.
pub(super) struct Known {
    pub(super) fragment: wire::Fragment,
    /// The types that its expressions name.
    pub(super) fields: SchemaRef,
}

#[derive(Default)]
pub(super) struct Fragments(Mutex<HashMap<u64, Arc<Known>>>);

impl Fragments {
    /// A fragment that came, which is kept if it has a number.
    ///
    /// # Errors
    /// Where its types are damaged.
    pub(super) fn take_in(&self, mut fragment: wire::Fragment) -> Result<Arc<Known>> {
        let (fields, _) = rows::decode(&fragment.fields)?;
        let number = fragment.number;
        // They may be views of a message with much else in it.
        (fragment.fields, fragment.literals) = Default::default();
        let known = Arc::new(Known { fragment, fields });
        if number > 0 {
            let mut kept = self.0.lock();
            if kept.len() >= KEPT_MAX {
                kept.clear();
            }
            kept.insert(number, Arc::clone(&known));
        }
        Ok(known)
    }

    /// # Errors
    /// Where nobody sent it, or it had to go.
    pub(super) fn find(&self, number: u64) -> Result<Arc<Known>> {
        let found = self.0.lock().get(&number).cloned();
        found.ok_or_else(|| Error::new(SqlState::UNKNOWN_FRAGMENT, "no such fragment is kept"))
    }
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::Schema;

    use super::*;

    fn numbered(number: u64) -> wire::Fragment {
        let fields = rows::encode(&Schema::empty(), &[]).unwrap();
        wire::Fragment { number, table: 7, fields, ..wire::Fragment::default() }
    }

    #[test]
    fn those_with_a_number_are_kept_until_there_are_too_many() {
        let fragments = Fragments::default();
        fragments.take_in(numbered(0)).unwrap();
        assert_eq!(fragments.find(0).err().unwrap().state(), SqlState::UNKNOWN_FRAGMENT);
        for number in 1..=KEPT_MAX as u64 {
            fragments.take_in(numbered(number)).unwrap();
        }
        assert_eq!(fragments.find(1).unwrap().fragment.table, 7);
        fragments.take_in(numbered(u64::MAX)).unwrap();
        assert_eq!(fragments.find(1).err().unwrap().state(), SqlState::UNKNOWN_FRAGMENT);
        assert!(fragments.find(u64::MAX).is_ok());
    }

    #[test]
    fn damaged_types_are_refused() {
        let damaged = wire::Fragment { fields: vec![1, 2, 3].into(), ..numbered(5) };
        assert!(Fragments::default().take_in(damaged).is_err());
    }
}
