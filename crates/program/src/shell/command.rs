//! The shell's own commands, in psql's spelling.

use std::io::{BufReader, Write as _};
use std::path::Path;
use std::process::Command;

use clap::ValueEnum;
use thalweg::{Error, Result, SqlState};

use crate::config::{Border, Expansion, Format, Span};
use crate::shell::describe::{self, Relations};
use crate::shell::lexer::{Lexer, Token, TokenKind};
use crate::shell::pager::PagerUse;
use crate::shell::splitter::Splitter;
use crate::shell::variables::Variables;
use crate::shell::{Origin, Output, Shell, Stop, editor, help};

/// Limits nested scripts, so that a script that includes itself ends.
const INCLUDE_DEPTH_MAX: u32 = 32;

impl Shell {
    /// Runs a line that begins with a backslash. `splitter` holds the statement being typed.
    pub(super) async fn run_command(
        &mut self,
        line: &str,
        splitter: &mut Splitter,
    ) -> Result<(), Stop> {
        if let Some(command) = line.strip_prefix("\\!") {
            return self.run_system(command.trim());
        }
        let line = line.trim_end_matches(|c: char| c == ';' || c.is_whitespace());
        let end = line.find(char::is_whitespace).unwrap_or(line.len());
        let (name, rest) = (&line[1..end], line[end..].trim());
        let words = words(rest, &self.variables);
        let argument = words.first().map(String::as_str);
        match name {
            "q" | "quit" => Err(Stop::Quit),
            "?" => self.tell(help::COMMANDS),
            "h" | "help" => self.tell(&help::statement(rest)),
            "d" if argument.is_some() => self.describe(rest).await,
            "d" => self.list(Relations::All, None).await,
            "dt" => self.list(Relations::Tables, argument).await,
            "dv" => self.list(Relations::Views, argument).await,
            "dn" => self.show_query(&describe::namespaces(argument), "List of schemas").await,
            "df" => self.show_query(&describe::functions(argument), "List of functions").await,
            "di" => self.show_query(&describe::indexes(argument), "List of indexes").await,
            "du" => self.show_query(&describe::roles(argument), "List of roles").await,
            "drds" => {
                let query = describe::setting_defaults(argument);
                self.show_query(&query, "List of settings").await
            }
            "watch" => self.watch(&words, splitter).await,
            "l" | "conninfo" => self.show_database().await,
            "copy" => self.run_own(&format!("COPY {rest}")).await,
            "i" | "include" => self.include(argument).await,
            "e" | "edit" => self.edit(splitter),
            "p" => self.tell(&format!("{}\n", splitter.pending().trim_end())),
            "r" | "g" | "gx" => Ok(()),
            "echo" => self.tell(&format!("{}\n", words.join(" "))),
            _ => match self.set(name, &words) {
                Ok(message) if self.behavior.quiet => drop_message(message),
                Ok(message) => self.tell(&message),
                Err(error) => Err(self.tell_error(&error, None, "")),
            },
        }
    }

    /// Changes how or where results are shown. Returns the message for the user.
    fn set(&mut self, name: &str, words: &[String]) -> Result<String> {
        let argument = words.first().map(String::as_str);
        match name {
            "timing" => {
                self.view.timing = switch("timing", argument, self.view.timing)?;
                Ok(format!("Timing is {}.\n", on_off(self.view.timing)))
            }
            "x" => {
                self.view.expanded = match (argument, self.view.expanded) {
                    (Some(word), _) => choice("expanded", word)?,
                    (None, Expansion::Off) => Expansion::On,
                    (None, _) => Expansion::Off,
                };
                Ok(format!("Expanded display is {}.\n", name_of(&self.view.expanded)))
            }
            "format" => self.set_view("format", argument),
            "o" | "out" => {
                self.output = match argument {
                    Some(path) => Output::file(Path::new(path))?,
                    None => Output::stdout(),
                };
                Ok(String::new())
            }
            "set" => self.set_variable(words),
            "unset" => match argument {
                Some(name) => {
                    self.variables.unset(name);
                    Ok(String::new())
                }
                None => Err(wrong("\\unset: missing the name of a variable".to_owned())),
            },
            "pset" => match argument {
                Some(option) => self.set_view(option, words.get(1).map(String::as_str)),
                None => Ok(self.show_view()),
            },
            other => Err(wrong(format!("invalid command \\{other}"))
                .with_hint("Try \\? for the list of commands.")),
        }
    }

    fn set_view(&mut self, option: &str, value: Option<&str>) -> Result<String> {
        let view = &mut self.view;
        match (option, value) {
            ("format", Some(word)) => {
                let format: Format = choice("format", word)?;
                if format.is_binary() && self.output.is_terminal() {
                    return Err(binary_to_terminal(format));
                }
                view.format = format;
            }
            ("border", Some(word)) => view.border = choice::<Border>("border", word)?,
            ("expanded", Some(word)) => view.expanded = choice("expanded", word)?,
            ("null", text) => view.null = text.unwrap_or("").to_owned(),
            ("pager", None) => {
                let is_off = view.pager == PagerUse::Off;
                view.pager = if is_off { PagerUse::On } else { PagerUse::Off };
            }
            ("pager", Some(word)) => view.pager = choice("pager", word)?,
            ("footer", word) => view.footer = switch("footer", word, view.footer)?,
            ("timing", word) => view.timing = switch("timing", word, view.timing)?,
            ("timeout", Some(text)) => {
                view.statement_timeout = text.parse::<Span>().map_err(wrong)?.0;
            }
            ("format" | "border" | "expanded" | "timeout", None) => {}
            _ => {
                return Err(wrong(format!("unknown option \"{option}\"")).with_hint(
                    "Options are border, expanded, footer, format, null, pager, timeout and \
                     timing.",
                ));
            }
        }
        let line =
            self.show_view().lines().find(|line| line.starts_with(option)).map(str::to_owned);
        Ok(line.map(|line| line + "\n").unwrap_or_default())
    }

    fn show_view(&self) -> String {
        let view = &self.view;
        format!(
            "border    {}\nexpanded  {}\nfooter    {}\nformat    {}\nnull      '{}'\n\
             pager     {}\ntimeout   {}\ntiming    {}\n",
            name_of(&view.border),
            name_of(&view.expanded),
            on_off(view.footer),
            name_of(&view.format),
            view.null,
            name_of(&view.pager),
            Span(view.statement_timeout),
            on_off(view.timing),
        )
    }

    /// Sets a variable, or lists all. Some variables of psql change the shell's behavior.
    fn set_variable(&mut self, words: &[String]) -> Result<String> {
        let [name, values @ ..] = words else { return Ok(self.variables.listed()) };
        let value = values.concat();
        let is_on =
            |value: &str| switch(name, Some(if value.is_empty() { "on" } else { value }), true);
        match name.as_str() {
            "ON_ERROR_STOP" => self.behavior.continue_on_error = !is_on(&value)?,
            "QUIET" => self.behavior.quiet = is_on(&value)?,
            "ECHO" => self.behavior.echo = matches!(value.as_str(), "all" | "queries"),
            "VERBOSITY" => self.behavior.verbose = value == "verbose",
            "AUTOCOMMIT" if !is_on(&value)? => {
                return Err(Error::unsupported("\\set AUTOCOMMIT off")
                    .with_hint("Begin transactions with BEGIN."));
            }
            _ => {}
        }
        self.variables.set(name, value).map(|()| String::new())
    }

    /// Runs a command of the operating system; the user's shell if it is empty.
    fn run_system(&mut self, command: &str) -> Result<(), Stop> {
        self.output.flush().map_err(|error| self.output_failed(&error))?;
        let shell = std::env::var("SHELL").unwrap_or_else(|_| "sh".to_owned());
        let mut process = Command::new(if command.is_empty() { &shell } else { "sh" });
        if !command.is_empty() {
            process.arg("-c").arg(command);
        }
        let running = self.interrupt.running(|| {});
        let ended = process.status();
        drop(running);
        match ended {
            // The shell has shown the reason.
            Ok(status) if status.code() == Some(127) => Err(Stop::Failed),
            Ok(_) => Ok(()),
            Err(error) => {
                let message = format!("\\!: failed: {error}");
                Err(self.tell_error(&Error::new(SqlState::IO_ERROR, message), None, ""))
            }
        }
    }

    async fn show_database(&mut self) -> Result<(), Stop> {
        let place = match &self.location {
            Some(directory) => format!("the directory {}", directory.display()),
            None => "memory only: it is gone when you leave".to_owned(),
        };
        self.tell(&format!("One database, \"thalweg\", in {place}.\n"))
    }

    async fn include(&mut self, path: Option<&str>) -> Result<(), Stop> {
        let opened = match path {
            None => Err(wrong("\\i: missing the name of a file".to_owned())),
            Some(_) if self.include_depth >= INCLUDE_DEPTH_MAX => {
                Err(wrong(format!("scripts include scripts {INCLUDE_DEPTH_MAX} deep")))
            }
            Some(path) => open_script(Path::new(path)).map(|file| (path, file)),
        };
        match opened {
            Err(error) => Err(self.tell_error(&error, None, "")),
            Ok((path, mut file)) => {
                self.include_depth += 1;
                let origin = Origin::Script(path.to_owned());
                // Boxed because a script may include further ones.
                let result = Box::pin(self.run_script(&mut file, &origin)).await;
                self.include_depth -= 1;
                result
            }
        }
    }

    /// Opens the statement that is being typed, or else the last one, in the user's editor.
    fn edit(&mut self, splitter: &mut Splitter) -> Result<(), Stop> {
        let text = match splitter.pending().trim() {
            "" => self.last_statement.clone(),
            pending => pending.to_owned(),
        };
        match editor::edit(&text) {
            Ok(edited) => {
                splitter.clear();
                splitter.push(&edited);
                Ok(())
            }
            Err(error) => Err(self.tell_error(&error, None, "")),
        }
    }
}

/// Opens a script.
pub fn open_script(path: &Path) -> Result<BufReader<std::fs::File>> {
    #[expect(clippy::disallowed_methods, reason = "the user's file, not the database's")]
    std::fs::File::open(path).map(BufReader::new).map_err(|error| {
        let message = format!("could not open \"{}\": {error}", path.display());
        Error::new(SqlState::UNDEFINED_FILE, message)
    })
}

/// The error for binary results on a terminal.
pub fn binary_to_terminal(format: Format) -> Error {
    wrong(format!("{} is not for a terminal", name_of(&format)))
        .with_hint("Send it to a file or a pipe: --output FILE or \\o FILE.")
}

/// The arguments of a command: words, or strings in quotes. `:name` is the value of a variable.
fn words(text: &str, variables: &Variables) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut joins_last = false;
    let tokens: Vec<Token> = Lexer::tokens(text).collect();
    let mut at = 0;
    while let Some(Token { kind, range }) = tokens.get(at) {
        let value = variables.value_at(text, &tokens, at);
        at += if value.is_some() { 2 } else { 1 };
        let token = &text[range.clone()];
        let plain = match kind {
            _ if value.is_some() => value.unwrap_or_default(),
            TokenKind::Space => {
                joins_last = false;
                continue;
            }
            TokenKind::String => unquote(token),
            _ => token.to_owned(),
        };
        match words.last_mut() {
            Some(last) if joins_last => last.push_str(&plain),
            _ => words.push(plain),
        }
        joins_last = true;
    }
    words
}

fn unquote(string: &str) -> String {
    let inner = string.strip_prefix('\'').map(|rest| rest.strip_suffix('\'').unwrap_or(rest));
    inner.map_or_else(|| string.to_owned(), |inner| inner.replace("''", "'"))
}

fn switch(name: &str, word: Option<&str>, now: bool) -> Result<bool> {
    match word.map(str::to_ascii_lowercase).as_deref() {
        None => Ok(!now),
        Some("on" | "true" | "1") => Ok(true),
        Some("off" | "false" | "0") => Ok(false),
        Some(other) => Err(wrong(format!("{name} is \"on\" or \"off\", not \"{other}\""))),
    }
}

fn choice<T: ValueEnum>(name: &str, word: &str) -> Result<T> {
    T::from_str(word, true).map_err(|_| {
        let known: Vec<String> = T::value_variants().iter().map(name_of).collect();
        wrong(format!("{name} is one of {}, not \"{word}\"", known.join(", ")))
    })
}

/// The name of a choice on the command line.
fn name_of<T: ValueEnum>(value: &T) -> String {
    let value = value.to_possible_value().expect("no choice is hidden");
    value.get_name().to_owned()
}

fn on_off(is_on: bool) -> &'static str {
    if is_on { "on" } else { "off" }
}

fn drop_message(_: String) -> Result<(), Stop> {
    Ok(())
}

fn wrong(message: String) -> Error {
    Error::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_words_or_strings() {
        let mut variables = Variables::default();
        variables.set("v", "x  y".to_owned()).unwrap();
        let words = |text| words(text, &variables);
        assert_eq!(words("a  'b c' d/e-f.csv"), ["a", "b c", "d/e-f.csv"]);
        assert_eq!(words("'it''s' '' x'y'"), ["it's", "", "xy"]);
        assert_eq!(words("a:v :'v' ':v' :w"), ["ax  y", "'x  y'", ":v", ":w"]);
        assert_eq!(words(""), [""; 0]);
    }

    #[test]
    fn choices_are_named_in_errors() {
        assert_eq!(choice::<Format>("format", "CSV").unwrap(), Format::Csv);
        assert_eq!(
            choice::<Expansion>("expanded", "maybe").unwrap_err().message(),
            "expanded is one of off, on, auto, not \"maybe\""
        );
        assert!(switch("timing", None, false).unwrap());
        assert!(switch("timing", Some("perhaps"), false).is_err());
    }
}
