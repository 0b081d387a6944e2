//! Writers: each knows what was acknowledged, what failed for sure and what nobody knows.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use thalweg_env::SeededRandom;

use super::ledger::{Fate, Owners, ROWS, Shared, Span, keys};
use super::session::{Failure, Session};
use crate::wires::wait;

/// What each account has at first.
pub const AMOUNT: i64 = 1_000_000;
/// Rows of a writer that one statement writes again and again, on several workers.
pub const REGISTERS: i64 = 8;
/// Numbers of batches that a writer has for itself.
const BATCHES: i64 = 1_000_000;
/// So that the tables stay small.
const BETWEEN: Duration = Duration::from_millis(10);

pub struct Writer {
    pub session: Session,
    pub number: i64,
    pub ledger: Shared,
    /// Two accounts on one worker.
    pub accounts: [i64; 2],
    pub batches: i64,
}

/// The keys of a writer's registers.
pub fn registers(writer: i64) -> impl Iterator<Item = i64> {
    writer * REGISTERS..(writer + 1) * REGISTERS
}

/// Two keys of one worker, which no other writer has.
pub fn accounts(owners: &Owners, writer: i64, worker: &str) -> [i64; 2] {
    let mut own = (writer * 1_000..).filter(|key| owners.of(*key) == worker);
    [own.next(), own.next()].map(|key| key.expect("every worker has keys"))
}

impl Writer {
    /// Writes until it is told to stop.
    pub async fn run(mut self, random: SeededRandom, stop: Arc<AtomicBool>) -> Writer {
        while !stop.load(Ordering::Relaxed) {
            self.write(random.below(4)).await;
            wait(BETWEEN).await;
        }
        self
    }

    /// Statements of all kinds, each tried until it is done as it would be in calm weather.
    pub async fn each_kind(&mut self) {
        for kind in 0..4 {
            self.at_last(kind).await;
        }
    }

    async fn at_last(&mut self, kind: u64) {
        for _ in 0..200 {
            if self.write(kind).await {
                return;
            }
            wait(5 * BETWEEN).await;
        }
        let (number, error_text) = (self.number, &self.session.error_text);
        panic!("all is well, and writer {number} cannot write (kind {kind}): {error_text}");
    }

    /// Whether it ended as it does in calm weather.
    async fn write(&mut self, kind: u64) -> bool {
        match kind {
            0 => self.insert().await,
            1 => self.upsert().await,
            2 => self.transfer().await,
            _ => self.insert_what_is_taken().await,
        }
    }

    fn next_batch(&mut self, fate: Fate) -> i64 {
        self.batches += 1;
        let batch = self.number * BATCHES + self.batches;
        self.ledger.with(|ledger| ledger.batches.insert(batch, fate));
        batch
    }

    async fn insert(&mut self) -> bool {
        let batch = self.next_batch(Fate::Perhaps);
        let fate = match self.insert_rows(keys(batch)).await {
            Ok(_) => Fate::There,
            Err(Failure::Unsent) => Fate::Never,
            Err(Failure::Unknown) => Fate::Perhaps,
        };
        self.ledger.with(|ledger| ledger.batches.insert(batch, fate));
        fate == Fate::There
    }

    /// One of these rows is there: the others may never be, whatever else goes wrong.
    async fn insert_what_is_taken(&mut self) -> bool {
        let own = self.number * BATCHES..(self.number + 1) * BATCHES;
        let there = self.ledger.with(|ledger| {
            let mut own = ledger.batches.range(own).rev();
            own.find(|(_, fate)| **fate == Fate::There).map(|(batch, _)| *batch)
        });
        let Some(there) = there else { return false };
        let batch = self.next_batch(Fate::Never);
        let taken = keys(there).nth(batch as usize % ROWS as usize);
        let rows = keys(batch).take(ROWS as usize - 1).chain(taken);
        match self.insert_rows(rows).await {
            Ok(_) => panic!("batch {batch} was written beside {taken:?}, which was there"),
            Err(Failure::Unsent) => false,
            Err(Failure::Unknown) => self.session.error_text.contains("duplicate key"),
        }
    }

    async fn insert_rows(
        &mut self,
        keys: impl Iterator<Item = i64>,
    ) -> Result<Vec<String>, Failure> {
        let number = self.number;
        let rows: Vec<String> = keys.map(|key| format!("({key}, {number})")).collect();
        self.session.ask(&format!("INSERT INTO batches VALUES {}", rows.join(", "))).await
    }

    async fn upsert(&mut self) -> bool {
        let round = self.change_rounds(|span| {
            span.most += 1;
            span.most
        });
        let rows: Vec<String> =
            registers(self.number).map(|key| format!("({key}, {round})")).collect();
        let sql = format!(
            "INSERT INTO registers VALUES {} ON CONFLICT (id) DO UPDATE SET v = excluded.v",
            rows.join(", ")
        );
        let ended = self.session.ask(&sql).await;
        self.change_rounds(|span| match &ended {
            Ok(_) => span.least = round,
            Err(Failure::Unsent) => span.most -= 1,
            Err(Failure::Unknown) => {}
        });
        ended.is_ok()
    }

    fn change_rounds<R>(&self, change: impl FnOnce(&mut Span) -> R) -> R {
        self.ledger.with(|ledger| change(ledger.rounds.entry(self.number).or_default()))
    }

    async fn transfer(&mut self) -> bool {
        let [from, to] = self.accounts;
        self.change_moves(|span| span.most += 1);
        let sql = format!(
            "UPDATE accounts SET amount = amount + CASE id WHEN {from} THEN -1 ELSE 1 END \
             WHERE id IN ({from}, {to})"
        );
        let ended = self.session.ask(&sql).await;
        self.change_moves(|span| match &ended {
            Ok(_) => span.least += 1,
            Err(Failure::Unsent) => span.most -= 1,
            Err(Failure::Unknown) => {}
        });
        ended.is_ok()
    }

    fn change_moves(&self, change: impl FnOnce(&mut Span)) {
        self.ledger.with(|ledger| change(ledger.moves.entry(self.number).or_default()));
    }
}
