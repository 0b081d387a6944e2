//! The command that starts this program again, for subcommands that run processes of their own.

use std::ffi::OsString;
use std::io;
use std::process::Command;
use std::sync::OnceLock;

static LAUNCHER: OnceLock<Vec<OsString>> = OnceLock::new();

/// Sets the words that start this program, if another program loaded it as a library. Only the
/// first call has an effect.
pub fn set_launcher(words: Vec<OsString>) {
    assert!(!words.is_empty(), "a command has a program");
    let _ = LAUNCHER.set(words);
}

/// A command that starts this program without arguments.
///
/// # Errors
/// If the system does not know the path of the running program.
pub(crate) fn itself() -> io::Result<Command> {
    let Some((program, arguments)) = LAUNCHER.get().and_then(|words| words.split_first()) else {
        return std::env::current_exe().map(Command::new);
    };
    let mut command = Command::new(program);
    command.args(arguments);
    Ok(command)
}
