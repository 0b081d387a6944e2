//! Table states by id, in pages that versions of the map share.
//!
//! A version that differs in one table costs one page and a pointer to each other page, instead of
//! an entry for each table.

use std::sync::Arc;

use thalweg_store::TableState;
use thalweg_types::TableId;

/// A page that grows beyond so many tables is split.
const PAGE_MAX: usize = 64;

type Page = Vec<(TableId, Arc<TableState>)>;

#[derive(Clone, Default)]
pub(super) struct Tables {
    /// Ascending by id, and so are the tables of each page. No page is empty.
    pages: Vec<Arc<Page>>,
}

impl Tables {
    /// The state of a table, by binary search.
    pub fn get(&self, id: TableId) -> Option<&Arc<TableState>> {
        let page = self.pages.get(self.page_of(id))?;
        page.binary_search_by_key(&id, |(id, _)| *id).ok().map(|place| &page[place].1)
    }

    /// The state of a table for changes. Copies the table's page if another version shares it.
    pub fn get_mut(&mut self, id: TableId) -> Option<&mut Arc<TableState>> {
        let at = self.page_of(id);
        let page = Arc::make_mut(self.pages.get_mut(at)?);
        page.binary_search_by_key(&id, |(id, _)| *id).ok().map(|place| &mut page[place].1)
    }

    /// Adds a table whose id is not in the map yet.
    pub fn insert(&mut self, id: TableId, state: Arc<TableState>) {
        let at = self.page_of(id);
        if self.pages.is_empty() {
            self.pages.push(Arc::default());
        }
        let page = Arc::make_mut(&mut self.pages[at]);
        let place = page.partition_point(|(known, _)| *known < id);
        page.insert(place, (id, state));
        if page.len() > PAGE_MAX {
            // New tables have the highest ids, so a full last page stays full and a new one begins.
            let behind = page.split_off(if place == PAGE_MAX { PAGE_MAX } else { PAGE_MAX / 2 });
            self.pages.insert(at + 1, Arc::new(behind));
        }
    }

    /// Removes a table and returns its state. Copies the table's page if another version shares it.
    pub fn remove(&mut self, id: TableId) -> Option<Arc<TableState>> {
        let at = self.page_of(id);
        let page = Arc::make_mut(self.pages.get_mut(at)?);
        let place = page.binary_search_by_key(&id, |(id, _)| *id).ok()?;
        let (_, state) = page.remove(place);
        if page.is_empty() {
            self.pages.remove(at);
        }
        Some(state)
    }

    /// All tables, ascending by id.
    pub fn iter(&self) -> impl Iterator<Item = (TableId, &Arc<TableState>)> {
        self.pages.iter().flat_map(|page| page.iter()).map(|(id, state)| (*id, state))
    }

    /// Index of the only page that may hold the table.
    fn page_of(&self, id: TableId) -> usize {
        self.pages.partition_point(|page| page[0].0 <= id).saturating_sub(1)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use thalweg_types::TableSchema;

    use super::*;

    fn state(id: TableId) -> Arc<TableState> {
        let schema = TableSchema {
            id,
            namespace: "public".to_owned(),
            name: format!("t{}", id.0),
            columns: Vec::new(),
            primary_key: None,
            unique: Vec::new(),
            checks: Vec::new(),
            indexes: Vec::new(),
            foreign_keys: Vec::new(),
            shard_key: None,
            next_column_id: 0,
        };
        Arc::new(TableState::empty(Arc::new(schema)))
    }

    fn ids(tables: &Tables) -> Vec<TableId> {
        tables.iter().map(|(id, _)| id).collect()
    }

    proptest! {
        #[test]
        fn pages_hold_what_a_map_holds(
            steps in prop::collection::vec((0..300_u32, any::<bool>()), 0..900),
        ) {
            let (mut tables, mut map) = (Tables::default(), BTreeMap::new());
            let mut versions = Vec::new();
            for (number, (id, inserts)) in steps.into_iter().enumerate() {
                let id = TableId(id);
                if inserts && !map.contains_key(&id) {
                    let state = state(id);
                    tables.insert(id, Arc::clone(&state));
                    map.insert(id, state);
                } else if !inserts {
                    prop_assert_eq!(tables.remove(id).is_some(), map.remove(&id).is_some());
                }
                if number % 100 == 0 {
                    versions.push((tables.clone(), map.clone()));
                }
            }
            versions.push((tables, map));
            for (mut tables, map) in versions {
                prop_assert_eq!(ids(&tables), map.keys().copied().collect::<Vec<_>>());
                for id in (0..300).map(TableId) {
                    let same = |found: Option<&Arc<TableState>>| match (found, map.get(&id)) {
                        (Some(found), Some(expected)) => Arc::ptr_eq(found, expected),
                        (found, expected) => found.is_none() && expected.is_none(),
                    };
                    prop_assert!(same(tables.get(id)));
                    prop_assert!(same(tables.get_mut(id).map(|found| &*found)));
                }
                prop_assert!(tables.pages.iter().all(|page| (1..=PAGE_MAX).contains(&page.len())));
            }
        }
    }

    #[test]
    fn a_version_shares_the_pages_of_others() {
        let mut tables = Tables::default();
        (0..1000).map(TableId).for_each(|id| tables.insert(id, state(id)));
        let before = tables.clone();
        *tables.get_mut(TableId(500)).unwrap() = state(TableId(500));
        let shared = tables.pages.iter().zip(&before.pages).filter(|(a, b)| Arc::ptr_eq(a, b));
        assert_eq!(shared.count(), tables.pages.len() - 1);
        assert!(tables.pages.len() <= 1000 / PAGE_MAX + 1);
    }
}
