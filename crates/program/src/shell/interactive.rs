//! The interactive loop: prompt, line, result.

use thalweg::{Result, TransactionStatus};
use tokio::runtime::Runtime;

use crate::shell::editor::{Line, LineEditor};
use crate::shell::names::Names;
use crate::shell::splitter::Splitter;
use crate::shell::{Shell, Stop};

/// Runs until the user leaves.
pub fn run(runtime: &Runtime, shell: &mut Shell, history_size: usize, color: bool) -> Result<()> {
    let mut editor = LineEditor::new(history_size, color)?;
    let mut splitter = Splitter::default();
    // The lines of the next entry of the history.
    let mut lines = String::new();
    loop {
        shell.interrupt.reset();
        prepare_completion(runtime, shell, &editor, &splitter);
        let prompt = prompt(splitter.waits_for(), shell.session.transaction());
        match editor.read_line(&prompt) {
            Line::Text(line) => {
                lines.push_str(&line);
                lines.push('\n');
                splitter.push(&format!("{line}\n"));
            }
            Line::Interrupted => {
                if lines.is_empty() {
                    println!("\\q or Ctrl-D leaves.");
                }
                splitter.clear();
                lines.clear();
                continue;
            }
            Line::End => return Ok(()),
            Line::Failed(error) => return Err(error),
        }
        // Added before it runs, so that a statement that never returns is still in the history.
        if splitter_will_be_empty(&lines) {
            editor.remember(lines.trim_end());
            lines.clear();
        }
        match runtime.block_on(run_pieces(shell, &mut splitter)) {
            Ok(()) | Err(Stop::Failed | Stop::Interrupted) => {}
            Err(Stop::Quit | Stop::OutputClosed) => return Ok(()),
        }
        if splitter.waits_for() == '=' {
            lines.clear();
        }
    }
}

/// Runs the complete statements. A line may hold several; the first that fails ends it.
async fn run_pieces(shell: &mut Shell, splitter: &mut Splitter) -> Result<(), Stop> {
    while let Some(piece) = splitter.next_piece() {
        if let Err(stop) = shell.run_typed(piece, splitter).await {
            while splitter.next_piece().is_some() {}
            return Err(stop);
        }
    }
    Ok(())
}

/// True if the lines end with a complete statement.
fn splitter_will_be_empty(lines: &str) -> bool {
    let mut splitter = Splitter::default();
    splitter.push(lines);
    while splitter.next_piece().is_some() {}
    splitter.waits_for() == '=' && !lines.trim().is_empty()
}

fn prepare_completion(
    runtime: &Runtime,
    shell: &mut Shell,
    editor: &LineEditor,
    splitter: &Splitter,
) {
    let mut editor_context = editor.editor_context.borrow_mut();
    if std::mem::take(&mut shell.names_are_stale) {
        editor_context.names = runtime.block_on(Names::read(&shell.database));
    }
    editor_context.pending = splitter.pending().to_owned();
}

/// A prompt like psql's: the missing end of the text, and the state of the transaction.
fn prompt(waits_for: char, transaction: TransactionStatus) -> String {
    let transaction = match transaction {
        TransactionStatus::Idle => "",
        TransactionStatus::Active => "*",
        TransactionStatus::Failed => "!",
    };
    format!("thalweg{waits_for}{transaction}> ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_prompt_shows_what_is_open() {
        assert_eq!(prompt('=', TransactionStatus::Idle), "thalweg=> ");
        assert_eq!(prompt('-', TransactionStatus::Active), "thalweg-*> ");
        assert_eq!(prompt('=', TransactionStatus::Failed), "thalweg=!> ");
    }

    #[test]
    fn history_takes_whole_statements() {
        assert!(splitter_will_be_empty("select 1;\n"));
        assert!(splitter_will_be_empty("\\dt\n"));
        assert!(!splitter_will_be_empty("select 1\n"));
        assert!(!splitter_will_be_empty("\n"));
    }
}
