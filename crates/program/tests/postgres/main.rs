//! Generated statements, asked of PostgreSQL and of Thalweg.
//!
//! `THALWEG_POSTGRES` names a PostgreSQL 15 by a connection string (`host=localhost user=postgres
//! dbname=test`). Schemas, rows and statements follow from a seed ([`tables`], [`statements`]).
//! Each statement is asked of one database, of a gateway with workers, and of one whose stages are
//! forced. Rows are compared as a multiset, or in their order
//! where the statement has a total one; types and names of columns, numbers of changed rows, and
//! the classes of SQLSTATEs on errors must agree. A refusal with 0A000 is counted, no mismatch.
//!
//! A mismatch prints its seed, the schema, the shortest statement that still differs, and both
//! answers. `THALWEG_CASES` is the number of seeds, `THALWEG_SEED` is the first seed (alone where
//! no number is named), `THALWEG_KIND` tries one kind of statements, `THALWEG_SECONDS` is the time
//! after which no further seed is tried, and `THALWEG_MISMATCHES` the number of mismatches.

#[path = "../../../query/tests/metamorphic/random.rs"]
mod random;

mod expressions;
mod marks;
mod peers;
mod statements;
mod subjects;
mod tables;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use self::peers::{Answer, Peer, Statement, Verdict, compare, shown};
use self::random::Random;
use self::statements::QUERIES;
use self::subjects::Subjects;
use self::tables::Tables;

/// Seeds of an ordinary run.
const CASES: u64 = 20;
/// Longest time of a run.
const SECONDS: u64 = 1_200;
/// Statements of each kind for the tables of a seed.
const ROUNDS: usize = 2;
/// A seed's statements that change rows. Queries follow each of them.
const WRITES: usize = 6;
/// A run ends when it has found so many mismatches.
const MISMATCHES_MAX: u64 = 40;
/// Statements that are tried to shorten one that differs.
const SHORTER_MAX: usize = 150;
/// Mismatches that one kind of statements may show.
const OF_A_KIND_MAX: usize = 6;

fn number_from(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

#[derive(Default)]
struct Tally {
    agreed: u64,
    /// What Thalweg says that it does not support, and how often.
    refused: BTreeMap<String, u64>,
    mismatches: Vec<String>,
    of_kinds: BTreeMap<&'static str, usize>,
}

struct Attempt<'a> {
    seed: u64,
    schema: Vec<String>,
    postgres: &'a Peer,
    subjects: &'a [Peer],
    tally: &'a mut Tally,
}

impl Attempt<'_> {
    /// Runs a statement everywhere; false where an answer differs.
    async fn ask(&mut self, kind: &'static str, statement: &Statement, is_write: bool) -> bool {
        let sql = marks::plain(&statement.marked);
        let expected = self.postgres.answer(&sql).await;
        let mut all_agree = true;
        for subject in self.subjects {
            let found = subject.answer(&sql).await;
            match compare(statement, &expected, &found) {
                Verdict::Agrees => self.tally.agreed += 1,
                Verdict::Refused(message) => {
                    *self.tally.refused.entry(format!("{kind}: {message}")).or_default() += 1;
                    all_agree &= !is_write || expected.is_err();
                }
                Verdict::Differs(how) => {
                    self.differs(kind, statement, subject, how, is_write).await;
                    return false;
                }
            }
        }
        all_agree
    }

    async fn differs(
        &mut self,
        kind: &'static str,
        statement: &Statement,
        subject: &Peer,
        how: &str,
        is_write: bool,
    ) {
        let count = self.tally.of_kinds.entry(kind).or_default();
        *count += 1;
        if *count > OF_A_KIND_MAX {
            return;
        }
        let short = match is_write {
            true => None,
            false => Some(self.shortened(statement, subject, how).await),
        };
        let statement = short.as_ref().unwrap_or(statement);
        let sql = marks::plain(&statement.marked);
        let schema = self.schema.join(";\n");
        let answers = match is_write {
            true => "  (run the statements above to see both answers)\n".to_owned(),
            false => {
                let (one, other) = (self.postgres.answer(&sql).await, subject.answer(&sql).await);
                format!("  PostgreSQL\n{}  Thalweg\n{}", shown(&one), shown(&other))
            }
        };
        let told = format!(
            "-- THALWEG_SEED={} {kind}, {}: {how}\n{schema};\n{sql};\n{answers}",
            self.seed, subject.name
        );
        println!("{told}");
        self.tally.mismatches.push(told);
    }

    /// The shortest statement found whose answers differ in the same way.
    async fn shortened(&self, statement: &Statement, subject: &Peer, how: &str) -> Statement {
        let is_ordered = statement.is_ordered;
        let mut best = Statement { marked: statement.marked.clone(), is_ordered };
        let mut tries = 0;
        'shorter: loop {
            for marked in marks::shorter(&best.marked) {
                tries += 1;
                if tries > SHORTER_MAX {
                    return best;
                }
                let candidate = Statement { marked, is_ordered };
                let sql = marks::plain(&candidate.marked);
                let one: Answer = self.postgres.answer(&sql).await;
                let other = subject.answer(&sql).await;
                let verdict = compare(&candidate, &one, &other);
                if matches!(verdict, Verdict::Differs(now) if now == how) {
                    best = candidate;
                    continue 'shorter;
                }
            }
            return best;
        }
    }

    async fn queries(&mut self, random: &mut Random, tables: &Tables, rounds: usize) {
        let only = std::env::var("THALWEG_KIND").ok();
        for _ in 0..rounds {
            for (kind, query) in QUERIES {
                let statement = query(random, tables);
                if only.as_ref().is_none_or(|only| only == kind) {
                    self.ask(kind, &statement, false).await;
                }
            }
        }
    }
}

/// Fills the tables everywhere, asks, changes rows, and asks again.
async fn attempt(seed: u64, postgres: &Peer, subjects: &[Peer], tally: &mut Tally) {
    let mut random = Random::new(seed);
    let tables = Tables::new(&mut random);
    let schema = tables.statements();
    for peer in std::iter::once(postgres).chain(subjects) {
        peer.done("DROP TABLE IF EXISTS r, s, t").await;
        for statement in &schema {
            peer.done(statement).await;
        }
    }
    let mut attempt = Attempt { seed, schema, postgres, subjects, tally };
    attempt.queries(&mut random, &tables, ROUNDS).await;
    for _ in 0..WRITES {
        let statement = statements::write(&mut random, &tables);
        let mut agree = attempt.ask("writes", &statement, true).await;
        attempt.schema.push(marks::plain(&statement.marked));
        for name in ["r", "s", "t"] {
            let marked = format!("SELECT * FROM {name}");
            let read = Statement { marked, is_ordered: false };
            agree = agree && attempt.ask("reads after writes", &read, false).await;
        }
        if !agree {
            return;
        }
    }
    attempt.queries(&mut random, &tables, 1).await;
}

/// The seeds that the environment asks for, until enough mismatches are found.
#[expect(clippy::disallowed_methods, reason = "the length of a run is told in real time")]
async fn over_seeds(postgres: &Peer, subjects: &[Peer]) -> Tally {
    let first = number_from("THALWEG_SEED");
    let count = number_from("THALWEG_CASES").unwrap_or(if first.is_some() { 1 } else { CASES });
    let seeds = first.unwrap_or(0)..first.unwrap_or(0) + count;
    let most = number_from("THALWEG_MISMATCHES").unwrap_or(MISMATCHES_MAX) as usize;
    let end = Duration::from_secs(number_from("THALWEG_SECONDS").unwrap_or(SECONDS));
    let (start, mut tally) = (Instant::now(), Tally::default());
    for seed in seeds {
        if start.elapsed() > end || tally.mismatches.len() >= most {
            break;
        }
        attempt(seed, postgres, subjects, &mut tally).await;
    }
    tally
}

#[tokio::test(flavor = "multi_thread")]
async fn generated_statements_are_answered_as_postgresql_does() {
    let Some(address) = std::env::var_os("THALWEG_POSTGRES") else {
        eprintln!("left out: THALWEG_POSTGRES names no PostgreSQL");
        return;
    };
    let address = address.into_string().expect("connection strings are text");
    let postgres = Peer::postgres(&address).await;
    postgres.done("DROP SCHEMA IF EXISTS thalweg_differential CASCADE").await;
    postgres.done("CREATE SCHEMA thalweg_differential").await;
    postgres.done("SET search_path = thalweg_differential").await;
    postgres.done("SET TIME ZONE 'UTC'").await;
    let subjects = Subjects::start().await;
    let tally = over_seeds(&postgres, &subjects.peers).await;
    postgres.done("DROP SCHEMA thalweg_differential CASCADE").await;
    let refusals: u64 = tally.refused.values().sum();
    println!("{} answers agreed, {refusals} were refused:", tally.agreed);
    for (message, count) in &tally.refused {
        println!("{count:>7}  {message}");
    }
    assert!(tally.mismatches.is_empty(), "{} statements differ", tally.mismatches.len());
    assert!(tally.agreed > 10 * refusals, "too few statements are answered");
}
