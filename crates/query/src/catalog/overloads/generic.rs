//! Generic argument types: `anyelement`, `anyarray` and their like.

use super::{Overload, UNKNOWN, array_of, coerces, common_type, item_of};

const ANY: i64 = 2_276;

/// A family of generic types that stand for one type of a call.
struct Family {
    items: [i64; 2],
    array: i64,
    /// True if values of several types become values of their common type.
    is_common: bool,
}

const FAMILIES: [Family; 2] = [
    // anyelement, anynonarray, anyarray
    Family { items: [2_283, 2_776], array: 2_277, is_common: false },
    // anycompatible, anycompatiblenonarray, anycompatiblearray
    Family { items: [5_077, 5_079], array: 5_078, is_common: true },
];

impl Family {
    fn has(&self, oid: i64) -> bool {
        self.items.contains(&oid) || self.array == oid
    }

    /// The item type of a call; `Some(UNKNOWN)` if no argument determines it, `None` if the
    /// arguments contradict each other.
    fn item(&self, wanted: &[i64], given: &[i64]) -> Option<i64> {
        let mut found = Vec::new();
        for (wanted, given) in wanted.iter().zip(given).filter(|(_, given)| **given != UNKNOWN) {
            if *wanted == self.array {
                found.push(item_of(*given)?);
            } else if self.items.contains(wanted) {
                // The second kind of item is no array.
                if *wanted == self.items[1] && item_of(*given).is_some() {
                    return None;
                }
                found.push(*given);
            }
        }
        match found.as_slice() {
            [] => Some(UNKNOWN),
            found if self.is_common => common_type(found),
            [first, rest @ ..] => rest.iter().all(|other| other == first).then_some(*first),
        }
    }
}

/// True if arguments of the given types can be passed for the wanted ones.
pub(super) fn accepts(wanted: &[i64], given: &[i64]) -> bool {
    let fits = |(wanted, given): (&i64, &i64)| {
        let is_generic = *wanted == ANY || FAMILIES.iter().any(|family| family.has(*wanted));
        is_generic || coerces(*given, *wanted)
    };
    wanted.iter().zip(given).all(fits)
        && FAMILIES.iter().all(|family| family.item(wanted, given).is_some())
}

/// The overload with actual types in place of generic ones. A type that nothing determines is
/// [`UNKNOWN`].
pub(super) fn actual(wanted: &[i64], result: i64, given: &[i64]) -> Option<Overload> {
    let items: Vec<i64> =
        FAMILIES.iter().map(|family| family.item(wanted, given)).collect::<Option<_>>()?;
    let typed = |oid: i64| {
        for (family, item) in FAMILIES.iter().zip(&items) {
            if family.items.contains(&oid) {
                return *item;
            }
            if family.array == oid {
                return array_of(*item).unwrap_or(UNKNOWN);
            }
        }
        if oid == ANY { UNKNOWN } else { oid }
    };
    let arguments = wanted.iter().map(|oid| typed(*oid)).collect();
    Some(Overload { arguments, result: typed(result) })
}
