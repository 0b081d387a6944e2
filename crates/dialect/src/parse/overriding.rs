//! `INSERT … OVERRIDING SYSTEM VALUE`, which the parser does not know.
//!
//! The clause is returned as a setting of the INSERT without a name: see [`overriding`].

use datafusion::sql::parser::Statement as Tree;
use datafusion::sql::sqlparser::ast::{Expr, Ident, Insert, Setting, Statement, Value};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use super::token_steps::{next, one_of};

/// The values that identity columns get where a statement gives some.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overriding {
    /// The given ones, also in columns that are `GENERATED ALWAYS`.
    System,
    /// Numbers of their sequences.
    User,
}

/// The `OVERRIDING` clause of a statement.
#[must_use]
pub fn overriding(insert: &Insert) -> Option<Overriding> {
    let mut settings = insert.settings.iter().flatten();
    let Expr::Value(value) = &settings.find(|setting| setting.key.value.is_empty())?.value else {
        return None;
    };
    let Value::SingleQuotedString(text) = &value.value else { return None };
    match text.as_str() {
        "SYSTEM" => Some(Overriding::System),
        "USER" => Some(Overriding::User),
        _ => None,
    }
}

/// The tokens of an INSERT without the clause, and the clause.
pub(super) fn without_clause(
    mut tokens: Vec<TokenWithSpan>,
) -> (Vec<TokenWithSpan>, Option<Overriding>) {
    if one_of(&tokens, &[Keyword::INSERT]).is_none() {
        return (tokens, None);
    }
    for at in 0..tokens.len() {
        let Some((found, rest)) = clause(&tokens[at..]) else { continue };
        let end = tokens.len() - rest;
        tokens.drain(at..end);
        return (tokens, Some(found));
    }
    (tokens, None)
}

/// The clause, if it begins here, and the number of tokens behind it.
fn clause(tokens: &[TokenWithSpan]) -> Option<(Overriding, usize)> {
    is_word(tokens.first()?, "overriding").then_some(())?;
    let (kind, rest) = next(&tokens[1..])?;
    let found = match kind {
        kind if is_word(kind, "system") => Overriding::System,
        kind if is_word(kind, "user") => Overriding::User,
        _ => return None,
    };
    let (value, rest) = next(rest)?;
    is_word(value, "value").then_some((found, rest.len()))
}

fn is_word(token: &TokenWithSpan, wanted: &str) -> bool {
    matches!(&token.token, Token::Word(word)
        if word.quote_style.is_none() && word.value.eq_ignore_ascii_case(wanted))
}

/// Adds the clause to the statement that was parsed without it.
pub(super) fn add_clause(parsed: &mut Tree, clause: Option<Overriding>) {
    if let (Tree::Statement(statement), Some(clause)) = (parsed, clause)
        && let Statement::Insert(insert) = statement.as_mut()
    {
        let text = match clause {
            Overriding::System => "SYSTEM",
            Overriding::User => "USER",
        };
        let value = Expr::Value(Value::SingleQuotedString(text.to_owned()).into());
        insert.settings = Some(vec![Setting { key: Ident::new(""), value }]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::parse_single;

    #[test]
    fn the_clause_is_found_in_front_of_the_rows() {
        let clause_of = |sql: &str| {
            let parsed = parse_single(sql).unwrap();
            let Tree::Statement(statement) = &parsed.statement else { panic!("{sql}") };
            let Statement::Insert(insert) = statement.as_ref() else { panic!("{sql}") };
            overriding(insert)
        };
        for (sql, clause) in [
            ("INSERT INTO t OVERRIDING SYSTEM VALUE VALUES (1)", Some(Overriding::System)),
            ("insert into t (a) overriding user value select 1", Some(Overriding::User)),
            ("INSERT INTO t VALUES ('OVERRIDING SYSTEM VALUE')", None),
            ("INSERT INTO overriding VALUES (1)", None),
        ] {
            assert_eq!(clause_of(sql), clause, "{sql}");
        }
        assert!(parse_single("INSERT INTO t (a) OVERRIDING VALUES (1)").is_err());
    }
}
