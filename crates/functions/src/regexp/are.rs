//! PostgreSQL's advanced regular expressions as a tree.

mod brackets;
mod escapes;

use regex_syntax::hir::{ClassUnicode, ClassUnicodeRange};
use thalweg_types::{Error, Result, SqlState};

/// The greatest number in braces, as in PostgreSQL.
const COUNT_MAX: u32 = 255;
/// Maximum nesting of groups.
const DEPTH_MAX: usize = 200;

#[derive(Clone, Debug)]
pub(super) enum Node {
    Empty,
    /// One character out of a set.
    Set(ClassUnicode),
    Assert(Assert),
    Look {
        behind: bool,
        negative: bool,
        node: Box<Node>,
    },
    /// The text that a group matched.
    Back(usize),
    /// A group with its number, counted from 1, or one that captures nothing.
    Group(Option<usize>, Box<Node>),
    Concat(Vec<Node>),
    Alternatives(Vec<Node>),
    Repeat {
        node: Box<Node>,
        min: u32,
        max: Option<u32>,
        prefers: Preference,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Assert {
    TextStart,
    TextEnd,
    LineStart,
    LineEnd,
    WordStart,
    WordEnd,
    WordEdge,
    NotWordEdge,
}

/// The preference of an expression among several matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Preference {
    None,
    Longer,
    Shorter,
}

impl Node {
    /// The first quantifier of a sequence decides; alternatives always prefer the longest match.
    pub(super) fn prefers(&self) -> Preference {
        match self {
            Node::Group(_, node) => node.prefers(),
            Node::Repeat { prefers: Preference::None, node, .. } => node.prefers(),
            Node::Repeat { prefers, .. } => *prefers,
            Node::Concat(nodes) => nodes
                .iter()
                .map(Node::prefers)
                .find(|prefers| *prefers != Preference::None)
                .unwrap_or(Preference::None),
            Node::Alternatives(_) => Preference::Longer,
            _ => Preference::None,
        }
    }

    /// True if this node or a node in it meets a condition.
    pub(super) fn any(&self, asked: &impl Fn(&Node) -> bool) -> bool {
        asked(self)
            || match self {
                Node::Group(_, node) | Node::Repeat { node, .. } | Node::Look { node, .. } => {
                    node.any(asked)
                }
                Node::Concat(nodes) | Node::Alternatives(nodes) => {
                    nodes.iter().any(|node| node.any(asked))
                }
                _ => false,
            }
    }
}

/// The options that the letters of a flags argument, and those of `(?…)` in front of a pattern,
/// switch.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Options {
    pub(super) ignore_case: bool,
    /// A dot and a negated set do not match line ends.
    pub(super) stops_at_lines: bool,
    /// `^` and `$` stand at the ends of lines, too.
    pub(super) anchors_at_lines: bool,
    pub(super) expanded: bool,
    pub(super) literal: bool,
}

impl Options {
    fn switch(&mut self, letter: char) -> Result<bool> {
        let lines = match letter {
            'i' => {
                self.ignore_case = true;
                return Ok(true);
            }
            'c' => {
                self.ignore_case = false;
                return Ok(true);
            }
            'x' => {
                self.expanded = true;
                return Ok(true);
            }
            't' => {
                self.expanded = false;
                return Ok(true);
            }
            'q' => {
                self.literal = true;
                return Ok(true);
            }
            'b' => return Err(Error::unsupported("a basic regular expression")),
            'e' => {
                self.literal = false;
                return Ok(true);
            }
            'n' | 'm' => (true, true),
            'p' => (true, false),
            'w' => (false, true),
            's' => (false, false),
            _ => return Ok(false),
        };
        (self.stops_at_lines, self.anchors_at_lines) = lines;
        Ok(true)
    }

    pub(super) fn of_flags(flags: &str) -> Result<Options> {
        let mut options = Options::default();
        for letter in flags.chars().filter(|letter| *letter != 'g') {
            if !options.switch(letter)? {
                let message = format!("invalid regular expression option: \"{letter}\"");
                return Err(Error::new(SqlState::INVALID_PARAMETER_VALUE, message));
            }
        }
        Ok(options)
    }
}

pub(super) fn invalid(reason: &str) -> Error {
    Error::new(
        SqlState::INVALID_REGULAR_EXPRESSION,
        format!("invalid regular expression: {reason}"),
    )
}

const BAD_OPERAND: &str = "quantifier operand invalid";

/// A pattern as a tree, and the number of its groups.
pub(super) fn parse(pattern: &str, options: Options) -> Result<(Node, usize)> {
    let mut parser = Parser { rest: pattern, options, groups: 0, closed: Vec::new(), depth: 0 };
    parser.prefixes()?;
    if parser.options.literal {
        let characters = parser.rest.chars().map(|c| Node::Set(parser.set_of(c)));
        return Ok((Node::Concat(characters.collect()), 0));
    }
    let node = parser.alternatives()?;
    if !parser.rest.is_empty() {
        return Err(invalid("parentheses () not balanced"));
    }
    Ok((node, parser.groups))
}

struct Parser<'p> {
    rest: &'p str,
    options: Options,
    /// Number of groups that have begun.
    groups: usize,
    /// The groups that have ended, which can be referred to.
    closed: Vec<usize>,
    depth: usize,
}

impl Parser<'_> {
    fn eat(&mut self, text: &str) -> bool {
        match self.rest.strip_prefix(text) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let next = self.peek()?;
        self.rest = &self.rest[next.len_utf8()..];
        Some(next)
    }

    fn prefixes(&mut self) -> Result<()> {
        if self.options.literal {
            return Ok(());
        }
        if self.eat("***=") {
            self.options.literal = true;
            return Ok(());
        }
        if !self.eat("***:") && self.rest.starts_with("***") {
            return Err(invalid(BAD_OPERAND));
        }
        let Some(letters) = self.rest.strip_prefix("(?") else { return Ok(()) };
        if !letters.starts_with(|c: char| c.is_ascii_alphabetic()) {
            return Ok(());
        }
        let bad = || invalid("invalid embedded option");
        let (letters, rest) = letters.split_once(')').ok_or_else(bad)?;
        for letter in letters.chars() {
            if !self.options.switch(letter)? {
                return Err(bad());
            }
        }
        self.rest = rest;
        Ok(())
    }

    /// One character, or its forms in upper and lower case.
    fn set_of(&self, c: char) -> ClassUnicode {
        self.folded(ClassUnicode::new([ClassUnicodeRange::new(c, c)]))
    }

    fn folded(&self, mut set: ClassUnicode) -> ClassUnicode {
        if self.options.ignore_case {
            set.case_fold_simple();
        }
        set
    }

    /// All but the characters of a set.
    fn complement(&self, mut set: ClassUnicode) -> ClassUnicode {
        if self.options.stops_at_lines {
            set.push(ClassUnicodeRange::new('\n', '\n'));
        }
        set.negate();
        set
    }

    /// Skips comments, and blanks where they mean nothing.
    fn skip(&mut self) -> Result<()> {
        loop {
            if let Some(comment) = self.rest.strip_prefix("(?#") {
                let end = comment.find(')');
                let end = end.ok_or_else(|| invalid("parentheses () not balanced"))?;
                self.rest = &comment[end + 1..];
            } else if self.options.expanded && self.rest.starts_with(char::is_whitespace) {
                self.rest = self.rest.trim_start();
            } else if self.options.expanded && self.rest.starts_with('#') {
                self.rest = self.rest.find('\n').map_or("", |end| &self.rest[end..]);
            } else {
                return Ok(());
            }
        }
    }

    fn alternatives(&mut self) -> Result<Node> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(invalid("regular expression is too complex"));
        }
        let mut branches = vec![self.branch()?];
        while self.eat("|") {
            branches.push(self.branch()?);
        }
        self.depth -= 1;
        Ok(match branches.len() {
            1 => branches.remove(0),
            _ => Node::Alternatives(branches),
        })
    }

    fn branch(&mut self) -> Result<Node> {
        let mut nodes = Vec::new();
        loop {
            self.skip()?;
            match self.peek() {
                None | Some('|') => break,
                Some(')') if self.depth > 1 => break,
                Some(_) => {
                    let atom = self.atom()?;
                    nodes.push(self.quantified(atom)?);
                }
            }
        }
        Ok(match nodes.len() {
            0 => Node::Empty,
            1 => nodes.remove(0),
            _ => Node::Concat(nodes),
        })
    }

    fn atom(&mut self) -> Result<Node> {
        let anchor = |at_lines: bool, line, text| Node::Assert(if at_lines { line } else { text });
        if self.eat("[[:<:]]") {
            return Ok(Node::Assert(Assert::WordStart));
        }
        if self.eat("[[:>:]]") {
            return Ok(Node::Assert(Assert::WordEnd));
        }
        let at_lines = self.options.anchors_at_lines;
        let next = self.next().ok_or_else(|| invalid(BAD_OPERAND))?;
        Ok(match next {
            '^' => anchor(at_lines, Assert::LineStart, Assert::TextStart),
            '$' => anchor(at_lines, Assert::LineEnd, Assert::TextEnd),
            '.' => Node::Set(self.complement(ClassUnicode::empty())),
            '[' => Node::Set(self.bracket()?),
            '(' => self.group()?,
            ')' => return Err(invalid("parentheses () not balanced")),
            '*' | '+' | '?' => return Err(invalid(BAD_OPERAND)),
            '{' if self.peek().is_some_and(|c| c.is_ascii_digit()) => {
                return Err(invalid(BAD_OPERAND));
            }
            '\\' => self.escape()?,
            c => Node::Set(self.set_of(c)),
        })
    }

    fn group(&mut self) -> Result<Node> {
        let look = [("?=", false, false), ("?!", false, true), ("?<=", true, false)];
        let look = look.into_iter().chain([("?<!", true, true)]);
        for (mark, behind, negative) in look {
            if self.eat(mark) {
                let node = Box::new(without_captures(self.alternatives()?));
                self.close()?;
                return Ok(Node::Look { behind, negative, node });
            }
        }
        if self.eat("?:") {
            let node = self.alternatives()?;
            self.close()?;
            return Ok(Node::Group(None, Box::new(node)));
        }
        if self.rest.starts_with('?') {
            return Err(invalid(BAD_OPERAND));
        }
        self.groups += 1;
        let number = self.groups;
        let node = self.alternatives()?;
        self.close()?;
        self.closed.push(number);
        Ok(Node::Group(Some(number), Box::new(node)))
    }

    fn close(&mut self) -> Result<()> {
        match self.eat(")") {
            true => Ok(()),
            false => Err(invalid("parentheses () not balanced")),
        }
    }

    fn quantified(&mut self, atom: Node) -> Result<Node> {
        self.skip()?;
        let Some((min, max, is_exact)) = self.quantifier()? else { return Ok(atom) };
        if matches!(atom, Node::Assert(_) | Node::Look { .. }) {
            return Err(invalid(BAD_OPERAND));
        }
        let prefers = match (self.eat("?"), is_exact) {
            (_, true) => Preference::None,
            (true, _) => Preference::Shorter,
            (false, _) => Preference::Longer,
        };
        self.skip()?;
        if self.peek().is_some_and(|c| matches!(c, '*' | '+' | '?')) || self.is_bound() {
            return Err(invalid(BAD_OPERAND));
        }
        Ok(Node::Repeat { node: Box::new(atom), min, max, prefers })
    }

    fn is_bound(&self) -> bool {
        self.rest
            .strip_prefix('{')
            .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    }

    /// `*`, `+`, `?` or `{m,n}`; the flag is true for `{m}`, which has no preference.
    fn quantifier(&mut self) -> Result<Option<(u32, Option<u32>, bool)>> {
        Ok(Some(match self.peek() {
            Some('*') => (self.next(), (0, None, false)).1,
            Some('+') => (self.next(), (1, None, false)).1,
            Some('?') => (self.next(), (0, Some(1), false)).1,
            Some('{') if self.is_bound() => {
                self.next();
                let unbalanced = || invalid("braces {} not balanced");
                let (bound, rest) = self.rest.split_once('}').ok_or_else(unbalanced)?;
                self.rest = rest;
                let count = |text: &str| {
                    let count = text.parse::<u32>().ok().filter(|count| *count <= COUNT_MAX);
                    count.ok_or_else(|| invalid("invalid repetition count(s)"))
                };
                match bound.split_once(',') {
                    None => (count(bound)?, Some(count(bound)?), true),
                    Some((min, "")) => (count(min)?, None, false),
                    Some((min, max)) => {
                        let (min, max) = (count(min)?, count(max)?);
                        if min > max {
                            return Err(invalid("invalid repetition count(s)"));
                        }
                        (min, Some(max), false)
                    }
                }
            }
            _ => return Ok(None),
        }))
    }
}

/// Groups inside a look-around capture nothing.
pub(super) fn without_captures(node: Node) -> Node {
    let boxed = |node: Box<Node>| Box::new(without_captures(*node));
    match node {
        Node::Group(_, node) => Node::Group(None, boxed(node)),
        Node::Look { behind, negative, node } => Node::Look { behind, negative, node: boxed(node) },
        Node::Repeat { node, min, max, prefers } => {
            Node::Repeat { node: boxed(node), min, max, prefers }
        }
        Node::Concat(nodes) => Node::Concat(nodes.into_iter().map(without_captures).collect()),
        Node::Alternatives(nodes) => {
            Node::Alternatives(nodes.into_iter().map(without_captures).collect())
        }
        node => node,
    }
}
