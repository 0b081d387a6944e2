//! Patterns as state machines: the places where a match that begins at a given place can end.
//!
//! Each step advances all states at once, so that the time is the length of the text times that of
//! the pattern.

use regex_syntax::hir::ClassUnicode;
use thalweg_types::Result;

use super::are::{Assert, Node, invalid};

/// Maximum number of states of one machine.
const STATES_MAX: usize = 50_000;

#[derive(Debug)]
enum State {
    Set(ClassUnicode),
    Assert(Assert),
    Look { behind: bool, negative: bool, program: Program },
    Jump(usize),
    Split(usize, usize),
    End,
}

#[derive(Debug)]
pub(super) struct Program {
    states: Vec<State>,
}

/// The active states, each once.
struct Active {
    states: Vec<usize>,
    is_member: Vec<bool>,
}

impl Active {
    fn clear(&mut self) {
        for state in self.states.drain(..) {
            self.is_member[state] = false;
        }
    }
}

impl Program {
    /// `groups` are the nodes that back references stand for: a reference matches all that its
    /// group can match, until the groups of a match are known.
    pub(super) fn new(node: &Node, groups: &[Node]) -> Result<Program> {
        let mut program = Program { states: Vec::new() };
        program.add(node, groups)?;
        program.push(State::End)?;
        Ok(program)
    }

    fn push(&mut self, state: State) -> Result<usize> {
        if self.states.len() >= STATES_MAX {
            return Err(invalid("regular expression is too complex"));
        }
        self.states.push(state);
        Ok(self.states.len() - 1)
    }

    fn add(&mut self, node: &Node, groups: &[Node]) -> Result<()> {
        match node {
            Node::Empty => {}
            Node::Set(set) => drop(self.push(State::Set(set.clone()))?),
            Node::Assert(assert) => drop(self.push(State::Assert(*assert))?),
            Node::Look { behind, negative, node } => {
                let program = Program::new(node, groups)?;
                self.push(State::Look { behind: *behind, negative: *negative, program })?;
            }
            Node::Back(group) => self.add(&groups[*group - 1], groups)?,
            Node::Group(_, node) => self.add(node, groups)?,
            Node::Concat(nodes) => nodes.iter().try_for_each(|node| self.add(node, groups))?,
            Node::Alternatives(nodes) => {
                let mut jumps = Vec::new();
                for (place, node) in nodes.iter().enumerate() {
                    if place + 1 == nodes.len() {
                        self.add(node, groups)?;
                        break;
                    }
                    let split = self.push(State::Split(0, 0))?;
                    self.add(node, groups)?;
                    jumps.push(self.push(State::Jump(0))?);
                    self.states[split] = State::Split(split + 1, self.states.len());
                }
                let end = self.states.len();
                jumps.into_iter().for_each(|jump| self.states[jump] = State::Jump(end));
            }
            Node::Repeat { node, min, max, .. } => self.repeat(node, (*min, *max), groups)?,
        }
        Ok(())
    }

    fn repeat(
        &mut self,
        node: &Node,
        (min, max): (u32, Option<u32>),
        groups: &[Node],
    ) -> Result<()> {
        for _ in 0..min {
            self.add(node, groups)?;
        }
        let Some(max) = max else {
            let split = self.push(State::Split(0, 0))?;
            self.add(node, groups)?;
            self.push(State::Jump(split))?;
            self.states[split] = State::Split(split + 1, self.states.len());
            return Ok(());
        };
        let mut splits = Vec::new();
        for _ in min..max {
            splits.push(self.push(State::Split(0, 0))?);
            self.add(node, groups)?;
        }
        let end = self.states.len();
        splits.into_iter().for_each(|split| self.states[split] = State::Split(split + 1, end));
        Ok(())
    }

    /// Calls `found` with each end of a match from `start` on, the nearest first, until it returns
    /// false. No match goes beyond `limit`.
    pub(super) fn ends(
        &self,
        text: &str,
        start: usize,
        limit: usize,
        mut found: impl FnMut(usize) -> bool,
    ) {
        let states = self.states.len();
        let active = || Active { states: Vec::new(), is_member: vec![false; states] };
        let (mut now, mut then) = (active(), active());
        self.enter(0, text, start, &mut now);
        let mut at = start;
        loop {
            if now.is_member[states - 1] && !found(at) {
                return;
            }
            if at >= limit || now.states.is_empty() {
                return;
            }
            let Some(next) = text[at..].chars().next() else { return };
            at += next.len_utf8();
            for state in &now.states {
                if let State::Set(set) = &self.states[*state]
                    && holds(set, next)
                {
                    self.enter(state + 1, text, at, &mut then);
                }
            }
            now.clear();
            std::mem::swap(&mut now, &mut then);
        }
    }

    /// True if there is a match from `start` to `end`.
    pub(super) fn spans(&self, text: &str, start: usize, end: usize) -> bool {
        let mut does = false;
        self.ends(text, start, end, |at| {
            does |= at == end;
            !does
        });
        does
    }

    /// Activates a state, and all states that follow it without a character.
    fn enter(&self, first: usize, text: &str, at: usize, active: &mut Active) {
        let mut todo = vec![first];
        while let Some(state) = todo.pop() {
            if std::mem::replace(&mut active.is_member[state], true) {
                continue;
            }
            active.states.push(state);
            match &self.states[state] {
                State::Jump(to) => todo.push(*to),
                State::Split(one, other) => todo.extend([*one, *other]),
                State::Assert(assert) if stands(*assert, text, at) => todo.push(state + 1),
                State::Look { behind, negative, program } => {
                    if program.is_beside(text, at, *behind) != *negative {
                        todo.push(state + 1);
                    }
                }
                State::Assert(_) | State::Set(_) | State::End => {}
            }
        }
    }

    fn is_beside(&self, text: &str, at: usize, behind: bool) -> bool {
        if !behind {
            let mut does = false;
            self.ends(text, at, text.len(), |_| {
                does = true;
                false
            });
            return does;
        }
        let starts = text[..at].char_indices().map(|(start, _)| start).rev();
        std::iter::once(at).chain(starts).any(|start| self.spans(text, start, at))
    }
}

fn holds(set: &ClassUnicode, c: char) -> bool {
    let ranges = set.ranges();
    let after = ranges.partition_point(|range| range.start() <= c);
    after > 0 && c <= ranges[after - 1].end()
}

fn stands(assert: Assert, text: &str, at: usize) -> bool {
    let before = text[..at].chars().next_back();
    let behind = text[at..].chars().next();
    let is_word = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    match assert {
        Assert::TextStart => before.is_none(),
        Assert::TextEnd => behind.is_none(),
        Assert::LineStart => before.is_none_or(|c| c == '\n'),
        Assert::LineEnd => behind.is_none_or(|c| c == '\n'),
        Assert::WordStart => !is_word(before) && is_word(behind),
        Assert::WordEnd => is_word(before) && !is_word(behind),
        Assert::WordEdge => is_word(before) != is_word(behind),
        Assert::NotWordEdge => is_word(before) == is_word(behind),
    }
}
