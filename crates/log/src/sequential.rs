//! Reads a file from its beginning to its end, in blocks.

use std::io;
use std::sync::Arc;

use thalweg_env::File;

/// Size of the blocks that are read.
const BLOCK_BYTES: u64 = 256 * 1024;

/// A file that is read mostly forwards, with the length that it had at the beginning.
pub struct Sequential {
    file: Arc<dyn File>,
    length: u64,
    block: Vec<u8>,
    /// The offset of the block in the file.
    block_offset: u64,
}

impl Sequential {
    /// Reads nothing yet. Bytes from `length` on are ignored.
    pub fn new(file: Arc<dyn File>, length: u64) -> Sequential {
        Sequential { file, length, block: Vec::new(), block_offset: 0 }
    }

    /// Length of the readable part, in bytes.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Fills `buffer` from `offset` on. Panics beyond the end.
    pub fn read(&mut self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let wanted = buffer.len() as u64;
        assert!(offset + wanted <= self.length, "a read beyond the end of the file");
        if let Some(held) = self.held(offset, buffer.len()) {
            buffer.copy_from_slice(held);
            return Ok(());
        }
        if wanted >= BLOCK_BYTES {
            return self.file.read_exact_at(buffer, offset);
        }
        self.block.resize(BLOCK_BYTES.min(self.length - offset) as usize, 0);
        self.block_offset = offset;
        let read = self.file.read_exact_at(&mut self.block, offset);
        if read.is_err() {
            self.block.clear();
        }
        read?;
        buffer.copy_from_slice(&self.block[..buffer.len()]);
        Ok(())
    }

    /// Number of bytes after `offset`, without zeros at the end of the file.
    pub fn written_after(&mut self, offset: u64) -> io::Result<u64> {
        let mut written = 0;
        let mut at = offset;
        while at < self.length {
            let mut block = vec![0; BLOCK_BYTES.min(self.length - at) as usize];
            self.file.read_exact_at(&mut block, at)?;
            if let Some(last) = block.iter().rposition(|byte| *byte != 0) {
                written = at + last as u64 + 1 - offset;
            }
            at += block.len() as u64;
        }
        Ok(written)
    }

    fn held(&self, offset: u64, length: usize) -> Option<&[u8]> {
        let from = usize::try_from(offset.checked_sub(self.block_offset)?).ok()?;
        self.block.get(from..from.checked_add(length)?)
    }
}
