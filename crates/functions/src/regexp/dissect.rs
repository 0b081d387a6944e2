//! The groups of a match.
//!
//! The method is Henry Spencer's, whose library PostgreSQL uses: it finds the ends of the whole
//! match first. Then it takes the match apart from left to right, where each part is as long, or as
//! short, as its own quantifiers prefer and the rest allows.

use std::collections::HashSet;

use thalweg_types::Result;

use super::are::{Node, Preference, without_captures};
use super::program::Program;

/// A part of a pattern.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) program: Program,
    pub(super) is_short: bool,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    /// Without groups.
    Plain,
    Group(usize, Box<Part>),
    Back(usize),
    Pair(Box<Part>, Box<Part>),
    Alternatives(Vec<Part>),
    Iteration {
        part: Box<Part>,
        min: usize,
        max: usize,
    },
}

/// The places of groups, in bytes; the first is the whole match.
pub(super) type Groups = Vec<Option<(usize, usize)>>;

fn has_groups(node: &Node) -> bool {
    node.any(&|node| matches!(node, Node::Group(Some(_), _) | Node::Back(_)))
}

fn has_references(node: &Node) -> bool {
    node.any(&|node| matches!(node, Node::Back(_)))
}

impl Part {
    pub(super) fn new(node: &Node, groups: &[Node]) -> Result<Part> {
        let kind = match node {
            node if !has_groups(node) => Kind::Plain,
            Node::Group(number, node) => {
                let part = Part::new(node, groups)?;
                match number {
                    Some(number) => Kind::Group(*number, Box::new(part)),
                    None => return Ok(part),
                }
            }
            Node::Back(group) => Kind::Back(*group),
            Node::Alternatives(nodes) => {
                let parts = nodes.iter().map(|node| Part::new(node, groups));
                Kind::Alternatives(parts.collect::<Result<_>>()?)
            }
            Node::Concat(nodes) => {
                let first = leading(nodes);
                let (left, right) = (sequence(&nodes[..first]), sequence(&nodes[first..]));
                let (left, right) = (Part::new(&left, groups)?, Part::new(&right, groups)?);
                Kind::Pair(Box::new(left), Box::new(right))
            }
            Node::Repeat { node, min: 1, max: Some(1), .. } => return Part::new(node, groups),
            Node::Repeat { max: Some(0), .. } => return Part::new(&Node::Empty, groups),
            Node::Repeat { node: inner, min, max, prefers } => {
                if *min > 0 && !has_references(inner) {
                    // The groups are those of the last repetition.
                    let others = Node::Repeat {
                        node: Box::new(without_captures(inner.as_ref().clone())),
                        min: min - 1,
                        max: max.map(|max| max - 1),
                        prefers: if *prefers == Preference::None {
                            inner.prefers()
                        } else {
                            *prefers
                        },
                    };
                    let (left, right) = (Part::new(&others, groups)?, Part::new(inner, groups)?);
                    Kind::Pair(Box::new(left), Box::new(right))
                } else {
                    Kind::Iteration {
                        part: Box::new(Part::new(inner, groups)?),
                        min: *min as usize,
                        max: max.map_or(usize::MAX, |max| max as usize),
                    }
                }
            }
            _ => Kind::Plain,
        };
        let is_short = node.prefers() == Preference::Shorter;
        Ok(Part { program: Program::new(node, groups)?, is_short, kind })
    }

    /// The ends of matches, the preferred one first.
    pub(super) fn ends(&self, text: &str, start: usize, limit: usize) -> Vec<usize> {
        let mut ends = Vec::new();
        self.program.ends(text, start, limit, |end| {
            ends.push(end);
            true
        });
        if !self.is_short {
            ends.reverse();
        }
        ends
    }

    /// The preferred end of a match.
    pub(super) fn end(&self, text: &str, start: usize) -> Option<usize> {
        let mut end = None;
        self.program.ends(text, start, text.len(), |at| {
            end = Some(at);
            !self.is_short
        });
        end
    }

    /// Finds the groups of a match whose ends are known.
    pub(super) fn dissect(&self, text: &str, from: usize, to: usize, found: &mut Groups) -> bool {
        match &self.kind {
            Kind::Plain => true,
            Kind::Group(number, part) => {
                let does = part.dissect(text, from, to, found);
                if does {
                    found[*number] = Some((from, to));
                }
                does
            }
            Kind::Back(number) => {
                found[*number].is_some_and(|(start, end)| text[start..end] == text[from..to])
            }
            Kind::Pair(left, right) => left.ends(text, from, to).into_iter().any(|middle| {
                right.program.spans(text, middle, to)
                    && left.dissect(text, from, middle, found)
                    && right.dissect(text, middle, to, found)
            }),
            Kind::Alternatives(parts) => parts.iter().any(|part| {
                part.program.spans(text, from, to) && part.dissect(text, from, to, found)
            }),
            Kind::Iteration { part, min, max } => {
                iterate(part, (*min, *max), text, (from, to), found)
            }
        }
    }
}

/// The number of nodes that form one part: several nodes without groups that have the same
/// preference, or one node.
fn leading(nodes: &[Node]) -> usize {
    let mut prefers = Preference::None;
    let fits = |node: &&Node| {
        let own = node.prefers();
        let agrees = own == Preference::None || prefers == Preference::None || own == prefers;
        prefers = if own == Preference::None { prefers } else { own };
        agrees && !has_groups(node)
    };
    nodes.iter().take_while(fits).count().max(1)
}

fn sequence(nodes: &[Node]) -> Node {
    match nodes {
        [] => Node::Empty,
        [node] => node.clone(),
        nodes => Node::Concat(nodes.to_vec()),
    }
}

/// Splits a text into repetitions of a part. Only the groups of the last repetition are known
/// afterwards.
fn iterate(
    part: &Part,
    (min, max): (usize, usize),
    text: &str,
    (from, to): (usize, usize),
    found: &mut Groups,
) -> bool {
    if min == 0 && from == to {
        return true;
    }
    let min = min.max(1);
    let max = max.min(text[from..to].chars().count()).max(min);
    // For each repetition, the ends that are left to try, the preferred one last.
    let candidates = |at: usize, count: usize| -> Vec<usize> {
        let mut ends = part.ends(text, at, to);
        // An empty repetition adds nothing once there are enough.
        ends.retain(|end| *end > at || count < min);
        ends.reverse();
        ends
    };
    let mut dead: HashSet<(usize, usize)> = HashSet::new();
    let mut open = vec![(from, candidates(from, 0))];
    let mut ends: Vec<usize> = Vec::new();
    while let Some((at, left)) = open.last_mut() {
        let (at, count) = (*at, ends.len());
        let Some(end) = left.pop() else {
            dead.insert((count.min(min), at));
            open.pop();
            ends.pop();
            continue;
        };
        ends.push(end);
        let count = count + 1;
        if end == to && count >= min {
            if dissect_each(part, text, from, &ends, found) {
                return true;
            }
            ends.pop();
        } else if count >= max || (end == to && end == at && count >= min) {
            ends.pop();
        } else if !dead.contains(&(count.min(min), end)) {
            let next = candidates(end, count);
            open.push((end, next));
        } else {
            ends.pop();
        }
    }
    false
}

fn dissect_each(part: &Part, text: &str, from: usize, ends: &[usize], found: &mut Groups) -> bool {
    let starts = std::iter::once(from).chain(ends.iter().copied());
    starts.zip(ends).all(|(start, end)| {
        part.forget(found);
        part.dissect(text, start, *end, found)
    })
}

impl Part {
    /// Clears the groups of an earlier repetition: they do not carry over to the next one.
    fn forget(&self, found: &mut Groups) {
        match &self.kind {
            Kind::Plain | Kind::Back(_) => {}
            Kind::Group(number, part) => {
                found[*number] = None;
                part.forget(found);
            }
            Kind::Pair(left, right) => {
                left.forget(found);
                right.forget(found);
            }
            Kind::Alternatives(parts) => parts.iter().for_each(|part| part.forget(found)),
            Kind::Iteration { part, .. } => part.forget(found),
        }
    }
}
