//! A lexer of SQL's words, strings and comments, as far as a shell needs them: to find the end of a
//! statement, to colour it, and to complete it. The engine parses the rest.
//!
//! The lexer is incremental: the text may grow line by line, and no part is read twice. Text must
//! be added in whole lines (or be the last), so that no pair of characters such as `--` or `''` is
//! split.

use std::ops::Range;

/// The kind of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenKind {
    Space,
    Comment,
    /// A keyword or a name without quotes.
    Word,
    QuotedName,
    /// A string, or the part of one read so far.
    String,
    Number,
    /// Any other single character.
    Symbol,
}

/// A token, with its range of bytes in the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    pub kind: TokenKind,
    pub range: Range<usize>,
}

impl Token {
    /// True unless the token is space or a comment.
    pub fn is_significant(&self) -> bool {
        !matches!(self.kind, TokenKind::Space | TokenKind::Comment)
    }
}

/// The construct in which the text so far ends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Inside {
    #[default]
    Nothing,
    /// `'…'`, or `E'…'`, where a backslash escapes the next character.
    String { backslashes: bool },
    /// `"…"`
    QuotedName,
    /// `$tag$ … $tag$`; holds the delimiter.
    DollarString(String),
    /// `/* … */`, which nests.
    Comment { depth: u32 },
}

/// The state of the lexer between pieces of text.
#[derive(Default)]
pub struct Lexer {
    /// Position up to which the text has been read, in bytes.
    position: usize,
    inside: Inside,
}

impl Lexer {
    /// All tokens of a text.
    pub fn tokens(text: &str) -> impl Iterator<Item = Token> {
        let mut lexer = Lexer::default();
        std::iter::from_fn(move || lexer.next(text))
    }

    /// The construct in which the text so far ends.
    pub fn inside(&self) -> &Inside {
        &self.inside
    }

    /// Number of bytes read so far.
    pub fn position(&self) -> usize {
        self.position
    }

    /// Continues at another position, which must lie outside of strings and comments.
    pub fn move_to(&mut self, position: usize) {
        self.position = position;
        self.inside = Inside::Nothing;
    }

    /// Removes the first bytes of the text, all of which had been read.
    pub fn shift(&mut self, bytes: usize) {
        assert!(bytes <= self.position, "only text that was read may go");
        self.position -= bytes;
    }

    /// The next token of `text`, which begins with the text of the last call.
    pub fn next(&mut self, text: &str) -> Option<Token> {
        let rest = &text[self.position..];
        let first = rest.chars().next()?;
        let (kind, length) = match self.inside {
            Inside::Nothing => self.begin(rest, first),
            _ => self.go_on(rest),
        };
        assert!(length > 0, "a token has at least one character");
        let start = self.position;
        self.position += length;
        Some(Token { kind, range: start..self.position })
    }

    /// Reads a token from its first character on.
    fn begin(&mut self, rest: &str, first: char) -> (TokenKind, usize) {
        if first.is_whitespace() {
            return (TokenKind::Space, length_while(rest, char::is_whitespace));
        }
        if rest.starts_with("--") {
            return (TokenKind::Comment, length_while(rest, |c| c != '\n'));
        }
        let (inside, opening) = if rest.starts_with("/*") {
            (Inside::Comment { depth: 0 }, 0)
        } else if first == '\'' {
            (Inside::String { backslashes: false }, 1)
        } else if first == '"' {
            (Inside::QuotedName, 1)
        } else if rest.starts_with("e'") || rest.starts_with("E'") {
            (Inside::String { backslashes: true }, 2)
        } else if let Some(delimiter) = dollar_delimiter(rest) {
            (Inside::DollarString(delimiter.to_owned()), delimiter.len())
        } else {
            return plain(rest, first);
        };
        self.inside = inside;
        let (kind, length) = self.go_on(&rest[opening..]);
        (kind, opening + length)
    }

    /// Reads the rest of a string, quoted name or comment, or as much of it as there is.
    fn go_on(&mut self, rest: &str) -> (TokenKind, usize) {
        let (kind, end) = match &mut self.inside {
            Inside::Nothing => unreachable!("called only inside of something"),
            Inside::String { backslashes } => {
                (TokenKind::String, quote_end(rest, b'\'', *backslashes))
            }
            Inside::QuotedName => (TokenKind::QuotedName, quote_end(rest, b'"', false)),
            Inside::DollarString(delimiter) => {
                (TokenKind::String, rest.find(&**delimiter).map(|at| at + delimiter.len()))
            }
            Inside::Comment { depth } => (TokenKind::Comment, comment_end(rest, depth)),
        };
        if end.is_some() {
            self.inside = Inside::Nothing;
        }
        (kind, end.unwrap_or(rest.len()))
    }
}

/// A word, a number or a symbol.
fn plain(rest: &str, first: char) -> (TokenKind, usize) {
    let in_word = |c: char| c.is_alphanumeric() || c == '_' || c == '$';
    if first.is_alphabetic() || first == '_' {
        (TokenKind::Word, length_while(rest, in_word))
    } else if first.is_ascii_digit() {
        (TokenKind::Number, length_while(rest, |c| c.is_alphanumeric() || c == '.' || c == '_'))
    } else {
        (TokenKind::Symbol, first.len_utf8())
    }
}

fn length_while(text: &str, belongs: impl Fn(char) -> bool) -> usize {
    text.find(|c| !belongs(c)).unwrap_or(text.len())
}

/// `$$` or `$tag$` at the start of the text; `$1` is a parameter.
fn dollar_delimiter(text: &str) -> Option<&str> {
    let tag = text.strip_prefix('$')?;
    let length = length_while(tag, |c| c.is_alphanumeric() || c == '_');
    let well_formed = tag[length..].starts_with('$') && !tag.starts_with(|c: char| c.is_numeric());
    well_formed.then(|| &text[..length + 2])
}

/// The end of the quoted text, after its closing quote. A doubled quote stands for itself.
fn quote_end(text: &str, quote: u8, backslashes: bool) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        if bytes[at] == quote {
            if bytes.get(at + 1) != Some(&quote) {
                return Some(at + 1);
            }
            at += 1;
        } else if backslashes && bytes[at] == b'\\' {
            at += 1;
        }
        at += 1;
    }
    None
}

/// The end of the outermost comment; `depth` carries over to the following text.
fn comment_end(text: &str, depth: &mut u32) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at + 1 < bytes.len() {
        match &bytes[at..at + 2] {
            b"/*" => *depth += 1,
            b"*/" if *depth == 1 => return Some(at + 2),
            b"*/" => *depth -= 1,
            _ => {
                at += 1;
                continue;
            }
        }
        at += 2;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn significant(text: &str) -> Vec<&str> {
        Lexer::tokens(text).filter(Token::is_significant).map(|token| &text[token.range]).collect()
    }

    #[test]
    fn tokens_are_what_they_look_like() {
        assert_eq!(
            significant("select a.\"b \"\"c\", 'it''s', 1.5e3 -- end; \n from t$1;"),
            ["select", "a", ".", "\"b \"\"c\"", ",", "'it''s'", ",", "1.5e3", "from", "t$1", ";"]
        );
        assert_eq!(significant("/* a /* b */ ; */ x"), ["x"]);
        assert_eq!(significant(r"E'\'' 'a\' b"), [r"E'\''", r"'a\'", "b"]);
        assert_eq!(significant("$$;$$ $x$ $$ $x$ $1"), ["$$;$$", "$x$ $$ $x$", "$", "1"]);
        assert_eq!(significant("größe≠1"), ["größe", "≠", "1"]);
    }

    #[test]
    fn tokens_cover_the_text_without_gaps() {
        for text in ["", "a  b", "'open", "/* open", "$q$ open $", "\u{1F600};--", "e'\\"] {
            let mut end = 0;
            for token in Lexer::tokens(text) {
                assert_eq!(token.range.start, end);
                end = token.range.end;
            }
            assert_eq!(end, text.len());
        }
    }

    #[test]
    fn a_text_may_come_in_lines() {
        let mut lexer = Lexer::default();
        let mut text = String::from("select '\n");
        while lexer.next(&text).is_some() {}
        assert_eq!(lexer.inside(), &Inside::String { backslashes: false });
        text.push_str("' /* /* \n");
        while lexer.next(&text).is_some() {}
        assert_eq!(lexer.inside(), &Inside::Comment { depth: 2 });
        text.push_str("*/ */;");
        let last = std::iter::from_fn(|| lexer.next(&text)).last().unwrap();
        assert_eq!((last.kind, &text[last.range]), (TokenKind::Symbol, ";"));
    }
}
