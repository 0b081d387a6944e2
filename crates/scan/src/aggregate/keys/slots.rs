//! A hash index of numbered items.
//!
//! A slot has 4 bytes: a number, and a part of its hash in the bits that no number needs, so that
//! other items are seldom compared. Growing rebuilds the slots from the items alone, so the old
//! ones are freed first.

/// Maximum load in quarters.
const FULL_QUARTERS: usize = 3;
const SLOTS_MIN: usize = 64;

#[derive(Default)]
pub(crate) struct Slots {
    /// Upper bits: part of a hash; lower bits: the number plus one, or 0 in a free slot. The length
    /// is a power of two.
    slots: Vec<u32>,
    used: usize,
}

/// The result of a lookup.
pub(crate) enum Found {
    Number(u32),
    /// The slot in which to insert the missing item.
    Free(usize),
}

impl Slots {
    /// Reserves space for `more` items. `things` are the numbers and hashes of the existing ones.
    #[inline]
    pub fn reserve<I>(&mut self, more: usize, things: impl FnOnce() -> I)
    where
        I: Iterator<Item = (u32, u64)>,
    {
        let wanted = self.used + more;
        if wanted * 4 > self.slots.len() * FULL_QUARTERS {
            self.grow(wanted, things());
        }
    }

    #[cold]
    fn grow(&mut self, wanted: usize, things: impl Iterator<Item = (u32, u64)>) {
        let slots = (wanted * 4 / FULL_QUARTERS + 1).next_power_of_two().max(SLOTS_MIN);
        self.slots = Vec::new();
        self.slots = vec![0; slots];
        self.used = 0;
        for (number, hash) in things {
            let mut place = self.slot_of(hash);
            while self.slots[place] != 0 {
                place = self.after(place);
            }
            self.put(place, hash, number);
        }
    }

    /// Mask of the bits of a slot that hold a number.
    #[inline(always)]
    fn number_bits(&self) -> u32 {
        (self.slots.len() - 1) as u32
    }

    /// The part of a hash that is stored in a slot: the bits after those that choose the slot.
    #[inline(always)]
    fn tag(&self, hash: u64) -> u32 {
        ((hash << self.slots.len().trailing_zeros()) >> 32) as u32 & !self.number_bits()
    }

    #[inline(always)]
    fn slot_of(&self, hash: u64) -> usize {
        (hash >> (64 - self.slots.len().trailing_zeros())) as usize
    }

    #[inline(always)]
    fn after(&self, place: usize) -> usize {
        (place + 1) & (self.slots.len() - 1)
    }

    /// The content of the hash's home slot. The index must have slots.
    #[inline(always)]
    pub fn first(&self, hash: u64) -> u32 {
        self.slots[self.slot_of(hash)]
    }

    /// The number in a slot, if its tag matches the hash.
    #[inline(always)]
    pub fn number(&self, slot: u32, hash: u64) -> Option<u32> {
        let number = slot & self.number_bits();
        (slot - number == self.tag(hash) && number != 0).then(|| number - 1)
    }

    /// The number in a slot, whatever its hash; out of range if the slot is free.
    #[inline(always)]
    pub fn candidate(&self, slot: u32) -> usize {
        (slot & self.number_bits()).wrapping_sub(1) as usize
    }

    /// Looks up an item. There must be a free slot.
    #[inline]
    pub fn find(&self, hash: u64, is_it: impl Fn(u32) -> bool) -> Found {
        let mut place = self.slot_of(hash);
        loop {
            let slot = self.slots[place];
            if slot == 0 {
                return Found::Free(place);
            }
            if let Some(number) = self.number(slot, hash)
                && is_it(number)
            {
                return Found::Number(number);
            }
            place = self.after(place);
        }
    }

    /// Inserts an item into a slot that [`find`](Self::find) reported as free.
    #[inline]
    pub fn put(&mut self, place: usize, hash: u64, number: u32) {
        self.slots[place] = self.tag(hash) | (number + 1);
        self.used += 1;
    }

    /// Bytes of the slots.
    pub fn memory_bytes(&self) -> usize {
        self.slots.capacity() * 4
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
                slots.reserve(1, || (0..number).map(|known| (known, hash_of(known))));
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
            assert!(slots.memory_bytes() >= 500 * 4);
        }
    }
}
