//! Messages to the user outside of the SQL shell.

use std::io::{self, IsTerminal as _, Write as _};

use thalweg_types::Error;

use crate::config::Color;
use crate::exit::Exit;
use crate::print::error::{ErrorStyle, render};
use crate::terminal;

/// Reports the errors of the command line or the configuration.
pub fn usage(errors: &[Error]) -> Exit {
    errors.iter().for_each(tell);
    Exit::Usage
}

/// Reports why the database could not be opened.
pub fn not_opened(error: &Error) -> Exit {
    tell(error);
    Exit::NotOpened
}

/// Prints an error to standard error.
pub fn tell(error: &Error) {
    let color = terminal::wants_color(Color::Auto, io::stderr().is_terminal());
    eprint!("{}", render(error, None, None, ErrorStyle { color, verbose: false }));
}

/// Prints a text to standard output. A reader that left early is not an error.
pub fn to_stdout(text: &str) -> Exit {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Ok(()) => Exit::Success,
        Err(_) => Exit::OutputClosed,
    }
}
