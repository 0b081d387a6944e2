//! The line editor: history, completion and colours for the interactive shell.

use std::borrow::Cow;
use std::cell::RefCell;
use std::fs::{DirBuilder, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::PathBuf;
use std::process::Command;
use std::rc::Rc;

use rustyline::completion::{Completer, Pair};
use rustyline::error::ReadlineError;
use rustyline::highlight::{CmdKind, Highlighter};
use rustyline::history::DefaultHistory;
use rustyline::{ColorMode, CompletionType, Config, Context, Editor, Helper, Hinter, Validator};
use thalweg::{Error, Result, SqlState};

use crate::shell::complete;
use crate::shell::highlight;
use crate::shell::names::Names;

/// Context of completion; the shell renews it before each line.
#[derive(Default)]
pub struct EditorContext {
    pub names: Names,
    /// The earlier lines of the statement that is being edited.
    pub pending: String,
}

/// The line editor, its history file, and the state of the shell that completion uses.
pub struct LineEditor {
    editor: Editor<Assistant, DefaultHistory>,
    history: Option<PathBuf>,
    pub editor_context: Rc<RefCell<EditorContext>>,
}

impl LineEditor {
    /// An editor that remembers `history_size` lines, except those that start with a space.
    pub fn new(history_size: usize, color: bool) -> Result<LineEditor> {
        let config = Config::builder()
            .max_history_size(history_size)
            .map_err(|error| failed(&error))?
            .history_ignore_space(true)
            .completion_type(CompletionType::List)
            .completion_show_all_if_ambiguous(true)
            .color_mode(if color { ColorMode::Enabled } else { ColorMode::Disabled })
            .build();
        let mut editor = Editor::with_config(config).map_err(|error| failed(&error))?;
        let editor_context = Rc::new(RefCell::new(EditorContext::default()));
        editor.set_helper(Some(Assistant { editor_context: Rc::clone(&editor_context), color }));
        let history = history_file();
        if let Some(file) = &history {
            // The first start has no history, and an unreadable history must not prevent a start.
            let _ = editor.load_history(file);
        }
        Ok(LineEditor { editor, history, editor_context })
    }

    /// Reads a line; `None` at the end of the input, an empty error on Ctrl-C.
    pub fn read_line(&mut self, prompt: &str) -> Line {
        match self.editor.readline(prompt) {
            Ok(line) => Line::Text(line),
            Err(ReadlineError::Interrupted) => Line::Interrupted,
            Err(ReadlineError::Eof) => Line::End,
            // The terminal was resized in the middle of a read.
            Err(ReadlineError::Signal(_)) => Line::Text(String::new()),
            Err(error) => Line::Failed(failed(&error)),
        }
    }

    /// Adds a statement to the history and its file.
    pub fn remember(&mut self, statement: &str) {
        let added = self.editor.add_history_entry(statement).unwrap_or(false);
        // A statement with a password is not written to the file.
        let is_kept = added && !thalweg_query::may_hold_password(statement);
        let Some(file) = self.history.as_ref().filter(|_| is_kept) else { return };
        if let Some(directory) = file.parent() {
            let _ = DirBuilder::new().recursive(true).mode(0o700).create(directory);
        }
        // Several shells may share the file: each one appends its new entries.
        let _ = self.editor.append_history(file);
    }
}

/// The result of reading a line.
pub enum Line {
    Text(String),
    Interrupted,
    End,
    Failed(Error),
}

/// `$XDG_STATE_HOME/thalweg/history`, following the XDG Base Directory specification.
fn history_file() -> Option<PathBuf> {
    let is_absolute = |path: &PathBuf| path.is_absolute();
    let state = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from).filter(is_absolute);
    let state = state.or_else(|| {
        let home = std::env::var_os("HOME").map(PathBuf::from).filter(is_absolute)?;
        Some(home.join(".local/state"))
    })?;
    Some(state.join("thalweg/history"))
}

#[derive(Helper, Hinter, Validator)]
struct Assistant {
    editor_context: Rc<RefCell<EditorContext>>,
    color: bool,
}

impl Completer for Assistant {
    type Candidate = Pair;

    fn complete(
        &self,
        line: &str,
        position: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<Pair>)> {
        let editor_context = self.editor_context.borrow();
        let pending = &editor_context.pending;
        let text = format!("{pending}{}", &line[..position]);
        let (start, found) = complete::candidates(&text, &line[position..], &editor_context.names);
        let pair = |text: String| Pair {
            display: text.clone(),
            // A finished word is followed by a space; a call or a schema is not finished.
            replacement: if text.ends_with(['(', '.']) || !line[position..].is_empty() {
                text
            } else {
                text + " "
            },
        };
        Ok((start.saturating_sub(pending.len()), found.into_iter().map(pair).collect()))
    }
}

impl Highlighter for Assistant {
    fn highlight<'l>(&self, line: &'l str, _: usize) -> Cow<'l, str> {
        if self.color { highlight::highlight(line) } else { Cow::Borrowed(line) }
    }

    fn highlight_char(&self, _: &str, _: usize, kind: CmdKind) -> bool {
        self.color && kind != CmdKind::MoveCursor
    }
}

/// Lets the user edit a text in `$VISUAL`, `$EDITOR` or vi.
pub fn edit(text: &str) -> Result<String> {
    let failed = |error: std::io::Error| {
        Error::new(SqlState::IO_ERROR, format!("could not edit the statement: {error}"))
    };
    let name = format!("thalweg-{}.sql", std::process::id());
    let path = std::env::temp_dir().join(name);
    let program = std::env::var("VISUAL").or_else(|_| std::env::var("EDITOR"));
    let program = program.unwrap_or_else(|_| "vi".to_owned());
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create_new(true).mode(0o600).open(&path).map_err(failed)?;
    file.write_all(text.as_bytes()).and_then(|()| file.write_all(b"\n")).map_err(failed)?;
    drop(file);
    // Through the shell, since the variable may hold arguments too.
    let mut command = Command::new("sh");
    command.arg("-c").arg(format!("{program} \"$1\"")).arg("sh").arg(&path);
    let status = command.status().map_err(failed);
    let edited = std::fs::read_to_string(&path).map_err(failed);
    #[expect(clippy::disallowed_methods, reason = "the user's file, not the database's")]
    let removed = std::fs::remove_file(&path).map_err(failed);
    removed?;
    if !status?.success() {
        return Err(Error::new(SqlState::IO_ERROR, format!("{program} failed")));
    }
    edited
}

fn failed(error: &ReadlineError) -> Error {
    Error::new(SqlState::IO_ERROR, format!("the terminal cannot be read: {error}"))
}
