//! The SQL shell: runs statements and its own commands, and shows their results.

use std::borrow::Cow;
use std::io::{self, BufRead, Write as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use arrow::datatypes::Schema;
use thalweg::{BatchStream, Copy, Database, Error, Outcome, Session, SqlState, Tag};
use thalweg_env::{Clock as _, RealClock};
use thalweg_formats::text::style::Styled;

use crate::config::Format;
use crate::print::error::{ErrorStyle, render};
use crate::print::results::{self, PrintError};
use crate::print::table::Style;
use crate::progress::ProgressBars;
use crate::shell::pager::{Pager, PagerUse};
use crate::shell::variables::Variables;

mod command;
mod complete;
mod copy;
mod describe;
mod editor;
mod help;
mod highlight;
mod interactive;
mod interrupt;
mod lexer;
mod names;
mod output;
mod pager;
mod script;
mod splitter;
mod timeout;
mod variables;
mod view;
mod watch;

pub use command::{binary_to_terminal, open_script};
pub use interactive::run as run_interactive;
pub use interrupt::Interrupt;
pub use output::Output;
pub use script::Origin;
pub use splitter::Statement;
pub use view::View;

/// The reason why the shell does not run the next statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// A statement failed, and its error was shown.
    Failed,
    /// Ctrl-C ended a statement, and this was reported.
    Interrupted,
    /// The reader of the output is gone.
    OutputClosed,
    /// `\q`
    Quit,
}

/// Settings of the shell that do not change while it runs.
#[derive(Clone, Debug, Default)]
pub struct Behavior {
    pub is_interactive: bool,
    /// Shows each statement before it runs.
    pub echo: bool,
    /// Shows results and errors only.
    pub quiet: bool,
    /// Continues after a statement that failed.
    pub continue_on_error: bool,
    /// Shows the SQLSTATE of errors.
    pub verbose: bool,
}

/// A shell on one session of a database.
pub struct Shell {
    database: Database,
    session: Session,
    behavior: Behavior,
    view: View,
    output: Output,
    interrupt: Interrupt,
    progress: Option<Arc<ProgressBars>>,
    clock: RealClock,
    /// Directory of the data; `None` for a database in memory.
    location: Option<PathBuf>,
    /// The statement that `\e` edits, and `\watch` runs, when nothing is being typed.
    last_statement: String,
    /// Number of nested scripts around the current one.
    include_depth: u32,
    variables: Variables,
    /// Lines of the script that were rows of a copy and not statements, and that its line counter
    /// has not skipped yet.
    copied_lines: usize,
    has_failed: bool,
    /// True if a statement may have changed the names that completion knows.
    names_are_stale: bool,
}

impl Shell {
    /// A shell with a new session. Listens for Ctrl-C on the current runtime.
    pub fn new(
        database: Database,
        location: Option<PathBuf>,
        behavior: Behavior,
        view: View,
        output: Output,
        progress: Option<Arc<ProgressBars>>,
    ) -> Shell {
        Shell {
            session: database.session(),
            interrupt: Interrupt::listen(behavior.is_interactive),
            database,
            behavior,
            view,
            output,
            progress,
            clock: RealClock::new(),
            location,
            last_statement: String::new(),
            include_depth: 0,
            variables: Variables::default(),
            copied_lines: 0,
            has_failed: false,
            names_are_stale: true,
        }
    }

    /// True if any statement has failed so far.
    pub fn has_failed(&self) -> bool {
        self.has_failed
    }

    /// Runs a statement and shows its result or its error. `origin` is its place in a script;
    /// `data` supplies the rows that it copies from its client.
    pub async fn run(
        &mut self,
        statement: &Statement,
        origin: &Origin,
        data: &mut dyn BufRead,
    ) -> Result<(), Stop> {
        self.last_statement = format!("{};", statement.text);
        let expanded;
        let statement = match self.variables.expand(&statement.text) {
            Cow::Borrowed(_) => statement,
            Cow::Owned(text) => {
                expanded = Statement { text, ..*statement };
                &expanded
            }
        };
        if self.behavior.echo {
            self.tell(&format!("{};\n", statement.text))?;
        }
        let started = self.clock.monotonic();
        let result = self.execute(statement, data).await;
        let taken = self.clock.monotonic() - started;
        let outcome = result.map_err(|error| match error {
            PrintError::Statement(error) => {
                self.tell_error(&error, Some(&statement.text), &origin.at(statement.line))
            }
            PrintError::Output(error) => self.output_failed(&error),
        });
        if self.view.timing && outcome != Err(Stop::OutputClosed) {
            self.tell(&format!("Time: {}\n", show_duration(taken)))?;
        }
        outcome
    }

    async fn execute(
        &mut self,
        statement: &Statement,
        data: &mut dyn BufRead,
    ) -> Result<(), PrintError> {
        let handle = self.session.cancel_handle();
        let timeout = timeout::start(self.view.statement_timeout, handle.clone());
        let interrupt = self.interrupt.clone();
        let running = interrupt.running(move || handle.cancel());
        if let Some(progress) = &self.progress {
            progress.allow(true);
        }
        let outcome = self.session.execute(&statement.text).await;
        if let Some(progress) = &self.progress {
            progress.allow(false);
        }
        let printed = match outcome {
            Ok(Outcome { copy: Some(Copy::Out(options)), schema, rows: Some(rows), .. }) => {
                copy::write_rows(&schema, rows, options, &self.output).await.map(|()| false)
            }
            Ok(Outcome { copy: Some(Copy::In(copy)), .. }) => {
                let (taken, lines) = copy::take_rows(*copy, data);
                self.copied_lines += lines;
                match self.session.finish_copy(taken).await {
                    Ok(outcome) => self.printing().print(outcome, statement).await,
                    Err(error) => Err(error.into()),
                }
            }
            Ok(outcome) => self.printing().print(outcome, statement).await,
            Err(error) => Err(error.into()),
        };
        drop(running);
        match printed {
            Ok(changes_names) => {
                self.names_are_stale |= changes_names;
                self.output.flush().map_err(PrintError::Output)
            }
            Err(PrintError::Statement(error)) => {
                // Rows that came before the error are shown before it.
                self.output.flush().map_err(PrintError::Output)?;
                Err(PrintError::Statement(timeout.explain(error)))
            }
            Err(error) => Err(error),
        }
    }

    fn printing(&mut self) -> Printing<'_> {
        Printing {
            view: &self.view,
            behavior: &self.behavior,
            interrupt: &self.interrupt,
            output: &mut self.output,
        }
    }

    /// Shows the program's name and the most useful commands.
    pub fn greet(&mut self) -> Result<(), Stop> {
        if self.behavior.quiet {
            return Ok(());
        }
        let place = match &self.location {
            Some(directory) => format!("data in {}", directory.display()),
            None => "data in memory only".to_owned(),
        };
        let version = env!("CARGO_PKG_VERSION");
        self.tell(&format!("thalweg {version}, {place}. \\? shows help, \\q leaves.\n"))
    }

    /// Shows the result of a query that implements a command of the shell.
    async fn show_query(&mut self, sql: &str, title: &str) -> Result<(), Stop> {
        let statement = Statement { text: sql.to_owned(), line: 1, expanded: false };
        if !title.is_empty() {
            self.tell(&format!("{title}\n"))?;
        }
        self.execute(&statement, &mut io::empty()).await.map_err(|error| match error {
            PrintError::Statement(error) => self.tell_error(&error, None, ""),
            PrintError::Output(error) => self.output_failed(&error),
        })
    }

    /// Shows an error and returns how it stops the current script.
    fn tell_error(&mut self, error: &Error, statement: Option<&str>, origin: &str) -> Stop {
        self.has_failed = true;
        let style = ErrorStyle { color: self.view.color_errors, verbose: self.behavior.verbose };
        let origin = (!origin.is_empty()).then_some(origin);
        let was_pressed = error.state() == SqlState::QUERY_CANCELED && self.interrupt.was_pressed();
        if self.interrupt.was_pressed() && self.behavior.is_interactive {
            // The terminal has shown ^C.
            eprintln!();
        }
        eprint!("{}", render(error, statement, origin, style));
        if was_pressed { Stop::Interrupted } else { Stop::Failed }
    }

    fn output_failed(&mut self, error: &io::Error) -> Stop {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Stop::OutputClosed;
        }
        let error = Error::new(SqlState::IO_ERROR, format!("could not write the result: {error}"));
        self.tell_error(&error, None, "")
    }

    /// Shows a message where it cannot be mistaken for a result: beside tables, but not within
    /// data.
    fn tell(&mut self, message: &str) -> Result<(), Stop> {
        if self.view.format != Format::Table {
            eprint!("{message}");
            return Ok(());
        }
        let written = self.output.write_all(message.as_bytes());
        written.and_then(|()| self.output.flush()).map_err(|error| self.output_failed(&error))
    }
}

/// The parts of a shell that printing needs, beside its session.
struct Printing<'s> {
    view: &'s View,
    behavior: &'s Behavior,
    interrupt: &'s Interrupt,
    output: &'s mut Output,
}

impl Printing<'_> {
    /// Prints rows and tags. Returns whether names may have changed.
    async fn print(self, outcome: Outcome, statement: &Statement) -> Result<bool, PrintError> {
        let Printing { view, behavior, interrupt, output } = self;
        if !behavior.quiet {
            for notice in &outcome.notices {
                eprintln!("{}:  {}", notice.severity(), notice.message);
            }
        }
        let has_rows = outcome.rows.is_some();
        if let Some(rows) = outcome.rows {
            if view.format == Format::Table {
                let style = view.table_style(statement.expanded, output.is_terminal());
                let pager = if behavior.is_interactive { view.pager } else { PagerUse::Off };
                let printed = async {
                    match Pager::new(output, interrupt, pager) {
                        Ok(pager) => paged(&outcome.schema, rows, style, pager).await,
                        Err(output) => results::print_table(&outcome.schema, rows, style, output)
                            .await
                            .map(drop),
                    }
                };
                Styled::new(outcome.style.clone(), Box::pin(printed)).await?;
            } else {
                let written = results::write_rows(&outcome.schema, rows, view.format, output);
                Styled::new(outcome.style.clone(), Box::pin(written)).await?;
            }
        }
        let tag_says_more = !has_rows || !matches!(outcome.tag, Tag::Select);
        if tag_says_more && view.format == Format::Table && !behavior.quiet {
            writeln!(output, "{}", outcome.tag)?;
        }
        Ok(matches!(outcome.tag, Tag::Other(_)))
    }
}

/// Prints a table through a pager. The statement ends when the user leaves the pager.
async fn paged(
    schema: &Schema,
    rows: BatchStream,
    style: Style,
    mut pager: Pager<'_>,
) -> Result<(), PrintError> {
    let printed = results::print_table(schema, rows, style, &mut pager).await;
    pager.finish()?;
    match printed {
        Err(PrintError::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        printed => printed.map(drop),
    }
}

/// `1.234 ms`, followed by minutes if the duration is long.
fn show_duration(duration: Duration) -> String {
    let millis = duration.as_secs_f64() * 1_000.0;
    let seconds = duration.as_secs();
    let mut shown = format!("{millis:.3} ms");
    if seconds >= 3600 {
        let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
        shown.push_str(&format!(" ({hours:02}:{minutes:02}:{:02})", seconds % 60));
    } else if seconds >= 1 {
        let fraction = duration.subsec_millis();
        shown.push_str(&format!(" ({:02}:{:02}.{fraction:03})", seconds / 60, seconds % 60));
    }
    shown
}
