//! A writer and readers at the same time, and memory under constant change.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow::array::{AsArray, Int32Array};
use arrow::compute::{filter, sum};
use arrow::datatypes::Int32Type;
use parking_lot::Mutex;

use super::support::{Published, Row, find, row};
use crate::tests::random::Random;
use crate::{CompactionPolicy, Effect, TableState, plan_compaction};

const ACCOUNTS: i64 = 2_000;
const BALANCE: i32 = 100;

fn total(state: &TableState) -> i64 {
    let mut total = 0;
    for chunk in state.chunks() {
        let amounts = chunk.columns(&[2]).remove(0);
        let amounts: Int32Array = match chunk.live_mask() {
            Some(mask) => {
                let live = filter(&amounts, &mask.into()).unwrap();
                live.as_primitive::<Int32Type>().clone()
            }
            None => amounts.as_primitive::<Int32Type>().clone(),
        };
        total += i64::from(sum(&amounts).unwrap_or(0));
    }
    total
}

/// Compacts whatever is worth it, as a maintenance thread would.
fn maintain(all: &mut Published) {
    while let Some(plan) = plan_compaction(&all.state, CompactionPolicy::Busy) {
        let mut effect = Effect::new();
        all.table.apply_compaction(plan.build(), &mut effect).unwrap();
        effect.publish(&mut all.state);
    }
    for full in all.table.take_full() {
        let mut effect = Effect::new();
        all.table.swap(full.number, full.build(), &mut effect);
        effect.publish(&mut all.state);
    }
}

/// Checks snapshots until it is told to stop; each must have all accounts and the same total.
fn watch(shared: &Mutex<Arc<TableState>>, done: &AtomicBool, seed: u64) -> usize {
    let mut random = Random(seed);
    let mut seen = 0;
    while !done.load(Ordering::Relaxed) || seen == 0 {
        let state = Arc::clone(&shared.lock());
        assert_eq!(state.rows(), ACCOUNTS as usize);
        assert_eq!(total(&state), ACCOUNTS * i64::from(BALANCE));
        for _ in 0..20 {
            let id = random.below(ACCOUNTS as u64) as i64;
            let row = find(&state, id).expect("every snapshot has every account");
            let ids = state.chunk(row.chunk()).unwrap().columns(&[0]).remove(0);
            let ids = ids.as_primitive::<arrow::datatypes::Int64Type>();
            assert_eq!(ids.value(row.row() as usize), id);
        }
        seen += 1;
    }
    seen
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a test of several threads")]
fn readers_see_whole_transfers_only() {
    let mut all = Published::new();
    let accounts: Vec<Row> =
        (0..ACCOUNTS).map(|id| row(id, &format!("account {id}"), BALANCE)).collect();
    all.append(&accounts);
    let mut balances = vec![BALANCE; ACCOUNTS as usize];
    let shared = Arc::new(Mutex::new(Arc::clone(&all.state)));
    let done = Arc::new(AtomicBool::new(false));
    let readers: Vec<_> = (0..2)
        .map(|seed| {
            let (shared, done) = (Arc::clone(&shared), Arc::clone(&done));
            std::thread::spawn(move || watch(&shared, &done, seed))
        })
        .collect();
    let mut random = Random(7);
    for round in 0..4_000 {
        let mut moved: Vec<i64> = (0..40).map(|_| random.below(ACCOUNTS as u64) as i64).collect();
        moved.sort_unstable();
        moved.dedup();
        moved.truncate(moved.len() / 2 * 2);
        for pair in moved.chunks(2) {
            balances[pair[0] as usize] -= 1;
            balances[pair[1] as usize] += 1;
        }
        let rows: Vec<Row> = moved
            .iter()
            .map(|id| row(*id, &format!("account {id}"), balances[*id as usize]))
            .collect();
        all.upsert(&rows);
        *shared.lock() = Arc::clone(&all.state);
        if round % 100 == 0 {
            maintain(&mut all);
            *shared.lock() = Arc::clone(&all.state);
        }
    }
    done.store(true, Ordering::Relaxed);
    for reader in readers {
        assert!(reader.join().unwrap() > 0);
    }
}

#[test]
fn memory_stays_flat_under_updates() {
    const KEYS: u64 = 100_000;
    const BATCH: usize = 1_000;
    let mut all = Published::new();
    let tag = |id: i64| format!("tag {id}");
    for part in (0..KEYS as i64).collect::<Vec<_>>().chunks(BATCH) {
        all.append(&part.iter().map(|id| row(*id, &tag(*id), 0)).collect::<Vec<_>>());
    }
    let mut random = Random(11);
    let mut memory = Vec::new();
    for round in 0..1_000_u64 {
        // Distinct keys, spread over all.
        let start = random.below(KEYS);
        let rows: Vec<Row> = (0..BATCH as u64)
            .map(|step| (start + step * 97) % KEYS)
            .map(|id| row(id as i64, &tag(id as i64), round as i32))
            .collect();
        all.upsert(&rows);
        if round % 20 == 0 {
            maintain(&mut all);
        }
        if round % 100 == 99 {
            memory.push(all.state.memory_bytes());
        }
    }
    assert_eq!(all.state.rows(), KEYS as usize);
    let (early, late) = memory.split_at(memory.len() / 2);
    let (early, late) = (early.iter().max().unwrap(), late.iter().max().unwrap());
    assert!(*late < early + early / 3, "{memory:?}");
}
