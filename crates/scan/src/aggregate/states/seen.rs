//! Marks the groups that had a value other than NULL.

/// While no NULL was found, every group has a value and nothing is stored.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    /// A bit for each group, from the first NULL on.
    bits: Option<Vec<u64>>,
    /// While there are no bits: groups below this number had rows before, and so values.
    settled: usize,
}

impl Seen {
    /// For groups that exist because they have rows.
    pub fn by_rows() -> Seen {
        Seen { bits: None, settled: 0 }
    }

    /// For groups that may have no rows.
    pub fn none() -> Seen {
        Seen { bits: Some(Vec::new()), settled: 0 }
    }

    /// Prepares for rows of `groups` groups. Returns true if [`Seen::mark`] must be called for
    /// each.
    pub fn begin(&mut self, groups: usize, with_nulls: bool) -> bool {
        if self.bits.is_none() && with_nulls {
            let mut bits = vec![0; groups.div_ceil(64)];
            (0..self.settled).for_each(|group| bits[group / 64] |= 1 << (group % 64));
            self.bits = Some(bits);
        }
        match &mut self.bits {
            Some(bits) => bits.resize(groups.div_ceil(64), 0),
            None => self.settled = groups,
        }
        self.bits.is_some()
    }

    /// Marks a group that has a value.
    #[inline(always)]
    pub fn mark(&mut self, group: usize) {
        if let Some(bits) = &mut self.bits {
            bits[group / 64] |= 1 << (group % 64);
        }
    }

    /// True if the group had a value.
    #[inline(always)]
    pub fn has(&self, group: usize) -> bool {
        match &self.bits {
            None => true,
            Some(bits) => bits.get(group / 64).is_some_and(|word| word >> (group % 64) & 1 == 1),
        }
    }

    /// True if a group may have had no value.
    pub fn may_lack(&self) -> bool {
        self.bits.is_some()
    }

    /// Bytes of the marks.
    pub fn memory_bytes(&self) -> usize {
        self.bits.as_ref().map_or(0, |bits| bits.capacity() * 8)
    }
}

#[cfg(test)]
mod tests {
    use super::Seen;

    #[test]
    fn groups_without_values_are_told_once_a_null_was_met() {
        let mut seen = Seen::by_rows();
        assert!(!seen.begin(70, false));
        assert!(seen.has(69) && !seen.may_lack());
        assert!(seen.begin(200, true));
        seen.mark(150);
        assert!(seen.has(69) && !seen.has(70) && seen.has(150) && !seen.has(199));
        let mut none = Seen::none();
        assert!(none.begin(1, false));
        assert!(!none.has(0));
        none.mark(0);
        assert!(none.has(0));
    }
}
