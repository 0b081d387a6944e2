//! A compiled pattern.
//!
//! The `regex` crate answers questions that do not depend on the choice among several matches: if
//! there is a match, and where the first one begins. It takes the first alternative that matches,
//! but PostgreSQL takes the longest match. So the ends of matches come from the crate only for
//! patterns where both are equal.

use regex::Regex;
use regex_syntax::hir::ClassUnicode;
use thalweg_types::Result;

use super::are::{self, Assert, Node, Options, Preference, invalid};
use super::dissect::{Groups, Part};

#[derive(Debug)]
pub(crate) struct Matcher {
    /// The pattern for the `regex` crate, if the crate supports all of it.
    quick: Option<Regex>,
    /// True if the `regex` crate finds the same matches.
    is_plain: bool,
    root: Option<Part>,
    groups: usize,
    has_references: bool,
}

impl Matcher {
    pub(crate) fn new(pattern: &str, flags: &str) -> Result<Matcher> {
        Matcher::with(pattern, Options::of_flags(flags)?)
    }

    fn with(pattern: &str, options: Options) -> Result<Matcher> {
        let (node, groups) = are::parse(pattern, options)?;
        let quick = translated(&node).map(|text| Regex::new(&text)).transpose();
        let quick = quick.map_err(|_| invalid("regular expression is too complex"))?;
        let is_plain = quick.is_some() && is_plain(&node);
        let root = match is_plain {
            true => None,
            false => {
                let mut nodes = vec![Node::Empty; groups];
                note_groups(&node, &mut nodes);
                Some(Part::new(&node, &nodes)?)
            }
        };
        let has_references = node.any(&|node| matches!(node, Node::Back(_)));
        Ok(Matcher { quick, is_plain, root, groups, has_references })
    }

    /// Number of groups.
    pub(super) fn groups(&self) -> usize {
        self.groups
    }

    pub(crate) fn is_match(&self, text: &str) -> bool {
        match &self.quick {
            Some(quick) => quick.is_match(text),
            None => self.find(text, 0).is_some(),
        }
    }

    /// The first match that begins at a place or behind it.
    pub(super) fn find(&self, text: &str, from: usize) -> Option<Groups> {
        let (Some(root), false) = (&self.root, self.is_plain) else {
            let captures = self.quick.as_ref()?.captures_at(text, from)?;
            let places = captures.iter();
            return Some(places.map(|group| group.map(|at| (at.start(), at.end()))).collect());
        };
        let empty = || vec![None; self.groups + 1];
        if let Some(quick) = &self.quick {
            let start = quick.find_at(text, from)?.start();
            let end = root.end(text, start)?;
            let mut found = empty();
            root.dissect(text, start, end, &mut found);
            found[0] = Some((start, end));
            return Some(found);
        }
        let starts = text[from..].char_indices().map(|(at, _)| from + at);
        for start in starts.chain([text.len()]) {
            if !self.has_references {
                let Some(end) = root.end(text, start) else { continue };
                let mut found = empty();
                root.dissect(text, start, end, &mut found);
                found[0] = Some((start, end));
                return Some(found);
            }
            for end in root.ends(text, start, text.len()) {
                let mut found = empty();
                if root.dissect(text, start, end, &mut found) {
                    found[0] = Some((start, end));
                    return Some(found);
                }
            }
        }
        None
    }

    /// All matches from a place on. An empty match may lie at the end of another one.
    pub(super) fn find_all<'m>(
        &'m self,
        text: &'m str,
        from: usize,
    ) -> impl Iterator<Item = Groups> + 'm {
        let mut next = Some(from);
        std::iter::from_fn(move || {
            let found = self.find(text, next?)?;
            let (start, end) = found[0]?;
            next = match start == end {
                true => text[end..].chars().next().map(|c| end + c.len_utf8()),
                false => Some(end),
            };
            Some(found)
        })
    }
}

/// A pattern as the `regex` crate writes it, for use in place of the operators' right sides.
pub(crate) fn for_operator(pattern: &str, ignore_case: bool) -> Result<Option<String>> {
    let options = Options { ignore_case, ..Options::default() };
    let (node, _) = are::parse(pattern, options)?;
    Ok(translated(&node))
}

fn note_groups(node: &Node, groups: &mut [Node]) {
    match node {
        Node::Group(number, inner) => {
            if let Some(number) = number {
                groups[number - 1] = are::without_captures(inner.as_ref().clone());
            }
            note_groups(inner, groups);
        }
        Node::Repeat { node, .. } => note_groups(node, groups),
        Node::Concat(nodes) | Node::Alternatives(nodes) => {
            nodes.iter().for_each(|node| note_groups(node, groups));
        }
        _ => {}
    }
}

fn translated(node: &Node) -> Option<String> {
    let mut text = String::new();
    write(node, &mut text).then_some(text)
}

/// Writes a node in the syntax of the `regex` crate; false if part of it cannot be written.
fn write(node: &Node, text: &mut String) -> bool {
    match node {
        Node::Empty => true,
        Node::Set(set) => {
            write_set(set, text);
            true
        }
        Node::Assert(assert) => {
            text.push_str(match assert {
                Assert::TextStart => "^",
                Assert::TextEnd => "$",
                Assert::LineStart => "(?m:^)",
                Assert::LineEnd => "(?m:$)",
                Assert::WordStart => r"\b{start}",
                Assert::WordEnd => r"\b{end}",
                Assert::WordEdge => r"\b",
                Assert::NotWordEdge => r"\B",
            });
            true
        }
        Node::Look { .. } | Node::Back(_) => false,
        Node::Group(number, node) => {
            text.push_str(if number.is_some() { "(" } else { "(?:" });
            let does = write(node, text);
            text.push(')');
            does
        }
        Node::Concat(nodes) => nodes.iter().all(|node| write(node, text)),
        Node::Alternatives(nodes) => nodes.iter().enumerate().all(|(place, node)| {
            if place > 0 {
                text.push('|');
            }
            write(node, text)
        }),
        Node::Repeat { node, min, max, prefers } => {
            let is_one = matches!(node.as_ref(), Node::Set(_) | Node::Group(..));
            text.push_str(if is_one { "" } else { "(?:" });
            let does = write(node, text);
            text.push_str(if is_one { "" } else { ")" });
            match (min, max) {
                (0, None) => text.push('*'),
                (1, None) => text.push('+'),
                (0, Some(1)) => text.push('?'),
                (min, None) => text.push_str(&format!("{{{min},}}")),
                (min, Some(max)) => text.push_str(&format!("{{{min},{max}}}")),
            }
            if *prefers == Preference::Shorter {
                text.push('?');
            }
            does
        }
    }
}

fn write_set(set: &ClassUnicode, text: &mut String) {
    if let [range] = set.ranges()
        && range.start() == range.end()
    {
        text.push_str(&regex::escape(&range.start().to_string()));
        return;
    }
    if let [range] = set.ranges()
        && (range.start(), range.end()) == ('\0', char::MAX)
    {
        text.push_str("(?s:.)");
        return;
    }
    text.push('[');
    for range in set.ranges() {
        let (start, end) = (u32::from(range.start()), u32::from(range.end()));
        text.push_str(&format!("\\x{{{start:X}}}-\\x{{{end:X}}}"));
    }
    // A set without characters matches nothing.
    text.push_str(if set.ranges().is_empty() { r"^\x{0}-\x{10FFFF}]" } else { "]" });
}

/// The number of characters, where all matches have as many.
fn length(node: &Node) -> Option<usize> {
    match node {
        Node::Empty | Node::Assert(_) => Some(0),
        Node::Set(_) => Some(1),
        Node::Look { .. } | Node::Back(_) => None,
        Node::Group(_, node) => length(node),
        Node::Concat(nodes) => nodes.iter().map(length).sum(),
        Node::Alternatives(nodes) => {
            let first = length(nodes.first()?)?;
            nodes.iter().all(|node| length(node) == Some(first)).then_some(first)
        }
        Node::Repeat { node, min, max, .. } => {
            (*max == Some(*min)).then(|| length(node).map(|one| one * *min as usize)).flatten()
        }
    }
}

/// True if backtracking finds the same first match as PostgreSQL. This requires that each
/// quantifier is greedy and repeats something of one length. At most one quantifier whose end
/// depends on what follows may stand in each stretch between groups.
fn is_plain(node: &Node) -> bool {
    let mut items = Vec::new();
    flatten(node, false, &mut items);
    let is_anchored = matches!(items.last(), Some((Node::Assert(Assert::TextEnd), _)));
    let mut open = 0;
    let mut in_stretch = 0;
    for (place, (item, begins_stretch)) in items.iter().enumerate() {
        if *begins_stretch {
            in_stretch = 0;
        }
        if length(item).is_some() {
            continue;
        }
        let Node::Repeat { node, prefers: Preference::Longer, .. } = item else { return false };
        if length(node).is_none_or(|length| length == 0) {
            return false;
        }
        let is_decided = match (node.as_ref(), items.get(place + 1)) {
            (Node::Set(set), Some((Node::Set(next), _))) => {
                let mut both = set.clone();
                both.intersect(next);
                both.ranges().is_empty()
            }
            _ => false,
        };
        if !is_decided {
            open += 1;
            in_stretch += 1;
        }
        if in_stretch > 1 {
            return false;
        }
    }
    is_anchored || open <= 1
}

/// The nodes of a sequence, with those of its groups, and whether a group begins or has ended.
fn flatten<'n>(node: &'n Node, begins: bool, items: &mut Vec<(&'n Node, bool)>) {
    match node {
        Node::Concat(nodes) => {
            let mut begins = begins;
            for node in nodes {
                flatten(node, begins, items);
                begins = matches!(node, Node::Group(Some(_), _));
            }
        }
        Node::Group(number, inner) if length(node).is_none() => {
            flatten(inner, begins || number.is_some(), items);
        }
        node => items.push((node, begins)),
    }
}
