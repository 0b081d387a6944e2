//! Remembers which row held an index entry before another took it over.

use std::collections::VecDeque;

use thalweg_types::RowId;

/// Number of chunks with notes: 8 MiB at most.
pub(crate) const CHUNKS_MAX: usize = 16;

/// Notes for the rows of the newest chunks.
#[derive(Default)]
pub(crate) struct Previous {
    /// Ascending by chunk number. A row's note is the id of the earlier row plus one; 0 means none.
    chunks: VecDeque<(u32, Vec<u64>)>,
    /// Notes of chunks below this number may have been dropped.
    forgotten_below: u32,
}

/// The row that held an entry before another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Before {
    Row(RowId),
    /// The row was the first with its key.
    Nothing,
    /// The note was dropped.
    Forgotten,
}

impl Previous {
    /// Notes that `row` took over the entry of `before`. Ignored if the chunk of `row` is too old.
    pub fn note(&mut self, row: RowId, before: RowId) {
        // Nearly all rows go to the newest chunk.
        let newest = self.chunks.back_mut().filter(|(number, _)| *number == row.chunk());
        let notes = match newest {
            Some((_, notes)) => notes,
            None => match self.notes_for(row.chunk()) {
                Some(notes) => notes,
                None => return,
            },
        };
        let place = row.row() as usize;
        if place >= notes.len() {
            notes.resize(place + 1, 0);
        }
        notes[place] = before.0 + 1;
    }

    /// The row whose entry `row` took over.
    pub fn before(&self, row: RowId) -> Before {
        if row.chunk() < self.forgotten_below {
            return Before::Forgotten;
        }
        let notes = self.chunks.iter().rev().find(|(number, _)| *number == row.chunk());
        match notes.and_then(|(_, notes)| notes.get(row.row() as usize)) {
            None | Some(0) => Before::Nothing,
            Some(before) => Before::Row(RowId(before - 1)),
        }
    }

    /// Removes a row's note and returns it.
    pub fn forget(&mut self, row: RowId) -> Before {
        let before = self.before(row);
        if let Before::Row(_) = before {
            let (_, notes) = self
                .chunks
                .iter_mut()
                .find(|(number, _)| *number == row.chunk())
                .expect("the note was just read");
            notes[row.row() as usize] = 0;
        }
        before
    }

    /// The notes of a chunk; `None` if the chunk is older than all that have notes.
    fn notes_for(&mut self, chunk: u32) -> Option<&mut Vec<u64>> {
        if chunk < self.forgotten_below {
            return None;
        }
        let mut place = self.chunks.partition_point(|(number, _)| *number < chunk);
        if self.chunks.get(place).is_none_or(|(number, _)| *number != chunk) {
            self.chunks.insert(place, (chunk, Vec::new()));
        }
        if self.chunks.len() > CHUNKS_MAX {
            let (oldest, _) = self.chunks.pop_front().expect("there are many");
            self.forgotten_below = oldest + 1;
            place = place.checked_sub(1)?;
        }
        Some(&mut self.chunks[place].1)
    }

    /// Bytes allocated for notes.
    pub fn memory_bytes(&self) -> usize {
        self.chunks.iter().map(|(_, notes)| notes.capacity() * 8).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_kept_for_the_newest_chunks() {
        let mut previous = Previous::default();
        for chunk in 1..=20 {
            previous.note(RowId::new(chunk, 7), RowId::new(chunk - 1, 7));
        }
        assert_eq!(previous.before(RowId::new(20, 7)), Before::Row(RowId::new(19, 7)));
        assert_eq!(previous.before(RowId::new(20, 8)), Before::Nothing);
        assert_eq!(previous.before(RowId::new(21, 0)), Before::Nothing);
        assert_eq!(previous.before(RowId::new(4, 7)), Before::Forgotten);
        previous.note(RowId::new(2, 1), RowId::new(1, 1));
        assert_eq!(previous.before(RowId::new(2, 1)), Before::Forgotten);
        assert_eq!(previous.forget(RowId::new(20, 7)), Before::Row(RowId::new(19, 7)));
        assert_eq!(previous.before(RowId::new(20, 7)), Before::Nothing);
    }
}
