//! Zip files (PKWARE's APPNOTE, without extensions): deflated entries of less than 4 GiB each.

use std::io::Write as _;

use flate2::write::DeflateEncoder;
use flate2::{Compression, Crc};

const LOCAL_HEADER: u32 = 0x0403_4b50;
const CENTRAL_HEADER: u32 = 0x0201_4b50;
const END: u32 = 0x0605_4b50;

/// Version 2.0 of the format, written by a Unix system.
const VERSION: u16 = 20;
const MADE_BY: u16 = (3 << 8) | VERSION;
/// Names are in UTF-8.
const FLAGS: u16 = 1 << 11;
const DEFLATED: u16 = 8;
/// The first of January 1980, the oldest date that the format has: equal input gives equal bytes.
const DATE: u16 = (1 << 5) | 1;
/// Mode of a regular file that all may read. Shared objects need no more.
const MODE: u32 = 0o100_644;

/// A zip file under construction.
#[derive(Default)]
pub struct Zip {
    bytes: Vec<u8>,
    /// The directory, which stands behind the entries.
    directory: Vec<u8>,
    entries: u16,
}

impl Zip {
    /// Adds a file.
    pub fn add(&mut self, name: &str, content: &[u8]) {
        let mut crc = Crc::new();
        crc.update(content);
        let mut deflated = DeflateEncoder::new(Vec::new(), Compression::best());
        deflated.write_all(content).expect("memory takes everything");
        let deflated = deflated.finish().expect("memory takes everything");

        let mut common = Vec::new();
        for field in [VERSION, FLAGS, DEFLATED, 0, DATE] {
            common.extend_from_slice(&field.to_le_bytes());
        }
        common.extend_from_slice(&crc.sum().to_le_bytes());
        common.extend_from_slice(&length(deflated.len()).to_le_bytes());
        common.extend_from_slice(&length(content.len()).to_le_bytes());
        let name_length = u16::try_from(name.len()).expect("names are short");
        common.extend_from_slice(&name_length.to_le_bytes());
        // No further fields.
        common.extend_from_slice(&0_u16.to_le_bytes());

        let offset = length(self.bytes.len());
        self.bytes.extend_from_slice(&LOCAL_HEADER.to_le_bytes());
        self.bytes.extend_from_slice(&common);
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.extend_from_slice(&deflated);

        self.directory.extend_from_slice(&CENTRAL_HEADER.to_le_bytes());
        self.directory.extend_from_slice(&MADE_BY.to_le_bytes());
        self.directory.extend_from_slice(&common);
        // No comment, the first disk, no internal attributes.
        self.directory.extend_from_slice(&[0; 6]);
        self.directory.extend_from_slice(&(MODE << 16).to_le_bytes());
        self.directory.extend_from_slice(&offset.to_le_bytes());
        self.directory.extend_from_slice(name.as_bytes());
        self.entries += 1;
    }

    /// The bytes of the file.
    pub fn finish(mut self) -> Vec<u8> {
        let offset = length(self.bytes.len());
        self.bytes.extend_from_slice(&self.directory);
        self.bytes.extend_from_slice(&END.to_le_bytes());
        // One disk.
        self.bytes.extend_from_slice(&[0; 4]);
        self.bytes.extend_from_slice(&self.entries.to_le_bytes());
        self.bytes.extend_from_slice(&self.entries.to_le_bytes());
        self.bytes.extend_from_slice(&length(self.directory.len()).to_le_bytes());
        self.bytes.extend_from_slice(&offset.to_le_bytes());
        self.bytes.extend_from_slice(&0_u16.to_le_bytes());
        self.bytes
    }
}

fn length(bytes: usize) -> u32 {
    u32::try_from(bytes).expect("wheels are smaller than 4 GiB")
}
