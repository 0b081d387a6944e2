//! The best rows of each group so far, compared by byte strings that sort as the rows do.

use std::cmp::Ordering;

/// Address of a kept row: the batch, and the row's offset in it.
pub(super) type Place = (u32, u32);

/// The first bytes of a sort key, which usually suffice to compare two rows.
type Prefix = (u64, u64);

/// Number of bytes of a sort key in a [`Prefix`].
pub(super) const PREFIX_BYTES: usize = size_of::<Prefix>();

/// The part of a sort key that decides between equal prefixes.
pub(super) trait Rest: Ord {
    fn of(order: &[u8]) -> Self;
    fn compare(&self, order: &[u8]) -> Ordering;
    fn bytes(&self) -> usize;
}

/// Nothing, since the prefix holds the whole sort key.
impl Rest for () {
    fn of(_: &[u8]) {}

    fn compare(&self, _: &[u8]) -> Ordering {
        Ordering::Equal
    }

    fn bytes(&self) -> usize {
        0
    }
}

/// The whole sort key.
impl Rest for Box<[u8]> {
    fn of(order: &[u8]) -> Box<[u8]> {
        order.into()
    }

    fn compare(&self, order: &[u8]) -> Ordering {
        self.as_ref().cmp(order)
    }

    fn bytes(&self) -> usize {
        self.len()
    }
}

pub(super) struct Entry<R> {
    prefix: Prefix,
    rest: R,
    pub place: Place,
}

impl<R: Rest> Entry<R> {
    fn compare(&self, other: &Entry<R>) -> Ordering {
        self.prefix.cmp(&other.prefix).then_with(|| self.rest.cmp(&other.rest))
    }
}

/// At most `rows` entries of each group. A full group's entries form a heap with the worst on top.
pub(super) struct Best<R> {
    rows: usize,
    /// For each group, the greatest beginning of a sort key that can still be among its best. This
    /// rejects most rows without looking at the entries, so only these bounds need to be in the
    /// CPU's cache.
    bounds: Vec<u64>,
    groups: Vec<Vec<Entry<R>>>,
    entries: usize,
    /// Bytes of the groups' vectors.
    bytes: usize,
}

impl<R: Rest> Best<R> {
    /// Starts without groups; [`grow`](Self::grow) adds them.
    pub fn new(rows: usize) -> Best<R> {
        Best { rows, bounds: Vec::new(), groups: Vec::new(), entries: 0, bytes: 0 }
    }

    /// Grows to `groups` groups.
    pub fn grow(&mut self, groups: usize) {
        self.bounds.resize(groups, u64::MAX);
        self.groups.resize_with(groups, Vec::new);
    }

    /// Number of kept rows over all groups.
    pub fn len(&self) -> usize {
        self.entries
    }

    /// Memory of entries and bounds, in bytes; the rows themselves lie elsewhere.
    pub fn memory_bytes(&self) -> usize {
        let of_group = size_of::<u64>() + size_of::<Vec<Entry<R>>>();
        self.bytes + self.groups.capacity() * of_group
    }

    /// Offers a row to its group. Returns true, and stores `place`, if the row is among the best so
    /// far.
    #[inline]
    pub fn offer(&mut self, group: usize, order: &[u8], place: Place) -> bool {
        beginning(order) <= self.bounds[group] && self.consider(group, order, place)
    }

    #[inline(never)]
    fn consider(&mut self, group: usize, order: &[u8], place: Place) -> bool {
        let prefix = prefix(order);
        let entries = &mut self.groups[group];
        if entries.len() < self.rows {
            self.entries += 1;
            let rest = R::of(order);
            self.bytes += rest.bytes() + added(entries, Entry { prefix, rest, place });
            if entries.len() < self.rows {
                return true;
            }
            make_heap(entries);
        } else {
            let worst = &mut entries[0];
            let beside = worst.prefix.cmp(&prefix).then_with(|| worst.rest.compare(order));
            if beside.is_le() {
                return false;
            }
            let rest = R::of(order);
            self.bytes = self.bytes + rest.bytes() - worst.rest.bytes();
            *worst = Entry { prefix, rest, place };
            sink(entries, 0);
        }
        self.bounds[group] = entries[0].prefix.0;
        true
    }

    /// All places, group by group, for the caller to replace.
    pub fn places(&mut self) -> impl Iterator<Item = &mut Place> {
        self.groups.iter_mut().flatten().map(|entry| &mut entry.place)
    }

    /// The places of each group's rows, best first.
    pub fn into_groups(self) -> impl Iterator<Item = Vec<Place>> {
        self.groups.into_iter().map(|mut entries| {
            entries.sort_unstable_by(Entry::compare);
            entries.into_iter().map(|entry| entry.place).collect()
        })
    }
}

/// Adds an entry, and returns the number of bytes by which the vector grew.
fn added<R>(entries: &mut Vec<Entry<R>>, entry: Entry<R>) -> usize {
    let before = entries.capacity();
    if entries.len() == before {
        entries.reserve_exact(before.max(1));
    }
    entries.push(entry);
    (entries.capacity() - before) * size_of::<Entry<R>>()
}

/// The first half of a sort key's prefix.
#[inline]
fn beginning(order: &[u8]) -> u64 {
    match order.first_chunk() {
        Some(bytes) => u64::from_be_bytes(*bytes),
        None => prefix(order).0,
    }
}

fn prefix(order: &[u8]) -> Prefix {
    let mut bytes = [0; PREFIX_BYTES];
    let length = order.len().min(PREFIX_BYTES);
    bytes[..length].copy_from_slice(&order[..length]);
    let both = u128::from_be_bytes(bytes);
    ((both >> 64) as u64, both as u64)
}

fn make_heap<R: Rest>(entries: &mut [Entry<R>]) {
    for place in (0..entries.len() / 2).rev() {
        sink(entries, place);
    }
}

/// Restores the heap: moves an entry down until none below it is worse.
fn sink<R: Rest>(entries: &mut [Entry<R>], mut place: usize) {
    loop {
        let (left, right) = (2 * place + 1, 2 * place + 2);
        let mut worst = place;
        for below in [left, right] {
            if below < entries.len() && entries[below].compare(&entries[worst]).is_gt() {
                worst = below;
            }
        }
        if worst == place {
            return;
        }
        entries.swap(place, worst);
        place = worst;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers that look like chance, the same in each run.
    fn drawn(count: usize, below: u64) -> Vec<u64> {
        let mut state = 42_u64;
        let next = |_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695);
            (state >> 33) % below
        };
        (0..count).map(next).collect()
    }

    /// The rows kept of each group, and those of a full sort.
    fn check<R: Rest>(rows: usize, groups: u64, order: impl Fn(u64) -> Vec<u8>) {
        let drawn = drawn(2_000, 1_000_003);
        let mut best = Best::<R>::new(rows);
        let mut all = vec![Vec::new(); groups as usize];
        best.grow(groups as usize);
        for (place, number) in drawn.iter().enumerate() {
            let group = (number % groups) as usize;
            best.offer(group, &order(*number), (0, place as u32));
            all[group].push(order(*number));
        }
        for group in &mut all {
            group.sort();
            group.truncate(rows);
        }
        assert_eq!(best.len(), all.iter().map(Vec::len).sum::<usize>());
        let of_place = |place: &Place| order(drawn[place.1 as usize]);
        let kept: Vec<Vec<Vec<u8>>> =
            best.into_groups().map(|places| places.iter().map(of_place).collect()).collect();
        assert_eq!(kept, all);
    }

    #[test]
    fn the_first_of_each_group_are_kept_in_their_order() {
        for rows in [1, 2, 3, 7, 100, 5_000] {
            for groups in [1, 3, 700] {
                // Many are equal.
                check::<()>(rows, groups, |number| (number % 50).to_be_bytes().to_vec());
                check::<()>(rows, groups, |number| number.to_be_bytes().to_vec());
                check::<Box<[u8]>>(rows, groups, |number| {
                    // The first sixteen bytes are mostly the same.
                    format!("{:016}{number:07}", number % 2).into_bytes()
                });
            }
        }
    }

    #[test]
    fn what_is_last_of_all_is_kept_where_there_is_room() {
        let mut best = Best::<()>::new(2);
        best.grow(1);
        let last = [0xff; PREFIX_BYTES];
        assert!(best.offer(0, &last, (0, 0)));
        assert!(best.offer(0, &last, (0, 1)));
        assert!(!best.offer(0, &last, (0, 2)));
        assert!(best.offer(0, &[0; 4], (0, 3)));
        let groups: Vec<Vec<Place>> = best.into_groups().collect();
        assert_eq!(groups.len(), 1);
        assert_eq!(groups[0].first(), Some(&(0, 3)));
        assert_eq!(groups[0].len(), 2);
    }
}
