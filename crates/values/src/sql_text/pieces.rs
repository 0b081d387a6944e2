//! A text of SQL as literals, comments, words and signs, without the parser's tokenizer: the text
//! need not be valid, and nothing is allocated.

/// A piece of a text.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Piece {
    Space,
    Comment,
    /// `'…'`, `E'…'`, `U&'…'`, `$$…$$` and such.
    Literal,
    /// `"…"`
    Identifier,
    Word,
    Number,
    /// `$1`
    Parameter,
    Sign,
    /// No quote of SQL: the text behind it cannot be split into pieces.
    Unknown,
}

pub(super) fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The kind and length of the first piece of a text, and whether it is closed.
pub(super) fn next_piece(rest: &str) -> (Piece, usize, bool) {
    let first = rest.chars().next().unwrap_or(' ');
    let whole = |piece, part: &str| (piece, part.len(), true);
    let of = |piece, length: Option<usize>| (piece, length.unwrap_or(rest.len()), length.is_some());
    let while_is =
        |is: fn(char) -> bool| &rest[..rest.find(|c: char| !is(c)).unwrap_or(rest.len())];
    match first {
        c if c.is_whitespace() => whole(Piece::Space, while_is(char::is_whitespace)),
        '-' if rest.starts_with("--") => {
            whole(Piece::Comment, &rest[..rest.find('\n').unwrap_or(rest.len())])
        }
        '/' if rest.starts_with("/*") => of(Piece::Comment, end_of_comment(rest)),
        '\'' => of(Piece::Literal, end_of_quoted(rest, 0, '\'', false)),
        '"' => of(Piece::Identifier, end_of_quoted(rest, 0, '"', false)),
        '$' => dollar(rest),
        c if c.is_ascii_digit() => whole(Piece::Number, while_is(|c| is_word(c) || c == '.')),
        c if is_word(c) => {
            // Not as an identifier ends: `PASSWORD$$…$$` is a mistake that holds a password.
            let word = while_is(is_word);
            let prefix = if rest.as_bytes().get(1) == Some(&b'&') { 2 } else { word.len() };
            match rest[prefix..].chars().next() {
                Some('\'') if prefix <= 2 && (word.len() == 1) => {
                    let escapes = word.eq_ignore_ascii_case("e");
                    of(Piece::Literal, end_of_quoted(rest, prefix, '\'', escapes))
                }
                Some('"') if prefix == 2 && word.len() == 1 => {
                    of(Piece::Identifier, end_of_quoted(rest, prefix, '"', false))
                }
                _ => whole(Piece::Word, word),
            }
        }
        // A backtick, or a quote of a text processor: the end of its text is unknown.
        '`' => (Piece::Unknown, rest.len(), false),
        c if !c.is_ascii() => (Piece::Unknown, rest.len(), false),
        c => (Piece::Sign, c.len_utf8(), true),
    }
}

/// A parameter, or a literal between `$tag$`.
fn dollar(rest: &str) -> (Piece, usize, bool) {
    let tag_end = rest[1..].find(|c: char| !is_word(c)).map(|end| end + 1);
    match tag_end {
        Some(end)
            if rest[end..].starts_with('$')
                && !rest[1..].starts_with(|c: char| c.is_ascii_digit()) =>
        {
            let tag = &rest[..=end];
            match rest[tag.len()..].find(tag) {
                Some(close) => (Piece::Literal, tag.len() * 2 + close, true),
                None => (Piece::Literal, rest.len(), false),
            }
        }
        _ => {
            let end = tag_end.unwrap_or(rest.len());
            let is_number = end > 1 && rest[1..end].bytes().all(|digit| digit.is_ascii_digit());
            match is_number {
                true => (Piece::Parameter, end, true),
                // Neither a tag nor a number: the text behind it cannot be split into pieces.
                false => (Piece::Unknown, rest.len(), false),
            }
        }
    }
}

/// Where a quoted piece ends whose quote stands at `open`; doubled quotes are part of it.
fn end_of_quoted(rest: &str, open: usize, quote: char, escapes: bool) -> Option<usize> {
    let mut chars = rest.char_indices().skip_while(|(place, _)| *place <= open).peekable();
    while let Some((place, c)) = chars.next() {
        match c {
            '\\' if escapes => _ = chars.next(),
            c if c == quote => match chars.peek() {
                Some((_, next)) if *next == quote => _ = chars.next(),
                _ => return Some(place + 1),
            },
            _ => {}
        }
    }
    None
}

/// Where a comment ends; comments nest.
fn end_of_comment(rest: &str) -> Option<usize> {
    let (mut depth, mut place) = (0_usize, 0);
    while place < rest.len() {
        let here = &rest.as_bytes()[place..];
        if here.starts_with(b"/*") {
            (depth, place) = (depth + 1, place + 2);
        } else if here.starts_with(b"*/") {
            (depth, place) = (depth - 1, place + 2);
            if depth == 0 {
                return Some(place);
            }
        } else {
            place += 1;
        }
    }
    None
}
