//! The shell's variables, as psql has them: `\set` gives values, and statements name them as
//! `:name`, `:'name'` (a string) and `:"name"` (a quoted name).

use std::borrow::Cow;
use std::collections::BTreeMap;

use thalweg::{Error, Result, SqlState};

use crate::shell::lexer::{Lexer, Token, TokenKind};

/// Variables by their names.
#[derive(Default)]
pub struct Variables(BTreeMap<String, String>);

impl Variables {
    /// # Errors
    /// If the name has other characters than letters, digits and underscores.
    pub fn set(&mut self, name: &str, value: String) -> Result<()> {
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_' || !c.is_ascii();
        if name.is_empty() || !name.chars().all(is_part) {
            let message = format!("invalid variable name: \"{name}\"");
            return Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, message));
        }
        self.0.insert(name.to_owned(), value);
        Ok(())
    }

    pub fn unset(&mut self, name: &str) {
        self.0.remove(name);
    }

    /// A line for each variable.
    pub fn listed(&self) -> String {
        self.0.iter().map(|(name, value)| format!("{name} = '{value}'\n")).collect()
    }

    /// The text with values in place of the variables that it names. Other names stay, as do
    /// strings and comments.
    pub fn expand<'t>(&self, text: &'t str) -> Cow<'t, str> {
        if self.0.is_empty() || !text.contains(':') {
            return Cow::Borrowed(text);
        }
        let tokens: Vec<Token> = Lexer::tokens(text).collect();
        let (mut expanded, mut from, mut at) = (String::new(), 0, 0);
        while at < tokens.len() {
            if let Some(value) = self.value_at(text, &tokens, at) {
                expanded.push_str(&text[from..tokens[at].range.start]);
                expanded.push_str(&value);
                from = tokens[at + 1].range.end;
                at += 1;
            }
            at += 1;
        }
        if from == 0 {
            return Cow::Borrowed(text);
        }
        expanded.push_str(&text[from..]);
        Cow::Owned(expanded)
    }

    /// The value that the tokens at a position stand for: a colon and a name.
    pub(super) fn value_at(&self, text: &str, tokens: &[Token], at: usize) -> Option<String> {
        let token_text = |token: &Token| &text[token.range.clone()];
        let is_colon = |token: &Token| token.kind == TokenKind::Symbol && token_text(token) == ":";
        if !is_colon(&tokens[at]) || at > 0 && is_colon(&tokens[at - 1]) {
            return None;
        }
        let next = tokens.get(at + 1)?;
        let name = token_text(next);
        match next.kind {
            TokenKind::Word | TokenKind::Number => self.0.get(name).cloned(),
            TokenKind::String => {
                let name = name.strip_prefix('\'')?.strip_suffix('\'')?;
                self.0.get(name).map(|value| quoted(value, '\''))
            }
            TokenKind::QuotedName => {
                let name = name.strip_prefix('"')?.strip_suffix('"')?;
                self.0.get(name).map(|value| quoted(value, '"'))
            }
            _ => None,
        }
    }
}

/// A text in quotes, with the quotes inside doubled.
pub(super) fn quoted(text: &str, quote: char) -> String {
    let (one, two) = (quote.to_string(), format!("{quote}{quote}"));
    format!("{quote}{}{quote}", text.replace(&one, &two))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_name_variables() {
        let mut variables = Variables::default();
        for (name, value) in [("t", "flights"), ("s", "it's"), ("n", "a\"b"), ("text", "no")] {
            variables.set(name, value.to_owned()).unwrap();
        }
        for (text, expanded) in [
            ("SELECT * FROM :t", "SELECT * FROM flights"),
            ("SELECT :'s', :\"n\", :t.a", "SELECT 'it''s', \"a\"\"b\", flights.a"),
            ("SELECT ':t', \":t\" -- :t", "SELECT ':t', \":t\" -- :t"),
            ("SELECT 1::text, a[1:2], :unknown, : t", "SELECT 1::text, a[1:2], :unknown, : t"),
            ("SELECT $$:t$$ :t", "SELECT $$:t$$ flights"),
            (":t:t", "flightsflights"),
        ] {
            assert_eq!(variables.expand(text), expanded);
        }
        variables.unset("t");
        assert_eq!(variables.expand(":t"), ":t");
    }

    #[test]
    fn names_are_checked_and_listed() {
        let mut variables = Variables::default();
        assert!(variables.set("a-b", String::new()).is_err());
        assert!(variables.set("", String::new()).is_err());
        variables.set("b_1", "x y".to_owned()).unwrap();
        variables.set("a", String::new()).unwrap();
        assert_eq!(variables.listed(), "a = ''\nb_1 = 'x y'\n");
    }
}
