//! The bytes of a simulated file, in the page cache and on disk.

use crate::SeededRandom;

/// Size in bytes of the unit that a disk writes atomically.
pub const SECTOR: usize = 512;

/// A change of a file that is not durable yet.
#[derive(Clone)]
enum Change {
    Bytes { offset: usize, bytes: Vec<u8> },
    Length(usize),
}

impl Change {
    fn apply(&self, to: &mut Vec<u8>) {
        match self {
            Change::Bytes { offset, bytes } => {
                let end = offset + bytes.len();
                if to.len() < end {
                    to.resize(end, 0);
                }
                to[*offset..end].copy_from_slice(bytes);
            }
            Change::Length(length) => to.resize(*length, 0),
        }
    }
}

#[derive(Clone, Default)]
pub(super) struct Content {
    cached: Vec<u8>,
    durable: Vec<u8>,
    /// The changes from `durable` to `cached`, in order. A failed sync clears this without making
    /// them equal, just as kernels mark pages clean that they could not write.
    pending: Vec<Change>,
    /// The machine died within the last change, which is therefore torn.
    torn: bool,
}

impl Content {
    /// A file whose bytes are all durable.
    pub fn durably(bytes: Vec<u8>) -> Content {
        Content { cached: bytes.clone(), durable: bytes, pending: Vec::new(), torn: false }
    }

    /// The bytes as programs see them.
    pub fn cached(&self) -> &[u8] {
        &self.cached
    }

    /// Overwrites bytes from `offset` on, not yet durably; extends the file if necessary.
    pub fn write(&mut self, offset: usize, bytes: Vec<u8>) {
        self.change(Change::Bytes { offset, bytes });
    }

    /// Truncates the file or extends it with zeros, not yet durably.
    pub fn set_len(&mut self, length: usize) {
        self.change(Change::Length(length));
    }

    fn change(&mut self, change: Change) {
        change.apply(&mut self.cached);
        self.pending.push(change);
    }

    /// Makes all changes durable.
    pub fn sync(&mut self) {
        for change in self.pending.drain(..) {
            change.apply(&mut self.durable);
        }
    }

    /// A failing sync: an arbitrary part of the changes becomes durable, and the rest never will.
    pub fn fail_sync(&mut self, random: &SeededRandom) {
        self.durable = self.tear(random);
        self.pending.clear();
    }

    /// Records that the machine died within the last change.
    pub fn mark_torn(&mut self) {
        self.torn = true;
    }

    /// A possible content of the disk after a crash.
    pub fn after_crash(&self, random: &SeededRandom) -> Vec<u8> {
        if self.torn {
            return self.tear(random);
        }
        match random.below(4) {
            0 => self.durable.clone(),
            1 => self.after_first(self.pending.len()),
            2 => self.after_first(below_or_at(random, self.pending.len())),
            _ => self.tear(random),
        }
    }

    /// The durable bytes after the first `count` pending changes.
    fn after_first(&self, count: usize) -> Vec<u8> {
        let mut bytes = self.durable.clone();
        for change in &self.pending[..count] {
            change.apply(&mut bytes);
        }
        bytes
    }

    /// A mixture: each sector as after any number of the changes, with any intermediate length. A
    /// sector within the length that no change reached is zero.
    fn tear(&self, random: &SeededRandom) -> Vec<u8> {
        let versions: Vec<Vec<u8>> =
            (0..=self.pending.len()).map(|count| self.after_first(count)).collect();
        let mut bytes = vec![0; tear_length(&versions, random)];
        for (sector, part) in bytes.chunks_mut(SECTOR).enumerate() {
            let version = &versions[below_or_at(random, self.pending.len())];
            let from = (sector * SECTOR).min(version.len());
            let held = &version[from..version.len().min(from + part.len())];
            part[..held.len()].copy_from_slice(held);
        }
        bytes
    }
}

/// The length after one of the changes, or a multiple of the sector size on the way to the next.
fn tear_length(versions: &[Vec<u8>], random: &SeededRandom) -> usize {
    let first = below_or_at(random, versions.len() - 1);
    let length = versions[first].len();
    let Some(next) = versions.get(first + 1).map(Vec::len).filter(|next| *next > length) else {
        return length;
    };
    let grown = length + below_or_at(random, next - length);
    if random.coin() { length.max(grown / SECTOR * SECTOR) } else { length }
}

fn below_or_at(random: &SeededRandom, limit: usize) -> usize {
    random.below(limit as u64 + 1) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crash_keeps_what_was_synced_and_mixes_whole_sectors_of_the_rest() {
        let mut lengths = std::collections::BTreeSet::new();
        for seed in 0..200 {
            let mut content = Content::default();
            content.write(0, vec![1; 1000]);
            content.sync();
            content.write(1000, vec![2; 2000]);
            let after = content.after_crash(&SeededRandom::new(seed));
            lengths.insert(after.len());
            assert_eq!(&after[..1000], &[1; 1000]);
            for (sector, part) in after.chunks(SECTOR).enumerate() {
                let new = &part[1000_usize.saturating_sub(sector * SECTOR).min(part.len())..];
                assert!(new.iter().all(|byte| *byte == 0) || new.iter().all(|byte| *byte == 2));
            }
        }
        assert!(lengths.contains(&1000) && lengths.contains(&3000) && lengths.len() > 3);
    }

    #[test]
    fn a_failed_sync_is_not_made_good_by_the_next() {
        let lost = (0..20).any(|seed| {
            let mut content = Content::default();
            content.write(0, vec![1; 4096]);
            content.fail_sync(&SeededRandom::new(seed));
            content.sync();
            content.after_crash(&SeededRandom::new(seed)) != vec![1; 4096]
        });
        assert!(lost);
    }
}
