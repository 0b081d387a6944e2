//! Groups that were spilled to disk.
//!
//! A worker that runs out of memory writes its groups to a file, partition by partition, and starts
//! with an empty hash table. The groups are read back when their partition is merged. So memory
//! holds the workers' current groups, and later those of a few partitions, however many there are
//! in all.

use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow::array::RecordBatch;
use arrow::ipc::reader::StreamReader;
use arrow::ipc::writer::StreamWriter;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{DiskManager, SpillFile};
use thalweg_scan::{own_bytes, text_bytes};
use thalweg_values::errors::external;
use thalweg_values::statement_control::StatementControl;

use crate::compact_texts::with_own_texts;

/// Fewer bytes are not worth a file: a worker with less fails if memory is refused.
const WORTH_BYTES: usize = 1 << 20;

/// Greatest number of spill files, each of which stays open until all of it is merged.
const FILES_MAX: usize = 256;

/// Size of read and write buffers.
const BUFFER_BYTES: usize = 256 << 10;

/// Spill files of one aggregate.
#[derive(Clone)]
pub struct Spills {
    disk: Arc<DiskManager>,
    files: Arc<AtomicUsize>,
    bytes: Arc<AtomicUsize>,
    stop: Arc<StatementControl>,
}

/// Cancellation check, to be called every few milliseconds.
pub(super) fn check_cancelled(stop: &StatementControl) -> Result<()> {
    stop.check_cancelled().map_err(external)
}

impl fmt::Debug for Spills {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Spills({} bytes)", self.bytes())
    }
}

/// One spill of one worker.
pub struct Spilled {
    file: Arc<dyn SpillFile>,
    sections: Vec<Section>,
    stop: Arc<StatementControl>,
}

/// The groups of one partition.
struct Section {
    /// Their range in the file.
    place: Range<u64>,
    /// Their size in memory.
    bytes: usize,
}

impl Spills {
    pub(super) fn new(disk: &Arc<DiskManager>, stop: Arc<StatementControl>) -> Spills {
        let (files, bytes) = (Arc::default(), Arc::default());
        Spills { disk: Arc::clone(disk), files, bytes, stop }
    }

    /// True if groups of so many bytes should spill after the error `refused`.
    pub(super) fn may_take(&self, bytes: usize, refused: &DataFusionError) -> bool {
        let is_refused = matches!(refused, DataFusionError::ResourcesExhausted(_));
        let is_worth_it = bytes >= WORTH_BYTES && self.files.load(Ordering::Relaxed) < FILES_MAX;
        is_refused && is_worth_it && self.disk.tmp_files_enabled()
    }

    /// Number of bytes written so far.
    pub(super) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Writes pieces with one batch for each partition, and frees each batch once it is written.
    ///
    /// # Errors
    /// If the disk is full, the limit of spilled data is reached, or the statement was stopped.
    pub(super) fn write(&self, pieces: Vec<Vec<RecordBatch>>) -> Result<Spilled> {
        self.files.fetch_add(1, Ordering::Relaxed);
        let file = self.disk.create_tmp_file("FusedAggregate")?;
        let writer = BufWriter::with_capacity(BUFFER_BYTES, file.open_writer()?);
        let mut out = Counting { writer, bytes: 0 };
        let partitions = pieces.iter().map(Vec::len).max().unwrap_or(0);
        let mut pieces: Vec<_> = pieces.into_iter().map(Vec::into_iter).collect();
        let mut sections = Vec::with_capacity(partitions);
        for _ in 0..partitions {
            check_cancelled(&self.stop)?;
            let (start, mut bytes) = (out.bytes, 0);
            for batch in pieces.iter_mut().filter_map(Iterator::next) {
                bytes += write_batch(&batch, &mut out)?;
            }
            sections.push(Section { place: start..out.bytes, bytes });
        }
        out.flush()?;
        self.bytes.fetch_add(out.bytes as usize, Ordering::Relaxed);
        Ok(Spilled { file, sections, stop: Arc::clone(&self.stop) })
    }
}

/// Writes a batch in a self-delimiting form, and returns its size in memory.
fn write_batch(batch: &RecordBatch, out: &mut impl Write) -> Result<usize> {
    if batch.num_rows() == 0 {
        return Ok(0);
    }
    let columns = batch.columns().iter().map(with_own_texts).collect();
    let batch = RecordBatch::try_new(batch.schema(), columns)?;
    let mut writer = StreamWriter::try_new(out, &batch.schema())?;
    writer.write(&batch)?;
    writer.finish()?;
    Ok(own_bytes(&batch) + text_bytes([&batch]))
}

impl Spilled {
    pub(super) fn partitions(&self) -> usize {
        self.sections.len()
    }

    /// Size of a partition's groups in memory, in bytes.
    pub(super) fn bytes(&self, partition: usize) -> usize {
        self.sections[partition].bytes
    }

    /// Passes the groups of a partition to `take`, one batch at a time.
    ///
    /// # Errors
    /// If the file cannot be read, or the statement was stopped.
    pub(super) fn read(&self, partition: usize, mut take: impl FnMut(&RecordBatch)) -> Result<()> {
        let Range { start, end } = self.sections[partition].place;
        let path = self.file.path().ok_or_else(|| io::Error::other("a spill file has a path"))?;
        #[expect(clippy::disallowed_methods, reason = "DataFusion made it, and takes it away")]
        let mut file = File::open(path)?;
        file.seek(SeekFrom::Start(start))?;
        let mut rest = BufReader::with_capacity(BUFFER_BYTES, file.take(end - start));
        while !rest.fill_buf()?.is_empty() {
            check_cancelled(&self.stop)?;
            for batch in StreamReader::try_new(&mut rest, None)? {
                take(&batch?);
            }
        }
        Ok(())
    }
}

/// Counts the bytes written.
struct Counting<W> {
    writer: W,
    bytes: u64,
}

impl<W: Write> Write for Counting<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.writer.write(bytes)?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{ArrayRef, Int32Array, Int64Array, StringViewArray};
    use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};

    use super::*;

    fn spills(most: u64) -> Spills {
        let disk = DiskManagerBuilder::default().with_max_temp_directory_size(most).build();
        Spills::new(&Arc::new(disk.unwrap()), Arc::default())
    }

    fn batch(key: ArrayRef) -> RecordBatch {
        RecordBatch::try_from_iter([("key", key)]).unwrap()
    }

    fn read(spilled: &Spilled, partition: usize) -> Vec<RecordBatch> {
        let mut batches = Vec::new();
        spilled.read(partition, |batch| batches.push(batch.clone())).unwrap();
        batches
    }

    #[test]
    fn each_partition_comes_back_with_what_all_pieces_have_of_it() {
        let wide = batch(Arc::new(Int64Array::from(vec![Some(1 << 40), None])));
        let narrow = batch(Arc::new(Int32Array::from(vec![7])));
        let nothing = batch(Arc::new(Int32Array::from(Vec::<i32>::new())));
        let names = ["short", "a text that is too long for its view"];
        let texts = batch(Arc::new(StringViewArray::from(names.to_vec())));
        let spills = spills(1 << 20);
        let pieces = vec![
            vec![wide.clone(), nothing.clone(), texts.clone()],
            vec![narrow.clone(), nothing, texts.clone()],
        ];
        let spilled = spills.write(pieces).unwrap();
        assert_eq!(spilled.partitions(), 3);
        assert_eq!(read(&spilled, 0), [wide, narrow]);
        assert_eq!(read(&spilled, 1), []);
        assert_eq!(read(&spilled, 2), [texts.clone(), texts]);
        assert_eq!(spilled.bytes(1), 0);
        assert!(spilled.bytes(2) >= 2 * names[1].len());
        assert_eq!(spills.bytes() as u64, spilled.file.size().unwrap());
        let path = spilled.file.path().unwrap().to_owned();
        assert!(path.exists());
        drop(spilled);
        assert!(!path.exists() && spills.disk.used_disk_space() == 0);
    }

    #[test]
    fn what_nobody_wants_is_neither_written_nor_read() {
        let disk = Arc::new(DiskManagerBuilder::default().build().unwrap());
        let stop = Arc::new(StatementControl::default());
        let spills = Spills::new(&disk, Arc::clone(&stop));
        let pieces = || vec![vec![batch(Arc::new(Int32Array::from(vec![7])))]];
        let spilled = spills.write(pieces()).unwrap();
        stop.stop();
        assert!(spilled.read(0, |_| panic!("it was read")).is_err());
        assert!(spills.write(pieces()).is_err());
        drop(spilled);
        assert_eq!(disk.used_disk_space(), 0);
    }

    #[test]
    fn a_disk_without_room_refuses() {
        let numbers = batch(Arc::new(Int64Array::from_iter_values(0..1_000)));
        let refused = spills(1_000).write(vec![vec![numbers]]).err().unwrap();
        assert!(refused.to_string().contains("disk space"), "{refused}");
    }

    #[test]
    fn only_much_goes_to_disk_and_only_for_want_of_memory() {
        let refused = DataFusionError::ResourcesExhausted("a test's limit".to_owned());
        let spills = spills(1 << 20);
        assert!(spills.may_take(WORTH_BYTES, &refused));
        assert!(!spills.may_take(WORTH_BYTES - 1, &refused));
        let stopped = DataFusionError::Execution("nobody waits".to_owned());
        assert!(!spills.may_take(WORTH_BYTES, &stopped));
        let none = DiskManagerBuilder::default().with_mode(DiskManagerMode::Disabled).build();
        let nowhere = Spills::new(&Arc::new(none.unwrap()), Arc::default());
        assert!(!nowhere.may_take(WORTH_BYTES, &refused));
    }
}
