//! Chooses the chunk files whose living sections a checkpoint writes anew.

use std::collections::{HashMap, HashSet};

use super::layout::{ChunkFile, ENTRY_BYTES, Stored};
use crate::align::aligned;
use crate::file_header::HEADER_BYTES;

/// If more chunk files than this would be named, some are merged.
const FILES_MAX: usize = 64;

/// Number of files that a merge leaves as they are.
const FILES_LEFT: usize = 16;

/// Bytes of a chunk file beside its sections: the header and the footer.
const FRAME_BYTES: u64 = 2 * HEADER_BYTES;

/// The numbers of the files whose sections in `living` are to be written anew, so that nothing
/// refers to the files any more.
///
/// These are files that would be less than half as large with their living sections alone. If more
/// than 64 others remain, all but the 16 with the most living bytes are merged as well. A byte is
/// therefore rewritten only after as much garbage came about, or if its file joins one several
/// times as large.
#[must_use]
pub fn files_to_rewrite(files: &[ChunkFile], living: impl Iterator<Item = Stored>) -> HashSet<u64> {
    let mut bytes: HashMap<u64, u64> = HashMap::new();
    let mut seen = HashSet::new();
    // Chunks may share a section, which counts once.
    for stored in living.filter(|stored| seen.insert((stored.file, stored.offset))) {
        *bytes.entry(stored.file).or_insert(FRAME_BYTES) += section_bytes(stored.length);
    }
    let alive = |file: &ChunkFile| bytes.get(&file.number).copied().unwrap_or(0);
    let (mut kept, garbage): (Vec<&ChunkFile>, Vec<&ChunkFile>) =
        files.iter().partition(|file| alive(file) * 2 >= file.bytes);
    let mut chosen: HashSet<u64> = garbage.iter().map(|file| file.number).collect();
    if kept.len() > FILES_MAX {
        kept.sort_by_key(|file| (alive(file), file.number));
        let merged = &kept[..kept.len() - FILES_LEFT];
        chosen.extend(merged.iter().map(|file| file.number));
    }
    chosen
}

/// Bytes that a section of this length takes in a file, with its padding and its entry.
fn section_bytes(length: u64) -> u64 {
    aligned(length).unwrap_or(length) + ENTRY_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file of sections of these lengths, and the sections.
    fn file(number: u64, lengths: &[u64]) -> (ChunkFile, Vec<Stored>) {
        let mut offset = HEADER_BYTES;
        let section = |length: &u64| {
            let stored = Stored { file: number, offset, length: *length, checksum: 0 };
            offset += aligned(*length).unwrap();
            stored
        };
        let sections: Vec<Stored> = lengths.iter().map(section).collect();
        let table = aligned(ENTRY_BYTES * lengths.len() as u64).unwrap();
        let bytes = offset + table + HEADER_BYTES;
        (ChunkFile { number, bytes, checksum: 0 }, sections)
    }

    #[test]
    fn files_that_are_mostly_garbage_are_rewritten() {
        let (one, of_one) = file(1, &[1000; 4]);
        let (two, of_two) = file(2, &[1000; 4]);
        let (three, _) = file(3, &[1000; 4]);
        let living = of_one[..1].iter().chain(&of_two[..2]).copied();
        assert_eq!(files_to_rewrite(&[one, two, three], living), HashSet::from([1, 3]));
    }

    #[test]
    fn files_without_garbage_stay_however_small_they_are() {
        for lengths in [&[1][..], &[8; 3], &[100; 2], &[4000]] {
            let (whole, sections) = file(1, lengths);
            assert!(files_to_rewrite(&[whole], sections.into_iter()).is_empty(), "{lengths:?}");
        }
    }

    #[test]
    fn a_shared_section_counts_once() {
        let (shared, sections) = file(1, &[1000; 5]);
        let living = [sections[0]; 5];
        assert_eq!(files_to_rewrite(&[shared], living.into_iter()), HashSet::from([1]));
    }

    #[test]
    fn the_smaller_of_too_many_files_are_merged() {
        let all: Vec<_> = (1..=65).map(|number| file(number, &[100 * number])).collect();
        let files: Vec<ChunkFile> = all.iter().map(|(file, _)| *file).collect();
        let living = |count: usize| all[..count].iter().flat_map(|(_, sections)| sections).copied();
        assert!(files_to_rewrite(&files[..64], living(64)).is_empty());
        assert_eq!(files_to_rewrite(&files, living(65)), (1..=49).collect());
    }

    /// Checkpoints that each add one file: the number of files is bounded, and each byte is
    /// rewritten a few times only.
    #[test]
    fn merging_costs_little() {
        let (mut all, mut written): (Vec<(ChunkFile, Vec<Stored>)>, u64) = (Vec::new(), 0);
        for number in 1..=10_000 {
            let files: Vec<ChunkFile> = all.iter().map(|(file, _)| *file).collect();
            let living = all.iter().flat_map(|(_, sections)| sections).copied();
            let chosen = files_to_rewrite(&files, living);
            let is_chosen = |file: &ChunkFile| chosen.contains(&file.number);
            let moved = all.iter().filter(|(file, _)| is_chosen(file));
            let moved: u64 = moved.flat_map(|(_, sections)| sections).map(|s| s.length).sum();
            all.retain(|(file, _)| !is_chosen(file));
            all.push(file(number, &[1000 + moved]));
            written += 1000 + moved;
            assert!(all.len() <= FILES_MAX + 1);
        }
        assert!(written < 8 * 10_000 * 1000, "{written} bytes for 10,000,000");
    }
}
