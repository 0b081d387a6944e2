//! Reading paths of JSON: `$.items[*] ? (@.price > 10).name`.

use serde_json::Value;
use thalweg_types::{Error, Result, SqlState};

use super::super::super::regexp::Matcher;

/// Maximum nesting of expressions in parentheses.
const DEPTH_MAX: usize = 100;
/// Maximum number of predicates joined by `&&` and `||`: each lies inside the one behind it.
const JOINED_MAX: usize = 1_000;

pub(super) struct Path {
    /// True in strict mode: the document must have the shape that the path describes.
    pub(super) strict: bool,
    pub(super) expression: Expression,
}

pub(super) enum Expression {
    Steps { start: Start, steps: Vec<Step> },
    Predicate(Box<Predicate>),
}

pub(super) enum Start {
    /// `$`
    Document,
    /// `@`
    Current,
    /// `$name`
    Variable(String),
    /// The JSON that it is.
    Literal(String),
    Nested(Box<Expression>),
}

pub(super) enum Step {
    /// `.name`
    Member(String),
    /// `.*`
    Members,
    /// `.**{first to last}`, in levels below the value.
    Anywhere(u32, u32),
    /// `[*]`
    Items,
    /// `[first to last, …]`
    Places(Vec<(Place, Place)>),
    /// `? (…)`
    Filter(Predicate),
    /// `.type()`
    Type,
    /// `.size()`
    Size,
    /// `.double()`
    Double,
}

/// The place of an item: from the first one, or from the last one.
#[derive(Clone, Copy)]
pub(super) enum Place {
    First(i64),
    Last(i64),
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

pub(super) enum Predicate {
    Compare(Expression, Comparison, Expression),
    Both(Box<Predicate>, Box<Predicate>),
    Either(Box<Predicate>, Box<Predicate>),
    Not(Box<Predicate>),
    IsUnknown(Box<Predicate>),
    Exists(Expression),
    StartsWith(Expression, Expression),
    Matches(Expression, Matcher),
}

impl Path {
    pub(super) fn parse(text: &str) -> Result<Path> {
        if text.trim().is_empty() {
            let error_text = format!("invalid input syntax for type jsonpath: \"{text}\"");
            return Err(Error::new(SqlState::INVALID_TEXT_REPRESENTATION, error_text));
        }
        let mut parser = Parser { rest: text, depth: 0, joined: 0 };
        let strict = parser.word("strict");
        if !strict {
            parser.word("lax");
        }
        let expression = parser.either()?;
        match parser.next() {
            None => Ok(Path { strict, expression }),
            Some(_) => Err(parser.unexpected()),
        }
    }
}

struct Parser<'t> {
    rest: &'t str,
    depth: usize,
    joined: usize,
}

fn too_complex() -> Error {
    Error::new(SqlState::LIMIT_EXCEEDED, "a path of JSON is too complex")
}

fn is_part_of_name(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '$')
}

impl<'t> Parser<'t> {
    /// The character behind all blanks.
    fn next(&mut self) -> Option<char> {
        self.rest = self.rest.trim_start();
        self.rest.chars().next()
    }

    fn unexpected(&mut self) -> Error {
        let error_text = match self.next() {
            None => "syntax error at end of jsonpath input".to_owned(),
            Some(first) => {
                let name =
                    self.rest.split(|c: char| !is_part_of_name(c)).next().unwrap_or_default();
                let found = if name.is_empty() { first.to_string() } else { name.to_owned() };
                format!("syntax error at or near \"{found}\" of jsonpath input")
            }
        };
        Error::new(SqlState::SYNTAX_ERROR, error_text)
    }

    /// Takes a sign, if it comes next.
    fn sign(&mut self, sign: &str) -> bool {
        self.next();
        match self.rest.strip_prefix(sign) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn expect(&mut self, sign: &str) -> Result<()> {
        if self.sign(sign) { Ok(()) } else { Err(self.unexpected()) }
    }

    /// Takes a word, if it comes next.
    fn word(&mut self, word: &str) -> bool {
        self.next();
        match self.rest.strip_prefix(word) {
            Some(rest) if !rest.starts_with(is_part_of_name) => {
                self.rest = rest;
                true
            }
            _ => false,
        }
    }

    fn name(&mut self) -> Option<&'t str> {
        let end = self.rest.find(|c: char| !is_part_of_name(c)).unwrap_or(self.rest.len());
        let (name, rest) = self.rest.split_at(end);
        self.rest = rest;
        (!name.is_empty()).then_some(name)
    }

    /// Text in double quotes, as it is in JSON.
    fn quoted(&mut self) -> Result<Option<String>> {
        if self.next() != Some('"') {
            return Ok(None);
        }
        let mut escaped = false;
        let end = self.rest.char_indices().skip(1).find(|(_, c)| {
            let ends = *c == '"' && !escaped;
            escaped = *c == '\\' && !escaped;
            ends
        });
        let text = end.map(|(end, _)| self.rest.split_at(end + 1));
        let read = text.and_then(|(text, rest)| Some((serde_json::from_str(text).ok()?, rest)));
        let Some((text, rest)) = read else { return Err(self.unexpected()) };
        self.rest = rest;
        Ok(Some(text))
    }

    /// The digits of a number that stands next, with a point and an exponent.
    fn number(&mut self) -> Option<&'t str> {
        let mut previous = ' ';
        let end = self.rest.find(|c: char| {
            let is_sign = matches!(c, '+' | '-') && matches!(previous, 'e' | 'E');
            previous = c;
            !(c.is_ascii_digit() || is_sign || matches!(c, '.' | 'e' | 'E'))
        });
        let (number, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
        serde_json::from_str::<serde_json::Number>(number).ok()?;
        self.rest = rest;
        Some(number)
    }

    /// A predicate, or else an expression with values.
    fn either(&mut self) -> Result<Expression> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(too_complex());
        }
        let mut first = self.both()?;
        while self.joins("||")? {
            let second = self.both()?;
            let (first_one, second) = (self.predicate(first)?, self.predicate(second)?);
            let either = Predicate::Either(Box::new(first_one), Box::new(second));
            first = Expression::Predicate(Box::new(either));
        }
        self.depth -= 1;
        Ok(first)
    }

    fn both(&mut self) -> Result<Expression> {
        let mut first = self.compared()?;
        while self.joins("&&")? {
            let second = self.compared()?;
            let (first_one, second) = (self.predicate(first)?, self.predicate(second)?);
            let both = Predicate::Both(Box::new(first_one), Box::new(second));
            first = Expression::Predicate(Box::new(both));
        }
        Ok(first)
    }

    /// Reads a sign that joins two predicates, if it comes next.
    fn joins(&mut self, sign: &str) -> Result<bool> {
        let joins = self.sign(sign);
        self.joined += usize::from(joins);
        match self.joined > JOINED_MAX {
            true => Err(too_complex()),
            false => Ok(joins),
        }
    }

    fn predicate(&mut self, expression: Expression) -> Result<Predicate> {
        match expression {
            Expression::Predicate(predicate) => Ok(*predicate),
            Expression::Steps { .. } => Err(self.unexpected()),
        }
    }

    fn in_parentheses(&mut self) -> Result<Expression> {
        self.expect("(")?;
        let expression = self.either()?;
        self.expect(")")?;
        Ok(expression)
    }

    fn compared(&mut self) -> Result<Expression> {
        if self.next() == Some('!') && !self.rest.starts_with("!=") {
            self.sign("!");
            let inner = self.in_parentheses()?;
            let inner = self.predicate(inner)?;
            return Ok(Expression::Predicate(Box::new(Predicate::Not(Box::new(inner)))));
        }
        if self.word("exists") {
            let inner = self.in_parentheses()?;
            return Ok(Expression::Predicate(Box::new(Predicate::Exists(inner))));
        }
        let left = self.values()?;
        let predicate = match self.comparison() {
            Some(comparison) => Predicate::Compare(left, comparison, self.values()?),
            None if self.word("starts") => {
                if !self.word("with") {
                    return Err(self.unexpected());
                }
                Predicate::StartsWith(left, self.values()?)
            }
            None if self.word("like_regex") => Predicate::Matches(left, self.pattern()?),
            None if self.next().is_some_and(|c| matches!(c, '+' | '-' | '*' | '/' | '%')) => {
                return Err(Error::unsupported("arithmetic in a path of JSON"));
            }
            None => return Ok(left),
        };
        Ok(Expression::Predicate(Box::new(predicate)))
    }

    fn comparison(&mut self) -> Option<Comparison> {
        let signs = [
            ("==", Comparison::Equal),
            ("!=", Comparison::NotEqual),
            ("<>", Comparison::NotEqual),
            ("<=", Comparison::LessOrEqual),
            ("<", Comparison::Less),
            (">=", Comparison::GreaterOrEqual),
            (">", Comparison::Greater),
        ];
        signs.into_iter().find(|(sign, _)| self.sign(sign)).map(|(_, comparison)| comparison)
    }

    /// A regular expression, and flags as they are in XQuery.
    fn pattern(&mut self) -> Result<Matcher> {
        let Some(pattern) = self.quoted()? else { return Err(self.unexpected()) };
        let given = match self.word("flag") {
            true => self.quoted()?.ok_or_else(|| self.unexpected())?,
            false => String::new(),
        };
        if let Some(other) = given.chars().find(|flag| !"imsq".contains(*flag)) {
            let error_text = format!("invalid input syntax for type jsonpath: flag \"{other}\"");
            return Err(Error::new(SqlState::SYNTAX_ERROR, error_text));
        }
        // A dot matches the end of a line only with the flag `s`.
        let mut flags = String::from(if given.contains('s') { "s" } else { "p" });
        flags.extend(given.contains('i').then_some('i'));
        flags.extend(given.contains('m').then_some('w'));
        let plain = given.contains('q').then(|| regex::escape(&pattern));
        Matcher::new(&plain.unwrap_or(pattern), &flags)
    }

    fn values(&mut self) -> Result<Expression> {
        let start = self.start()?;
        let mut steps = Vec::new();
        while let Some(step) = self.step()? {
            steps.push(step);
        }
        Ok(match start {
            // `(predicate)`, which `is unknown` may follow.
            Start::Nested(inner) if steps.is_empty() => match *inner {
                Expression::Predicate(inner) if self.word("is") => {
                    if !self.word("unknown") {
                        return Err(self.unexpected());
                    }
                    Expression::Predicate(Box::new(Predicate::IsUnknown(inner)))
                }
                inner => inner,
            },
            start => Expression::Steps { start, steps },
        })
    }

    fn start(&mut self) -> Result<Start> {
        if let Some(text) = self.quoted()? {
            return Ok(Start::Literal(Value::from(text).to_string()));
        }
        for literal in ["null", "true", "false"] {
            if self.word(literal) {
                return Ok(Start::Literal(literal.to_owned()));
            }
        }
        match self.next() {
            Some('(') => Ok(Start::Nested(Box::new(self.in_parentheses()?))),
            Some('@') => {
                self.sign("@");
                Ok(Start::Current)
            }
            Some('$') => {
                self.sign("$");
                if let Some(name) = self.name() {
                    return Ok(Start::Variable(name.to_owned()));
                }
                let is_quoted = self.rest.starts_with('"');
                let name = if is_quoted { self.quoted()? } else { None };
                Ok(name.map_or(Start::Document, Start::Variable))
            }
            Some('-') => {
                self.sign("-");
                self.next();
                let number = self.number().ok_or_else(|| self.unexpected())?;
                Ok(Start::Literal(format!("-{number}")))
            }
            _ => {
                let number = self.number().ok_or_else(|| self.unexpected())?;
                Ok(Start::Literal(number.to_owned()))
            }
        }
    }

    fn step(&mut self) -> Result<Option<Step>> {
        if self.sign("?") {
            let filter = self.in_parentheses()?;
            return Ok(Some(Step::Filter(self.predicate(filter)?)));
        }
        if self.sign("[") {
            return self.subscript().map(Some);
        }
        if !self.sign(".") {
            return Ok(None);
        }
        if self.sign("**") {
            return self.levels().map(Some);
        }
        if self.sign("*") {
            return Ok(Some(Step::Members));
        }
        if let Some(name) = self.quoted()? {
            return Ok(Some(Step::Member(name)));
        }
        let Some(name) = self.name() else { return Err(self.unexpected()) };
        if self.next() != Some('(') {
            return Ok(Some(Step::Member(name.to_owned())));
        }
        let method = match name {
            "type" => Step::Type,
            "size" => Step::Size,
            "double" => Step::Double,
            "ceiling" | "floor" | "abs" | "keyvalue" | "datetime" => {
                return Err(Error::unsupported(format_args!("the method .{name}() of a path")));
            }
            _ => return Err(self.unexpected()),
        };
        self.expect("(")?;
        self.expect(")")?;
        Ok(Some(method))
    }

    fn subscript(&mut self) -> Result<Step> {
        if self.sign("*") {
            self.expect("]")?;
            return Ok(Step::Items);
        }
        let mut places = Vec::new();
        loop {
            let first = self.place()?;
            let last = if self.word("to") { self.place()? } else { first };
            places.push((first, last));
            if !self.sign(",") {
                break;
            }
        }
        self.expect("]")?;
        Ok(Step::Places(places))
    }

    fn place(&mut self) -> Result<Place> {
        if self.word("last") {
            let back = if self.sign("-") { self.whole()? } else { 0 };
            return Ok(Place::Last(back));
        }
        let negative = self.sign("-");
        let place = self.whole()?;
        Ok(Place::First(if negative { -place } else { place }))
    }

    /// The whole part of a number.
    fn whole(&mut self) -> Result<i64> {
        self.next();
        let number = self.number().and_then(|number| number.parse::<f64>().ok());
        let number = number.filter(|number| *number < 1e9).ok_or_else(|| self.unexpected())?;
        Ok(number as i64)
    }

    fn levels(&mut self) -> Result<Step> {
        if !self.sign("{") {
            return Ok(Step::Anywhere(0, u32::MAX));
        }
        let first = self.level()?;
        let last = if self.word("to") { self.level()? } else { first };
        self.expect("}")?;
        Ok(Step::Anywhere(first, last))
    }

    fn level(&mut self) -> Result<u32> {
        if self.word("last") { Ok(u32::MAX) } else { Ok(self.whole()? as u32) }
    }
}
