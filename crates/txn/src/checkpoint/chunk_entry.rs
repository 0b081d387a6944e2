//! A manifest's entry of a chunk whose columns lie in chunk files.

use thalweg_store::Bitmap;
use thalweg_types::{Result, RowId};

use super::damaged;
use crate::record::{bitmap_bytes, bitmap_of};

/// Form of dead rows: the words of the bitmap.
const WORDS: u8 = 0;
/// Form of dead rows: for each the number of living rows before it, since the dead one before.
const GAPS: u8 = 1;

/// A chunk whose columns lie in chunk files. The columns' sections carry its number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ChunkEntry {
    pub number: u32,
    pub rows: u32,
    /// Number of columns.
    pub columns: u32,
    pub dead: Option<Bitmap>,
}

impl ChunkEntry {
    /// Appends the entry: three numbers of 4 bytes, the length of the dead rows (4), the dead rows.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let dead = self.dead.as_ref().map(encode_dead).unwrap_or_default();
        for number in [self.number, self.rows, self.columns, dead.len() as u32] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out.extend_from_slice(&dead);
    }

    /// Takes the next entry from `bytes`.
    pub fn decode(bytes: &mut &[u8]) -> Result<ChunkEntry> {
        let mut number = || -> Result<u32> {
            let (number, rest) = bytes.split_first_chunk::<4>().ok_or_else(cut)?;
            *bytes = rest;
            Ok(u32::from_le_bytes(*number))
        };
        let (chunk, rows, columns, length) = (number()?, number()?, number()?, number()?);
        let (dead, rest) = bytes.split_at_checked(length as usize).ok_or_else(cut)?;
        *bytes = rest;
        let dead = match dead.split_first() {
            Some((form, dead)) => Some(decode_dead(*form, dead)?),
            None => None,
        };
        Ok(ChunkEntry { number: chunk, rows, columns, dead })
    }
}

/// Encodes dead rows in the shorter form.
fn encode_dead(dead: &Bitmap) -> Vec<u8> {
    let mut gaps = vec![GAPS];
    let mut next = 0;
    for row in dead.iter() {
        let mut gap = row - next;
        while gap >= 0x80 {
            gaps.push(gap as u8 | 0x80);
            gap >>= 7;
        }
        gaps.push(gap as u8);
        next = row + 1;
    }
    if gaps.len() <= dead.words().len() * 8 {
        return gaps;
    }
    let mut words = vec![WORDS];
    words.extend(bitmap_bytes(dead));
    words
}

fn decode_dead(form: u8, bytes: &[u8]) -> Result<Bitmap> {
    match form {
        WORDS => bitmap_of(bytes),
        GAPS => decode_gaps(bytes),
        _ => Err(damaged("dead rows in an unknown form")),
    }
}

fn decode_gaps(bytes: &[u8]) -> Result<Bitmap> {
    let mut dead = Bitmap::new();
    let (mut next, mut gap, mut shift) = (0_u32, 0_u32, 0);
    for byte in bytes {
        gap |= u32::from(byte & 0x7f) << shift;
        if byte & 0x80 != 0 {
            shift += 7;
            // Three bytes hold every gap within a chunk.
            if shift > 14 {
                return Err(damaged("dead rows that cannot be read"));
            }
            continue;
        }
        let row = next + gap;
        if row as usize >= RowId::CHUNK_ROWS {
            return Err(damaged("dead rows beyond the end of a chunk"));
        }
        dead.insert(row);
        (next, gap, shift) = (row + 1, 0, 0);
    }
    if shift != 0 {
        return Err(cut());
    }
    Ok(dead)
}

fn cut() -> thalweg_types::Error {
    damaged("a list of chunks that is cut")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bitmap(rows: impl IntoIterator<Item = u32>) -> Option<Bitmap> {
        let mut bitmap = Bitmap::new();
        for row in rows {
            bitmap.insert(row);
        }
        (!bitmap.is_empty()).then_some(bitmap)
    }

    fn entry(dead: Option<Bitmap>) -> ChunkEntry {
        ChunkEntry { number: 7, rows: 65_536, columns: 3, dead }
    }

    fn encoded(entry: &ChunkEntry) -> Vec<u8> {
        let mut bytes = Vec::new();
        entry.encode(&mut bytes);
        bytes
    }

    #[test]
    fn few_dead_rows_take_few_bytes() {
        assert_eq!(encoded(&entry(None)).len(), 16);
        assert_eq!(encoded(&entry(bitmap([65_535]))).len(), 16 + 1 + 3);
        assert!(encoded(&entry(bitmap((0..65_536).step_by(100)))).len() < 16 + 8 + 656);
        assert_eq!(encoded(&entry(bitmap((0..65_536).step_by(2)))).len(), 16 + 1 + 8_192);
    }

    proptest! {
        #[test]
        fn entries_come_back(
            rows in prop::collection::vec(0..65_536_u32, 0..300),
            step in 1..400_usize,
        ) {
            let entries = [
                entry(bitmap(rows.clone())),
                entry(bitmap((0..65_536).step_by(step))),
                entry(None),
            ];
            let mut bytes = Vec::new();
            entries.iter().for_each(|entry| entry.encode(&mut bytes));
            let mut rest = &bytes[..];
            for entry in &entries {
                prop_assert_eq!(&ChunkEntry::decode(&mut rest).unwrap(), entry);
            }
            prop_assert!(rest.is_empty());
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            let mut rest = &bytes[..];
            while !rest.is_empty() && ChunkEntry::decode(&mut rest).is_ok() {}
            let _ = decode_gaps(&bytes);
        }
    }
}
