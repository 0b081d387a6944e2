//! Chunks that come in together, on several threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use thalweg_types::{RowId, SqlState};

use super::support::{Published, Row, batch, find, read, row, rows, schema};
use crate::previous::CHUNKS_MAX;
use crate::tests::random::Random;
use crate::{Arrival, Bitmap, ClosedChunk, Effect, ForkJoin, Table, TableState};

const IDS: i64 = 400;

struct Threads(usize);

impl ForkJoin for Threads {
    #[expect(clippy::disallowed_methods, reason = "a test of several threads")]
    fn run(&self, pieces: usize, work: &(dyn Fn(usize) + Sync)) {
        let next = AtomicUsize::new(0);
        let worker = || {
            let numbers = std::iter::repeat_with(|| next.fetch_add(1, Ordering::Relaxed));
            numbers.take_while(|piece| *piece < pieces).for_each(work);
        };
        std::thread::scope(|scope| {
            (0..self.0).for_each(|_| {
                scope.spawn(worker);
            });
        });
    }
}

fn chunk(rows: &[Row]) -> Arc<ClosedChunk> {
    Arc::new(ClosedChunk::build(&schema(), &batch(rows)))
}

fn found(state: &TableState) -> Vec<Option<RowId>> {
    (0..IDS).map(|id| find(state, id)).collect()
}

/// A table with live and dead rows, a snapshot from before they died, and the ids of which none is
/// alive.
fn some_rows(random: &mut Random) -> (Published, Arc<TableState>, Vec<i64>) {
    let mut all = Published::new();
    let mut free: Vec<i64> = (0..IDS).collect();
    for id in 0..IDS {
        if random.below(2) == 0 {
            all.append(&[row(id, &format!("tag {id}"), 1)]);
        }
    }
    let dead: Vec<RowId> =
        read(&all.state).into_iter().map(|(id, _)| id).filter(|_| random.below(3) == 0).collect();
    let older = Arc::clone(&all.state);
    let mut effect = Effect::new();
    all.table.kill(&dead, &mut effect).unwrap();
    effect.publish(&mut all.state);
    free.retain(|id| find(&all.state, *id).is_none());
    (all, older, free)
}

/// Splits rows into chunks of random sizes, at least `least` of them.
fn chunks(rows: &[Row], least: usize, random: &mut Random) -> Vec<Arc<ClosedChunk>> {
    let mut rest = rows;
    let mut chunks = Vec::new();
    while !rest.is_empty() {
        let most = (rows.len() / least).max(1) as u64;
        let (some, others) = rest.split_at((1 + random.below(most) as usize).min(rest.len()));
        chunks.push(chunk(some));
        rest = others;
    }
    chunks
}

#[test]
fn chunks_come_in_together_as_they_would_one_by_one() {
    for seed in 0..40 {
        let mut random = Random(seed);
        let (mut all, older, free) = some_rows(&mut random);
        let (before, held) = (found(&all.state), Arc::clone(&all.state));
        let before_deaths = found(&older);
        let new: Vec<Row> = free.iter().map(|id| row(*id, &format!("tag {id}"), 2)).collect();
        // More chunks than there are notes for about who had a key before.
        let new = chunks(&new, CHUNKS_MAX * 2, &mut random);
        let mut effect = Effect::new();
        let numbers = all.table.append_chunks(new.clone(), &Threads(3), &mut effect).unwrap();
        assert!(numbers.len() > CHUNKS_MAX && numbers.is_sorted());
        assert_eq!(found(&all.state), before, "nothing is published yet");
        effect.publish(&mut all.state);
        assert_eq!(all.state.rows(), IDS as usize);
        for (id, place) in read(&all.state).into_iter().map(|(place, row)| (row.0, place)) {
            assert_eq!(find(&all.state, id), Some(place));
        }
        assert_eq!((found(&held), found(&older)), (before, before_deaths));
        // The same as a log tells it.
        let (mut table, mut state) = Table::new(Arc::new(schema()));
        let arrivals = numbers.iter().zip(new);
        let arrivals =
            arrivals.map(|(number, chunk)| Arrival { number: *number, chunk, dead: None });
        let mut effect = Effect::new();
        table.append_chunks_at(arrivals.collect(), &Threads(2), &mut effect).unwrap();
        effect.publish(&mut state);
        assert!(free.iter().all(|id| find(&state, *id) == find(&all.state, *id)));
    }
}

#[test]
fn one_taken_key_keeps_all_chunks_out() {
    for seed in 0..40 {
        let mut random = Random(seed);
        let (mut all, older, free) = some_rows(&mut random);
        let (before, held) = (found(&all.state), Arc::clone(&all.state));
        let before_deaths = found(&older);
        let mut new: Vec<Row> = free.iter().map(|id| row(*id, &format!("tag {id}"), 2)).collect();
        // A key of a row that lives, or of another new one; the first key or the second.
        let place = random.below(new.len() as u64) as usize;
        let taken = (0..IDS).find(|id| !free.contains(id)).unwrap();
        match seed % 4 {
            0 => new[place].0 = taken,
            1 => new[place].1 = Some(format!("tag {taken}")),
            2 => new.push(new[place].clone()),
            _ => new.push((IDS, new[place].1.clone(), None)),
        }
        let most = [1, 4, CHUNKS_MAX * 2][random.below(3) as usize];
        let new = chunks(&new, most, &mut random);
        let mut effect = Effect::new();
        let refused = all.table.append_chunks(new, &Threads(3), &mut effect).unwrap_err();
        assert_eq!(refused.state(), SqlState::UNIQUE_VIOLATION);
        assert_eq!(refused.message().contains("t_tag_key"), seed % 2 == 1, "{refused}");
        assert!(effect.is_empty());
        assert_eq!((found(&all.state), found(&held)), (before.clone(), before));
        assert_eq!(found(&older), before_deaths);
        let rows_before = rows(&all.state);
        for id in free {
            all.append(&[row(id, &format!("tag {id}"), 3)]);
            assert!(find(&all.state, id).is_some());
        }
        assert!(rows_before.iter().all(|row| rows(&held).contains(row)));
        assert_eq!(all.state.rows(), IDS as usize);
    }
}

#[test]
fn the_first_of_several_taken_keys_is_named() {
    let mut all = Published::new();
    all.append(&[row(1, "a", 1), row(2, "b", 1), row(3, "c", 1)]);
    let new = [row(10, "j", 1), row(3, "k", 1), row(1, "l", 1)];
    let new = vec![chunk(&new[..1]), chunk(&new[1..]), chunk(&[row(2, "m", 1)])];
    let refused = all.table.append_chunks(new, &Threads(4), &mut Effect::new()).unwrap_err();
    assert_eq!(refused.detail(), Some("Key (id)=(3) already exists."));
}

#[test]
fn impossible_arrivals_are_refused() {
    let arrivals = |numbers: [u32; 2], dead: Option<Bitmap>| -> Vec<Arrival> {
        let [first, second] = numbers;
        vec![
            Arrival { number: first, chunk: chunk(&[row(1, "a", 1)]), dead },
            Arrival { number: second, chunk: chunk(&[row(2, "b", 1)]), dead: None },
        ]
    };
    let beyond = Some(Bitmap::full(2));
    for (numbers, dead) in [([2, 1], None), ([1, 1], None), ([1, 1 << 31], None), ([1, 2], beyond)]
    {
        let (mut table, _) = Table::new(Arc::new(schema()));
        let mut effect = Effect::new();
        let refused = table.append_chunks_at(arrivals(numbers, dead), &Threads(2), &mut effect);
        assert_eq!(refused.unwrap_err().state(), SqlState::DATA_CORRUPTED);
        assert!(effect.is_empty() && table.applied().rows() == 0);
    }
}

/// A checkpoint holds what died before its column was declared NOT NULL.
#[test]
fn dead_rows_may_be_what_the_table_does_not_take_any_more() {
    let mut strict = schema();
    strict.columns[2].nullable = false;
    let arrival = |dead: u32| {
        let rows = [row(1, "a", 1), (2, None, None)];
        let mut marks = Bitmap::default();
        marks.insert(dead);
        vec![Arrival { number: 1, chunk: chunk(&rows), dead: Some(marks) }]
    };
    let (mut table, _) = Table::new(Arc::new(strict.clone()));
    table.append_chunks_at(arrival(1), &Threads(2), &mut Effect::new()).unwrap();
    assert_eq!(table.applied().rows(), 1);
    let (mut table, _) = Table::new(Arc::new(strict));
    let refused = table.append_chunks_at(arrival(0), &Threads(2), &mut Effect::new());
    assert_eq!(refused.unwrap_err().state(), SqlState::NOT_NULL_VIOLATION);
}
