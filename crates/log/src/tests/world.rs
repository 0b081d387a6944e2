//! A small database over a simulated disk, and the model that it must agree with.

use std::collections::HashMap;
use std::path::Path;

use thalweg_env::{Env, Random, SeededRandom, SimulatedDisk};
use thalweg_types::{Error, Lsn, Result};

use crate::{
    CheckpointReader, CheckpointWriter, ChunkFile, Coverage, DataDirectory, DirectoryMode,
    LogOptions, LogWriter, Record, RecordRef, Stored, Written, files_to_rewrite, open,
};

pub const PATH: &str = "/data/database";

/// Several segments even in small tests, and nothing in them but what was appended.
pub const OPTIONS: LogOptions = LogOptions { segment_bytes: 8192, ahead_bytes: 0 };

/// With zeros ahead, as databases have them; they reach the end of a segment and do not.
const AHEAD: LogOptions = LogOptions { ahead_bytes: 3000, ..OPTIONS };

/// What a record was given, and what must come back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    pub lsn: Lsn,
    pub kind: u8,
    pub payload: Vec<u8>,
}

/// A step of a workload.
#[derive(Clone, Debug)]
pub enum Step {
    /// Records of these lengths, in one call. Those below 0 have so many bytes, all zeros.
    Append(Vec<i16>),
    Sync,
    /// Makes durable what the directory knows of its log.
    SyncHeads,
    /// Writes a checkpoint and removes what it makes superfluous. Where the log is not synced
    /// before, the checkpoint may be ahead of what is durable of the log.
    Checkpoint {
        synced: bool,
    },
    /// Closes the log properly, or not, and opens it again on the same machine.
    Reopen {
        clean: bool,
    },
}

/// A database in use.
struct Session {
    directory: DataDirectory,
    log: LogWriter,
    chunks: Chunks,
}

/// The chunk files of the last checkpoint, and where they hold items, by the items' places.
#[derive(Clone, Default)]
pub struct Chunks {
    files: Vec<ChunkFile>,
    stored: HashMap<usize, Stored>,
}

pub struct World {
    pub env: Env,
    pub disk: SimulatedDisk,
    session: Option<Session>,
    /// All that may be on disk, in order.
    attempted: Vec<Item>,
    /// How many of them must be.
    acknowledged: usize,
    /// Makes every payload another.
    serial: u64,
}

impl World {
    pub fn new(seed: u64) -> World {
        let (env, disk, _) = Env::simulated(seed);
        World { env, disk, session: None, attempted: Vec::new(), acknowledged: 0, serial: 0 }
    }

    pub fn attempted(&self) -> &[Item] {
        &self.attempted
    }

    /// Makes one step. What the disk refuses is no error; what contradicts the model is.
    pub fn step(&mut self, step: &Step) -> Result<(), String> {
        let Some(mut session) = self.session.take() else {
            // A process that cannot go on is started again.
            return self.start();
        };
        let sound = match step {
            Step::Append(lengths) => self.append(&mut session, lengths),
            Step::Sync => session.log.sync().map(|()| {
                self.acknowledged = self.attempted.len();
                session.log.vouch();
            }),
            // A head that could not be synced vouches for less, which is no fault.
            Step::SyncHeads => {
                let _ = session.directory.sync_heads();
                Ok(())
            }
            Step::Checkpoint { synced } => self.checkpoint(&mut session, *synced),
            Step::Reopen { clean } => {
                if *clean && session.log.close().is_ok() {
                    self.acknowledged = self.attempted.len();
                }
                drop(session.directory);
                return self.start();
            }
        };
        if sound.is_ok() {
            self.session = Some(session);
        }
        Ok(())
    }

    fn append(&mut self, session: &mut Session, lengths: &[i16]) -> Result<()> {
        let first = session.log.last_lsn().next();
        let items: Vec<Item> = lengths
            .iter()
            .enumerate()
            // Pairs share a sequence number, as the parts of a bulk load do.
            .map(|(place, length)| self.item(Lsn(first.0 + place as u64 / 2), *length))
            .collect();
        let halves: Vec<[&[u8]; 2]> =
            items.iter().map(|item| item.payload.split_at(item.payload.len() / 2).into()).collect();
        let records: Vec<RecordRef<'_>> = items
            .iter()
            .zip(&halves)
            .map(|(item, payload)| RecordRef { lsn: item.lsn, kind: item.kind, payload })
            .collect();
        let appended = session.log.append(&records);
        // A failed append leaves nothing; unless even that failed, and a start has to find out.
        if appended.is_ok() || session.log.append(&[]).is_err() {
            self.attempted.extend(items);
            return appended;
        }
        Ok(())
    }

    fn item(&mut self, lsn: Lsn, length: i16) -> Item {
        self.serial += 1;
        let mut payload = vec![0; usize::from(length.unsigned_abs())];
        if length > 0 {
            let random = SeededRandom::new(self.serial);
            for eight in payload.chunks_mut(8) {
                eight.copy_from_slice(&random.next_u64().to_le_bytes()[..eight.len()]);
            }
        }
        Item { lsn, kind: self.serial as u8, payload }
    }

    fn checkpoint(&mut self, session: &mut Session, synced: bool) -> Result<()> {
        if synced {
            session.log.sync()?;
            self.acknowledged = self.attempted.len();
        }
        let lsn = session.log.last_lsn();
        let coverage = Coverage { lsn, log_from: lsn.next() };
        let (directory, seed) = (&session.directory, self.attempted.len() as u64);
        let written = write_checkpoint(
            &self.env,
            directory,
            coverage,
            &self.attempted,
            &session.chunks,
            seed,
        );
        match written {
            Ok((_, chunks)) => session.chunks = chunks,
            // A database goes on without the checkpoint, or is started again.
            Err(_) if seed % 2 == 0 => return Ok(()),
            Err(error) => return Err(error),
        }
        self.acknowledged = self.attempted.len();
        session.log.remove_before(coverage.log_from)?;
        Ok(())
    }

    /// Starts the process: what it recovers must be all that was acknowledged, and nothing that was
    /// never written. A disk that refuses is no error.
    fn start(&mut self) -> Result<(), String> {
        match recover(&self.env) {
            Ok((session, items)) => {
                self.check(&items)?;
                if items.last().is_some_and(|item| item.lsn != session.log.last_lsn()) {
                    return Err("the last sequence number is not that of the last record".into());
                }
                self.acknowledged = items.len();
                self.attempted = items;
                self.session = Some(session);
                Ok(())
            }
            Err(error) if is_from_disk(&error) => Ok(()),
            Err(error) => Err(format!("recovery failed: {error:?}")),
        }
    }

    fn check(&self, items: &[Item]) -> Result<(), String> {
        if items.len() < self.acknowledged {
            let (found, acknowledged) = (items.len(), self.acknowledged);
            return Err(format!("{found} records recovered, {acknowledged} acknowledged"));
        }
        if !self.attempted.starts_with(items) {
            let same = |(mine, found): &(&Item, &Item)| mine == found;
            let place = self.attempted.iter().zip(items).take_while(same).count();
            return Err(format!("record {place} of {} is not what was written", items.len()));
        }
        Ok(())
    }

    /// The machine dies, and the database starts on what its disk may hold.
    pub fn crash(&mut self) -> Result<(), String> {
        self.session = None;
        self.disk = self.disk.crash();
        self.env = self.env.with_files(self.disk.clone());
        self.start()?;
        if self.session.is_some() { Ok(()) } else { Err("a sound disk refused to work".into()) }
    }

    /// What must be there.
    pub fn acknowledged(&self) -> &[Item] {
        &self.attempted[..self.acknowledged]
    }

    /// Closes the log properly and ends the process.
    pub fn close(&mut self) {
        let session = self.session.take().expect("the database works");
        session.log.close().unwrap();
        self.acknowledged = self.attempted.len();
    }

    /// Appends a record and syncs it.
    pub fn append_and_sync(&mut self) -> Result<()> {
        let mut session = self.session.take().expect("the database works");
        let done = self.append(&mut session, &[50]).and_then(|()| session.log.sync());
        self.session = Some(session);
        done
    }

    /// Whether the database works.
    pub fn is_running(&self) -> bool {
        self.session.is_some()
    }

    /// A process dies, the machine does not.
    pub fn kill(&mut self) {
        self.session = None;
    }
}

/// Writes a checkpoint of all items: some inline, some in its chunk file, some in older ones. Some
/// that are stored already are stored again, so that older files hold garbage. `seed` chooses.
pub fn write_checkpoint(
    env: &Env,
    directory: &DataDirectory,
    coverage: Coverage,
    items: &[Item],
    before: &Chunks,
    seed: u64,
) -> Result<(Written, Chunks)> {
    let random = SeededRandom::new(seed);
    let forgets_all = random.below(4) == 0;
    let rewritten = files_to_rewrite(&before.files, before.stored.values().copied());
    let mut checkpoint = CheckpointWriter::create(env, directory, coverage, &before.files)?;
    let mut stored = HashMap::new();
    for (place, item) in items.iter().enumerate() {
        let (kind, id, parts) = (u32::from(item.kind), item.lsn.0, [&item.payload[..]]);
        if item.kind % 4 == 0 {
            checkpoint.section(kind, id, &parts)?;
            continue;
        }
        let known = before.stored.get(&place).filter(|known| !rewritten.contains(&known.file));
        let known = known.filter(|_| !forgets_all && random.below(5) > 0);
        let there = match known {
            Some(known) => {
                checkpoint.refer(kind, id, 0, *known);
                *known
            }
            None => checkpoint.store(kind, id, 0, &parts)?,
        };
        stored.insert(place, there);
    }
    let written = checkpoint.finish()?;
    let files = written.files.clone();
    Ok((written, Chunks { files, stored }))
}

/// Whether the simulated disk refused, or was left half-made by a refusal.
fn is_from_disk(error: &Error) -> bool {
    std::error::Error::source(error).is_some()
}

fn recover(env: &Env) -> Result<(Session, Vec<Item>)> {
    let directory = DataDirectory::open(env, Path::new(PATH), DirectoryMode::CreateOrOpen)?;
    let (log, items, chunks) = read_with_chunks(env, &directory, AHEAD)?;
    Ok((Session { directory, log, chunks }, items))
}

/// What a database holds: its checkpoint, and its log after that.
pub fn read_all(env: &Env, directory: &DataDirectory) -> Result<(LogWriter, Vec<Item>)> {
    read_all_with(env, directory, OPTIONS)
}

pub fn read_all_with(
    env: &Env,
    directory: &DataDirectory,
    options: LogOptions,
) -> Result<(LogWriter, Vec<Item>)> {
    read_with_chunks(env, directory, options).map(|(log, items, _)| (log, items))
}

fn read_with_chunks(
    env: &Env,
    directory: &DataDirectory,
    options: LogOptions,
) -> Result<(LogWriter, Vec<Item>, Chunks)> {
    let checkpoint = CheckpointReader::open_newest(env, directory)?;
    let mut items = Vec::new();
    let (mut covered, mut chunks) = (Coverage::default(), Chunks::default());
    if let Some(checkpoint) = &checkpoint {
        covered = checkpoint.coverage();
        chunks.files = checkpoint.chunk_files().to_vec();
        for (index, section) in checkpoint.sections().iter().enumerate() {
            let payload = checkpoint.read(index)?;
            chunks.stored.extend(section.stored().map(|stored| (index, stored)));
            items.push(Item { lsn: Lsn(section.id), kind: section.kind as u8, payload });
        }
    }
    let mut on_record = |Record { lsn, kind, payload, .. }: Record| {
        if lsn > covered.lsn {
            items.push(Item { lsn, kind, payload });
        }
        Ok(())
    };
    let (log, _) = open(env, directory, options, covered, &mut on_record, &mut |done, total| {
        assert!(done <= total)
    })?;
    CheckpointReader::remove_superfluous(env, directory, checkpoint.as_ref())?;
    Ok((log, items, chunks))
}

/// A workload that follows from a seed, with so many appends.
pub fn workload(seed: u64, appends: usize) -> Vec<Step> {
    let random = SeededRandom::new(seed);
    let mut steps = vec![Step::Sync];
    for _ in 0..appends {
        let records = 1 + random.below(3);
        steps.push(Step::Append((0..records).map(|_| length(&random)).collect()));
        match random.below(32) {
            0..16 => steps.push(Step::Sync),
            16 | 24..27 => steps.push(Step::Checkpoint { synced: random.coin() }),
            17 => steps.push(Step::Reopen { clean: true }),
            18 => steps.push(Step::Reopen { clean: false }),
            19..24 => steps.push(Step::SyncHeads),
            _ => {}
        }
    }
    steps.push(Step::Sync);
    steps
}

fn length(random: &SeededRandom) -> i16 {
    let length = match random.below(16) {
        0 => 0,
        1..8 => random.below(200),
        8..15 => random.below(2000),
        _ => random.below(12_000),
    };
    if random.below(8) == 0 { -(length as i16) } else { length as i16 }
}
