//! Statements without their passwords, for logs, traces and lists of statements.
//!
//! Promises: in a text that mentions a password, no literal is shown, however it is quoted, and
//! nothing behind a quote that is never closed. The text need not be valid SQL: a statement that
//! was refused for its quotes is logged, too. So the tokenizer of SQL does not read it, and several
//! statements of one text are treated as one.

use std::borrow::Cow;

use super::pieces::{Piece, is_word, next_piece};

const CONCEALED: &str = "'***'";

/// Parts of words that announce a secret.
const SECRET_WORDS: [&str; 6] = ["password", "passwd", "passphrase", "pwd", "secret", "credential"];
/// A word with so few typing mistakes counts as `password`.
const MISTAKES_MAX: usize = 2;
/// Longer words are not compared letter by letter.
const COMPARED_BYTES_MAX: usize = 12;

/// Words that statements about roles have besides a password: anything else may be one whose quotes
/// are missing.
const ROLE_WORDS: [&str; 47] = [
    "ADMIN",
    "ALL",
    "ALTER",
    "AND",
    "BYPASSRLS",
    "CONNECTION",
    "CREATE",
    "CREATEDB",
    "CREATEROLE",
    "CREATEUSER",
    "CURRENT_USER",
    "DROP",
    "ENCRYPTED",
    "EXISTS",
    "GRANT",
    "GROUP",
    "IF",
    "IN",
    "INHERIT",
    "LIMIT",
    "LOGIN",
    "NOBYPASSRLS",
    "NOCREATEDB",
    "NOCREATEROLE",
    "NOCREATEUSER",
    "NOINHERIT",
    "NOLOGIN",
    "NOREPLICATION",
    "NOSUPERUSER",
    "NOT",
    "NULL",
    "OPTION",
    "OPTIONS",
    "REPLICATION",
    "RESET",
    "ROLE",
    "SELECT",
    "SET",
    "SUPERUSER",
    "SYSID",
    "TO",
    "UNENCRYPTED",
    "UNTIL",
    "USER",
    "VALID",
    "WITH",
    "FOR",
];

/// Objects besides roles that `CREATE` and `ALTER` name. Beside a word for a secret, any other word
/// is taken for `ROLE` with typing mistakes.
const OTHER_OBJECTS: [&str; 40] = [
    "access",
    "aggregate",
    "cast",
    "collation",
    "conversion",
    "database",
    "default",
    "domain",
    "event",
    "extension",
    "external",
    "foreign",
    "function",
    "global",
    "index",
    "language",
    "large",
    "local",
    "materialized",
    "operator",
    "or",
    "policy",
    "procedure",
    "publication",
    "recursive",
    "rule",
    "schema",
    "sequence",
    "statistics",
    "system",
    "table",
    "tablespace",
    "temp",
    "temporary",
    "text",
    "transform",
    "trigger",
    "type",
    "unique",
    "view",
];

/// SQL text in a form that logs, traces and lists of running statements may show. If it may hold a
/// password, each literal and comment is replaced, and so is the text behind the word `PASSWORD`.
#[must_use]
pub fn without_passwords(sql: &str) -> Cow<'_, str> {
    if !may_hold_password(sql) {
        return Cow::Borrowed(sql);
    }
    let concealer = Concealer { about_role: is_about_role(sql), ..Concealer::default() };
    Cow::Owned(concealer.run(sql))
}

/// True if a text mentions a password or a role, or contains the address of a server with a
/// password.
#[must_use]
pub fn may_hold_password(sql: &str) -> bool {
    words(sql).any(announces_secret) || is_about_role(sql) || has_address(sql)
}

/// `CREATE` or `ALTER` of a user or role, a server, or a mapping of users, anywhere in the text.
fn is_about_role(sql: &str) -> bool {
    let is_one_of =
        |word: &str, known: &[&str]| known.iter().any(|known| word.eq_ignore_ascii_case(known));
    let mut before = "";
    for word in words(sql) {
        if is_one_of(before, &["create", "alter"])
            && (is_one_of(word, &["user", "role", "group", "server", "subscription"])
                || (!is_one_of(word, &OTHER_OBJECTS) && words(sql).any(announces_secret)))
        {
            return true;
        }
        before = word;
    }
    false
}

/// True if there is an address such as `postgres://user:secret@host`.
fn has_address(sql: &str) -> bool {
    sql.match_indices("://").any(|(place, _)| {
        let rest = &sql[place + 3..];
        let end = rest.find(|c: char| c.is_whitespace()).unwrap_or(rest.len());
        rest[..end].contains('@')
    })
}

fn words(sql: &str) -> impl Iterator<Item = &str> {
    sql.split(|c: char| !is_word(c)).filter(|word| !word.is_empty())
}

fn announces_secret(word: &str) -> bool {
    if word.len() < 3 {
        return false;
    }
    let is_known = SECRET_WORDS.iter().any(|known| {
        let mut windows = word.as_bytes().windows(known.len());
        windows.any(|bytes| bytes.eq_ignore_ascii_case(known.as_bytes()))
    });
    is_known || is_nearly_password(word)
}

/// True if a word is exactly, or nearly, one that announces a secret.
fn is_plain(word: &str) -> bool {
    SECRET_WORDS.iter().any(|known| word.eq_ignore_ascii_case(known)) || is_nearly_password(word)
}

/// True if a word is `password` with a few letters missing, added or replaced.
fn is_nearly_password(word: &str) -> bool {
    let known = SECRET_WORDS[0].as_bytes();
    let first = word.as_bytes()[0].to_ascii_lowercase();
    if first != b'p' || word.len() > COMPARED_BYTES_MAX || word.len() + MISTAKES_MAX < known.len() {
        return false;
    }
    let mut row: Vec<usize> = (0..=known.len()).collect();
    for (line, letter) in word.bytes().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], line + 1);
        for (column, wanted) in known.iter().enumerate() {
            let differs = usize::from(!letter.eq_ignore_ascii_case(wanted));
            let least = (diagonal + differs).min(row[column] + 1).min(row[column + 1] + 1);
            diagonal = std::mem::replace(&mut row[column + 1], least);
        }
    }
    row[known.len()] <= MISTAKES_MAX
}

/// Replaces what may be a secret.
#[derive(Default)]
struct Concealer {
    shown: String,
    /// True if the text is about roles: then no unknown word behind a password is shown.
    about_role: bool,
    /// True behind a word that announces a secret.
    announced: bool,
    /// True if the next token is the secret.
    is_next: bool,
}

impl Concealer {
    fn run(mut self, sql: &str) -> String {
        let mut rest = sql;
        while !rest.is_empty() {
            let (piece, length, is_closed) = next_piece(rest);
            if !is_closed {
                self.shown.push_str(CONCEALED);
                break;
            }
            let (text, after) = rest.split_at(length);
            self.take(piece, text);
            rest = after;
        }
        self.shown
    }

    fn take(&mut self, piece: Piece, text: &str) {
        let announces = !matches!(piece, Piece::Space) && words(text).any(announces_secret);
        let is_hidden = match piece {
            Piece::Space | Piece::Sign | Piece::Parameter => false,
            Piece::Comment | Piece::Literal | Piece::Unknown => true,
            Piece::Identifier => self.announced || announces,
            Piece::Number => self.is_next || (self.about_role && self.announced),
            Piece::Word if announces => self.about_role && !is_plain(text),
            Piece::Word => self.hides_word(text),
        };
        let is_skipped = match piece {
            Piece::Space | Piece::Comment => true,
            Piece::Sign => matches!(text, "=" | ":" | ">" | "(" | ","),
            Piece::Word => {
                ["to", "is", "as", "encrypted"].iter().any(|w| text.eq_ignore_ascii_case(w))
            }
            _ => false,
        };
        self.is_next = announces || (self.is_next && is_skipped);
        self.announced |= announces;
        match (piece, is_hidden) {
            (Piece::Comment, _) => self.shown.push(' '),
            (_, true) => self.shown.push_str(CONCEALED),
            (_, false) => self.shown.push_str(text),
        }
    }

    /// True if a word behind the announcement of a secret may be the secret, without quotes.
    fn hides_word(&self, word: &str) -> bool {
        let is_known = ROLE_WORDS.iter().any(|known| word.eq_ignore_ascii_case(known));
        match self.about_role {
            true => self.announced && !is_known,
            // The secret in `password = secret`, but nothing in `SELECT password FROM users`.
            false => self.is_next && self.shown.trim_end().ends_with(['=', '>', ':']),
        }
    }
}

#[cfg(test)]
mod tests;
