//! Exit codes of the program.

/// The exit status, as the shell that started the program sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    Success,
    /// A statement failed.
    StatementFailed,
    /// The command line or the configuration is wrong.
    Usage,
    /// The database could not be opened: in use, damaged, or of another version.
    NotOpened,
    /// `thalweg check` found damage.
    Damaged,
    /// Ctrl-C.
    Interrupted,
    /// The reader of the output is gone, as in `thalweg … | head`.
    OutputClosed,
}

impl Exit {
    /// Like shells, uses 128 plus the signal's number for signals.
    pub fn code(self) -> u8 {
        match self {
            Exit::Success => 0,
            Exit::StatementFailed => 1,
            Exit::Usage => 2,
            Exit::NotOpened => 3,
            Exit::Damaged => 4,
            Exit::Interrupted => 130,
            Exit::OutputClosed => 141,
        }
    }
}
