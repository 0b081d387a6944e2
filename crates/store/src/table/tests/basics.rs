//! One behaviour a test.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int32Array, RecordBatch};
use arrow::datatypes::Int32Type;
use thalweg_types::{ColumnId, DataType, RowId, SqlState};

use super::support::{Published, batch, column, find, key, read, row, rows, schema};
use crate::{
    Arrival, Bitmap, ClosedChunk, CompactionPolicy, Effect, Table, ThisThread, plan_compaction,
};

#[test]
fn rows_are_seen_once_they_are_published() {
    let mut all = Published::new();
    let before = Arc::clone(&all.state);
    let mut effect = Effect::new();
    let placed = all.table.append(&batch(&[row(1, "a", 10), row(2, "b", 20)]), &mut effect);
    assert_eq!(placed.unwrap()[0].length, 2);
    assert_eq!((all.state.rows(), all.table.applied().rows()), (0, 2));
    effect.publish(&mut all.state);
    assert_eq!(rows(&all.state), [row(1, "a", 10), row(2, "b", 20)]);
    assert_eq!(rows(&before), []);
}

#[test]
fn a_taken_key_is_refused_in_the_words_of_postgresql() {
    let mut all = Published::new();
    all.append(&[row(1, "a", 1)]);
    for (rows, name, detail) in [
        (vec![row(2, "b", 0), row(1, "c", 0)], "t_pkey", "Key (id)=(1) already exists."),
        (vec![row(3, "x", 0), row(4, "a", 0)], "t_tag_key", "Key (tag)=(a) already exists."),
        (vec![row(5, "y", 0), row(5, "z", 0)], "t_pkey", "Key (id)=(5) already exists."),
    ] {
        let mut effect = Effect::new();
        let error = all.table.append(&batch(&rows), &mut effect).unwrap_err();
        assert_eq!(error.state(), SqlState::UNIQUE_VIOLATION);
        assert!(error.message().ends_with(&format!("unique constraint \"{name}\"")), "{error}");
        assert_eq!(error.detail(), Some(detail));
        assert!(effect.is_empty());
        let chunk = Arc::new(ClosedChunk::build(&schema(), &batch(&rows)));
        let error = all.table.append_chunk(chunk, &mut effect).unwrap_err();
        assert_eq!((error.state(), error.detail()), (SqlState::UNIQUE_VIOLATION, Some(detail)));
        assert!(effect.is_empty());
    }
    all.append(&[row(2, "b", 2), row(3, "c", 3)]);
    assert_eq!(all.state.rows(), 3);
}

#[test]
fn a_null_in_a_key_collides_with_nothing_but_a_primary_key_has_none() {
    let mut all = Published::new();
    all.append(&[(1, None, None), (2, None, None)]);
    assert_eq!(all.state.rows(), 2);
    let batch = batch(&[row(3, "a", 1)]);
    let ids: ArrayRef = Arc::new(arrow::array::Int64Array::from(vec![None]));
    let columns = vec![ids, Arc::clone(batch.column(1)), Arc::clone(batch.column(2))];
    let fields: Vec<_> =
        batch.schema().fields().iter().map(|f| f.as_ref().clone().with_nullable(true)).collect();
    let schema = Arc::new(arrow::datatypes::Schema::new(fields));
    let batch = RecordBatch::try_new(schema, columns).unwrap();
    let error = all.table.append(&batch, &mut Effect::new()).unwrap_err();
    assert_eq!(error.state(), SqlState::NOT_NULL_VIOLATION);
}

#[test]
fn a_row_is_replaced_within_one_effect() {
    let mut all = Published::new();
    all.append(&[row(1, "a", 1), row(2, "b", 2)]);
    let before = Arc::clone(&all.state);
    all.upsert(&[row(1, "a", 100)]);
    assert_eq!(rows(&all.state), [row(1, "a", 100), row(2, "b", 2)]);
    assert_eq!(rows(&before), [row(1, "a", 1), row(2, "b", 2)]);
    assert_eq!(find(&before, 1), Some(RowId::new(1, 0)));
    assert_eq!(find(&all.state, 1), Some(RowId::new(1, 2)));
    assert_eq!(find(&all.state, 3), None);
}

#[test]
fn a_row_dies_once() {
    let mut all = Published::new();
    all.append(&[row(1, "a", 1), row(2, "b", 2)]);
    let id = find(&all.state, 1).unwrap();
    let mut effect = Effect::new();
    all.table.kill(&[id], &mut effect).unwrap();
    let error = all.table.kill(&[RowId::new(1, 1), id], &mut effect).unwrap_err();
    assert_eq!(error.state(), SqlState::SERIALIZATION_FAILURE);
    effect.publish(&mut all.state);
    assert_eq!(rows(&all.state), [row(2, "b", 2)]);
    all.append(&[row(1, "a", 5)]);
    assert_eq!(all.state.rows(), 2);
}

#[test]
fn effects_are_undone_from_the_newest_on() {
    let mut all = Published::new();
    all.append(&[row(1, "a", 1), row(2, "b", 2)]);
    let mut first = Effect::new();
    all.table.kill(&[RowId::new(1, 0)], &mut first).unwrap();
    all.table.append(&batch(&[row(1, "a", 10)]), &mut first).unwrap();
    let mut second = Effect::new();
    all.table.kill(&[RowId::new(1, 2)], &mut second).unwrap();
    all.table.append(&batch(&[row(1, "aa", 11)]), &mut second).unwrap();
    all.table.truncate(&mut second);
    all.table.append(&batch(&[row(7, "g", 7)]), &mut second).unwrap();
    all.table.undo(second);
    all.table.undo(first);
    assert_eq!(rows(&all.state), [row(1, "a", 1), row(2, "b", 2)]);
    assert!(all.table.append(&batch(&[row(1, "q", 1)]), &mut Effect::new()).is_err());
    all.append(&[row(3, "c", 3)]);
    assert_eq!(find(&all.state, 3), Some(RowId::new(1, 2)));
    assert_eq!(rows(&all.state).len(), 3);
}

#[test]
fn a_full_chunk_is_closed_and_swapped() {
    let mut all = Published::new();
    let many: Vec<_> = (0..70_000).map(|id| row(id, &format!("tag {id}"), 1)).collect();
    for part in many.chunks(1_000) {
        all.append(part);
    }
    let old = Arc::clone(&all.state);
    let full = all.table.take_full();
    assert_eq!(full.len(), 1);
    assert!(all.table.take_full().is_empty());
    let mut effect = Effect::new();
    assert!(all.table.swap(full[0].number, full[0].build(), &mut effect));
    effect.publish(&mut all.state);
    assert!(all.state.chunk(1).unwrap().zone(0).is_some());
    assert!(old.chunk(1).unwrap().zone(0).is_none());
    assert_eq!(rows(&all.state), many);
    assert_eq!(rows(&old), many);
    assert_eq!(find(&all.state, 69_999), Some(RowId::new(2, 69_999 - 65_536)));
}

#[test]
fn columns_are_added_dropped_and_moved() {
    let mut all = Published::new();
    all.append(&[row(1, "a", 1), row(2, "b", 2)]);
    let old = Arc::clone(&all.state);
    let mut schema = schema();
    schema.columns.remove(1);
    schema.unique.clear();
    schema.columns.insert(0, column(4, "extra", DataType::Int4, false));
    let mut effect = Effect::new();
    let value: ArrayRef = Arc::new(Int32Array::from(vec![42]));
    all.table.alter(Arc::new(schema), &[(ColumnId(4), value)], &ThisThread, &mut effect).unwrap();
    effect.publish(&mut all.state);
    let columns = all.state.chunk(1).unwrap().columns(&[0, 2]);
    assert_eq!(columns[0].as_primitive::<Int32Type>().values(), &[42, 42]);
    assert_eq!(columns[1].as_primitive::<Int32Type>().values(), &[1, 2]);
    assert_eq!(rows(&old), [row(1, "a", 1), row(2, "b", 2)]);
    assert_eq!(find(&all.state, 2), Some(RowId::new(1, 1)));
}

#[test]
fn a_key_is_added_if_the_rows_allow() {
    let mut all = Published::new();
    all.append(&[row(1, "a", 5), row(2, "b", 6), row(3, "c", 6)]);
    let mut with_key = schema();
    with_key.unique.push(key("t_amount_key", &[3]));
    let with_key = Arc::new(with_key);
    let error =
        all.table.alter(Arc::clone(&with_key), &[], &ThisThread, &mut Effect::new()).unwrap_err();
    assert_eq!(error.message(), "could not create unique index \"t_amount_key\"");
    assert_eq!(error.detail(), Some("Key (amount)=(6) is duplicated."));
    let mut effect = Effect::new();
    all.table.kill(&[RowId::new(1, 1)], &mut effect).unwrap();
    all.table.alter(with_key, &[], &ThisThread, &mut effect).unwrap();
    effect.publish(&mut all.state);
    let refused = all.table.append(&batch(&[row(4, "d", 6)]), &mut Effect::new());
    assert_eq!(refused.unwrap_err().detail(), Some("Key (amount)=(6) already exists."));
    all.append(&[row(4, "d", 7)]);
    assert_eq!(all.state.rows(), 3);
}

#[test]
fn compaction_moves_rows_and_leads_old_ids_on() {
    let mut all = Published::new();
    let many: Vec<_> = (0..1_000).map(|id| row(id, &format!("tag {id}"), 1)).collect();
    let mut effect = Effect::new();
    let chunk = Arc::new(ClosedChunk::build(&schema(), &batch(&many)));
    let number = all.table.append_chunk(chunk, &mut effect).unwrap();
    let dead: Vec<RowId> = (0..600).map(|place| RowId::new(number, place)).collect();
    all.table.kill(&dead, &mut effect).unwrap();
    effect.publish(&mut all.state);
    let old = Arc::clone(&all.state);

    let built = plan_compaction(&all.state, CompactionPolicy::Busy).unwrap().build();
    let sources = built.sources.clone();
    // Rows die between the plan and its application.
    let mut effect = Effect::new();
    all.table.kill(&[RowId::new(number, 700)], &mut effect).unwrap();
    effect.publish(&mut all.state);
    let mut effect = Effect::new();
    let target = all.table.apply_compaction(built, &mut effect).unwrap();
    effect.publish(&mut all.state);

    assert_eq!(all.state.chunks().map(|chunk| chunk.number()).collect::<Vec<_>>(), [target]);
    assert_eq!(all.state.rows(), 399);
    assert_eq!(rows(&old).len(), 400);
    assert_eq!(find(&old, 999), Some(RowId::new(number, 999)));
    assert_eq!(find(&old, 700), Some(RowId::new(number, 700)));
    assert_eq!(find(&all.state, 999), Some(RowId::new(target, 399)));
    assert_eq!(find(&all.state, 700), None);
    assert_eq!(find(&all.state, 5), None);
    assert_eq!(all.table.locate(RowId::new(number, 999)), Some(RowId::new(target, 399)));
    assert_eq!(all.table.locate(RowId::new(number, 700)), None);
    let mut effect = Effect::new();
    all.table.kill(&[RowId::new(number, 999)], &mut effect).unwrap();
    effect.publish(&mut all.state);
    assert_eq!(find(&all.state, 999), None);
    all.append(&[row(999, "tag 999", 2), row(5, "tag 5", 2)]);
    assert_eq!(all.state.rows(), 400);

    // The same again, as a log tells it.
    let (mut table, mut state) = Table::new(Arc::new(schema()));
    let chunk = Arc::new(ClosedChunk::build(&schema(), &batch(&many)));
    let mut effect = Effect::new();
    let dead: Bitmap = dead.iter().fold(Bitmap::new(), |mut dead, row| {
        dead.insert(row.row());
        dead
    });
    let arrival = Arrival { number, chunk, dead: Some(dead) };
    table.append_chunks_at(vec![arrival], &ThisThread, &mut effect).unwrap();
    table.apply_compaction_at(target, &sources, &mut effect).unwrap();
    effect.publish(&mut state);
    assert_eq!(rows(&state), rows(&old));
    assert_eq!(find(&state, 999), Some(RowId::new(target, 399)));
    assert_eq!(table.next_chunk(), target + 1);
}

#[test]
fn a_transaction_sees_its_own_changes() {
    let mut all = Published::new();
    all.append(&[row(1, "a", 1), row(2, "b", 2)]);
    let mut own = (*all.state).clone();
    own.kill_private(&[RowId::new(1, 0)]);
    let chunk = Arc::new(ClosedChunk::build(&schema(), &batch(&[row(1, "a", 9), row(3, "c", 3)])));
    let number = own.add_private_chunk(chunk);
    assert_eq!(rows(&own), [row(1, "a", 9), row(2, "b", 2), row(3, "c", 3)]);
    assert_eq!(find(&own, 1), Some(RowId::new(number, 0)));
    own.kill_private(&[RowId::new(number, 1)]);
    assert_eq!(find(&own, 3), None);
    assert_eq!(find(&own, 2), Some(RowId::new(1, 1)));
    let before = own.clone();
    for id in 3..100 {
        let one = batch(&[row(id, &format!("own {id}"), 0)]);
        own.add_private_chunk(Arc::new(ClosedChunk::build(&schema(), &one)));
    }
    assert_eq!((find(&before, 3), find(&before, 50)), (None, None));
    for id in 3..100 {
        assert_eq!(find(&own, id), Some(RowId::new(number + id as u32 - 2, 0)));
    }
    let mut moved = schema();
    moved.columns.swap(0, 1);
    let altered = own.altered(Arc::new(moved), &[]).unwrap();
    assert_eq!((find(&altered, 50), find(&altered, 100)), (find(&own, 50), None));
    assert_eq!(rows(&all.state), [row(1, "a", 1), row(2, "b", 2)]);
}

#[test]
fn replay_puts_rows_where_they_were() {
    let (mut table, mut state) = Table::new(Arc::new(schema()));
    let mut effect = Effect::new();
    table.append_at(4, 0, &batch(&[row(1, "a", 1)]), &mut effect).unwrap();
    table.append_at(4, 1, &batch(&[row(2, "b", 2)]), &mut effect).unwrap();
    let chunk = Arc::new(ClosedChunk::build(&schema(), &batch(&[row(3, "c", 3)])));
    let arrival = Arrival { number: 6, chunk, dead: None };
    table.append_chunks_at(vec![arrival], &ThisThread, &mut effect).unwrap();
    // A chunk that a checkpoint closed goes on.
    table.append_at(6, 1, &batch(&[row(4, "d", 4)]), &mut effect).unwrap();
    for (number, place) in [(4, 1), (5, 1), (6, 3), (1 << 31, 0)] {
        let error = table.append_at(number, place, &batch(&[row(9, "x", 9)]), &mut effect);
        assert_eq!(error.unwrap_err().state(), SqlState::DATA_CORRUPTED);
    }
    effect.publish(&mut state);
    let read: Vec<RowId> = read(&state).into_iter().map(|(id, _)| id).collect();
    assert_eq!(read, [(4, 0), (4, 1), (6, 0), (6, 1)].map(|(c, r)| RowId::new(c, r)));
    assert_eq!(table.next_chunk(), 7);
}

#[test]
fn identity_counters_go_on_through_changes_of_the_schema() {
    let mut schema = schema();
    schema.columns[0].identity = Some(thalweg_types::Identity::ByDefault);
    let (mut table, state) = Table::new(Arc::new(schema.clone()));
    assert_eq!(state.identities().reserve(ColumnId(1), 10), Some(1));
    table.identities().raise(ColumnId(1), 5);
    assert_eq!(table.identities().next(ColumnId(1)), Some(11));
    schema.columns[2].identity = Some(thalweg_types::Identity::Always);
    table.alter(Arc::new(schema), &[], &ThisThread, &mut Effect::new()).unwrap();
    assert_eq!(state.identities().reserve(ColumnId(1), 1), Some(11));
    assert_eq!(state.identities().reserve(ColumnId(3), 1), Some(1));
    assert_eq!(state.identities().reserve(ColumnId(2), 1), None);
}

#[test]
fn rows_that_fill_a_chunk_and_begin_another_are_undone() {
    let mut all = Published::new();
    let many: Vec<_> = (0..70_000).map(|id| row(id, &format!("tag {id}"), 1)).collect();
    all.append(&many[..60_000]);
    for _ in 0..2 {
        let mut effect = Effect::new();
        let placed = all.table.append(&batch(&many[60_000..]), &mut effect).unwrap();
        assert_eq!(placed.iter().map(|piece| piece.length).collect::<Vec<_>>(), [5_536, 4_464]);
        assert!(all.table.take_full().is_empty(), "the full chunk is not published");
        all.table.undo(effect);
        assert_eq!(all.table.applied().rows(), 60_000);
    }
    all.append(&many[60_000..]);
    assert_eq!(rows(&all.state), many);
    assert_eq!(all.table.take_full().len(), 1);
}

#[test]
fn a_changed_schema_is_undone_with_rows_that_nobody_saw() {
    let mut all = Published::new();
    all.append(&[row(1, "a", 1)]);
    let mut effect = Effect::new();
    all.table.append(&batch(&[row(2, "b", 2)]), &mut effect).unwrap();
    let mut wider = schema();
    wider.columns.push(column(4, "extra", DataType::Text { max_chars: None }, true));
    wider.unique.push(key("t_amount_key", &[3]));
    all.table.alter(Arc::new(wider), &[], &ThisThread, &mut effect).unwrap();
    assert_eq!(all.table.schema().columns.len(), 4);
    all.table.undo(effect);
    assert_eq!(all.table.schema().columns.len(), 3);
    all.append(&[row(2, "b", 20), row(3, "c", 20)]);
    assert_eq!(rows(&all.state), [row(1, "a", 1), row(2, "b", 20), row(3, "c", 20)]);
    assert_eq!(find(&all.state, 3), Some(RowId::new(1, 2)));
}
