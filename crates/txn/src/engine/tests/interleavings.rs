//! Clients, readers and stages in every order that a scheduler thinks of: what one stage hands
//! over to the next arrives once, in order, and is undone or told as a whole.
//!
//! `cargo xtask check` runs it, with the feature `shuttle`; `THALWEG_CASES` sets how many orders
//! are tried.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use parking_lot::Mutex;
use shuttle::rand::{Rng, thread_rng};
use shuttle::sync::atomic::{AtomicUsize, Ordering};
use shuttle::thread;
use thalweg_env::{Env, Fault, ThreadHandle, Threads};
use thalweg_store::Put;
use thalweg_types::SqlState;

use super::cases;
use super::keyed::{create, put, rows, write};
use super::world::options;
use crate::disk_stage::DiskCommand;
use crate::stage_queues::channel;
use crate::{Engine, Failing};

const WRITERS: i64 = 3;
const GROUPS: i64 = 3;

/// Threads that the checker schedules.
struct CheckedThreads;

struct CheckedHandle(Mutex<thread::JoinHandle<()>>);

impl Threads for CheckedThreads {
    fn spawn(
        &self,
        name: &str,
        body: Box<dyn FnOnce() + Send>,
    ) -> io::Result<Box<dyn ThreadHandle>> {
        let handle = thread::Builder::new().name(name.to_owned()).spawn(body)?;
        Ok(Box::new(CheckedHandle(Mutex::new(handle))))
    }
}

impl ThreadHandle for CheckedHandle {
    fn join(self: Box<Self>) -> bool {
        self.0.into_inner().join().is_ok()
    }
}

/// What a writer knows of its two keys, which always get the same value.
#[derive(Default)]
struct Known {
    acknowledged: i64,
    /// Values that came after it when the log failed: the disk may have them all the same.
    in_doubt: Vec<i64>,
}

fn write_pairs(engine: &Engine, writer: i64) -> Known {
    let mut known = Known::default();
    for value in 1..=GROUPS {
        let pair = [(0, 2 * writer, value), (1, 2 * writer + 1, value)];
        let group = vec![put(engine, 1, Put::Upsert, &pair)];
        match write(engine, group, Failing::Undo(None)) {
            Ok(written) => {
                assert_eq!((written.rows, written.failures.len()), (2, 0));
                known = Known { acknowledged: value, in_doubt: Vec::new() };
                let seen = rows(engine, 1);
                assert_eq!(seen.get(&(2 * writer)), Some(&value), "what is told is visible");
            }
            Err(error) if error.state() == SqlState::IO_ERROR => known.in_doubt.push(value),
            Err(error) => assert_eq!(error.state(), SqlState::DISK_FULL),
        }
    }
    known
}

/// Whoever looks sees both rows of a pair, and never an older pair than before.
fn look(engine: &Engine) {
    let mut before = BTreeMap::new();
    for _ in 0..GROUPS {
        let seen = rows(engine, 1);
        for writer in 0..WRITERS {
            assert_eq!(seen.get(&(2 * writer)), seen.get(&(2 * writer + 1)), "half a group");
        }
        let is_newer = |(key, value): (&i64, &i64)| seen.get(key) >= Some(value);
        assert!(before.iter().all(is_newer), "{before:?} became {seen:?}");
        before = seen;
        thread::yield_now();
    }
}

fn writers_beside_a_reader(fault: Option<Fault>) {
    let (mut env, disk, _) = Env::simulated(thread_rng().r#gen());
    env.threads = Arc::new(CheckedThreads);
    let engine = Arc::new(Engine::open(env.clone(), options()).unwrap());
    create(&engine);
    if let Some(fault) = fault {
        let ahead = thread_rng().gen_range(0..2 * (WRITERS * GROUPS) as u64);
        disk.fault_at(disk.operations() + ahead, fault);
    }
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let engine = Arc::clone(&engine);
            thread::spawn(move || write_pairs(&engine, writer))
        })
        .collect();
    look(&engine);
    let known: Vec<Known> = writers.into_iter().map(|writer| writer.join().unwrap()).collect();
    let seen = rows(&engine, 1);
    for (writer, known) in (0..).zip(&known) {
        let value = seen.get(&(2 * writer)).copied().unwrap_or(0);
        assert_eq!(value, known.acknowledged, "what was refused is undone");
    }
    drop(engine);

    let env = env.with_files(disk.crash());
    let engine = Engine::open(env, options()).unwrap();
    let found = rows(&engine, 1);
    for (writer, known) in (0..).zip(&known) {
        let value = found.get(&(2 * writer)).copied().unwrap_or(0);
        assert_eq!(found.get(&(2 * writer)), found.get(&(2 * writer + 1)));
        let possible = value == known.acknowledged || known.in_doubt.contains(&value);
        assert!(possible, "writer {writer}: {value}, {}", known.acknowledged);
    }
}

fn check(fault: Option<Fault>) {
    let orders = usize::try_from(cases(300)).unwrap();
    shuttle::check_random(move || writers_beside_a_reader(fault), orders);
    shuttle::check_pct(move || writers_beside_a_reader(fault), orders, 3);
}

/// Runs both stages on one thread, beside writers and a reader, while the log fails once.
fn stages_on_one_thread() {
    let (env, disk, _) = Env::simulated(thread_rng().r#gen());
    let (engine, stages) = Engine::prepare(env, options()).unwrap();
    let engine = Arc::new(engine);
    let finished = Arc::new(AtomicUsize::new(0));
    let ended = Arc::clone(&finished);
    let stage_thread = thread::spawn(move || {
        while ended.load(Ordering::SeqCst) < WRITERS as usize {
            stages.run_until_idle();
            thread::yield_now();
        }
    });
    create(&engine);
    let ahead = thread_rng().gen_range(0..2 * (WRITERS * GROUPS) as u64);
    disk.fault_at(disk.operations() + ahead, Fault::DiskFull);
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let (engine, finished) = (Arc::clone(&engine), Arc::clone(&finished));
            thread::spawn(move || {
                let known = write_pairs(&engine, writer);
                finished.fetch_add(1, Ordering::SeqCst);
                known
            })
        })
        .collect();
    let known: Vec<Known> = writers.into_iter().map(|writer| writer.join().unwrap()).collect();
    stage_thread.join().unwrap();
    let seen = rows(&engine, 1);
    for (writer, known) in (0..).zip(&known) {
        let value = seen.get(&(2 * writer)).copied().unwrap_or(0);
        assert_eq!(value, known.acknowledged, "refused groups are undone");
    }
}

#[test]
fn stages_that_share_a_thread_never_wait_for_each_other() {
    shuttle::check_random(stages_on_one_thread, usize::try_from(cases(300)).unwrap());
}

/// The checker must notice a stage that waits for the answer of another one.
#[test]
#[should_panic(expected = "deadlock")]
fn a_stage_that_waits_for_another_one_is_noticed() {
    let waits = || {
        let (env, _, _) = Env::simulated(1);
        let (_engine, stages) = Engine::prepare(env, options()).unwrap();
        let stage_thread = thread::spawn(move || {
            stages.transactions.work(|transactions| {
                let (reply, closed) = channel();
                transactions.send(DiskCommand::Close(reply));
                closed.recv().unwrap().unwrap();
                Some(0)
            });
            stages.run_until_idle();
        });
        stage_thread.join().unwrap();
    };
    shuttle::check_random(waits, 1);
}

#[test]
fn groups_arrive_whole_and_in_order() {
    check(None);
}

#[test]
fn a_full_disk_undoes_what_was_queued_behind_it() {
    check(Some(Fault::DiskFull));
}

#[test]
fn a_failed_disk_ends_writes_and_loses_nothing_acknowledged() {
    check(Some(Fault::InputOutput));
}
