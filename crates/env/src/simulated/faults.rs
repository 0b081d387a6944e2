//! When a simulated disk fails, and how.

use std::io;

/// What happens at a chosen operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The operation fails with EIO and has no effect, except that a failed sync of a file leaves
    /// any part of the data durable, and a later sync that succeeds does not make up for the rest:
    /// kernels mark pages clean that they could not write.
    InputOutput,
    /// The operation fails with ENOSPC and has no effect. Operations that need no space go well.
    DiskFull,
    /// A write stores its first part and fails with ENOSPC. Other operations go well.
    ShortWrite,
    /// The machine dies before the operation.
    CrashBefore,
    /// The machine dies after the operation.
    CrashAfter,
    /// The machine dies within the operation: any of its sectors may have reached the disk.
    CrashTorn,
}

impl Fault {
    /// Every fault, for tests that try them all.
    pub const ALL: [Fault; 6] = [
        Fault::InputOutput,
        Fault::DiskFull,
        Fault::ShortWrite,
        Fault::CrashBefore,
        Fault::CrashAfter,
        Fault::CrashTorn,
    ];
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

/// What an operation does, as far as faults distinguish.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Operation {
    Read,
    /// Takes space: a write, a new name.
    Write,
    /// Changes something but takes no space.
    Change,
    Sync,
}

/// How an operation has to go.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Course {
    Well,
    Fails(i32),
    Short,
    /// It takes effect, and the machine dies. Torn: perhaps only in part.
    Dies {
        torn: bool,
    },
}

/// Counts operations and decides about each.
#[derive(Default)]
pub(super) struct Plan {
    operations: u64,
    fault: Option<(u64, Fault)>,
    crashed: bool,
    lies: Vec<Lie>,
}

impl Plan {
    pub fn operations(&self) -> u64 {
        self.operations
    }

    pub fn crashed(&self) -> bool {
        self.crashed
    }

    pub fn crash(&mut self) {
        self.crashed = true;
    }

    pub fn fault_at(&mut self, operation: u64, fault: Fault) {
        self.fault = Some((operation, fault));
    }

    pub fn tell(&mut self, lie: Lie) {
        self.lies.push(lie);
    }

    pub fn lies(&self, lie: Lie) -> bool {
        self.lies.contains(&lie)
    }

    /// Counts one operation and says how it goes.
    pub fn next(&mut self, operation: Operation) -> io::Result<Course> {
        if self.crashed {
            return Err(dead());
        }
        let number = self.operations;
        self.operations += 1;
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

/// What every operation says once the machine is dead.
pub(super) fn dead() -> io::Error {
    io::Error::other("the simulated machine has crashed")
}
