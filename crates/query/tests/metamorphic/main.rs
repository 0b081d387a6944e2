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
//! - *Differential* testing: where `THALWEG_DUCKDB` names a Python that has DuckDB, it is asked the
//!   same.
//!
//! `THALWEG_CASES` sets how many seeds are tried. What fails tells its seed and all statements;
//! `THALWEG_SEED` tries that seed alone.

mod database;
mod duckdb;
mod expressions;
mod oracles;
mod random;
mod tables;

use futures::FutureExt;

use self::database::{Subject, Verdict};
use self::oracles::ORACLES;
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

async fn try_seed(seed: u64, tally: &mut Tally) {
    let mut random = Random::new(seed);
    let mut subject = Subject::new();
    let tables = Tables::new(&mut random);
    for statement in tables.statements(&mut random) {
        subject.done(&statement).await;
    }
    for _ in 0..QUESTIONS {
        for (name, oracle) in ORACLES {
            let pair = oracle(&mut random, &tables);
            let verdict = subject.compare(&pair).await;
            tally.note(verdict, || {
                format!("seed {seed}, {name}\n{}", subject.told(&[&pair.one, &pair.other]))
            });
            let verdict = subject.compare_with_duckdb(&pair.one).await;
            tally.note(verdict, || format!("seed {seed}, DuckDB\n{}", subject.told(&[&pair.one])));
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn questions_agree_with_each_other() {
    let seeds = match number_from("THALWEG_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number_from("THALWEG_CASES").unwrap_or(CASES),
    };
    let mut tally = Tally::default();
    for seed in seeds {
        let tried = std::panic::AssertUnwindSafe(try_seed(seed, &mut tally)).catch_unwind().await;
        if let Err(panic) = tried {
            eprintln!("THALWEG_SEED={seed} tries this again");
            std::panic::resume_unwind(panic);
        }
    }
    let Tally { agreed, refused } = tally;
    assert!(agreed > 4 * refused, "{agreed} pairs agreed, {refused} could not be computed");
}
