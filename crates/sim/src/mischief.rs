//! Deliberate bugs.

use thalweg_env::Lie;

/// A promise that is broken, as if the database had the bug. Each must be noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mischief {
    /// Writes are told to be done before the log is synced.
    AcknowledgeBeforeSync,
    /// Syncing a file does nothing.
    ForgetFileSync,
    /// Syncing a directory does nothing.
    ForgetDirectorySync,
    /// A write whose log failed is told to be done.
    AcknowledgeFailure,
    /// Recovery stops before the end of the log.
    LoseTailOfLog,
    /// A group's rows become durable and visible one by one.
    SplitGroups,
    /// A group that is refused takes place all the same.
    ApplyRefused,
    /// The versions that a group expects are not looked at.
    ForgetExpectations,
    /// A transaction that lost against another overwrites what that one wrote.
    OverwriteConflicts,
    /// Now and then a reader gets an old snapshot.
    StaleReads,
    /// A reader sees some keys as they are and others as they were.
    TornReads,
    /// A reader sees what a group would have written that was refused.
    ReadRefused,
    /// A removal is told to be done, and the row stays.
    ForgetRemovals,
    /// A row is created where there is one.
    CreateOverwrites,
    /// A group that was written is written once more, later.
    RepeatWrites,
}

impl Mischief {
    pub const ALL: [Mischief; 15] = [
        Mischief::AcknowledgeBeforeSync,
        Mischief::ForgetFileSync,
        Mischief::ForgetDirectorySync,
        Mischief::AcknowledgeFailure,
        Mischief::LoseTailOfLog,
        Mischief::SplitGroups,
        Mischief::ApplyRefused,
        Mischief::ForgetExpectations,
        Mischief::OverwriteConflicts,
        Mischief::StaleReads,
        Mischief::TornReads,
        Mischief::ReadRefused,
        Mischief::ForgetRemovals,
        Mischief::CreateOverwrites,
        Mischief::RepeatWrites,
    ];

    /// What the disk has to do with it.
    pub(crate) fn lie(self) -> Option<Lie> {
        match self {
            Mischief::ForgetFileSync => Some(Lie::FileSync),
            Mischief::ForgetDirectorySync => Some(Lie::DirectorySync),
            _ => None,
        }
    }
}
