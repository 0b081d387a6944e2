//! Rows that somebody elsewhere knows by the ids that they had, and who holds no snapshot.

use std::sync::Arc;

use thalweg_types::{RowId, SqlState};

use super::support::{Published, batch, find, row, rows, schema};
use crate::{ClosedChunk, CompactionPolicy, Effect, TableState, plan_compaction};

/// A table with one chunk of the rows 0 to 999, and the chunk's number.
fn filled() -> (Published, u32) {
    let mut all = Published::new();
    let many: Vec<_> = (0..1_000).map(|id| row(id, &format!("tag {id}"), 1)).collect();
    let mut effect = Effect::new();
    let chunk = Arc::new(ClosedChunk::build(&schema(), &batch(&many)));
    let number = all.table.append_chunk(chunk, &mut effect).unwrap();
    effect.publish(&mut all.state);
    (all, number)
}

/// Kills the first rows of a chunk.
fn kill_first(all: &mut Published, chunk: u32, count: u32) {
    let dead: Vec<RowId> = (0..count).map(|place| RowId::new(chunk, place)).collect();
    let mut effect = Effect::new();
    all.table.kill(&dead, &mut effect).unwrap();
    effect.publish(&mut all.state);
}

/// Compacts, and returns the number of the new chunk.
fn compact(all: &mut Published) -> u32 {
    let built = plan_compaction(&all.state, CompactionPolicy::Busy).unwrap().build();
    let mut effect = Effect::new();
    let target = all.table.apply_compaction(built, &mut effect).unwrap();
    effect.publish(&mut all.state);
    target
}

fn without(state: &TableState, hidden: &[RowId]) -> thalweg_types::Result<TableState> {
    let mut own = state.clone();
    own.hide(hidden)?;
    Ok(own)
}

#[test]
fn rows_are_hidden_where_compaction_moved_them() {
    let (mut all, first) = filled();
    let known = [RowId::new(first, 999), RowId::new(first, 950)];
    let before = Arc::clone(&all.state);
    assert_eq!(without(&all.state, &known).unwrap().rows(), 998);
    kill_first(&mut all, first, 600);
    let second = compact(&mut all);
    assert_eq!(without(&before, &known).unwrap().rows(), 998, "where they were");
    drop(before);
    kill_first(&mut all, second, 300);
    let third = compact(&mut all);
    assert_eq!(find(&all.state, 950), Some(RowId::new(third, 50)));
    let own = without(&all.state, &known).unwrap();
    assert_eq!((own.rows(), rows(&own).len()), (98, 98));
    assert_eq!((find(&own, 999), find(&own, 950)), (None, None));
    assert_eq!(find(&own, 951), Some(RowId::new(third, 51)));
    assert_eq!(all.state.rows(), 100, "for others they are there");
    let mut effect = Effect::new();
    let killed = all.table.kill(&known, &mut effect).unwrap();
    assert_eq!(killed, [RowId::new(third, 99), RowId::new(third, 50)]);
}

#[test]
fn rows_that_are_not_there_any_more_are_not_hidden() {
    let (mut all, first) = filled();
    kill_first(&mut all, first, 600);
    let second = compact(&mut all);
    kill_first(&mut all, second, 100);
    let alive = RowId::new(first, 999);
    for gone in [
        RowId::new(first, 5),
        RowId::new(first, 650),
        RowId::new(second, 50),
        RowId::new(second, 60_000),
        RowId::new(77, 0),
        RowId(u64::MAX),
        alive,
    ] {
        let refused = without(&all.state, &[alive, gone]).err().unwrap();
        assert_eq!(refused.state(), SqlState::SERIALIZATION_FAILURE, "{gone:?}");
    }
}

#[test]
fn rows_are_hidden_before_and_after_a_compaction_that_is_undone() {
    let (mut all, first) = filled();
    kill_first(&mut all, first, 600);
    let known = [RowId::new(first, 999)];
    let built = plan_compaction(&all.state, CompactionPolicy::Busy).unwrap().build();
    let mut effect = Effect::new();
    all.table.apply_compaction(built, &mut effect).unwrap();
    assert_eq!(without(&all.state, &known).unwrap().rows(), 399);
    all.table.undo(effect);
    assert_eq!(without(&all.state, &known).unwrap().rows(), 399);
    all.table.kill(&known, &mut Effect::new()).unwrap();
}
