//! Refuses statements whose trees would be too deep to walk.
//!
//! Chains such as `1 + 1 + 1 …` are parsed in a loop but give a tree as deep as the chain is long,
//! and plans, expressions and their destructors walk it by recursion. The depth is bounded here, on
//! the tokens, before there is any tree.

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};
use thalweg_types::{Error, Result, SqlState};

use super::balance::UNBALANCED_MAX;

/// How deep parentheses and brackets may nest.
const BRACKETS_MAX: usize = 128;

/// How many operators may lie on one path of the tree, weighed by [`ARITHMETIC_WEIGHT`].
const CHAIN_MAX: usize = 1_000;

/// How many signs of sums and products a statement may have between one pair of brackets: they are
/// balanced, but the parser has to build their tree before.
const SIGNS_MAX: usize = 5_000;

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
                    return Err(too_complex(&format!("parentheses (the limit is {BRACKETS_MAX})")));
                }
                continue;
            }
            Token::Word(word) if word.keyword == Keyword::CASE => {
                levels.push(Level { is_case: true, ..Level::default() });
                if levels.len() > BRACKETS_MAX {
                    let what = format!("CASE expressions (the limit is {BRACKETS_MAX})");
                    return Err(too_complex(&what));
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
            return Err(too_complex(&format!(
                "operators (the limit is {CHAIN_MAX}, where one of arithmetic counts for \
                 {ARITHMETIC_WEIGHT})"
            )));
        }
        if level.signs > SIGNS_MAX {
            return Err(too_complex(&format!("signs in a row (the limit is {SIGNS_MAX})")));
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
    /// Those of them that are signs of sums and products.
    signs: usize,
    /// Joins and set operations since the query began.
    relations: usize,
}

impl Level {
    fn length(&self) -> usize {
        // More signs than that are balanced.
        self.operators + self.relations + self.signs.min(UNBALANCED_MAX) * ARITHMETIC_WEIGHT
    }

    fn begin_expression(&mut self) {
        (self.operators, self.signs) = (0, 0);
    }

    fn take(&mut self, token: &Token) {
        match token {
            Token::Comma => self.begin_expression(),
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
                | Keyword::ELSE => self.begin_expression(),
                Keyword::JOIN | Keyword::UNION | Keyword::EXCEPT | Keyword::INTERSECT => {
                    self.begin_expression();
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
            Token::Plus | Token::Minus | Token::Mul => self.signs += 1,
            Token::Div | Token::Mod | Token::Caret => {
                self.operators += ARITHMETIC_WEIGHT;
            }
            _ => self.operators += 1,
        }
    }
}

fn too_complex(what: &str) -> Error {
    Error::new(SqlState::STATEMENT_TOO_COMPLEX, "statement is too complex")
        .with_detail(format!("It nests too many {what}."))
        .with_hint("Split the statement, or use IN (…) or = ANY (…) in place of long chains.")
}
