//! Reading a file from its beginning to its end, in blocks.

use std::io;
use std::sync::Arc;

use thalweg_env::File;

/// How much is read at once.
const BLOCK_BYTES: u64 = 256 * 1024;

/// A file that is read mostly forwards, and as long as it was when this was made.
pub struct Sequential {
    file: Arc<dyn File>,
    length: u64,
    block: Vec<u8>,
    /// Where the block stands in the file.
    block_offset: u64,
}

impl Sequential {
    pub fn new(file: Arc<dyn File>, length: u64) -> Sequential {
        Sequential { file, length, block: Vec::new(), block_offset: 0 }
    }

    pub fn length(&self) -> u64 {
        self.length
    }

    /// Fills `buffer` from `offset` on.
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

    /// How many bytes follow `offset`, without the zeros at the end of the file.
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
