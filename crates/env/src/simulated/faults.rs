//! Faults of a simulated disk.

use std::io;

/// A fault that is injected at a chosen operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The operation fails with EIO and has no effect, with one exception: a failed sync of a file
    /// makes an arbitrary part of the data durable, and a later successful sync does not make up
    /// for the rest, because kernels mark pages clean that they could not write.
    InputOutput,
    /// The operation fails with ENOSPC and has no effect. Operations that need no space succeed.
    DiskFull,
    /// A write stores its first part and fails with ENOSPC. Other operations succeed.
    ShortWrite,
    /// The machine dies before the operation.
    CrashBefore,
    /// The machine dies after the operation.
    CrashAfter,
    /// The machine dies during the operation: any of its sectors may have reached the disk.
    CrashTorn,
}

impl Fault {
    /// All faults, for tests that try each.
    pub const ALL: [Fault; 6] = [
        Fault::InputOutput,
        Fault::DiskFull,
        Fault::ShortWrite,
        Fault::CrashBefore,
        Fault::CrashAfter,
        Fault::CrashTorn,
    ];
}

/// A state of the disk that lasts until it is set to another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DiskCondition {
    #[default]
    Healthy,
    /// Operations that take space fail with ENOSPC.
    Full,
    /// Everything that changes the disk fails with EROFS.
    ReadOnly,
    /// Syncs fail with EIO.
    FailingSyncs,
}

impl DiskCondition {
    /// The system's error number of an operation in this condition, if it fails.
    fn error(self, operation: Operation) -> Option<i32> {
        match (self, operation) {
            (DiskCondition::Full, Operation::Write) => Some(libc::ENOSPC),
            (DiskCondition::ReadOnly, Operation::Write | Operation::Change) => Some(libc::EROFS),
            (DiskCondition::FailingSyncs, Operation::Sync) => Some(libc::EIO),
            _ => None,
        }
    }
}

/// A promise that a disk breaks without a word: what a program would do that forgot the call. A
/// test that does not notice proves nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lie {
    /// Syncing a file does nothing.
    FileSync,
    /// Syncing a directory does nothing.
    DirectorySync,
}

/// The kind of an operation, as far as faults distinguish it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Operation {
    Read,
    /// Takes space: a write, a new name.
    Write,
    /// Changes something without using space.
    Change,
    Sync,
}

/// The outcome of an operation.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Course {
    Well,
    Fails(i32),
    Short,
    /// It takes effect, perhaps only in part if `torn`, and the machine dies.
    Dies {
        torn: bool,
    },
}

/// Counts operations and decides the outcome of each.
#[derive(Default)]
pub(super) struct Plan {
    operations: u64,
    fault: Option<(u64, Fault)>,
    crashed: bool,
    lies: Vec<Lie>,
    condition: DiskCondition,
}

impl Plan {
    /// Number of operations so far.
    pub fn operations(&self) -> u64 {
        self.operations
    }

    /// True if the machine died.
    pub fn crashed(&self) -> bool {
        self.crashed
    }

    /// Kills the machine; every later operation fails.
    pub fn crash(&mut self) {
        self.crashed = true;
    }

    /// Injects a fault at an operation, in place of an earlier injection.
    pub fn fault_at(&mut self, operation: u64, fault: Fault) {
        self.fault = Some((operation, fault));
    }

    pub fn set_condition(&mut self, condition: DiskCondition) {
        self.condition = condition;
    }

    pub fn tell(&mut self, lie: Lie) {
        self.lies.push(lie);
    }

    /// True if the guarantee is broken.
    pub fn lies(&self, lie: Lie) -> bool {
        self.lies.contains(&lie)
    }

    /// Counts an operation and returns its outcome. Fails if the machine is dead.
    pub fn next(&mut self, operation: Operation) -> io::Result<Course> {
        if self.crashed {
            return Err(dead());
        }
        let number = self.operations;
        self.operations += 1;
        if let Some(error) = self.condition.error(operation) {
            return Ok(Course::Fails(error));
        }
        let Some((_, fault)) = self.fault.filter(|(at, _)| *at == number) else {
            return Ok(Course::Well);
        };
        Ok(match fault {
            Fault::InputOutput => Course::Fails(libc::EIO),
            Fault::DiskFull if matches!(operation, Operation::Write | Operation::Sync) => {
                Course::Fails(libc::ENOSPC)
            }
            Fault::ShortWrite if operation == Operation::Write => Course::Short,
            Fault::DiskFull | Fault::ShortWrite => Course::Well,
            Fault::CrashBefore => {
                self.crashed = true;
                return Err(dead());
            }
            Fault::CrashAfter => Course::Dies { torn: false },
            Fault::CrashTorn => Course::Dies { torn: true },
        })
    }
}

/// The error of every operation after the machine died.
pub(super) fn dead() -> io::Error {
    io::Error::other("the simulated machine has crashed")
}
