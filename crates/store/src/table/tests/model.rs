//! A table against a model, with snapshots and effects held open.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, StringViewArray};
use thalweg_types::{RowId, SqlState};

use super::support::{Row, batch, key, probed, read, rows, schema};
use crate::plan_compaction;
use crate::tests::random::Random;
use crate::{
    Built, ClosedChunk, CompactionPolicy, Effect, FullChunk, Table, TableState, ThisThread,
};

type Rows = BTreeMap<i64, Row>;

/// Keys are few, so that they meet again and again.
const KEYS: u64 = 60;

struct Held {
    state: Arc<TableState>,
    rows: Rows,
}

struct Run {
    random: Random,
    table: Table,
    state: Arc<TableState>,
    /// What is applied.
    rows: Rows,
    /// Effects that wait, each with the rows before and after it.
    waiting: VecDeque<(Effect, Rows, Rows)>,
    published: Rows,
    held: Vec<Held>,
    built: Vec<Built>,
    full: Vec<FullChunk>,
    has_amount_key: bool,
}

impl Run {
    fn new(seed: u64) -> Run {
        let (table, state) = Table::new(Arc::new(schema()));
        Run {
            random: Random(seed),
            table,
            state,
            rows: Rows::new(),
            waiting: VecDeque::new(),
            published: Rows::new(),
            held: Vec::new(),
            built: Vec::new(),
            full: Vec::new(),
            has_amount_key: false,
        }
    }

    fn random_row(&mut self) -> Row {
        let id = self.random.below(KEYS) as i64;
        let tag = match self.random.below(10) {
            0 => None,
            1 => Some(format!("shared tag {}", self.random.below(4))),
            _ => Some(format!("the tag of the row {id}")),
        };
        let amount = (self.random.below(5) > 0).then(|| self.random.below(1 << 30) as i32);
        (id, tag, amount)
    }

    /// Whether rows may come in beside those that are there.
    fn fits(&self, new: &[Row], there: &Rows) -> bool {
        let mut all: Vec<&Row> = there.values().collect();
        all.extend(new);
        let unique = |mut values: Vec<String>| {
            let length = values.len();
            values.sort();
            values.dedup();
            values.len() == length
        };
        unique(all.iter().map(|row| row.0.to_string()).collect())
            && unique(all.iter().filter_map(|row| row.1.clone()).collect())
            && (!self.has_amount_key
                || unique(all.iter().filter_map(|r| r.2).map(|a| a.to_string()).collect()))
    }

    /// Where applied rows lie, through the writer's state.
    fn places(&self) -> BTreeMap<i64, RowId> {
        // The applied state is the writer's alone: read it only where all is published.
        assert!(self.waiting.is_empty());
        read(&self.state).into_iter().map(|(id, row)| (row.0, id)).collect()
    }

    fn append(&mut self, effect: &mut Effect) {
        let count = 1 + self.random.below(5);
        let mut new: Vec<Row> = (0..count).map(|_| self.random_row()).collect();
        if self.random.below(3) > 0 {
            new.retain(|row| !self.rows.contains_key(&row.0));
            new.dedup_by_key(|row| row.0);
        }
        let fits = self.fits(&new, &self.rows);
        let batch = batch(&new);
        let result = if self.random.below(4) == 0 && !new.is_empty() {
            let chunk = Arc::new(ClosedChunk::build(&schema(), &batch));
            self.table.append_chunk(chunk, effect).map(|_| ())
        } else {
            self.table.append(&batch, effect).map(|placed| {
                assert_eq!(placed.iter().map(|piece| piece.length).sum::<usize>(), new.len());
            })
        };
        assert_eq!(result.is_ok(), fits, "{new:?} beside {:?}", self.rows);
        match result {
            Ok(()) => self.rows.extend(new.into_iter().map(|row| (row.0, row))),
            Err(error) => assert_eq!(error.state(), SqlState::UNIQUE_VIOLATION),
        }
    }

    /// Kills rows as a transaction does that found them in a snapshot.
    fn kill(&mut self, effect: &mut Effect) {
        let snapshot = match self.held.is_empty() || self.random.below(2) == 0 {
            true => Arc::clone(&self.state),
            false => {
                let index = self.random.below(self.held.len() as u64) as usize;
                Arc::clone(&self.held[index].state)
            }
        };
        let shown = read(&snapshot);
        if shown.is_empty() {
            return;
        }
        let (id, row) = &shown[self.random.below(shown.len() as u64) as usize];
        let alive = self.table.locate(*id).is_some();
        assert!(!alive || self.rows.get(&row.0) == Some(row), "{row:?}");
        match self.table.kill(&[*id], effect) {
            Ok(_) => {
                assert!(alive);
                self.rows.remove(&row.0);
            }
            Err(error) => {
                assert!(!alive);
                assert_eq!(error.state(), SqlState::SERIALIZATION_FAILURE);
            }
        }
    }

    fn upsert(&mut self, effect: &mut Effect) {
        let places = read(&self.state);
        let row = self.random_row();
        let old = places.iter().find(|(_, shown)| shown.0 == row.0);
        let mut others = self.rows.clone();
        if let Some((id, _)) = old {
            if self.table.kill(&[*id], effect).is_err() {
                return;
            }
            others.remove(&row.0);
            self.rows.remove(&row.0);
        }
        let fits = self.fits(std::slice::from_ref(&row), &others);
        let result = self.table.append(&batch(std::slice::from_ref(&row)), effect);
        assert_eq!(result.is_ok(), fits);
        if fits {
            self.rows.insert(row.0, row);
        }
    }

    fn alter(&mut self, effect: &mut Effect) {
        let mut schema = schema();
        let wanted = !self.has_amount_key;
        if wanted {
            schema.unique.push(key("t_amount_key", &[3]));
        }
        self.has_amount_key = wanted;
        let fits = self.fits(&[], &self.rows);
        let result = self.table.alter(Arc::new(schema), &[], &ThisThread, effect);
        assert_eq!(result.is_ok(), fits);
        self.has_amount_key = wanted && fits;
    }

    /// Maintenance: each step is an effect of its own, as a maintenance thread's are.
    fn compact(&mut self, effect: &mut Effect) {
        if let Some(built) = self.built.pop() {
            match self.table.apply_compaction(built, effect) {
                Ok(_) => {}
                Err(error) => assert_eq!(error.state(), SqlState::SERIALIZATION_FAILURE),
            }
        }
        if self.built.is_empty()
            && let Some(plan) = plan_compaction(&self.state, CompactionPolicy::Idle)
        {
            self.built.push(plan.build());
        }
        self.full.extend(self.table.take_full());
        if let Some(full) = self.full.pop() {
            self.table.swap(full.number, full.build(), effect);
        }
    }

    fn step(&mut self) {
        let before = self.rows.clone();
        let mut effect = Effect::new();
        // Schema changes and truncation wait for nobody, as the catalog's do.
        for _ in 0..=self.random.below(3) {
            match self.random.below(20) {
                0..=6 => self.append(&mut effect),
                7..=10 => self.kill(&mut effect),
                11..=14 => self.upsert(&mut effect),
                15..=17 => self.compact(&mut effect),
                18 if self.random.below(8) == 0 => {
                    self.table.truncate(&mut effect);
                    self.rows.clear();
                }
                19 if self.waiting.is_empty() && effect.is_empty() => self.alter(&mut effect),
                _ => {}
            }
        }
        self.waiting.push_back((effect, before, self.rows.clone()));
        match self.random.below(10) {
            0 => self.undo_some(),
            1..=3 => {}
            _ => self.publish_some(),
        }
        self.hold_or_release();
    }

    fn undo_some(&mut self) {
        // An added key can't be undone here without knowing what it was before.
        let count = self.random.below(self.waiting.len() as u64 + 1);
        for _ in 0..count {
            let Some((effect, before, _)) = self.waiting.pop_back() else { break };
            self.table.undo(effect);
            self.rows = before;
            self.has_amount_key = self.table.schema().unique.len() == 2;
        }
    }

    fn publish_some(&mut self) {
        let count = self.random.below(self.waiting.len() as u64 + 1);
        for _ in 0..count {
            let Some((effect, _, after)) = self.waiting.pop_front() else { break };
            effect.publish(&mut self.state);
            self.published = after;
        }
    }

    fn hold_or_release(&mut self) {
        if self.held.len() < 6 && self.random.below(3) == 0 {
            let state = Arc::clone(&self.state);
            self.held.push(Held { state, rows: self.published.clone() });
        } else if !self.held.is_empty() && self.random.below(3) == 0 {
            let index = self.random.below(self.held.len() as u64) as usize;
            self.held.swap_remove(index);
        }
    }

    fn check(&mut self) {
        check_state(&self.state, &self.published);
        for held in &self.held {
            check_state(&held.state, &held.rows);
        }
        assert_eq!(self.table.applied().rows(), self.rows.len());
    }

    /// Publishes everything, and checks that the writer and the readers agree.
    fn settle(&mut self) {
        while let Some((effect, _, after)) = self.waiting.pop_front() {
            effect.publish(&mut self.state);
            self.published = after;
        }
        assert_eq!(self.published, self.rows);
        assert_eq!(self.places().len(), self.rows.len());
    }
}

/// A state shows exactly these rows, to scans and to probes by both keys.
fn check_state(state: &TableState, expected: &Rows) {
    assert_eq!(rows(state), expected.values().cloned().collect::<Vec<_>>());
    let shown: BTreeMap<i64, RowId> =
        read(state).into_iter().map(|(id, row)| (row.0, id)).collect();
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(-1..KEYS as i64 + 1));
    let found = probed(state, state.schema().primary_key.as_ref().unwrap(), &[ids]);
    for (id, found) in (-1..).zip(found) {
        assert_eq!(found, shown.get(&id).copied(), "the key {id}");
    }
    let tags: Vec<Option<String>> = expected.values().map(|row| row.1.clone()).collect();
    let column: ArrayRef = Arc::new(tags.iter().cloned().collect::<StringViewArray>());
    let found = probed(state, &state.schema().unique[0], &[column]);
    for (row, found) in expected.values().zip(found) {
        assert_eq!(found, row.1.is_some().then(|| shown[&row.0]), "the tag {:?}", row.1);
    }
}

#[test]
fn random_changes_are_what_a_map_says() {
    for seed in 0..150 {
        let mut run = Run::new(seed);
        for _ in 0..80 {
            run.step();
            run.check();
        }
        run.settle();
        run.check();
    }
}
