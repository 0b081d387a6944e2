//! Statements without their passwords, for whoever writes statements down.

use std::borrow::Cow;

use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Tokenizer};

use super::dialect::ThalwegDialect;
use super::place::Places;

const CONCEALED: &str = "'***'";

/// A text of SQL as logs, traces and lists of what runs may show it: the text of every literal
/// that follows `PASSWORD`, and of every literal in `CREATE` and `ALTER` of a user or role, is
/// replaced. A text that cannot be read to its end is cut at its first literal.
#[must_use]
pub fn without_passwords(sql: &str) -> Cow<'_, str> {
    if !may_hold_password(sql) {
        return Cow::Borrowed(sql);
    }
    let Ok(tokens) = Tokenizer::new(&ThalwegDialect, sql).tokenize_with_location() else {
        let end = sql.find(['\'', '$']).unwrap_or(sql.len());
        return Cow::Owned(format!("{}{CONCEALED}", &sql[..end]));
    };
    let mut places = Places::new(sql);
    let (mut shown, mut from) = (String::with_capacity(sql.len()), 0);
    for token in concealed(&tokens) {
        shown.push_str(&sql[from..places.offset(token.span.start)]);
        shown.push_str(CONCEALED);
        from = places.offset(token.span.end);
    }
    if from == 0 {
        return Cow::Borrowed(sql);
    }
    shown.push_str(&sql[from..]);
    Cow::Owned(shown)
}

/// Whether a text speaks of passwords, users or roles at all.
pub(crate) fn may_hold_password(sql: &str) -> bool {
    ["password", "user", "role", "group"].iter().any(|word| {
        let mut windows = sql.as_bytes().windows(word.len());
        windows.any(|bytes| bytes.eq_ignore_ascii_case(word.as_bytes()))
    })
}

fn concealed(tokens: &[TokenWithSpan]) -> impl Iterator<Item = &TokenWithSpan> {
    let statements = tokens.split(|token| token.token == Token::SemiColon);
    statements.flat_map(|tokens| {
        let spoken = |token: &&TokenWithSpan| !matches!(token.token, Token::Whitespace(_));
        let spoken: Vec<&TokenWithSpan> = tokens.iter().filter(spoken).collect();
        let all = changes_role(&spoken);
        let after_password = |place: usize| place > 0 && is_word(spoken[place - 1], &["password"]);
        (0..spoken.len())
            .filter(|place| is_literal(&spoken[*place].token) && (all || after_password(*place)))
            .map(|place| spoken[place])
            .collect::<Vec<_>>()
    })
}

fn changes_role(tokens: &[&TokenWithSpan]) -> bool {
    matches!(tokens, [first, second, ..]
        if is_word(first, &["create", "alter"]) && is_word(second, &["user", "role", "group"]))
}

fn is_word(token: &TokenWithSpan, words: &[&str]) -> bool {
    match &token.token {
        Token::Word(word) => words.iter().any(|known| word.value.eq_ignore_ascii_case(known)),
        _ => false,
    }
}

fn is_literal(token: &Token) -> bool {
    matches!(
        token,
        Token::SingleQuotedString(_)
            | Token::EscapedStringLiteral(_)
            | Token::UnicodeStringLiteral(_)
            | Token::NationalStringLiteral(_)
            | Token::DollarQuotedString(_)
            | Token::HexStringLiteral(_)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_concealed_and_nothing_else() {
        for (written, shown) in [
            ("CREATE USER ann PASSWORD 'it''s'", "CREATE USER ann PASSWORD '***'"),
            (
                "ALTER ROLE ann\nENCRYPTED password E'\\x' -- ok",
                "ALTER ROLE ann\nENCRYPTED password '***' -- ok",
            ),
            (
                "SELECT 'a'; alter user ann password $x$ü$x$; SELECT 'b'",
                "SELECT 'a'; alter user ann password '***'; SELECT 'b'",
            ),
            ("create user ann pasword 'x'", "create user ann pasword '***'"),
            ("SELECT 'password' FROM users", "SELECT 'password' FROM users"),
            ("CREATE USER ann PASSWORD 'half", "CREATE USER ann PASSWORD '***'"),
            ("SELECT 1", "SELECT 1"),
        ] {
            assert_eq!(without_passwords(written), shown);
        }
    }

    #[test]
    fn a_text_without_the_words_is_not_copied() {
        assert!(matches!(without_passwords("SELECT 'a'"), Cow::Borrowed(_)));
        assert!(matches!(without_passwords("SELECT user"), Cow::Borrowed(_)));
    }
}
