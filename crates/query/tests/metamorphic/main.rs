//! Questions that must agree with each other, whatever their answers are.
//!
//! Tables, rows and conditions are random, and follow from a seed. Questions are judged by each
//! other:
//!
//! - *NoREC* (M. Rigger and Z. Su, "Detecting Optimization Bugs in Database Engines via
//!   Non-Optimizing Reference Engine Construction", ESEC/FSE 2020): as many rows pass a filter as
//!   there are rows in which its condition, asked for as a column, is true.
//! - *TLP* (M. Rigger and Z. Su, "Finding Bugs in Database Systems via Query Partitioning", OOPSLA
//!   2020): for each row a condition is true, false or unknown, and so three questions about parts
//!   of the rows make up the one about all of them: rows, distinct rows, groups, groups that pass
//!   `HAVING`, aggregates, joins.
//! - Aggregates that are fused into the scan say what DataFusion's operators say, and a filter of
//!   an aggregate, a CASE in it, and a filter of the rows say the same.
//!
//! Some of all questions are asked again: prepared and run twice, so that their plans are kept, and
//! of the same rows in tables that have a key and indexes. They have the answer that they had.
//!
//! - *Differential* testing: where `THALWEG_DUCKDB` names a Python that has DuckDB, it is asked the
//!   same, and questions of other shapes: joins, subqueries, windows, operations of sets.
//!
//! `THALWEG_CASES` sets how many seeds are tried. What fails tells its seed and all statements;
//! `THALWEG_SEED` tries that seed alone.

mod database;
mod duckdb;
mod expressions;
mod guards;
mod oracles;
mod questions;
mod random;
mod tables;

use std::panic::AssertUnwindSafe;

use futures::FutureExt;

use self::database::{Subject, Verdict};
use self::duckdb::DuckDb;
use self::oracles::ORACLES;
use self::questions::{Question, SHAPES};
use self::random::Random;
use self::tables::Tables;

/// How many seeds are tried unless somebody says otherwise.
const CASES: u64 = 12;

/// How many questions each oracle asks about the tables of a seed.
const QUESTIONS: u64 = 5;

fn number_from(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

/// What became of the questions.
#[derive(Default)]
struct Tally {
    agreed: u64,
    /// Left undecided, because a value could not be computed.
    refused: u64,
}

impl Tally {
    fn note(&mut self, verdict: Verdict, about: impl Fn() -> String) {
        match verdict {
            Verdict::Agrees => self.agreed += 1,
            Verdict::Refused => self.refused += 1,
            Verdict::Differs(how) => panic!("{how}\n{}", about()),
        }
    }
}

/// A seed's tables, and what became of the questions about them.
struct Attempt {
    seed: u64,
    random: Random,
    tables: Tables,
    subject: Subject,
    tally: Tally,
}

impl Attempt {
    async fn begin(seed: u64, copies: usize, duckdb: Option<DuckDb>) -> Attempt {
        let mut random = Random::new(seed);
        // Apart from that, so that what is asked again does not change what is asked.
        let mut of_others = Random::new(!seed);
        let tables = Tables::new(&mut random);
        let statements = tables.statements(&mut random, copies);
        let indexed = tables.with_indexes(&statements, &mut of_others);
        let mut subject = Subject::new(duckdb, of_others);
        for statement in &statements {
            subject.done(statement).await;
        }
        for statement in &indexed {
            subject.done_with_indexes(statement).await;
        }
        Attempt { seed, random, tables, subject, tally: Tally::default() }
    }

    /// Asks DuckDB as well, where it is there.
    async fn ask(&mut self, name: &str, question: &Question) {
        let verdict = self.subject.compare_with_duckdb(question).await;
        let Attempt { seed, subject, tally, .. } = self;
        tally.note(verdict, || {
            format!("seed {seed}, DuckDB, {name}\n{}", subject.script(&[&question.sql]))
        });
    }
}

/// Tries all seeds that the environment asks for, with tables of which some have so many copies of
/// each row.
async fn over_seeds(copies: usize, mut duckdb: Option<DuckDb>, ask: impl AsyncFn(&mut Attempt)) {
    let seeds = match number_from("THALWEG_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number_from("THALWEG_CASES").unwrap_or(CASES),
    };
    let (mut agreed, mut refused) = (0, 0);
    for seed in seeds {
        let there = duckdb.take();
        let tried = async {
            let mut attempt = Attempt::begin(seed, copies, there).await;
            ask(&mut attempt).await;
            attempt
        };
        match AssertUnwindSafe(tried).catch_unwind().await {
            Ok(attempt) => {
                agreed += attempt.tally.agreed;
                refused += attempt.tally.refused;
                duckdb = attempt.subject.end();
            }
            Err(panic) => {
                eprintln!("THALWEG_SEED={seed} tries this again");
                std::panic::resume_unwind(panic);
            }
        }
    }
    assert!(agreed > 4 * refused, "{agreed} questions agreed, {refused} could not be computed");
}

async fn ask_pairs(attempt: &mut Attempt) {
    let Attempt { seed, random, tables, subject, tally } = attempt;
    for _ in 0..QUESTIONS {
        for (name, oracle) in ORACLES {
            let pair = oracle(random, tables);
            let verdict = subject.compare(&pair).await;
            tally.note(verdict, || {
                format!("seed {seed}, {name}\n{}", subject.script(&[&pair.one, &pair.other]))
            });
        }
    }
}

async fn ask_shapes(attempt: &mut Attempt) {
    for (name, oracle) in ORACLES {
        let pair = oracle(&mut attempt.random, &attempt.tables);
        attempt.ask(name, &Question::of_any_order(pair.one)).await;
    }
    for (name, shape) in SHAPES {
        let question = shape(&mut attempt.random, &attempt.tables);
        attempt.ask(name, &question).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn questions_agree_with_each_other() {
    over_seeds(2500, None, ask_pairs).await;
}

/// Without DuckDB they are answered at least.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn questions_of_many_shapes_are_answered_as_duckdb_does() {
    let duckdb = DuckDb::start();
    if duckdb.is_none() {
        eprintln!("DuckDB is left out: THALWEG_DUCKDB names no Python that has it");
    }
    over_seeds(60, duckdb, ask_shapes).await;
}
