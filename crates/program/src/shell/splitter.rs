//! Splits a script, or typed text, into statements and the shell's own commands.

use crate::shell::lexer::{Inside, Lexer, TokenKind};

/// A statement or a command.
#[derive(Debug, PartialEq, Eq)]
pub enum Piece {
    Statement(Statement),
    /// A command of the shell: the line from its backslash on.
    Command(String),
}

/// A statement of a script.
#[derive(Debug, PartialEq, Eq)]
pub struct Statement {
    /// From its first word to its last, without the closing semicolon.
    pub text: String,
    /// The script's line on which it starts, counted from 1.
    pub line: usize,
    /// Ended with `\gx`: one line for each value, this once.
    pub expanded: bool,
}

/// Splits text that arrives line by line.
pub struct Splitter {
    buffer: String,
    lexer: Lexer,
    /// Start of the text that belongs to no piece yet; the first word once there is one.
    start: usize,
    /// End of the last word so far.
    end: usize,
    started: bool,
    /// The line on which `start` lies.
    line: usize,
    open_brackets: u32,
}

impl Default for Splitter {
    fn default() -> Splitter {
        Splitter {
            buffer: String::new(),
            lexer: Lexer::default(),
            start: 0,
            end: 0,
            started: false,
            line: 1,
            open_brackets: 0,
        }
    }
}

impl Splitter {
    /// Adds whole lines, or the last part of the text.
    pub fn push(&mut self, text: &str) {
        if self.start > 0 {
            self.buffer.drain(..self.start);
            self.lexer.shift(self.start);
            self.end = self.end.saturating_sub(self.start);
            self.start = 0;
        }
        self.buffer.push_str(text);
    }

    /// Counts lines of the script that are not text of statements.
    pub fn skip_lines(&mut self, lines: usize) {
        self.line += lines;
    }

    /// The next complete statement or command.
    pub fn next_piece(&mut self) -> Option<Piece> {
        while let Some(token) = self.lexer.next(&self.buffer) {
            if !self.started && token.is_significant() {
                self.drop_until(token.range.start);
                self.started = true;
            }
            let text = &self.buffer[token.range.clone()];
            let closes = token.kind == TokenKind::Symbol && matches!(text, ";" | "\\");
            if token.is_significant() && !closes {
                self.end = token.range.end;
            }
            if token.kind != TokenKind::Symbol {
                continue;
            }
            match text {
                "(" => self.open_brackets += 1,
                ")" => self.open_brackets = self.open_brackets.saturating_sub(1),
                ";" => {
                    if let Some(statement) = self.take_statement(false) {
                        return Some(Piece::Statement(statement));
                    }
                }
                "\\" => {
                    if let Some(piece) = self.take_command(token.range.start) {
                        return Some(piece);
                    }
                }
                _ => {}
            }
        }
        None
    }

    /// The rest at the end of the text: a last statement without a semicolon.
    pub fn finish(&mut self) -> Option<Statement> {
        let statement = if self.started { self.take_statement(false) } else { None };
        self.clear();
        statement
    }

    /// Discards the statement that was begun.
    pub fn clear(&mut self) {
        self.buffer.clear();
        self.lexer = Lexer::default();
        self.start = 0;
        self.end = 0;
        self.started = false;
        self.open_brackets = 0;
    }

    /// The statement so far.
    pub fn pending(&self) -> &str {
        if self.started { &self.buffer[self.start..] } else { "" }
    }

    /// Takes the statement so far, and starts over.
    pub fn take_pending(&mut self) -> String {
        let pending = self.pending().to_owned();
        self.clear();
        self.line += pending.matches('\n').count();
        pending
    }

    /// The missing part, as the prompt shows it: `=` for a new statement, `-` for more of this one,
    /// or the open quote, bracket or comment.
    pub fn waits_for(&self) -> char {
        match self.lexer.inside() {
            Inside::String { .. } => '\'',
            Inside::QuotedName => '"',
            Inside::DollarString(_) => '$',
            Inside::Comment { .. } => '*',
            Inside::Nothing if self.open_brackets > 0 => '(',
            Inside::Nothing if self.started => '-',
            Inside::Nothing => '=',
        }
    }

    /// Ends the statement; the lexer has read its terminator.
    fn take_statement(&mut self, expanded: bool) -> Option<Statement> {
        // An empty statement, as in `;;`, is skipped.
        let text = self.buffer[self.start..self.end.max(self.start)].to_owned();
        let line = self.line;
        self.drop_until(self.lexer.position());
        self.started = false;
        self.open_brackets = 0;
        (!text.is_empty()).then_some(Statement { text, line, expanded })
    }

    /// Takes the rest of the line from the backslash at `start` out of the text.
    fn take_command(&mut self, start: usize) -> Option<Piece> {
        let length = self.buffer[start..].find('\n').unwrap_or(self.buffer.len() - start);
        let command = self.buffer[start..start + length].trim_end().to_owned();
        self.buffer.replace_range(start..start + length, "");
        self.lexer.move_to(start);
        if start == self.start {
            self.started = false;
            return Some(Piece::Command(command));
        }
        match command.as_str() {
            "\\g" | "\\gx" => self.take_statement(command == "\\gx").map(Piece::Statement),
            "\\r" => {
                self.clear();
                None
            }
            _ => Some(Piece::Command(command)),
        }
    }

    fn drop_until(&mut self, position: usize) {
        self.line += self.buffer[self.start..position].matches('\n').count();
        self.start = position;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(text: &str) -> Vec<String> {
        let mut splitter = Splitter::default();
        let mut found = Vec::new();
        for line in text.split_inclusive('\n') {
            splitter.push(line);
            found.extend(std::iter::from_fn(|| splitter.next_piece()).map(show));
        }
        found.extend(splitter.finish().map(|statement| show(Piece::Statement(statement))));
        found
    }

    fn show(piece: Piece) -> String {
        match piece {
            Piece::Command(text) => text,
            Piece::Statement(Statement { text, line, expanded }) => {
                format!("{line}: {text}{}", if expanded { " (expanded)" } else { "" })
            }
        }
    }

    #[test]
    fn statements_end_at_semicolons_outside_of_quotes() {
        assert_eq!(
            pieces("select ';'; select 2;; -- done;\n\n select\n 3 ; select 4 -- last"),
            ["1: select ';'", "1: select 2", "3: select\n 3", "4: select 4"]
        );
        assert_eq!(pieces(" ; /* nothing */ ; \n"), [""; 0]);
        assert_eq!(pieces("select 'open;"), ["1: select 'open;"]);
    }

    #[test]
    fn commands_take_their_line() {
        assert_eq!(
            pieces("\\dt\nselect 1; \\x on \nselect\n\\timing\n 2 \\gx\nselect 3 \\r\n"),
            ["\\dt", "2: select 1", "\\x on", "\\timing", "3: select\n\n 2 (expanded)"]
        );
    }

    #[test]
    fn the_prompt_knows_what_is_open() {
        for (text, expected) in [
            ("", '='),
            ("-- nothing\n", '='),
            ("select\n", '-'),
            ("select (\n", '('),
            ("select (1)\n", '-'),
            ("select '\n", '\''),
            ("select \"\n", '"'),
            ("select /*\n", '*'),
            ("select $$\n", '$'),
            ("select 1;\n", '='),
        ] {
            let mut splitter = Splitter::default();
            splitter.push(text);
            while splitter.next_piece().is_some() {}
            assert_eq!(splitter.waits_for(), expected, "{text:?}");
        }
    }
}
