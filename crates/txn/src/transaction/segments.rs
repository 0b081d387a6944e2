//! Append-only lists with cheap copies for savepoints.
//!
//! The time to copy a list barely depends on its length, so that a savepoint after a million
//! deleted rows costs hardly more than one after ten.

use std::sync::Arc;

/// A list that shares its beginning with the copies that [`Segments::share`] made.
#[derive(Clone)]
pub(super) struct Segments<T> {
    /// Each is at least twice as long as the next one, so that there are few.
    shared: Vec<Arc<Vec<T>>>,
    /// Items since the last copy.
    tail: Vec<T>,
}

impl<T> Default for Segments<T> {
    fn default() -> Segments<T> {
        Segments { shared: Vec::new(), tail: Vec::new() }
    }
}

impl<T: Clone> Segments<T> {
    /// True if the list has no items.
    pub fn is_empty(&self) -> bool {
        self.shared.is_empty() && self.tail.is_empty()
    }

    /// Number of items, shared ones included.
    pub fn len(&self) -> usize {
        self.shared.iter().map(|segment| segment.len()).sum::<usize>() + self.tail.len()
    }

    /// Appends an item; copies do not see it.
    pub fn push(&mut self, item: T) {
        self.tail.push(item);
    }

    /// Appends items; copies do not see them.
    pub fn extend(&mut self, items: impl IntoIterator<Item = T>) {
        self.tail.extend(items);
    }

    /// All items, in the order in which they were appended.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.shared.iter().flat_map(|segment| segment.iter()).chain(&self.tail)
    }

    /// The items behind the first `start` ones, in the order in which they were appended.
    pub fn iter_from(&self, start: usize) -> impl Iterator<Item = &T> {
        let shared = self.shared.iter().map(|segment| segment.as_slice());
        let segments = shared.chain(std::iter::once(self.tail.as_slice()));
        let rest = segments.scan(start, |skip, segment| {
            let here = segment.len().min(*skip);
            *skip -= here;
            Some(&segment[here..])
        });
        rest.flatten()
    }

    /// A copy that costs a few reference counts.
    pub fn share(&mut self) -> Segments<T> {
        let mut last = std::mem::take(&mut self.tail);
        if !last.is_empty() {
            while let Some(before) = self.shared.pop_if(|before| before.len() < 2 * last.len()) {
                let mut joined = Arc::unwrap_or_clone(before);
                joined.append(&mut last);
                last = joined;
            }
            self.shared.push(Arc::new(last));
        }
        Segments { shared: self.shared.clone(), tail: Vec::new() }
    }

    /// Removes and returns all items, in their order.
    pub fn take(&mut self) -> Vec<T> {
        if self.shared.is_empty() {
            return std::mem::take(&mut self.tail);
        }
        let mut all = Vec::new();
        for segment in self.shared.drain(..) {
            all.append(&mut Arc::unwrap_or_clone(segment));
        }
        all.append(&mut self.tail);
        all
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_copy_keeps_what_it_had(steps in prop::collection::vec(0..9_usize, 0..200)) {
            let (mut list, mut expected) = (Segments::default(), Vec::new());
            let mut copies = Vec::new();
            for step in steps {
                if step < 4 {
                    copies.push((list.share(), expected.clone()));
                } else {
                    list.extend(expected.len()..expected.len() + step);
                    expected.extend(expected.len()..expected.len() + step);
                }
                prop_assert_eq!(list.is_empty(), expected.is_empty());
                prop_assert_eq!(list.len(), expected.len());
            }
            copies.push((list, expected));
            for (mut copy, expected) in copies {
                prop_assert!(copy.shared.len() <= 1 + expected.len().ilog2_or_zero());
                prop_assert!(copy.iter().eq(&expected));
                for start in [0, 1, expected.len() / 2, expected.len(), expected.len() + 1] {
                    let rest = expected.iter().skip(start);
                    prop_assert!(copy.iter_from(start).eq(rest));
                }
                prop_assert_eq!(copy.take(), expected);
            }
        }
    }

    #[test]
    fn copies_of_a_long_list_share_it() {
        let mut list = Segments::default();
        list.extend(0..1000);
        let copies: Vec<Segments<i32>> = (0..100)
            .map(|item| {
                list.push(item);
                list.share()
            })
            .collect();
        let first = &copies[0].shared[0];
        assert!(copies.iter().all(|copy| Arc::ptr_eq(&copy.shared[0], first)));
    }

    trait Logarithm {
        fn ilog2_or_zero(self) -> usize;
    }

    impl Logarithm for usize {
        fn ilog2_or_zero(self) -> usize {
            self.checked_ilog2().map_or(0, |log| log as usize)
        }
    }
}
