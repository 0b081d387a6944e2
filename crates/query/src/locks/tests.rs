//! Queues, circles and ends, without sessions; and what sessions make of them.

use std::sync::Arc;
use std::time::Duration;

use futures::{FutureExt, StreamExt};
use thalweg_types::{Error, Result, SqlState};

use super::table::{Key, Lock, Mode, TAKEN_MAX, Term};
use super::waiting::Waiting;
use super::{AdvisoryLocks, takes_locks};
use crate::{Database, Session, TransactionStatus};

const FIRST: Lock = Lock { key: Key::One(1), mode: Mode::Exclusive };
const SECOND: Lock = Lock { key: Key::One(2), mode: Mode::Exclusive };
const THIRD: Lock = Lock { key: Key::One(3), mode: Mode::Exclusive };
const SHARED: Lock = Lock { key: Key::One(1), mode: Mode::Share };

/// The locks, and the terms of some sessions.
fn sessions<const N: usize>() -> (Arc<AdvisoryLocks>, [Arc<Term>; N]) {
    (Arc::default(), std::array::from_fn(|_| Term::new(&Arc::default())))
}

fn takes(locks: &AdvisoryLocks, term: &Arc<Term>, lock: Lock) -> bool {
    locks.try_take(term, lock).unwrap()
}

fn waits(locks: &Arc<AdvisoryLocks>, term: &Arc<Term>, lock: Lock) -> Waiting {
    locks.take_or_wait(term, lock).unwrap().expect("it is not free")
}

fn is_given(waiting: &mut Waiting) -> bool {
    matches!(waiting.now_or_never(), Some(Ok(())))
}

fn end(locks: &AdvisoryLocks, term: &Term) {
    locks.give_back_behind(term, 0);
}

fn refusal(locks: &Arc<AdvisoryLocks>, term: &Arc<Term>, lock: Lock) -> Error {
    locks.take_or_wait(term, lock).err().expect("it closes a circle")
}

#[test]
fn locks_are_counted_and_told_apart() {
    let (locks, [one, other]) = sessions();
    assert!(takes(&locks, &one, FIRST) && takes(&locks, &one, FIRST));
    let pair = Lock { key: Key::Two(0, 1), mode: Mode::Exclusive };
    assert!(takes(&locks, &other, pair) && !takes(&locks, &other, FIRST));
    assert!(locks.give_back(&one, FIRST) && !takes(&locks, &other, FIRST));
    assert!(locks.give_back(&one, FIRST) && !locks.give_back(&one, FIRST));
    assert!(takes(&locks, &other, FIRST));
}

#[test]
fn shared_locks_exclude_others_only() {
    let (locks, [one, other]) = sessions();
    assert!(takes(&locks, &one, SHARED) && takes(&locks, &other, SHARED));
    assert!(!takes(&locks, &one, FIRST));
    assert!(locks.give_back(&other, SHARED));
    // One session's own are in nobody's way but others'.
    assert!(takes(&locks, &one, FIRST) && takes(&locks, &one, SHARED));
    assert!(!takes(&locks, &other, SHARED));
    assert!(!locks.give_back(&other, FIRST));
}

#[test]
fn who_asked_before_is_served_before() {
    let (locks, [one, second, third, fourth]) = sessions();
    assert!(takes(&locks, &one, SHARED));
    let mut exclusive = waits(&locks, &second, FIRST);
    let mut shared = [waits(&locks, &third, SHARED), waits(&locks, &fourth, SHARED)];
    // Who has the lock does not wait for those who wait for it.
    assert!(takes(&locks, &one, SHARED));
    assert!(locks.give_back(&one, SHARED) && !is_given(&mut exclusive));
    assert!(locks.give_back(&one, SHARED) && is_given(&mut exclusive));
    assert!(!shared.iter_mut().any(is_given));
    assert!(locks.give_back(&second, FIRST));
    assert!(shared.iter_mut().all(is_given));
}

#[test]
fn who_leaves_is_in_nobodys_way() {
    let (locks, [one, second, third]) = sessions();
    assert!(takes(&locks, &one, SHARED));
    let leaves = waits(&locks, &second, FIRST);
    let mut stays = waits(&locks, &third, SHARED);
    drop(leaves);
    assert!(is_given(&mut stays));
    assert!(!locks.give_back(&second, FIRST));
}

#[test]
fn a_lock_that_comes_too_late_is_given_back() {
    let (locks, [one, second, third]) = sessions();
    assert!(takes(&locks, &one, FIRST));
    let leaves = waits(&locks, &second, FIRST);
    let mut stays = waits(&locks, &third, FIRST);
    assert!(locks.give_back(&one, FIRST));
    drop(leaves);
    assert!(is_given(&mut stays));
    assert!(!locks.give_back(&second, FIRST));
}

#[test]
fn what_a_term_had_is_free_when_it_ends() {
    let (locks, [one, second]) = sessions();
    assert!(
        takes(&locks, &one, FIRST) && takes(&locks, &one, FIRST) && takes(&locks, &one, SECOND)
    );
    let mut waiting = waits(&locks, &second, FIRST);
    end(&locks, &one);
    assert!(is_given(&mut waiting) && takes(&locks, &second, SECOND));
    end(&locks, &second);
    assert!(locks.listed().is_empty());
}

#[test]
fn a_session_has_so_many_locks_and_no_more() {
    let locks = AdvisoryLocks::default();
    let owner = Arc::default();
    let [session, transaction] = std::array::from_fn(|_| Term::new(&owner));
    for _ in 0..TAKEN_MAX / 2 {
        assert!(takes(&locks, &session, FIRST) && takes(&locks, &transaction, SECOND));
    }
    let refused = locks.try_take(&transaction, FIRST).unwrap_err();
    assert_eq!(refused.state(), SqlState::OUT_OF_MEMORY);
    assert!(locks.give_back(&session, FIRST) && takes(&locks, &transaction, THIRD));
    assert!(locks.try_take(&session, FIRST).is_err());
    end(&locks, &transaction);
    assert!(takes(&locks, &session, FIRST));
}

#[test]
fn who_has_a_lock_passes_those_who_wait_for_it() {
    let (locks, [one, other, third]) = sessions();
    assert!(takes(&locks, &one, SHARED) && takes(&locks, &other, SHARED));
    let mut behind = waits(&locks, &third, FIRST);
    let mut ahead = waits(&locks, &one, FIRST);
    assert!(takes(&locks, &other, SHARED));
    end(&locks, &other);
    assert!(is_given(&mut ahead) && !is_given(&mut behind));
    end(&locks, &one);
    assert!(is_given(&mut behind));
}

#[test]
fn what_was_taken_behind_a_mark_is_given_back() {
    let (locks, [one, other]) = sessions();
    assert!(takes(&locks, &one, FIRST));
    let mark = one.count();
    assert!(takes(&locks, &one, FIRST) && takes(&locks, &one, SECOND));
    locks.give_back_behind(&one, mark);
    assert!(takes(&locks, &other, SECOND) && !takes(&locks, &other, FIRST));
}

#[test]
fn who_would_close_a_circle_is_refused() {
    let (locks, [one, second, third]) = sessions();
    [&one, &second, &third].into_iter().zip(1..).for_each(|(term, id)| term.owner().introduce(id));
    assert!(takes(&locks, &one, FIRST) && takes(&locks, &second, SECOND));
    assert!(takes(&locks, &third, THIRD));
    let mut first = waits(&locks, &one, SECOND);
    let mut next = waits(&locks, &second, THIRD);
    let refused = refusal(&locks, &third, FIRST);
    assert_eq!(refused.state(), SqlState::DEADLOCK_DETECTED);
    assert_eq!(
        refused.detail(),
        Some(
            "Process 3 waits for ExclusiveLock on advisory lock [0,1,1]; blocked by process 1.\n\
             Process 1 waits for ExclusiveLock on advisory lock [0,2,1]; blocked by process 2.\n\
             Process 2 waits for ExclusiveLock on advisory lock [0,3,1]; blocked by process 3."
        )
    );
    // The others go on once it has given up.
    end(&locks, &third);
    assert!(is_given(&mut next) && !is_given(&mut first));
}

#[test]
fn two_who_share_cannot_both_have_it_alone() {
    let (locks, [one, other, third]) = sessions();
    assert!(takes(&locks, &one, SHARED) && takes(&locks, &other, SHARED));
    let mut behind = waits(&locks, &third, FIRST);
    let mut ahead = waits(&locks, &one, FIRST);
    assert_eq!(refusal(&locks, &other, FIRST).state(), SqlState::DEADLOCK_DETECTED);
    end(&locks, &other);
    assert!(is_given(&mut ahead) && !is_given(&mut behind));
}

/// The only value that a query gives, as PostgreSQL's text.
async fn value(session: &mut Session, sql: &str) -> Result<String> {
    let mut rows = session.execute(sql).await?.rows.expect("a query gives rows");
    let mut told = String::new();
    while let Some(batch) = rows.next().await {
        let batch = batch?;
        let values = thalweg_formats::text::ValueFormatter::new(batch.column(0))?;
        (0..batch.num_rows()).for_each(|row| values.format(row, &mut told));
    }
    Ok(told)
}

async fn is_free(session: &mut Session, key: i64) -> bool {
    let sql = format!("SELECT pg_try_advisory_xact_lock({key})");
    value(session, &sql).await.unwrap() == "t"
}

#[tokio::test]
async fn a_statement_without_a_block_is_a_transaction() {
    let database = Database::in_memory().unwrap();
    let (mut one, mut other) = (database.session(), database.session());
    value(&mut one, "SELECT pg_advisory_xact_lock(1)").await.unwrap();
    assert!(is_free(&mut other, 1).await);
    let sql = "SELECT pg_try_advisory_lock(1) AS mine, pg_advisory_lock(NULL) AS nothing";
    let prepared = one.prepare(sql, &[]).await.unwrap();
    let names: Vec<_> = prepared.schema().unwrap().fields().iter().map(|f| f.name()).collect();
    assert_eq!(names, ["mine", "nothing"]);
    for _ in 0..2 {
        drop(one.execute_prepared(&prepared, &[]).await.unwrap());
    }
    assert!(!is_free(&mut other, 1).await);
    for _ in 0..2 {
        assert_eq!(value(&mut one, "SELECT pg_advisory_unlock(1)").await.unwrap(), "t");
    }
    assert!(is_free(&mut other, 1).await);
}

#[tokio::test]
async fn a_wait_ends_in_time_and_leaves_nothing() {
    let database = Database::in_memory().unwrap();
    let (mut one, mut other) = (database.session(), database.session());
    value(&mut one, "SELECT pg_advisory_lock(1)").await.unwrap();
    other.execute("SET lock_timeout = '10ms'").await.unwrap();
    let two = "SELECT pg_advisory_xact_lock(2), pg_advisory_xact_lock(1)";
    let refused = value(&mut other, two).await.unwrap_err();
    assert_eq!(refused.state(), SqlState::LOCK_NOT_AVAILABLE);
    assert!(is_free(&mut one, 2).await);
    // One that is dropped while it waits leaves the queue.
    other.execute("SET lock_timeout = 0").await.unwrap();
    let waiting = value(&mut other, "SELECT pg_advisory_lock(1)");
    assert!(thalweg_runtime::timeout(Duration::from_millis(10), waiting).await.is_err());
    assert_eq!(database_locks(&database), 1);
    value(&mut one, "SELECT pg_advisory_unlock_all()").await.unwrap();
    assert_eq!(database_locks(&database), 0);
}

fn database_locks(database: &Database) -> usize {
    database.shared.locks.listed().len()
}

#[tokio::test]
async fn what_a_session_has_ends_with_it() {
    let database = Database::in_memory().unwrap();
    let (mut one, mut other) = (database.session(), database.session());
    one.execute("BEGIN").await.unwrap();
    value(&mut one, "SELECT pg_advisory_lock(1), pg_advisory_xact_lock(2)").await.unwrap();
    assert!(!is_free(&mut other, 1).await && !is_free(&mut other, 2).await);
    drop(one);
    assert!(is_free(&mut other, 1).await && is_free(&mut other, 2).await);
}

#[tokio::test]
async fn an_error_ends_what_its_block_took_since_its_savepoint() {
    let database = Database::in_memory().unwrap();
    let (mut one, mut other) = (database.session(), database.session());
    one.execute("BEGIN").await.unwrap();
    value(&mut one, "SELECT pg_advisory_xact_lock(1)").await.unwrap();
    one.execute("SAVEPOINT s").await.unwrap();
    value(&mut one, "SELECT pg_advisory_xact_lock(2)").await.unwrap();
    value(&mut one, "SELECT pg_advisory_lock(3)").await.unwrap();
    assert!(one.execute("SELECT nothing").await.is_err());
    assert_eq!(one.transaction(), TransactionStatus::Failed);
    assert!(!is_free(&mut other, 1).await && is_free(&mut other, 2).await);
    one.execute("ROLLBACK").await.unwrap();
    assert!(is_free(&mut other, 1).await && !is_free(&mut other, 3).await);
}

#[tokio::test]
async fn who_waited_for_a_lock_sees_what_its_holder_committed() {
    let database = Database::in_memory().unwrap();
    let (mut one, mut other) = (database.session(), database.session());
    one.execute("CREATE TABLE t (n integer)").await.unwrap();
    value(&mut one, "SELECT pg_advisory_lock(1)").await.unwrap();
    other.execute("BEGIN ISOLATION LEVEL REPEATABLE READ").await.unwrap();
    let waiting = async { value(&mut other, "SELECT pg_advisory_xact_lock(1)").await.unwrap() };
    let working = async {
        // The other one is in the queue by now, or comes too late to wait: it sees the row anyhow.
        tokio::task::yield_now().await;
        one.execute("INSERT INTO t VALUES (1)").await.unwrap();
        value(&mut one, "SELECT pg_advisory_unlock(1)").await.unwrap()
    };
    let (_, was_held) = tokio::join!(waiting, working);
    assert_eq!(was_held, "t");
    assert_eq!(value(&mut other, "SELECT count(*) FROM t").await.unwrap(), "1");
    // From then on the block sees one moment, whatever it locks.
    one.execute("INSERT INTO t VALUES (2)").await.unwrap();
    value(&mut other, "SELECT pg_advisory_xact_lock(2)").await.unwrap();
    assert_eq!(value(&mut other, "SELECT count(*) FROM t").await.unwrap(), "1");
    other.execute("COMMIT").await.unwrap();
}

#[test]
fn statements_about_locks_are_told_from_others() {
    for sql in [
        "SELECT pg_advisory_lock(1)",
        "select PG_TRY_ADVISORY_LOCK($1, -2) as a, pg_catalog.pg_advisory_unlock_all()",
        "/* a */ SELECT pg_advisory_xact_lock(hashtextextended('x', 0)) ;",
        "SELECT pg_advisory_lock('7'::bigint), pg_advisory_unlock(CAST($1 AS bigint))",
    ] {
        assert!(takes_locks(sql), "{sql}");
    }
    for sql in [
        "SELECT 1",
        "SELECT '_advisory_'",
        "SELECT pg_advisory_lock(1), 2",
        "SELECT pg_advisory_lock(n) FROM t",
        "SELECT pg_advisory_lock(1) FROM t",
        "SELECT pg_advisory_lock(1) ORDER BY 1",
        "SELECT pg_advisory_lock(1) FOR UPDATE",
        "(SELECT pg_advisory_lock(1)) UNION SELECT ''",
        "WITH a AS (SELECT 1) SELECT pg_advisory_lock(1)",
        "SELECT pg_advisory_lock((SELECT 1))",
        "SELECT pg_advisory_lock(pg_sleep(1))",
        "SELECT pg_advisory_lock(1); SELECT 1",
        "EXPLAIN SELECT pg_advisory_lock(1)",
    ] {
        assert!(!takes_locks(sql), "{sql}");
    }
}

#[tokio::test]
async fn what_is_prepared_is_not_executed_within_another_statement() {
    let mut session = Database::in_memory().unwrap().session();
    let prepared = session.prepare("SELECT pg_try_advisory_lock(1)", &[]).await.unwrap();
    session.keep_prepared("p", prepared).unwrap();
    let refused = value(&mut session, "EXECUTE p").await.unwrap_err();
    assert_eq!(refused.state(), SqlState::FEATURE_NOT_SUPPORTED);
}

#[tokio::test]
async fn who_gives_back_what_it_has_not_is_warned() {
    let mut session = Database::in_memory().unwrap().session();
    let outcome = session.execute("SELECT pg_advisory_unlock_shared(7)").await.unwrap();
    let [notice] = outcome.notices.as_slice() else { panic!("{:?}", outcome.notices) };
    assert_eq!(notice.severity(), "WARNING");
    assert_eq!(notice.message, "you don't own a lock of type ShareLock");
}
