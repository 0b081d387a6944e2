//! Head records: knowledge of the log that a directory keeps outside of the log.
//!
//! A log that was cut short looks complete. So a *head* names a position up to which the log was
//! durable when the head was written. The file of heads has three slots: the slot that was synced
//! last is not overwritten until another slot was synced. A head is written after the sync of the
//! records that it vouches for, so a lost head costs knowledge, not rows.
//! `docs/decisions/0008-log-heads.md` gives the reasons.

mod check;
mod head;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use thalweg_env::{Env, File, FileSystem, OpenMode};
use thalweg_types::{Error, Result, SqlState};

pub use check::Vouched;
pub use head::{CheckpointIdentity, HEAD_BYTES, Head, LogPosition};

use crate::failure::{damaged, file_error};

/// Name of the file of heads.
pub const HEADS: &str = "HEADS";
/// Its name while it is being created.
pub const HEADS_TEMPORARY: &str = "HEADS.new";

/// Each slot has a disk block of its own, so that writing one never touches another.
const SLOT_BYTES: usize = 4096;
const SLOTS: usize = 3;
const FILE_BYTES: u64 = (SLOT_BYTES * SLOTS) as u64;

/// The heads of a database in use.
pub struct Heads {
    path: PathBuf,
    database_id: u64,
    state: Mutex<State>,
    /// Held during a sync, so that syncs do not overlap.
    syncing: Mutex<()>,
    /// True once the directory was removed or replaced under the running process.
    vanished: AtomicBool,
}

struct State {
    /// `None` in a directory of format version 1, until it is converted.
    file: Option<Arc<dyn File>>,
    /// The newest head, written or not.
    head: Head,
    /// The slot for the next head.
    slot: usize,
    /// The slot that was synced last.
    stable: usize,
    /// True if a head was changed since the last sync.
    dirty: bool,
    /// True if the next checkpoint was renamed and the directory was not synced since.
    renamed: bool,
}

/// Contents of a file's slots.
pub struct SlotsRead {
    pub heads: [Option<Head>; SLOTS],
    /// Offset of the first damaged slot.
    pub damage: Option<u64>,
}

impl SlotsRead {
    /// The newest sound head and its slot.
    pub fn newest(&self) -> Option<(usize, Head)> {
        let sound = self.heads.iter().enumerate().filter_map(|(slot, head)| Some((slot, (*head)?)));
        sound.max_by_key(|(_, head)| head.generation)
    }
}

impl Heads {
    /// The heads of a directory that has none yet.
    pub fn missing(env: &Env, directory: &Path, database_id: u64) -> Heads {
        let incarnation = env.random.next_u64();
        let head = Head { incarnation, ..Head::default() };
        Heads::with(directory, database_id, State { file: None, head, ..State::default() })
    }

    /// Reads the heads of a directory. A damaged slot is ignored if another one is sound: it may be
    /// a torn write, and the other one's position is still valid.
    pub fn read(env: &Env, directory: &Path, database_id: u64) -> Result<Heads> {
        let path = directory.join(HEADS);
        let slots = read_slots(&*env.files, &path, database_id)?;
        let Some((stable, mut head)) = slots.newest() else {
            let error = damaged(&path, slots.damage.unwrap_or(0), "no head is sound");
            return Err(error.with_hint(REPAIR_HINT));
        };
        head.incarnation = env.random.next_u64();
        let file = env.files.open(&path, OpenMode::ReadWrite);
        let file = Some(file.map_err(|error| file_error("open", &path, error))?);
        let broken = (0..SLOTS).find(|slot| slots.heads[*slot].is_none() && *slot != stable);
        let slot = broken.unwrap_or((stable + 1) % SLOTS);
        // The head found may be only in the page cache, so the next sync must cover it too.
        let state = State { file, head, slot, stable, dirty: true, renamed: false };
        Ok(Heads::with(directory, database_id, state))
    }

    fn with(directory: &Path, database_id: u64, state: State) -> Heads {
        Heads {
            path: directory.join(HEADS),
            database_id,
            state: Mutex::new(state),
            syncing: Mutex::default(),
            vanished: AtomicBool::new(false),
        }
    }

    /// True if the directory has a file of heads.
    pub fn exist(&self) -> bool {
        self.state.lock().file.is_some()
    }

    /// The newest head.
    pub fn newest(&self) -> Head {
        self.state.lock().head
    }

    /// Creates the file with the newest head, and syncs it. Its name is durable once the caller has
    /// synced the directory.
    pub fn create(&self, files: &dyn FileSystem, directory: &Path) -> Result<()> {
        let temporary = directory.join(HEADS_TEMPORARY);
        let mut state = self.state.lock();
        state.head.generation = 1;
        let mut bytes = vec![0; FILE_BYTES as usize];
        for (slot, generation) in (0..SLOTS).zip(1..) {
            let head = Head { generation, ..state.head };
            let encoded = head.encode(self.database_id);
            bytes[slot * SLOT_BYTES..][..HEAD_BYTES].copy_from_slice(&encoded);
            state.head = head;
        }
        let create = || -> io::Result<Arc<dyn File>> {
            if files.exists(&temporary)? {
                files.remove_file(&temporary)?;
            }
            let file = files.open(&temporary, OpenMode::CreateNew)?;
            file.write_all_at(&bytes, 0)?;
            file.sync_all()?;
            files.rename(&temporary, &self.path)?;
            Ok(file)
        };
        let file = create().map_err(|error| file_error("create", &self.path, error))?;
        (state.file, state.stable, state.slot, state.dirty) = (Some(file), SLOTS - 1, 0, false);
        Ok(())
    }

    /// Changes the head, and writes it without a sync. If the write fails, the next one includes
    /// this change.
    pub fn write(&self, change: impl FnOnce(&mut Head)) -> Result<()> {
        let mut state = self.state.lock();
        change(&mut state.head);
        state.head.generation += 1;
        let Some(file) = &state.file else { return Ok(()) };
        let bytes = state.head.encode(self.database_id);
        let written = file.write_all_at(&bytes, (state.slot * SLOT_BYTES) as u64);
        state.dirty = true;
        written.map_err(|error| file_error("write to", &self.path, error))
    }

    /// Makes the newest head durable if it is not yet.
    pub fn sync(&self) -> Result<()> {
        let _one_at_a_time = self.syncing.lock();
        let (file, slot) = {
            let mut state = self.state.lock();
            let Some(file) = state.file.clone().filter(|_| state.dirty) else { return Ok(()) };
            let slot = state.slot;
            let bytes = state.head.encode(self.database_id);
            // Write the head again: the last write may have failed, or another process may have
            // made it.
            file.write_all_at(&bytes, (slot * SLOT_BYTES) as u64)
                .map_err(|error| file_error("write to", &self.path, error))?;
            // Heads written during the sync go neither to this slot nor to the stable one.
            state.slot = (0..SLOTS)
                .find(|other| *other != slot && *other != state.stable)
                .expect("there are three slots");
            state.dirty = false;
            (file, slot)
        };
        let synced = file.sync_data();
        let mut state = self.state.lock();
        match synced {
            Ok(()) => state.stable = slot,
            Err(_) => state.dirty = true,
        }
        synced.map_err(|error| file_error("sync", &self.path, error))
    }

    /// Changes the head durably.
    pub fn write_and_sync(&self, change: impl FnOnce(&mut Head)) -> Result<()> {
        self.write(change)?;
        self.sync()
    }

    /// Durably announces a complete checkpoint before it is renamed. `sync_names` syncs the
    /// directory of checkpoints.
    pub fn checkpoint_comes(
        &self,
        identity: CheckpointIdentity,
        sync_names: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        let half_done = self.state.lock().renamed;
        if half_done {
            // The previous checkpoint was renamed, but the rename may not be durable.
            sync_names()?;
            let named = self.newest().next_checkpoint;
            self.checkpoint_found(named);
        }
        self.write_and_sync(|head| head.next_checkpoint = Some(identity))
    }

    /// Records that the checkpoint was renamed, not necessarily durably.
    pub fn checkpoint_renamed(&self) {
        self.state.lock().renamed = true;
    }

    /// Records that `identity` is the newest checkpoint and has its name durably.
    pub fn checkpoint_found(&self, identity: Option<CheckpointIdentity>) {
        let head = {
            let mut state = self.state.lock();
            state.renamed = false;
            state.head
        };
        if (head.checkpoint, head.next_checkpoint) == (identity, None) {
            return;
        }
        // A failure does no harm: a head that still names both checkpoints is valid too.
        let _ = self.write(|head| (head.checkpoint, head.next_checkpoint) = (identity, None));
    }

    /// Checks that the directory's name still leads to this database.
    pub fn look_for_directory(&self, files: &dyn FileSystem) {
        let Some(mine) = self.state.lock().file.clone() else { return };
        let there = match files.open(&self.path, OpenMode::Read) {
            Ok(found) => found.identity().ok().zip(mine.identity().ok()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            // Other errors may come from a failing disk, which is a separate problem.
            Err(_) => return,
        };
        let is_same = there
            .is_some_and(|(found, mine)| (found.device, found.inode) == (mine.device, mine.inode));
        if !is_same {
            self.vanished.store(true, Ordering::Release);
        }
    }

    /// Fails if the directory was removed.
    pub fn check_present(&self) -> Result<()> {
        if self.vanished.load(Ordering::Acquire) { Err(self.directory_is_gone()) } else { Ok(()) }
    }

    /// Marks the directory as removed, and returns the error for it.
    pub fn directory_is_gone(&self) -> Error {
        self.vanished.store(true, Ordering::Release);
        let directory = self.path.parent().unwrap_or(&self.path);
        let message = format!("the data directory {} is gone", directory.display());
        Error::new(SqlState::IO_ERROR, message).with_hint(
            "Its files were removed, replaced or unmounted under the running process. Export \
             what is in memory, put the directory back, and start again.",
        )
    }
}

impl Default for State {
    fn default() -> State {
        let head = Head::default();
        State { file: None, head, slot: 0, stable: SLOTS - 1, dirty: false, renamed: false }
    }
}

/// Hint of errors about damaged heads, and about a log that contradicts them.
pub const REPAIR_HINT: &str = "Restore the directory from a backup, or salvage what is sound into \
    a new directory with `thalweg repair`.";

/// True if a file of heads vouches for a log, or might because it is damaged.
pub fn may_vouch(files: &dyn FileSystem, directory: &Path) -> Result<bool> {
    let path = directory.join(HEADS);
    let exists = files.exists(&path).map_err(|error| file_error("look for", &path, error))?;
    if !exists {
        return Ok(false);
    }
    let Ok(slots) = read_slots_of(files, &path, None) else { return Ok(true) };
    Ok(slots.newest().is_none_or(|(_, head)| head.position.segment > 0))
}

/// Id of the database that a file of heads belongs to; `None` if no slot is sound.
pub fn database_of(files: &dyn FileSystem, directory: &Path) -> Option<u64> {
    let file = files.open(&directory.join(HEADS), OpenMode::Read).ok()?;
    let mut head = [0; HEAD_BYTES];
    (0..SLOTS).find_map(|slot| {
        file.read_exact_at(&mut head, (slot * SLOT_BYTES) as u64).ok()?;
        Head::decode(&head).map(|(_, of)| of)
    })
}

/// Reads the slots of a file of heads.
///
/// # Errors
/// If it cannot be read, has the wrong length, or belongs to another database.
pub fn read_slots(files: &dyn FileSystem, path: &Path, database_id: u64) -> Result<SlotsRead> {
    read_slots_of(files, path, Some(database_id))
}

fn read_slots_of(
    files: &dyn FileSystem,
    path: &Path,
    database_id: Option<u64>,
) -> Result<SlotsRead> {
    let file = files.open(path, OpenMode::Read).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => {
            Error::corrupt(format!("{} is missing", path.display())).with_hint(REPAIR_HINT)
        }
        _ => file_error("open", path, error),
    })?;
    let length = file.len().map_err(|error| file_error("read the length of", path, error))?;
    if length != FILE_BYTES {
        let what = format!("the file has another length than {FILE_BYTES} bytes");
        return Err(damaged(path, length.min(FILE_BYTES), what).with_hint(REPAIR_HINT));
    }
    let mut bytes = vec![0; FILE_BYTES as usize];
    file.read_exact_at(&mut bytes, 0).map_err(|error| file_error("read", path, error))?;
    let mut slots = SlotsRead { heads: [None; SLOTS], damage: None };
    for (slot, block) in bytes.chunks_exact(SLOT_BYTES).enumerate() {
        let (head, rest) = block.split_first_chunk::<HEAD_BYTES>().expect("a slot has a head");
        let decoded = Head::decode(head);
        let other = decoded.zip(database_id).filter(|((_, of), own)| of != own);
        if let Some(((_, of), database_id)) = other {
            let message = format!("{} belongs to another database", path.display());
            return Err(Error::corrupt(message)
                .with_detail(format!(
                    "It carries the id {of:016x}, this database {database_id:016x}."
                ))
                .with_hint(REPAIR_HINT));
        }
        slots.heads[slot] = decoded.map(|(head, _)| head);
        let is_sound = decoded.is_some() && rest.iter().all(|byte| *byte == 0);
        if !is_sound && slots.damage.is_none() {
            slots.damage = Some((slot * SLOT_BYTES) as u64);
        }
    }
    Ok(slots)
}

/// Deliberate bugs, which tests must catch.
#[cfg(test)]
pub mod canary {
    use std::cell::Cell;

    thread_local! {
        static WITHOUT_CHECK: Cell<bool> = const { Cell::new(false) };
        static VOUCHING_EARLY: Cell<bool> = const { Cell::new(false) };
    }

    pub fn is_without_check() -> bool {
        WITHOUT_CHECK.get()
    }

    pub fn is_vouching_early() -> bool {
        VOUCHING_EARLY.get()
    }

    /// Runs `body` without any comparison with heads.
    pub fn without_check<T>(body: impl FnOnce() -> T) -> T {
        WITHOUT_CHECK.set(true);
        let result = body();
        WITHOUT_CHECK.set(false);
        result
    }

    /// Runs `body` with heads that vouch for records that were not synced.
    pub fn vouching_early<T>(body: impl FnOnce() -> T) -> T {
        VOUCHING_EARLY.set(true);
        let result = body();
        VOUCHING_EARLY.set(false);
        result
    }
}
