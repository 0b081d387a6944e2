//! Refuses statements whose trees would be too deep to walk.
//!
//! Chains such as `1 + 1 + 1 …` are parsed in a loop but give a tree as deep as the chain is long,
//! and plans, expressions and their destructors walk it by recursion. The depth is bounded here, on
//! the tokens, before there is any tree.

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};
use thalweg_types::{Error, Result, SqlState};

/// How deep parentheses and brackets may nest.
const BRACKETS_MAX: usize = 128;

/// How many operators may lie on one path of the tree, weighed by [`ARITHMETIC_WEIGHT`].
const CHAIN_MAX: usize = 1_000;

/// What an arithmetic operator counts: each is a call with a name of its own, and planning takes
/// time that grows with the cube of their number.
const ARITHMETIC_WEIGHT: usize = 4;

/// Checks the tokens of a text, which may hold several statements.
pub(super) fn check(tokens: &[TokenWithSpan]) -> Result<()> {
    let mut levels = vec![Level::default()];
    let mut chain = 0;
    for TokenWithSpan { token, .. } in tokens {
        match token {
            Token::LParen | Token::LBracket | Token::LBrace => {
                levels.push(Level::default());
                if levels.len() > BRACKETS_MAX {
                    return Err(too_complex("parentheses", BRACKETS_MAX));
                }
                continue;
            }
            Token::Word(word) if word.keyword == Keyword::CASE => {
                levels.push(Level { is_case: true, ..Level::default() });
                if levels.len() > BRACKETS_MAX {
                    return Err(too_complex("CASE expressions", BRACKETS_MAX));
                }
                continue;
            }
            Token::Word(word)
                if word.keyword == Keyword::END && levels.last().is_some_and(|l| l.is_case) =>
            {
                chain -= levels.pop().map_or(0, |level| level.length());
                continue;
            }
            Token::RParen | Token::RBracket | Token::RBrace => {
                if levels.len() > 1 {
                    chain -= levels.pop().map_or(0, |level| level.length());
                }
                continue;
            }
            Token::SemiColon => {
                levels = vec![Level::default()];
                chain = 0;
                continue;
            }
            _ => {}
        }
        let Some(level) = levels.last_mut() else { continue };
        chain -= level.length();
        level.take(token);
        chain += level.length();
        if chain > CHAIN_MAX {
            return Err(too_complex("operators", CHAIN_MAX));
        }
    }
    Ok(())
}

/// What has been seen between one pair of brackets, or of `CASE` and `END`.
#[derive(Default)]
struct Level {
    /// Opened by `CASE`, to be closed by `END`.
    is_case: bool,
    /// Operators since the expression began.
    operators: usize,
    /// Joins and set operations since the query began.
    relations: usize,
}

impl Level {
    fn length(&self) -> usize {
        self.operators + self.relations
    }

    fn take(&mut self, token: &Token) {
        match token {
            Token::Comma => self.operators = 0,
            Token::Word(word) => match word.keyword {
                Keyword::SELECT
                | Keyword::FROM
                | Keyword::WHERE
                | Keyword::GROUP
                | Keyword::HAVING
                | Keyword::ORDER
                | Keyword::ON
                | Keyword::SET
                | Keyword::VALUES
                | Keyword::WHEN
                | Keyword::THEN
                | Keyword::ELSE => self.operators = 0,
                Keyword::JOIN | Keyword::UNION | Keyword::EXCEPT | Keyword::INTERSECT => {
                    self.operators = 0;
                    self.relations += 1;
                }
                Keyword::AND
                | Keyword::OR
                | Keyword::NOT
                | Keyword::IS
                | Keyword::IN
                | Keyword::LIKE
                | Keyword::ILIKE
                | Keyword::SIMILAR
                | Keyword::BETWEEN
                | Keyword::COLLATE
                | Keyword::AT
                | Keyword::OPERATOR => self.operators += 1,
                _ => {}
            },
            Token::Number(..)
            | Token::SingleQuotedString(_)
            | Token::DollarQuotedString(_)
            | Token::EscapedStringLiteral(_)
            | Token::NationalStringLiteral(_)
            | Token::HexStringLiteral(_)
            | Token::UnicodeStringLiteral(_)
            | Token::Placeholder(_)
            | Token::Period
            | Token::Whitespace(_)
            | Token::EOF => {}
            Token::Plus | Token::Minus | Token::Mul | Token::Div | Token::Mod | Token::Caret => {
                self.operators += ARITHMETIC_WEIGHT;
            }
            _ => self.operators += 1,
        }
    }
}

fn too_complex(what: &str, most: usize) -> Error {
    Error::new(SqlState::STATEMENT_TOO_COMPLEX, "statement is too complex")
        .with_detail(format!("It nests too many {what} (the limit is {most})."))
        .with_hint("Split the statement, or use IN (…) or = ANY (…) in place of long chains.")
}
