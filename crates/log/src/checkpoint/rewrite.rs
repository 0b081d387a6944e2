//! Chooses the chunk files whose living sections a checkpoint writes anew.

use std::collections::{HashMap, HashSet};

use super::layout::{ChunkFile, Stored};

/// If more chunk files than this would be named, some are merged.
const FILES_MAX: usize = 64;

/// Number of files that a merge leaves as they are.
const FILES_LEFT: usize = 16;

/// The numbers of the files whose sections in `living` are to be written anew, so that nothing
/// refers to the files any more.
///
/// These are files of which less than half is alive. If more than 64 others remain, all but the 16
/// with the most living bytes are merged as well. A byte is therefore rewritten only after as much
/// garbage came about, or if its file joins one several times as large.
#[must_use]
pub fn files_to_rewrite(files: &[ChunkFile], living: impl Iterator<Item = Stored>) -> HashSet<u64> {
    let mut bytes: HashMap<u64, u64> = HashMap::new();
    let mut seen = HashSet::new();
    // Chunks may share a section, which counts once.
    for stored in living.filter(|stored| seen.insert((stored.file, stored.offset))) {
        *bytes.entry(stored.file).or_default() += stored.length;
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

#[cfg(test)]
mod tests {
    use super::*;

    fn file(number: u64, bytes: u64) -> ChunkFile {
        ChunkFile { number, bytes, checksum: 0 }
    }

    fn stored(file: u64, offset: u64, length: u64) -> Stored {
        Stored { file, offset, length, checksum: 0 }
    }

    #[test]
    fn files_that_are_mostly_garbage_are_rewritten() {
        let files = [file(1, 1000), file(2, 1000), file(3, 1000)];
        let living = [stored(1, 64, 499), stored(2, 64, 250), stored(2, 320, 250)];
        let chosen = files_to_rewrite(&files, living.into_iter());
        assert_eq!(chosen, HashSet::from([1, 3]));
    }

    #[test]
    fn a_shared_section_counts_once() {
        let living = [stored(1, 64, 300); 5];
        assert_eq!(files_to_rewrite(&[file(1, 1000)], living.into_iter()), HashSet::from([1]));
    }

    #[test]
    fn the_smaller_of_too_many_files_are_merged() {
        let files: Vec<ChunkFile> = (1..=65).map(|number| file(number, 100 * number)).collect();
        let whole =
            |count: usize| files[..count].iter().map(|file| stored(file.number, 64, file.bytes));
        assert!(files_to_rewrite(&files[..64], whole(64)).is_empty());
        let chosen = files_to_rewrite(&files, whole(65));
        assert_eq!(chosen, (1..=49).collect());
    }

    /// Checkpoints that each add one file: the number of files is bounded, and each byte is
    /// rewritten a few times only.
    #[test]
    fn merging_costs_little() {
        let (mut files, mut written): (Vec<ChunkFile>, u64) = (Vec::new(), 0);
        for number in 1..=10_000 {
            let living: Vec<Stored> =
                files.iter().map(|file| stored(file.number, 64, file.bytes)).collect();
            let chosen = files_to_rewrite(&files, living.into_iter());
            let is_chosen = |file: &ChunkFile| chosen.contains(&file.number);
            let moved: u64 =
                files.iter().filter(|file| is_chosen(file)).map(|file| file.bytes).sum();
            files.retain(|file| !is_chosen(file));
            files.push(file(number, 1000 + moved));
            written += 1000 + moved;
            assert!(files.len() <= FILES_MAX + 1);
        }
        assert!(written < 8 * 10_000 * 1000, "{written} bytes for 10,000,000");
    }
}
