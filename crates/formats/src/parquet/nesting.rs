//! Checks the nesting depth of a Parquet file's schema before any code recurses over it.
//!
//! The file stores the schema as a flat list of elements with numbers of children, from which
//! `parquet` builds a tree by unlimited recursion (no upstream issue found). This module walks the
//! list without a tree. It leaves malformed metadata for `parquet` to reject.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use thalweg_types::{Error, Result, SqlState};

use crate::{Format, files};

/// Maximum nesting of groups. Each level of a column's lists, maps and structures takes up to two.
const GROUPS_MAX: usize = 200;

/// The length of the metadata and the magic number at the end of a file.
const TAIL_BYTES: u64 = 8;

/// Maximum nesting of structures within a schema element: logical types need three.
const SKIPPED_MAX: usize = 16;

/// Fields of `FileMetaData` and `SchemaElement` in the format's Thrift definition.
const SCHEMA_FIELD: i16 = 2;
const CHILDREN_FIELD: i16 = 5;

/// # Errors
/// `54001` if the schema of a file nests more than [`GROUPS_MAX`] groups; an I/O error if the file
/// cannot be opened.
pub(crate) fn check(path: &Path) -> Result<()> {
    let mut file = files::open(path)?;
    // The reader rejects a truncated file.
    let Ok(metadata) = metadata(&mut file) else { return Ok(()) };
    check_metadata(&metadata)
}

/// Checks every Parquet file that a location denotes: a file, or those of a directory or pattern.
/// Locations that are not local are left to their reader.
///
/// # Errors
/// `54001` if a schema nests too deeply; an I/O error if a file cannot be opened.
pub fn check_parquet_nesting(location: &str) -> Result<()> {
    let local = location.strip_prefix("file://").unwrap_or(location);
    if local.contains("://") {
        return Ok(());
    }
    let Ok((_, found)) = files::resolve(Path::new(local), Some(Format::Parquet)) else {
        return Ok(());
    };
    found.iter().try_for_each(|path| check(path))
}

fn check_metadata(metadata: &[u8]) -> Result<()> {
    let groups = Thrift { rest: metadata }.groups();
    if groups <= Some(GROUPS_MAX) {
        return Ok(());
    }
    let message = "the schema of a Parquet file nests too deeply";
    Err(Error::new(SqlState::STATEMENT_TOO_COMPLEX, message)
        .with_detail(format!("Groups may nest {GROUPS_MAX} levels deep.")))
}

fn metadata(file: &mut File) -> io::Result<Vec<u8>> {
    let length = file.seek(SeekFrom::End(0))?;
    let tail_at = length.checked_sub(TAIL_BYTES).ok_or(io::ErrorKind::UnexpectedEof)?;
    file.seek(SeekFrom::Start(tail_at))?;
    let mut tail = [0; 4];
    file.read_exact(&mut tail)?;
    let bytes = u64::from(u32::from_le_bytes(tail));
    let begins_at = tail_at.checked_sub(bytes).ok_or(io::ErrorKind::UnexpectedEof)?;
    file.seek(SeekFrom::Start(begins_at))?;
    let mut metadata = Vec::new();
    file.take(bytes).read_to_end(&mut metadata)?;
    Ok(metadata)
}

/// A parser of Thrift's compact protocol. `None` means malformed bytes.
struct Thrift<'b> {
    rest: &'b [u8],
}

impl Thrift<'_> {
    /// The depth of the schema; 0 if there is none.
    fn groups(&mut self) -> Option<usize> {
        let mut field = 0;
        while let Some(kind) = self.field(&mut field) {
            if field == SCHEMA_FIELD && kind == Kind::List {
                return self.elements();
            }
            if self.skip(kind, 0).is_none() {
                return Some(0);
            }
        }
        Some(0)
    }

    fn elements(&mut self) -> Option<usize> {
        let Some((elements, Kind::Struct)) = self.list() else { return Some(0) };
        let (mut open, mut deepest) = (Vec::new(), 0);
        for _ in 0..elements {
            // The reader stops at the same place if the metadata are truncated here.
            let Some(children) = self.element() else { return Some(deepest) };
            if let Some(left) = open.last_mut() {
                *left -= 1;
            }
            if children > 0 {
                open.push(children);
                deepest = deepest.max(open.len());
            }
            while open.last() == Some(&0) {
                open.pop();
            }
        }
        Some(deepest)
    }

    /// An element's number of children.
    fn element(&mut self) -> Option<i64> {
        let (mut field, mut children) = (0, 0);
        loop {
            match self.field(&mut field)? {
                Kind::Stop => return Some(children),
                Kind::Varint if field == CHILDREN_FIELD => children = self.number()?,
                kind => self.skip(kind, 0)?,
            }
        }
    }

    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*first)
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    /// A zigzag-encoded number.
    fn number(&mut self) -> Option<i64> {
        let value = self.varint()?;
        Some((value >> 1).cast_signed() ^ -((value & 1).cast_signed()))
    }

    /// A field's header.
    fn field(&mut self, field: &mut i16) -> Option<Kind> {
        let head = self.byte()?;
        let kind = Kind::of(head & 15)?;
        *field = match (kind, head >> 4) {
            (Kind::Stop, _) => *field,
            (_, 0) => i16::try_from(self.number()?).ok()?,
            (_, step) => field.checked_add(i16::from(step))?,
        };
        Some(kind)
    }

    /// A list's header: the number of its items, and their kind.
    fn list(&mut self) -> Option<(u64, Kind)> {
        let head = self.byte()?;
        let count = match head >> 4 {
            15 => self.varint()?,
            count => u64::from(count),
        };
        let item = Kind::of(head & 15).filter(|item| *item != Kind::Stop)?;
        Some((count, item))
    }

    fn bytes(&mut self, count: u64) -> Option<()> {
        self.rest = self.rest.get(usize::try_from(count).ok()?..)?;
        Some(())
    }

    fn skip(&mut self, kind: Kind, depth: usize) -> Option<()> {
        if depth > SKIPPED_MAX {
            return None;
        }
        match kind {
            Kind::Stop | Kind::Bool => Some(()),
            Kind::Byte => self.bytes(1),
            Kind::Varint => self.varint().map(|_| ()),
            Kind::Double => self.bytes(8),
            Kind::Binary => {
                let count = self.varint()?;
                self.bytes(count)
            }
            Kind::List => {
                let (count, item) = self.list()?;
                // In a list, a boolean takes a byte.
                let item = if item == Kind::Bool { Kind::Byte } else { item };
                (0..count).try_for_each(|_| self.skip(item, depth + 1))
            }
            Kind::Struct => {
                let mut field = 0;
                loop {
                    match self.field(&mut field)? {
                        Kind::Stop => return Some(()),
                        inner => self.skip(inner, depth + 1)?,
                    }
                }
            }
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Stop,
    Bool,
    Byte,
    /// A varint of 16, 32 or 64 bits.
    Varint,
    Double,
    Binary,
    /// Sets have the same encoding.
    List,
    Struct,
}

impl Kind {
    fn of(code: u8) -> Option<Kind> {
        Some(match code {
            0 => Kind::Stop,
            1 | 2 => Kind::Bool,
            3 => Kind::Byte,
            4..=6 => Kind::Varint,
            7 => Kind::Double,
            8 => Kind::Binary,
            9 | 10 => Kind::List,
            12 => Kind::Struct,
            // A schema contains no maps.
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Metadata with a schema of nested groups around one column.
    fn nested(groups: usize) -> Vec<u8> {
        let mut bytes = vec![0x15, 2, 0x19, 0xfc];
        let mut count = groups + 1;
        while count >= 0x80 {
            bytes.push((count & 0x7f) as u8 | 0x80);
            count >>= 7;
        }
        bytes.push(count as u8);
        for _ in 0..groups {
            // Required, named "g", one child.
            bytes.extend([0x35, 0, 0x18, 1, b'g', 0x15, 2, 0]);
        }
        // An integer, required, named "c".
        bytes.extend([0x15, 2, 0x25, 0, 0x18, 1, b'c', 0, 0x16, 0, 0x19, 0x0c, 0]);
        bytes
    }

    #[test]
    fn groups_are_counted_without_recursion() {
        for groups in [1, 2, GROUPS_MAX] {
            assert_eq!(Thrift { rest: &nested(groups) }.groups(), Some(groups));
            assert!(check_metadata(&nested(groups)).is_ok());
        }
        for groups in [GROUPS_MAX + 1, 60_000, 200_000] {
            assert_eq!(check_metadata(&nested(groups)).unwrap_err().state().0, "54001");
        }
    }

    #[test]
    fn what_is_cut_off_is_left_to_the_reader() {
        let whole = nested(3);
        for end in 0..whole.len() {
            assert!(check_metadata(&whole[..end]).is_ok(), "{end}");
        }
    }
}
