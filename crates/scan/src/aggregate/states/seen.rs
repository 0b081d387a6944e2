//! Which groups have had a value that was not NULL.

/// As long as no NULL was met, every group has: nothing is kept for a group then.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    /// A bit for each group, once there was a reason to keep them.
    bits: Option<Vec<u64>>,
    /// The groups below had rows before, and so values, as long as there are no bits.
    settled: usize,
}

impl Seen {
    /// For groups that are there because they have rows.
    pub fn by_rows() -> Seen {
        Seen { bits: None, settled: 0 }
    }

    /// For groups that may have no rows.
    pub fn none() -> Seen {
        Seen { bits: Some(Vec::new()), settled: 0 }
    }

    /// Prepares for more rows of `groups` groups. True if [`Seen::mark`] must be told of each.
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

    #[inline(always)]
    pub fn mark(&mut self, group: usize) {
        if let Some(bits) = &mut self.bits {
            bits[group / 64] |= 1 << (group % 64);
        }
    }

    #[inline(always)]
    pub fn has(&self, group: usize) -> bool {
        match &self.bits {
            None => true,
            Some(bits) => bits.get(group / 64).is_some_and(|word| word >> (group % 64) & 1 == 1),
        }
    }

    /// Whether some group may have had none.
    pub fn may_lack(&self) -> bool {
        self.bits.is_some()
    }

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
