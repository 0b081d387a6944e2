//! Output of the demonstration, in colour if the terminal shows it.

use std::io::{self, IsTerminal as _, Write as _};
use std::time::Duration;

use thalweg::{Error, Outcome, Result, SqlState};
use thalweg_env::{Clock, RealClock};

use crate::config::Color;
use crate::print::results::{PrintError, print_table};
use crate::print::table::{Expanded, Lines, Style};
use crate::terminal;

/// The terminal, or any other standard output, of the demonstration.
pub struct Screen {
    style: Style,
    clock: RealClock,
}

impl Screen {
    /// Detects whether standard output supports colours and Unicode, and how wide it is.
    pub fn new() -> Screen {
        let lines = if terminal::shows_unicode() { Lines::Unicode } else { Lines::Ascii };
        let style = Style {
            lines,
            null: String::new(),
            expanded: Expanded::Off,
            columns_max: terminal::columns(),
            color: terminal::wants_color(Color::Auto, io::stdout().is_terminal()),
            footer: false,
        };
        Screen { style, clock: RealClock::new() }
    }

    /// Prints the title, emphasised.
    pub fn title(&self, text: &str) {
        self.emphasised(text);
    }

    /// Prints an empty line and a heading, emphasised.
    pub fn heading(&self, text: &str) {
        println!();
        self.emphasised(text);
    }

    /// Prints an indented line.
    pub fn line(&self, text: &str) {
        println!("  {text}");
    }

    /// A question and how long its answer took, above the answer.
    pub fn question(&self, text: &str, took: Duration) {
        let took = milliseconds(took);
        println!();
        match self.style.color {
            true => println!("\x1b[36m{text}\x1b[0m \x1b[2m({took})\x1b[0m"),
            false => println!("{text} ({took})"),
        }
    }

    /// Runs a query to its last row and formats its result as a table.
    pub async fn answer(&self, outcome: Outcome) -> Result<Vec<u8>> {
        let mut table = Vec::new();
        let Some(rows) = outcome.rows else { return Ok(table) };
        let printed = print_table(&outcome.schema, rows, self.style.clone(), &mut table).await;
        printed.map_err(|error| match error {
            PrintError::Statement(error) => error,
            PrintError::Output(error) => output_failed(error),
        })?;
        Ok(table)
    }

    /// Prints a formatted table without its trailing white space.
    pub fn table(&self, table: &[u8]) -> Result<()> {
        let mut out = io::stdout().lock();
        let written = out.write_all(table.trim_ascii_end()).and_then(|()| out.write_all(b"\n"));
        written.map_err(output_failed)
    }

    /// Time since the demonstration began.
    pub fn now(&self) -> Duration {
        self.clock.monotonic()
    }

    fn emphasised(&self, text: &str) {
        match self.style.color {
            true => println!("\x1b[1m{text}\x1b[0m"),
            false => println!("{text}\n{}", "=".repeat(text.chars().count())),
        }
    }
}

/// A duration in whole milliseconds, or in seconds from one second on.
pub fn milliseconds(duration: Duration) -> String {
    match duration.as_secs_f64() {
        seconds if seconds < 1.0 => format!("{:.0} ms", seconds * 1000.0),
        seconds => format!("{seconds:.2} s"),
    }
}

/// Units a second, for people.
pub fn rate(count: u64, took: Duration) -> String {
    match count as f64 / took.as_secs_f64().max(1e-6) {
        rate if rate >= 1e6 => format!("{:.1} M/s", rate / 1e6),
        rate if rate >= 1e4 => format!("{:.0} K/s", rate / 1e3),
        rate => format!("{rate:.0}/s"),
    }
}

fn output_failed(error: io::Error) -> Error {
    Error::new(SqlState::IO_ERROR, format!("the output could not be written: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_rates_are_short() {
        assert_eq!(milliseconds(Duration::from_micros(12_400)), "12 ms");
        assert_eq!(milliseconds(Duration::from_millis(1_234)), "1.23 s");
        assert_eq!(rate(336_776, Duration::from_millis(250)), "1.3 M/s");
        assert_eq!(rate(500, Duration::from_secs(1)), "500/s");
    }
}
