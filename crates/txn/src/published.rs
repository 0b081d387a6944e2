//! The published state that readers see: the catalog and the state of every table after a group.
//!
//! Taking a snapshot costs one reference count. Publishing a group copies the parts that a snapshot
//! still holds and changes the rest in place.

mod tables;

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::RwLock;
use thalweg_env::MemoryWatch;
use thalweg_store::{Effect, TableState};
use thalweg_types::{Lsn, Result, TableId};

use crate::catalog::{Catalog, Object};
use crate::memory_budget;
use crate::sequence::{Before, SequenceCounter};
use crate::staging::Staged;
use crate::transaction_stage::Writer;
use tables::Tables;

/// The database as of one group. It never changes, and is cheap to clone.
#[derive(Clone)]
pub struct Snapshot(Arc<State>);

#[derive(Clone, Default)]
struct State {
    lsn: Lsn,
    catalog: Arc<Catalog>,
    tables: Tables,
    memory: Option<Arc<MemoryWatch>>,
}

impl Snapshot {
    /// The last group that it includes.
    #[must_use]
    pub fn lsn(&self) -> Lsn {
        self.0.lsn
    }

    /// The catalog as of the snapshot's group.
    #[must_use]
    pub fn catalog(&self) -> &Arc<Catalog> {
        &self.0.catalog
    }

    /// A table's rows; `None` if the table does not exist in the snapshot.
    #[must_use]
    pub fn table(&self, id: TableId) -> Option<&Arc<TableState>> {
        self.0.tables.get(id)
    }

    /// Announces rows of so many bytes that are being collected for a commit.
    ///
    /// # Errors
    /// If the process has no memory for them.
    pub(crate) fn make_room(&self, bytes: usize) -> Result<()> {
        memory_budget::reserve(self.0.memory.as_deref(), bytes)
    }

    /// This snapshot with the temporary objects of a session. `catalog` is the joined catalog of
    /// both snapshots.
    #[must_use]
    pub fn with_temporary(&self, temporary: &Snapshot, catalog: Arc<Catalog>) -> Snapshot {
        let mut tables = self.0.tables.clone();
        let namespace = catalog.temporary().unwrap_or_default();
        let ids = catalog.objects(namespace).filter_map(|(_, object)| match object {
            Object::Table(entry) => Some(entry.schema.id),
            Object::View(_) | Object::External(_) | Object::Sequence(_) => None,
        });
        for id in ids {
            if let Some(state) = temporary.table(id) {
                tables.insert(id, Arc::clone(state));
            }
        }
        let (lsn, memory) = (self.0.lsn, self.0.memory.clone());
        Snapshot(Arc::new(State { lsn, catalog, tables, memory }))
    }

    /// All tables, ascending by id.
    pub fn tables(&self) -> impl Iterator<Item = (TableId, &Arc<TableState>)> {
        self.0.tables.iter()
    }
}

/// Effects of one applied group on the published state, with what is needed to undo it.
#[derive(Default)]
pub(crate) struct GroupEffects {
    pub(crate) steps: Vec<Step>,
    /// The catalog before and after, if the group changed it.
    pub(crate) catalog: Option<(Arc<Catalog>, Arc<Catalog>)>,
    /// For each table that the group changed, the group that changed it before.
    pub(crate) changed: Vec<(TableId, Lsn)>,
    /// Staged chunks that the group refers to. The log keeps them as long as a checkpoint may lack
    /// the group.
    pub(crate) staged: Vec<Arc<Staged>>,
}

pub(crate) enum Step {
    Changed(TableId, Effect),
    Created(TableId, Arc<TableState>),
    /// Holds the writing half until the drop can no longer be undone.
    Dropped(TableId, Box<Writer>),
    /// A record of a sequence. Its counter belongs to no snapshot.
    Counted(Arc<SequenceCounter>, Before),
}

/// State that is superseded by a publication. It may hold whole tables, which take long to drop.
#[must_use = "dropped when nobody waits"]
pub(crate) struct Leftovers {
    _groups: Vec<GroupEffects>,
    _dropped: Vec<Arc<TableState>>,
}

/// The only place where the published state changes.
pub(crate) struct Publisher {
    current: RwLock<Arc<State>>,
}

impl Publisher {
    pub(crate) fn new(
        lsn: Lsn,
        catalog: Arc<Catalog>,
        states: HashMap<TableId, Arc<TableState>>,
        memory: Option<Arc<MemoryWatch>>,
    ) -> Publisher {
        let mut tables = Tables::default();
        states.into_iter().for_each(|(id, state)| tables.insert(id, state));
        Publisher { current: RwLock::new(Arc::new(State { lsn, catalog, tables, memory })) }
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        Snapshot(Arc::clone(&self.current.read()))
    }

    /// Makes groups visible atomically. `lsn` is the last group's number.
    ///
    /// Readers that take a snapshot wait meanwhile, so nothing large is dropped here.
    pub(crate) fn publish(&self, lsn: Lsn, groups: Vec<GroupEffects>) -> Leftovers {
        let mut dropped = Vec::new();
        let mut current = self.current.write();
        let state = Arc::make_mut(&mut current);
        state.lsn = state.lsn.max(lsn);
        for group in &groups {
            for step in &group.steps {
                dropped.extend(state.take(step));
            }
            if let Some((_, after)) = &group.catalog {
                state.catalog = Arc::clone(after);
            }
        }
        Leftovers { _groups: groups, _dropped: dropped }
    }
}

impl State {
    /// Applies a step, and returns the table that it dropped.
    fn take(&mut self, step: &Step) -> Option<Arc<TableState>> {
        match step {
            Step::Changed(id, effect) => {
                let table = self.tables.get_mut(*id).expect("a changed table was created before");
                effect.publish(table);
                None
            }
            Step::Created(id, table) => {
                self.tables.insert(*id, Arc::clone(table));
                None
            }
            Step::Dropped(id, _) => self.tables.remove(*id),
            Step::Counted(..) => None,
        }
    }
}
