//! An index of numbered things by their hashes.
//!
//! A slot is half of a hash and a number. Slots lie in the order of their hashes (but for those
//! that had to give way), so that growing goes through both old and new ones from front to back
//! and looks at no thing again.

/// Slots are at most so full, in quarters.
const FULL_QUARTERS: usize = 3;
const SLOTS_MIN: usize = 64;

#[derive(Default)]
pub(crate) struct Slots {
    /// Half a hash above a number and one; 0 where there is none. As many as a power of two.
    slots: Vec<u64>,
    used: usize,
}

/// What looking for a thing came to.
pub(crate) enum Found {
    Number(u32),
    /// The place for it in the slots.
    Free(usize),
}

#[inline(always)]
fn half(hash: u64) -> u64 {
    hash & 0xFFFF_FFFF_0000_0000
}

impl Slots {
    /// Makes room for `more` things.
    pub fn reserve(&mut self, more: usize) {
        let wanted = self.used + more;
        if wanted * 4 <= self.slots.len() * FULL_QUARTERS {
            return;
        }
        let slots = (wanted * 4 / FULL_QUARTERS + 1).next_power_of_two().max(SLOTS_MIN);
        let old = std::mem::replace(&mut self.slots, vec![0; slots]);
        for slot in old.into_iter().filter(|slot| *slot != 0) {
            let mut place = self.place(slot);
            while self.slots[place] != 0 {
                place = self.after(place);
            }
            self.slots[place] = slot;
        }
    }

    #[inline(always)]
    fn place(&self, hash: u64) -> usize {
        (hash >> (64 - self.slots.len().trailing_zeros())) as usize
    }

    #[inline(always)]
    fn after(&self, place: usize) -> usize {
        (place + 1) & (self.slots.len() - 1)
    }

    /// The slot that a hash has if no other one was in its way. There is room for something.
    #[inline(always)]
    pub fn first(&self, hash: u64) -> u64 {
        self.slots[self.place(hash)]
    }

    /// The number in a slot, if it is that of a hash like this.
    #[inline(always)]
    pub fn number(slot: u64, hash: u64) -> Option<u32> {
        (half(slot) == half(hash) && slot != 0).then(|| (slot as u32).wrapping_sub(1))
    }

    /// Looks for a thing. There is room for one more.
    #[inline]
    pub fn find(&self, hash: u64, is_it: impl Fn(u32) -> bool) -> Found {
        let mut place = self.place(hash);
        loop {
            let slot = self.slots[place];
            if slot == 0 {
                return Found::Free(place);
            }
            if let Some(number) = Slots::number(slot, hash)
                && is_it(number)
            {
                return Found::Number(number);
            }
            place = self.after(place);
        }
    }

    /// Puts a thing into its place, which was found free.
    #[inline]
    pub fn put(&mut self, place: usize, hash: u64, number: u32) {
        self.slots[place] = half(hash) | (u64::from(number) + 1);
        self.used += 1;
    }

    pub fn memory_bytes(&self) -> usize {
        self.slots.capacity() * 8
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aggregate::keys::hash::mix;

    #[test]
    fn things_are_found_however_their_hashes_collide() {
        for hash_of in [|n: u32| mix(1, n.into()), |n: u32| u64::from(n % 7) << 60, |_| u64::MAX] {
            let mut slots = Slots::default();
            for number in 0..500_u32 {
                slots.reserve(1);
                let hash = hash_of(number);
                let Found::Free(place) = slots.find(hash, |known| known == number) else {
                    panic!("{number} was not there yet")
                };
                slots.put(place, hash, number);
            }
            for number in 0..500_u32 {
                let found = slots.find(hash_of(number), |known| known == number);
                assert!(matches!(found, Found::Number(found) if found == number));
            }
            assert!(slots.memory_bytes() >= 500 * 8);
        }
    }
}
