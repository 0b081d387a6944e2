//! Rows written and removed by key, against a model: groups published and undone, each row refused
//! or taken as the model says, chunks that overflow.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array};
use thalweg_types::{RowId, TableSchema};

use super::support::{Row, batch, find, key, read, row, rows, schema};
use crate::tests::random::Random;
use crate::{Demands, Effect, Put, Refusal, Table, TableState};

/// Few enough that keys meet within a batch.
const KEYS: u64 = 40;

type Rows = BTreeMap<i64, Row>;

/// The table of the support module with its primary key alone.
fn one_key() -> TableSchema {
    TableSchema { unique: Vec::new(), ..schema() }
}

struct Run {
    random: Random,
    table: Table,
    state: Arc<TableState>,
    model: Rows,
}

impl Run {
    fn new(seed: u64, schema: TableSchema) -> Run {
        let (table, state) = Table::new(Arc::new(schema));
        Run { random: Random(seed), table, state, model: Rows::new() }
    }

    fn random_rows(&mut self) -> Vec<Row> {
        let count = 1 + self.random.below(12);
        let one = |random: &mut Random| {
            let id = random.below(KEYS) as i64;
            row(id, &format!("tag {}", random.below(KEYS)), random.below(1_000) as i32)
        };
        (0..count).map(|_| one(&mut self.random)).collect()
    }

    /// What the model says of a row, with what it does to it.
    fn refusal(&self, model: &Rows, new: &Row, put: Put) -> Option<Refusal> {
        let there = model.contains_key(&new.0);
        let tagged = |other: &&Row| other.0 != new.0 && other.1 == new.1;
        match put {
            Put::Create if there => Some(Refusal::Exists { key: 0 }),
            Put::Update if !there => Some(Refusal::Missing),
            _ if self.table.schema().unique.is_empty() => None,
            _ => model.values().find(tagged).map(|_| Refusal::Exists { key: 1 }),
        }
    }

    fn put(&mut self, effect: &mut Effect, model: &mut Rows) {
        let put = [Put::Create, Put::Update, Put::Upsert][self.random.below(3) as usize];
        let demands = Demands { expected: None, stop: self.random.below(4) == 0 };
        let new = self.random_rows();
        let mut expected = Vec::new();
        for (place, new) in new.iter().enumerate() {
            match self.refusal(model, new, put) {
                Some(refusal) => expected.push((place, refusal)),
                None => drop(model.insert(new.0, new.clone())),
            }
            if demands.stop && !expected.is_empty() {
                break;
            }
        }
        let (pieces, refused) = self.table.put(&batch(&new), put, demands, effect).unwrap();
        assert_eq!(refused, expected, "{put:?} of {new:?}");
        let killed = pieces.iter().map(|piece| piece.killed.len()).sum::<usize>();
        assert!(killed <= new.len());
    }

    fn remove(&mut self, effect: &mut Effect, model: &mut Rows) {
        let count = 1 + self.random.below(8);
        let ids: Vec<i64> = (0..count).map(|_| self.random.below(KEYS) as i64).collect();
        let refused: Vec<_> = ids
            .iter()
            .enumerate()
            .filter(|(_, id)| model.remove(id).is_none())
            .map(|(place, _)| (place, Refusal::Missing))
            .collect();
        let column: ArrayRef = Arc::new(Int64Array::from(ids.clone()));
        let removed = self.table.remove(&[column], Demands::default(), effect).unwrap();
        assert_eq!(removed.1, refused, "{ids:?}");
        assert_eq!(removed.0.len(), ids.len() - refused.len());
    }

    fn group(&mut self) {
        let (mut effect, mut model) = (Effect::new(), self.model.clone());
        for _ in 0..=self.random.below(4) {
            match self.random.below(3) {
                0 => self.remove(&mut effect, &mut model),
                _ => self.put(&mut effect, &mut model),
            }
        }
        if self.random.below(4) == 0 {
            self.table.undo(effect);
        } else {
            effect.publish(&mut self.state);
            self.model = model;
        }
        let expected: Vec<Row> = self.model.values().cloned().collect();
        assert_eq!(rows(&self.state), expected);
        let ids: BTreeMap<i64, RowId> =
            read(&self.state).into_iter().map(|(id, row)| (row.0, id)).collect();
        for id in 0..KEYS as i64 {
            assert_eq!(find(&self.state, id), ids.get(&id).copied(), "key {id}");
        }
    }
}

#[test]
fn rows_come_and_go_as_in_a_map() {
    for seed in 0..60 {
        let mut run = Run::new(seed, if seed % 3 == 0 { schema() } else { one_key() });
        (0..40).for_each(|_| run.group());
    }
}

#[test]
fn keys_of_other_types_are_told_apart_as_well() {
    for place in [1, 2] {
        let primary_key = Some(key("t_pkey", &[place + 1]));
        let mut schema = TableSchema { primary_key, ..one_key() };
        schema.columns[place as usize].nullable = false;
        let (mut table, mut state) = Table::new(Arc::new(schema));
        let (mut random, mut model) = (Random(7), BTreeMap::new());
        for _ in 0..60 {
            let mut one = || {
                let tag = format!("a tag that is long {}", random.below(30));
                row(random.below(1_000) as i64, &tag, random.below(30) as i32)
            };
            let new: Vec<Row> = (0..50).map(|_| one()).collect();
            let mut effect = Effect::new();
            let put = table.put(&batch(&new), Put::Upsert, Demands::default(), &mut effect);
            assert!(put.unwrap().1.is_empty());
            effect.publish(&mut state);
            for new in new {
                let key = if place == 1 { new.1.clone() } else { new.2.map(|n| n.to_string()) };
                model.insert(key, new);
            }
            let mut expected: Vec<Row> = model.values().cloned().collect();
            expected.sort();
            let mut found = rows(&state);
            found.sort();
            assert_eq!(found, expected);
        }
    }
}

#[test]
fn a_version_is_that_of_one_row() {
    let mut run = Run::new(1, one_key());
    let mut put = |rows: &[Row], expected: &[u64]| {
        let mut effect = Effect::new();
        let demands = Demands { expected: Some(expected), stop: false };
        let (_, refused) = run.table.put(&batch(rows), Put::Upsert, demands, &mut effect).unwrap();
        effect.publish(&mut run.state);
        (refused, find(&run.state, 1).unwrap().0)
    };
    let one = |amount| [row(1, "a", amount)];
    let (refused, first) = put(&one(1), &[0]);
    assert!(refused.is_empty());
    assert_eq!(put(&one(2), &[0]).0, [(0, Refusal::Changed)]);
    assert_eq!(put(&one(2), &[first + 1]).0, [(0, Refusal::Changed)]);
    let (refused, second) = put(&one(2), &[first]);
    assert!(refused.is_empty() && second != first);
    assert_eq!(put(&one(3), &[first]).0, [(0, Refusal::Changed)]);
    // The second of two in a batch sees the first one.
    assert_eq!(put(&[one(4), one(5)].concat(), &[second, second]).0, [(1, Refusal::Changed)]);
    assert_eq!(rows(&run.state), [row(1, "a", 4)]);
}

#[test]
fn what_emptied_a_table_is_undone_after_rows_that_were_all_refused() {
    let mut run = Run::new(3, one_key());
    let demands = Demands::default();
    let put = |run: &mut Run, put| {
        let mut effect = Effect::new();
        let one = batch(&[row(1, "a", 1)]);
        let (_, refused) = run.table.put(&one, put, demands, &mut effect).unwrap();
        (effect, refused)
    };
    put(&mut run, Put::Create).0.publish(&mut run.state);
    let mut emptied = Effect::new();
    run.table.truncate(&mut emptied);
    let (nothing, refused) = put(&mut run, Put::Update);
    assert_eq!(refused, [(0, Refusal::Missing)]);
    run.table.undo(nothing);
    run.table.undo(emptied);
    let (again, refused) = put(&mut run, Put::Update);
    assert!(refused.is_empty());
    again.publish(&mut run.state);
    assert_eq!(rows(&run.state), [row(1, "a", 1)]);
}

#[test]
fn batches_overflow_into_further_chunks() {
    let mut run = Run::new(2, one_key());
    let count = 3 * RowId::CHUNK_ROWS as i64 / 2;
    for round in 0..3 {
        let new: Vec<Row> = (0..count).map(|id| row(id, "t", round)).collect();
        let mut effect = Effect::new();
        let demands = Demands::default();
        let put = run.table.put(&batch(&new), Put::Upsert, demands, &mut effect).unwrap();
        assert!(put.0.len() > 1 && put.1.is_empty());
        effect.publish(&mut run.state);
        assert_eq!(rows(&run.state), new);
    }
}
