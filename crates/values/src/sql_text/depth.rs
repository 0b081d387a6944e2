//! Refuses statements whose trees would be too deep to walk.
//!
//! Chains such as `1 + 1 + 1 …` are parsed in a loop but give a tree as deep as the chain is long,
//! and plans, expressions and their destructors walk it by recursion. Some of the parser's own
//! recursions have no limit (no upstream issue found). The depth is bounded here, on the tokens,
//! before there is any tree: every token counts towards a limit, and only what begins a sibling of
//! the expression before it starts a count over.

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};
use thalweg_types::{Error, Result, SqlState};

/// Chains of more operators than this are balanced.
pub const UNBALANCED_MAX: usize = 64;

/// Maximum nesting of parentheses and brackets.
const BRACKETS_MAX: usize = 256;

/// Maximum number of operators on one path of the tree, weighed by [`ARITHMETIC_WEIGHT`].
const CHAIN_MAX: usize = 1_000;

/// Maximum number of signs of sums and products between one pair of brackets. They are balanced
/// later, but the parser has to build their tree first.
const SIGNS_MAX: usize = 5_000;

/// Weight of an arithmetic operator or a subscript: each is a call with a name of its own, and
/// planning takes time that grows with the cube of their number.
const ARITHMETIC_WEIGHT: usize = 4;

/// Maximum number of words that follow each other with nothing else between them. Prefixes such as
/// `INTERVAL` are words that the parser recurses into.
const WORDS_MAX: usize = 500;

/// Maximum number of words in an expression beside its operators. They are names of columns, and
/// operators of the parser that this module does not know.
const EXPRESSION_WORDS_MAX: usize = 6_000;

/// Maximum number of queries, joins and set operations in a statement. A common table expression
/// can be the source of the next one, so that all of them can lie on one path of the plan.
const RELATIONS_MAX: usize = 3_000;

/// Upper bound of the depth of a statement's tree.
#[derive(Clone, Copy, Debug, Default)]
pub struct Depth {
    /// Brackets inside each other.
    pub brackets: usize,
    /// Operators on one path.
    pub operators: usize,
    /// Words in a row.
    pub words: usize,
}

/// Checks the tokens of a text, which may hold several statements.
///
/// # Errors
/// `54001` where a limit is exceeded.
pub fn check(tokens: &[TokenWithSpan]) -> Result<Depth> {
    let mut path = Path::default();
    for TokenWithSpan { token, .. } in tokens {
        path.take(token)?;
    }
    Ok(path.deepest)
}

/// The brackets around a token, each with its state.
struct Path {
    levels: Vec<Level>,
    /// The sum of all levels' lengths.
    chain: usize,
    /// Queries and relations since the statement began.
    relations: usize,
    /// Words since the last token that is not a word.
    words: usize,
    previous: Previous,
    deepest: Depth,
}

impl Default for Path {
    fn default() -> Self {
        Path {
            levels: vec![Level::default()],
            chain: 0,
            relations: 0,
            words: 0,
            previous: Previous::Start,
            deepest: Depth::default(),
        }
    }
}

/// The kind of the previous token, as far as the reading of the next one depends on it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Previous {
    /// Nothing, an opening bracket, a comma or a period.
    Start,
    /// An operand must follow.
    Operator,
    Keyword(Keyword),
    /// A literal, a closing bracket, or a star in place of columns.
    Operand,
}

impl Path {
    fn take(&mut self, token: &Token) -> Result<()> {
        if matches!(token, Token::Whitespace(_) | Token::EOF) {
            return Ok(());
        }
        match token {
            Token::LParen | Token::LBracket | Token::LBrace => {
                let is_subscript = *token == Token::LBracket && self.previous.is_operand();
                if is_subscript {
                    self.count(|level| level.operators += ARITHMETIC_WEIGHT)?;
                }
                self.open(false, "parentheses")?;
            }
            Token::Word(word) if word.keyword == Keyword::CASE => {
                self.open(true, "CASE expressions")?;
            }
            Token::Word(word) if word.keyword == Keyword::END && self.is_in_case() => self.close(),
            Token::RParen | Token::RBracket | Token::RBrace => {
                if self.levels.len() > 1 {
                    self.close();
                }
            }
            Token::SemiColon => *self = Path { deepest: self.deepest, ..Path::default() },
            token => self.count_token(token)?,
        }
        self.words = if matches!(token, Token::Word(_)) { self.words + 1 } else { 0 };
        self.previous = self.previous.then(token);
        if self.previous == Previous::Operator {
            self.words = 0;
        }
        self.deepest.words = self.deepest.words.max(self.words);
        match self.words > WORDS_MAX {
            true => Err(too_complex(&format!("words in a row (the limit is {WORDS_MAX})"))),
            false => Ok(()),
        }
    }

    fn open(&mut self, is_case: bool, what: &str) -> Result<()> {
        self.levels.push(Level { is_case, ..Level::default() });
        self.deepest.brackets = self.deepest.brackets.max(self.levels.len());
        match self.levels.len() > BRACKETS_MAX {
            true => Err(too_complex(&format!("{what} (the limit is {BRACKETS_MAX})"))),
            false => Ok(()),
        }
    }

    fn is_in_case(&self) -> bool {
        self.levels.last().is_some_and(|level| level.is_case)
    }

    fn close(&mut self) {
        self.chain -= self.levels.pop().map_or(0, |level| level.length());
    }

    fn count_token(&mut self, token: &Token) -> Result<()> {
        let previous = self.previous;
        let mut relations = 0;
        self.count(|level| relations = level.take(token, previous))?;
        self.relations += relations;
        if self.relations > RELATIONS_MAX {
            let what = format!("queries and joins (the limit is {RELATIONS_MAX})");
            return Err(too_complex(&what));
        }
        Ok(())
    }

    fn count(&mut self, take: impl FnOnce(&mut Level)) -> Result<()> {
        let Some(level) = self.levels.last_mut() else { return Ok(()) };
        self.chain -= level.length();
        take(level);
        self.chain += level.length();
        self.deepest.operators = self.deepest.operators.max(self.chain);
        if self.chain > CHAIN_MAX {
            return Err(too_complex(&format!(
                "operators (the limit is {CHAIN_MAX}, where one of arithmetic counts for \
                 {ARITHMETIC_WEIGHT})"
            )));
        }
        if level.words > EXPRESSION_WORDS_MAX {
            let what = format!("words in an expression (the limit is {EXPRESSION_WORDS_MAX})");
            return Err(too_complex(&what));
        }
        if level.signs > SIGNS_MAX {
            return Err(too_complex(&format!("signs in a row (the limit is {SIGNS_MAX})")));
        }
        Ok(())
    }
}

impl Previous {
    /// True if a bracket that follows is a subscript, or belongs to a type's name.
    fn is_operand(self) -> bool {
        match self {
            Previous::Operand => true,
            Previous::Keyword(keyword) => keyword != Keyword::ARRAY,
            Previous::Start | Previous::Operator => false,
        }
    }

    /// True if a clause can begin, so that it is a sibling of the text before it. A word behind an
    /// operator is a name; `IS DISTINCT FROM` and `WITHIN GROUP` belong to expressions.
    fn ends_expression(self, next: Keyword) -> bool {
        !matches!(
            (self, next),
            (Previous::Operator, _)
                | (Previous::Keyword(Keyword::DISTINCT), Keyword::FROM)
                | (Previous::Keyword(Keyword::WITHIN), Keyword::GROUP)
        )
    }

    fn then(self, token: &Token) -> Previous {
        match token {
            Token::LParen
            | Token::LBracket
            | Token::LBrace
            | Token::Comma
            | Token::Period
            | Token::SemiColon => Previous::Start,
            Token::RParen | Token::RBracket | Token::RBrace => Previous::Operand,
            Token::Word(word) if is_operator(word.keyword) => Previous::Operator,
            Token::Word(word) => Previous::Keyword(word.keyword),
            Token::Mul if self.is_before_star() => Previous::Operand,
            token if is_literal(token) => Previous::Operand,
            _ => Previous::Operator,
        }
    }

    /// True if a star stands for all columns.
    fn is_before_star(self) -> bool {
        let keywords = [Keyword::SELECT, Keyword::ALL, Keyword::DISTINCT, Keyword::RETURNING];
        match self {
            Previous::Start => true,
            Previous::Keyword(keyword) => keywords.contains(&keyword),
            Previous::Operator | Previous::Operand => false,
        }
    }
}

fn is_literal(token: &Token) -> bool {
    matches!(
        token,
        Token::Number(..)
            | Token::SingleQuotedString(_)
            | Token::DollarQuotedString(_)
            | Token::EscapedStringLiteral(_)
            | Token::NationalStringLiteral(_)
            | Token::HexStringLiteral(_)
            | Token::UnicodeStringLiteral(_)
            | Token::Placeholder(_)
    )
}

/// Words that each add a level to the tree, and that an operand follows.
fn is_operator(keyword: Keyword) -> bool {
    matches!(
        keyword,
        Keyword::AND
            | Keyword::OR
            | Keyword::XOR
            | Keyword::NOT
            | Keyword::IS
            | Keyword::IN
            | Keyword::LIKE
            | Keyword::ILIKE
            | Keyword::SIMILAR
            | Keyword::REGEXP
            | Keyword::RLIKE
            | Keyword::MATCH
            | Keyword::BETWEEN
            | Keyword::COLLATE
            | Keyword::AT
            | Keyword::OPERATOR
            | Keyword::OVERLAPS
            | Keyword::DIV
            | Keyword::MEMBER
    )
}

/// Words that each add a level to the tree, and that something else than an operand may follow.
fn is_prefix_or_postfix(keyword: Keyword) -> bool {
    matches!(keyword, Keyword::NOTNULL | Keyword::INTERVAL | Keyword::EXPLAIN | Keyword::PRIOR)
}

/// State of one pair of brackets, or of one `CASE … END`.
#[derive(Default)]
struct Level {
    /// Opened by `CASE`, to be closed by `END`.
    is_case: bool,
    /// Commas are between relations, each of which is a join.
    is_in_from: bool,
    /// Operators since the expression began.
    operators: usize,
    /// The signs of sums and products among `operators`.
    signs: usize,
    /// Words since the expression began that are no operators.
    words: usize,
    /// Joins and set operations since the query began.
    relations: usize,
}

impl Level {
    fn length(&self) -> usize {
        // Further signs are balanced.
        self.operators + self.relations + self.signs.min(UNBALANCED_MAX) * ARITHMETIC_WEIGHT
    }

    fn begin_expression(&mut self) {
        (self.operators, self.signs, self.words) = (0, 0, 0);
    }

    /// Counts a token; returns the number of relations that it adds to the statement.
    fn take(&mut self, token: &Token, previous: Previous) -> usize {
        match token {
            Token::Comma => {
                self.begin_expression();
                self.relations += usize::from(self.is_in_from);
                usize::from(self.is_in_from)
            }
            Token::Word(word) => self.take_word(word.keyword, previous),
            Token::Period => 0,
            token if is_literal(token) => 0,
            Token::Plus | Token::Minus | Token::Mul => {
                self.signs += 1;
                0
            }
            Token::Div | Token::Mod | Token::Caret => {
                self.operators += ARITHMETIC_WEIGHT;
                0
            }
            _ => {
                self.operators += 1;
                0
            }
        }
    }

    fn take_word(&mut self, keyword: Keyword, previous: Previous) -> usize {
        let begins = previous.ends_expression(keyword);
        match keyword {
            Keyword::FROM | Keyword::USING if begins || previous == Previous::Operator => {
                self.is_in_from = true;
                self.begin_expression_if(begins);
                0
            }
            Keyword::ON if begins => {
                self.begin_expression();
                0
            }
            Keyword::SELECT
            | Keyword::WHERE
            | Keyword::GROUP
            | Keyword::HAVING
            | Keyword::ORDER
            | Keyword::SET
            | Keyword::VALUES
            | Keyword::TABLE
            | Keyword::RETURNING
            | Keyword::WHEN
            | Keyword::THEN
            | Keyword::ELSE => {
                self.is_in_from &= !begins;
                self.begin_expression_if(begins);
                let is_query = [Keyword::SELECT, Keyword::VALUES, Keyword::TABLE];
                usize::from(is_query.contains(&keyword))
            }
            Keyword::JOIN | Keyword::UNION | Keyword::EXCEPT | Keyword::INTERSECT => {
                self.begin_expression_if(begins);
                self.relations += 1;
                1
            }
            keyword if is_operator(keyword) || is_prefix_or_postfix(keyword) => {
                self.operators += 1;
                0
            }
            _ => {
                self.words += 1;
                0
            }
        }
    }

    fn begin_expression_if(&mut self, begins: bool) {
        match begins {
            true => self.begin_expression(),
            // A name that is spelled as a keyword.
            false => self.words += 1,
        }
    }
}

fn too_complex(what: &str) -> Error {
    Error::new(SqlState::STATEMENT_TOO_COMPLEX, "statement is too complex")
        .with_detail(format!("It nests too many {what}."))
        .with_hint("Split the statement, or use IN (…) or = ANY (…) in place of long chains.")
}
