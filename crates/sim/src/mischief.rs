//! Deliberate bugs.

use thalweg_env::Lie;

/// A promise that is broken on purpose, as if the database had this bug. Tests must detect each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mischief {
    /// Acknowledges writes before the log is synced.
    AcknowledgeBeforeSync,
    /// Syncing a file does nothing.
    ForgetFileSync,
    /// Syncing a directory does nothing.
    ForgetDirectorySync,
    /// Acknowledges a write whose log failed.
    AcknowledgeFailure,
    /// Recovery stops before the end of the log.
    LoseTailOfLog,
    /// Makes a group's rows durable and visible one by one.
    SplitGroups,
    /// Applies a group that was refused.
    ApplyRefused,
    /// Ignores the versions that a group expects.
    ForgetExpectations,
    /// Lets a transaction that lost a conflict overwrite the winner's writes.
    OverwriteConflicts,
    /// Now and then gives a reader an old snapshot.
    StaleReads,
    /// Shows a reader some keys in their current state and others in an older one.
    TornReads,
    /// Shows a reader the rows of a group that was refused.
    ReadRefused,
    /// Acknowledges a removal, but keeps the row.
    ForgetRemovals,
    /// Creates a row although it exists.
    CreateOverwrites,
    /// Writes a group a second time, later.
    RepeatWrites,
}

impl Mischief {
    /// All deliberate bugs, each of which a simulation must detect.
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

    /// The part that the disk plays in it.
    pub(crate) fn lie(self) -> Option<Lie> {
        match self {
            Mischief::ForgetFileSync => Some(Lie::FileSync),
            Mischief::ForgetDirectorySync => Some(Lie::DirectorySync),
            _ => None,
        }
    }
}
