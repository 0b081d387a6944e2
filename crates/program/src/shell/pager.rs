//! Shows a result that is longer than the terminal in a pager, as psql does.

use std::io::{self, BufWriter, Write};
use std::process::{Child, ChildStdin, Command, Stdio};

use clap::ValueEnum;

use crate::shell::{Interrupt, Output};
use crate::terminal;

/// The use of a pager.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum PagerUse {
    Off,
    /// For results that are longer than the terminal.
    #[default]
    On,
    Always,
}

/// Lines and columns of a terminal.
#[derive(Clone, Copy, Debug)]
struct Size {
    lines: usize,
    columns: usize,
}

/// Holds a result back until it is longer than the terminal, and then sends it to the pager.
pub struct Pager<'o> {
    output: &'o mut Output,
    interrupt: Interrupt,
    command: String,
    size: Size,
    /// The result so far, until the pager starts.
    begun: Vec<u8>,
    lines: usize,
    /// Characters of the current line.
    width: usize,
    process: Option<(Child, BufWriter<ChildStdin>)>,
    /// True if there is no pager after all.
    is_direct: bool,
}

impl<'o> Pager<'o> {
    /// A pager for results on the terminal; `None` if the user wants none.
    pub fn new(
        output: &'o mut Output,
        interrupt: &Interrupt,
        wanted: PagerUse,
    ) -> Result<Pager<'o>, &'o mut Output> {
        let variable = |name: &str| std::env::var(name).ok();
        let command = variable("PSQL_PAGER").or_else(|| variable("PAGER"));
        let command = command.unwrap_or_else(|| "less".to_owned());
        let size = match (wanted, terminal::size()) {
            (PagerUse::Off, _) | (_, None) => return Err(output),
            (PagerUse::On, Some((columns, lines))) => Size { lines, columns },
            (PagerUse::Always, Some((columns, _))) => Size { lines: 0, columns },
        };
        if command.trim().is_empty() || !output.is_terminal() {
            return Err(output);
        }
        Ok(Pager::with_command(output, interrupt, command, size))
    }

    fn with_command(
        output: &'o mut Output,
        interrupt: &Interrupt,
        command: String,
        size: Size,
    ) -> Pager<'o> {
        Pager {
            output,
            interrupt: interrupt.clone(),
            command,
            size,
            begun: Vec::new(),
            lines: 0,
            width: 0,
            process: None,
            is_direct: false,
        }
    }

    /// Shows the rest, and waits until the user leaves the pager.
    pub fn finish(mut self) -> io::Result<()> {
        let Some((mut child, mut input)) = self.process.take() else {
            self.output.write_all(&self.begun)?;
            return self.output.flush();
        };
        // The user may leave before the end.
        let _ = input.flush();
        drop(input);
        let waited = child.wait();
        self.interrupt.set_paging(false);
        waited.map(drop)
    }

    /// Counts the lines that the bytes take on the terminal.
    fn count(&mut self, bytes: &[u8]) {
        for byte in bytes {
            match byte {
                b'\n' => {
                    self.lines += 1 + self.width.saturating_sub(1) / self.size.columns.max(1);
                    self.width = 0;
                }
                // The bytes of a character behind its first.
                0x80..=0xbf => {}
                _ => self.width += 1,
            }
        }
    }

    fn start(&mut self) -> io::Result<()> {
        self.output.flush()?;
        let mut command = Command::new("sh");
        command.arg("-c").arg(&self.command).stdin(Stdio::piped());
        if std::env::var_os("LESS").is_none() {
            // Colours are shown, long lines are cut, and a short result does not stay open.
            command.env("LESS", "FRSX");
        }
        match command.spawn() {
            Ok(mut child) => {
                let input = child.stdin.take().expect("standard input is a pipe");
                self.interrupt.set_paging(true);
                let mut input = BufWriter::new(input);
                let written = input.write_all(&std::mem::take(&mut self.begun));
                self.process = Some((child, input));
                written
            }
            Err(_) => {
                self.is_direct = true;
                self.output.write_all(&std::mem::take(&mut self.begun))
            }
        }
    }
}

impl Write for Pager<'_> {
    /// Fails with `BrokenPipe` once the user has left the pager.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let Some((_, input)) = &mut self.process {
            return input.write(bytes);
        }
        if self.is_direct {
            return self.output.write(bytes);
        }
        self.begun.extend_from_slice(bytes);
        self.count(bytes);
        if self.lines >= self.size.lines {
            self.start()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.process {
            Some((_, input)) => input.flush(),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The texts that the output and the pager get of a result.
    fn shown(result: &[&str], command: &str) -> (String, String) {
        let directory = tempfile::tempdir().unwrap();
        let (direct, paged) = (directory.path().join("direct"), directory.path().join("paged"));
        let mut output = Output::file(&direct).unwrap();
        let command = command.replace("PAGED", &paged.display().to_string());
        let size = Size { lines: 3, columns: 10 };
        let mut pager = Pager::with_command(&mut output, &Interrupt::default(), command, size);
        for piece in result {
            if pager.write_all(piece.as_bytes()).is_err() {
                break;
            }
        }
        pager.finish().unwrap();
        let read = |path| std::fs::read_to_string(path).unwrap_or_default();
        (read(direct), read(paged))
    }

    #[test]
    fn long_results_are_paged() {
        for (result, is_paged) in [
            (&["a\n", "b\n"][..], false),
            (&["a\n", "b\nc\n", "d\n"], true),
            (&["0123456789\n", "0123456789\n"], false),
            (&["0123456789éé\n", "a\n"], true),
        ] {
            let whole = result.concat();
            let expected = if is_paged { (String::new(), whole) } else { (whole, String::new()) };
            assert_eq!(shown(result, "cat > PAGED"), expected, "{result:?}");
        }
    }

    #[test]
    fn a_pager_that_ends_early_ends_the_result() {
        let line = "x\n".repeat(100_000);
        let (direct, paged) = shown(&[&line, &line, &line], "head -c 2 > PAGED");
        assert_eq!((direct.as_str(), paged.as_str()), ("", "x\n"));
    }
}
