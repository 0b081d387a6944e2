//! IPC files: the footer contains the offset of each batch.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::buffer::Buffer;
use arrow::datatypes::{Schema, SchemaRef};
use arrow::record_batch::RecordBatch;
use arrow_ipc::convert::fb_to_schema;
use arrow_ipc::reader::{FileDecoder, read_footer_length};
use arrow_ipc::{Block, MetadataVersion, root_as_footer};
use thalweg_types::Result;

use super::{Pending, find_columns};
use crate::files::{self, io_error};
use crate::guard::{damaged, guarded};
use crate::location::display_name;
use crate::projection::Projection;

/// The footer's length and the magic number after it.
const TRAILER_BYTES: u64 = 10;
/// Batches are combined into units of about this size.
const UNIT_BYTES: u64 = 16 << 20;

/// The contents of a footer.
struct Footer {
    schema: SchemaRef,
    version: MetadataVersion,
    dictionaries: Vec<Block>,
    batches: Vec<Block>,
}

/// State that all units of a file share.
struct IpcFile {
    path: PathBuf,
    name: String,
    footer: Footer,
    projection: Projection,
    batch_rows: usize,
}

pub(crate) struct FileUnit {
    file: Arc<IpcFile>,
    batches: std::ops::Range<usize>,
}

pub(super) fn schema(path: &Path) -> Result<Schema> {
    Ok(read_footer(path, &display_name(path))?.schema.as_ref().clone())
}

pub(super) fn open(path: &Path, target: &SchemaRef, batch_rows: usize) -> Result<Vec<FileUnit>> {
    let name = display_name(path);
    let footer = read_footer(path, &name)?;
    let projection = find_columns(&name, &footer.schema, target)?;
    let path = path.to_owned();
    let file = Arc::new(IpcFile { path, name, footer, projection, batch_rows });
    let batches = &file.footer.batches;
    let mut units = Vec::new();
    let (mut first, mut bytes) = (0, 0);
    for (place, block) in batches.iter().enumerate() {
        bytes += block_bytes(block);
        if bytes >= UNIT_BYTES || place + 1 == batches.len() {
            units.push(FileUnit { file: Arc::clone(&file), batches: first..place + 1 });
            (first, bytes) = (place + 1, 0);
        }
    }
    Ok(units)
}

fn read_footer(path: &Path, name: &str) -> Result<Footer> {
    let failed = |error| io_error("read", path, error);
    let mut file = files::open(path)?;
    let length = file.seek(SeekFrom::End(0)).map_err(failed)?;
    let too_short = || damaged(name, "the file is too short");
    let trailer_at = length.checked_sub(TRAILER_BYTES).ok_or_else(too_short)?;
    let mut trailer = [0; TRAILER_BYTES as usize];
    file.seek(SeekFrom::Start(trailer_at)).map_err(failed)?;
    file.read_exact(&mut trailer).map_err(failed)?;
    let footer_bytes = read_footer_length(trailer).map_err(|error| damaged(name, error))?;
    let footer_at = trailer_at.checked_sub(footer_bytes as u64).ok_or_else(too_short)?;
    let bytes = read_at(&mut file, footer_at, footer_bytes).map_err(failed)?;
    let footer = guarded(name, || parse_footer(name, &bytes))?;
    // Checked here, so that no decoder allocates more than the file's length.
    let is_inside = |block: &Block| {
        let end = u64::try_from(block.offset()).ok().zip(block_length(block));
        end.is_some_and(|(start, length)| start <= footer_at && length <= footer_at - start)
    };
    match footer.dictionaries.iter().chain(&footer.batches).all(is_inside) {
        true => Ok(footer),
        false => Err(damaged(name, "a batch lies outside of the file")),
    }
}

fn parse_footer(name: &str, bytes: &[u8]) -> Result<Footer> {
    let footer = root_as_footer(bytes).map_err(|error| damaged(name, error))?;
    let schema = footer.schema().ok_or_else(|| damaged(name, "the schema is missing"))?;
    Ok(Footer {
        schema: Arc::new(fb_to_schema(schema)),
        version: footer.version(),
        dictionaries: footer.dictionaries().iter().flatten().copied().collect(),
        batches: footer.recordBatches().iter().flatten().copied().collect(),
    })
}

/// The length of a block with its metadata, unless it is negative.
fn block_length(block: &Block) -> Option<u64> {
    let metadata = u64::try_from(block.metaDataLength()).ok()?;
    u64::try_from(block.bodyLength()).ok()?.checked_add(metadata)
}

fn block_bytes(block: &Block) -> u64 {
    block_length(block).expect("blocks are checked when the footer is read")
}

fn read_at(file: &mut File, offset: u64, length: usize) -> std::io::Result<Vec<u8>> {
    let mut bytes = vec![0; length];
    file.seek(SeekFrom::Start(offset))?;
    file.read_exact(&mut bytes)?;
    Ok(bytes)
}

impl FileUnit {
    /// Encoded size of the unit's batches in bytes, with their metadata.
    pub fn bytes(&self) -> u64 {
        self.file.footer.batches[self.batches.clone()].iter().map(block_bytes).sum()
    }

    /// The file's path.
    pub fn path(&self) -> &Path {
        &self.file.path
    }

    /// Opens the file and decodes its dictionaries. Fails if the file cannot be read or is damaged.
    pub fn read(self) -> Result<FileReader> {
        let (ipc, name) = (&self.file, &self.file.name);
        let mut file = files::open(&ipc.path)?;
        let mut decoder = FileDecoder::new(Arc::clone(&ipc.footer.schema), ipc.footer.version);
        for block in &ipc.footer.dictionaries {
            let bytes = ipc.read_block(&mut file, block)?;
            guarded(name, || {
                decoder.read_dictionary(block, &bytes).map_err(|error| damaged(name, error))
            })?;
        }
        let decoder = decoder.with_projection(ipc.projection.places.clone());
        Ok(FileReader { file, decoder, batches: self.batches, pending: None, ipc: self.file })
    }
}

impl IpcFile {
    fn read_block(&self, file: &mut File, block: &Block) -> Result<Buffer> {
        let bytes = read_at(file, block.offset() as u64, block_bytes(block) as usize);
        Ok(Buffer::from_vec(bytes.map_err(|error| io_error("read", &self.path, error))?))
    }
}

pub(crate) struct FileReader {
    file: File,
    decoder: FileDecoder,
    batches: std::ops::Range<usize>,
    pending: Option<Pending>,
    ipc: Arc<IpcFile>,
}

impl FileReader {
    fn decode(&mut self, number: usize) -> Result<Option<RecordBatch>> {
        let block = &self.ipc.footer.batches[number];
        let bytes = self.ipc.read_block(&mut self.file, block)?;
        let name = &self.ipc.name;
        guarded(name, || {
            self.decoder
                .read_record_batch(block, &bytes)
                .map_err(|error| damaged(name, format!("batch {number}: {error}")))
        })
    }

    fn stop(&mut self) {
        self.batches = 0..0;
        self.pending = None;
    }
}

impl Iterator for FileReader {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Result<RecordBatch>> {
        loop {
            let ipc = Arc::clone(&self.ipc);
            if let Some(pending) = &mut self.pending
                && let Some(rows) = pending.next(&ipc.name, &ipc.projection, ipc.batch_rows)
            {
                if rows.is_err() {
                    self.stop();
                }
                return Some(rows);
            }
            let number = self.batches.next()?;
            match self.decode(number) {
                Ok(batch) => self.pending = batch.map(|batch| Pending { batch, from: 0, number }),
                Err(error) => {
                    self.stop();
                    return Some(Err(error));
                }
            }
        }
    }
}
