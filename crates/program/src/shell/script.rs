//! Runs statements and commands from a file, a pipe or the command line.

use std::fmt;
use std::io::{self, BufRead};

use thalweg::{Error, Result, SqlState};

use crate::shell::splitter::{Piece, Splitter};
use crate::shell::{Shell, Statement, Stop};

/// Origin of statements, as messages show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The keyboard or the command line, which messages do not mention.
    Here,
    /// A script's name.
    Script(String),
}

impl Origin {
    /// `load.sql:12`, or nothing.
    pub fn at(&self, line: usize) -> String {
        match self {
            Origin::Here => String::new(),
            Origin::Script(name) => format!("{name}:{line}"),
        }
    }
}

impl Shell {
    /// Runs a script while reading it, so that its size does not matter. A statement that fails
    /// ends it, unless the shell continues after errors.
    pub async fn run_script(
        &mut self,
        reader: &mut dyn BufRead,
        origin: &Origin,
    ) -> Result<(), Stop> {
        let mut splitter = Splitter::default();
        let mut line = Vec::new();
        for number in 1.. {
            line.clear();
            let text = match read_line(reader, &mut line, number == 1) {
                Ok(text) => text,
                Err(error) => {
                    let stop = self.tell_error(&error, None, &origin.at(number));
                    self.after(Err(stop))?;
                    continue;
                }
            };
            if text.is_empty() {
                break;
            }
            splitter.push(text);
            while let Some(piece) = splitter.next_piece() {
                let result = match origin {
                    Origin::Here => self.run_typed(piece, &mut splitter).await,
                    Origin::Script(_) => self.run_piece(piece, origin, &mut splitter, reader).await,
                };
                splitter.skip_lines(std::mem::take(&mut self.copied_lines));
                self.after(result)?;
            }
        }
        match splitter.finish() {
            Some(statement) => {
                let piece = Piece::Statement(statement);
                let result = match origin {
                    Origin::Here => self.run_typed(piece, &mut splitter).await,
                    Origin::Script(_) => self.run_piece(piece, origin, &mut splitter, reader).await,
                };
                self.after(result)
            }
            None => Ok(()),
        }
    }

    /// Runs text that was typed, or given on the command line.
    pub(super) async fn run_typed(
        &mut self,
        piece: Piece,
        splitter: &mut Splitter,
    ) -> Result<(), Stop> {
        self.run_piece(piece, &Origin::Here, splitter, &mut io::stdin().lock()).await
    }

    async fn run_piece(
        &mut self,
        piece: Piece,
        origin: &Origin,
        splitter: &mut Splitter,
        data: &mut dyn BufRead,
    ) -> Result<(), Stop> {
        match piece {
            Piece::Statement(statement) => self.run(&statement, origin, data).await,
            Piece::Command(line) => self.run_command(&line, splitter).await,
        }
    }

    /// Runs one statement of the shell's own.
    pub(super) async fn run_own(&mut self, sql: &str) -> Result<(), Stop> {
        let statement = Statement { text: sql.to_owned(), line: 1, expanded: false };
        self.run(&statement, &Origin::Here, &mut io::stdin().lock()).await
    }

    /// Runs one statement that the user did not write; shows only its errors.
    pub async fn run_quietly(&mut self, sql: &str) -> Result<(), Stop> {
        let result = self.session.execute(sql).await;
        result.map(drop).map_err(|error| self.tell_error(&error, None, ""))
    }

    /// Decides if a script continues after this result.
    fn after(&self, result: Result<(), Stop>) -> Result<(), Stop> {
        match result {
            // Ctrl-C that came too late for one statement still ends the script.
            Ok(()) | Err(Stop::Failed) if self.interrupt.was_pressed() => Err(Stop::Interrupted),
            Err(Stop::Failed) if self.behavior.continue_on_error => Ok(()),
            other => other,
        }
    }
}

/// The next line with its end; empty after the last one.
fn read_line<'a>(
    reader: &mut dyn BufRead,
    line: &'a mut Vec<u8>,
    is_first: bool,
) -> Result<&'a str> {
    reader.read_until(b'\n', line).map_err(|error| {
        Error::new(SqlState::IO_ERROR, format!("could not read the script: {error}"))
    })?;
    let text = std::str::from_utf8(line).map_err(|error| {
        let from = error.valid_up_to();
        let length = error.error_len().unwrap_or(line.len() - from);
        invalid_bytes(&line[from..from + length])
    })?;
    if text.contains('\0') {
        return Err(invalid_bytes(&[0]));
    }
    Ok(if is_first { text.strip_prefix('\u{feff}').unwrap_or(text) } else { text })
}

fn invalid_bytes(bytes: &[u8]) -> Error {
    struct Hex<'a>(&'a [u8]);
    impl fmt::Display for Hex<'_> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            for (index, byte) in self.0.iter().enumerate() {
                write!(f, "{}0x{byte:02x}", if index > 0 { " " } else { "" })?;
            }
            Ok(())
        }
    }
    let message = format!("invalid byte sequence for encoding \"UTF8\": {}", Hex(bytes));
    Error::new(SqlState::INVALID_BYTE_SEQUENCE, message)
        .with_hint("Scripts are UTF-8 text without NUL bytes.")
}
