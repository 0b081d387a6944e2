//! The names of a simulated directory, in the page cache and on disk.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

use super::content::Content;
use crate::SeededRandom;

/// The target of a name.
#[derive(Clone)]
pub(super) enum Node {
    File(Arc<Mutex<Content>>),
    Directory(Arc<Mutex<Directory>>),
}

/// A change of a directory that is not durable yet. A rename is a single change and therefore
/// atomic.
#[derive(Clone)]
struct Change {
    removed: Option<String>,
    put: Option<(String, Node)>,
}

impl Change {
    fn apply(&self, to: &mut BTreeMap<String, Node>) {
        if let Some(name) = &self.removed {
            to.remove(name);
        }
        if let Some((name, node)) = &self.put {
            to.insert(name.clone(), node.clone());
        }
    }
}

#[derive(Default)]
pub(super) struct Directory {
    cached: BTreeMap<String, Node>,
    durable: BTreeMap<String, Node>,
    pending: Vec<Change>,
}

impl Directory {
    /// The node of a name, as programs see it.
    pub fn get(&self, name: &str) -> Option<&Node> {
        self.cached.get(name)
    }

    /// All names, sorted.
    pub fn names(&self) -> Vec<String> {
        self.cached.keys().cloned().collect()
    }

    /// Adds or replaces a name, not yet durably.
    pub fn put(&mut self, name: &str, node: Node) {
        self.change(Change { removed: None, put: Some((name.to_owned(), node)) });
    }

    /// Removes a name; returns false if it did not exist.
    pub fn remove(&mut self, name: &str) -> bool {
        let there = self.cached.contains_key(name);
        if there {
            self.change(Change { removed: Some(name.to_owned()), put: None });
        }
        there
    }

    /// Renames `from` to `to` and replaces an existing `to`; returns false if `from` did not exist.
    pub fn rename(&mut self, from: &str, to: &str) -> bool {
        let Some(node) = self.cached.get(from).cloned() else { return false };
        self.change(Change { removed: Some(from.to_owned()), put: Some((to.to_owned(), node)) });
        true
    }

    /// True if a file has a name here or below.
    pub fn holds(&self, content: &Arc<Mutex<Content>>) -> bool {
        self.cached.values().any(|node| match node {
            Node::File(file) => Arc::ptr_eq(file, content),
            Node::Directory(directory) => directory.lock().holds(content),
        })
    }

    fn change(&mut self, change: Change) {
        change.apply(&mut self.cached);
        self.pending.push(change);
    }

    /// Makes all changes of names durable.
    pub fn sync(&mut self) {
        for change in self.pending.drain(..) {
            change.apply(&mut self.durable);
        }
    }

    /// A failing sync: some changes become durable. Unlike with a file, the rest is not lost: a
    /// file system that cannot write its journal does not later pretend that it did.
    pub fn fail_sync(&mut self, random: &SeededRandom) {
        for change in self.pending.iter().filter(|_| random.coin()) {
            change.apply(&mut self.durable);
        }
    }

    /// A possible directory tree on disk after a crash. The unsynced changes of names survive
    /// completely, not at all, up to some moment, or independently of each other.
    pub fn after_crash(&self, random: &SeededRandom) -> Directory {
        let mut names = self.durable.clone();
        let mode = random.below(4);
        let until = random.below(self.pending.len() as u64 + 1);
        for (number, change) in self.pending.iter().enumerate() {
            let happened = match mode {
                0 => false,
                1 => true,
                2 => (number as u64) < until,
                _ => random.coin(),
            };
            if happened {
                change.apply(&mut names);
            }
        }
        let survived = |node: &Node| match node {
            Node::File(content) => {
                let bytes = content.lock().after_crash(random);
                Node::File(Arc::new(Mutex::new(Content::durably(bytes))))
            }
            Node::Directory(directory) => {
                Node::Directory(Arc::new(Mutex::new(directory.lock().after_crash(random))))
            }
        };
        Directory::durably(names.iter().map(|(name, node)| (name.clone(), survived(node))))
    }

    fn durably(names: impl Iterator<Item = (String, Node)>) -> Directory {
        let names: BTreeMap<String, Node> = names.collect();
        Directory { cached: names.clone(), durable: names, pending: Vec::new() }
    }

    /// Copies the tree as the page cache has it; the copy is durable.
    pub fn fork(&self) -> Directory {
        let copied = |node: &Node| match node {
            Node::File(content) => {
                let bytes = content.lock().cached().to_vec();
                Node::File(Arc::new(Mutex::new(Content::durably(bytes))))
            }
            Node::Directory(directory) => {
                Node::Directory(Arc::new(Mutex::new(directory.lock().fork())))
            }
        };
        Directory::durably(self.cached.iter().map(|(name, node)| (name.clone(), copied(node))))
    }
}
