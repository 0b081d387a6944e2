//! Readers: each answer that they get must be one that the ledger allows.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use thalweg_env::SeededRandom;

use super::ledger::{Ledger, Owners, Shared, Span, judge};
use super::session::Session;
use super::writers::{AMOUNT, registers};
use crate::wires::wait;

/// So that writers have their turn.
const BETWEEN: Duration = Duration::from_millis(10);
/// So many questions, the first ones, are for all workers: they are asked most.
const WIDE: usize = 4;
/// Accounts of one pair meet in it, wherever they lie.
pub const JOIN: &str = "SELECT count(*) FROM accounts a JOIN accounts b ON a.pair = b.pair";

#[derive(Clone, Copy, Debug)]
pub enum Question {
    /// How many rows are there?
    Count,
    /// Which ones?
    Rows,
    /// What do all accounts have together? Transfers leave it as it is.
    Sum,
    Join,
    /// What was last written to one of a writer's registers?
    Register {
        writer: i64,
        key: i64,
    },
    /// What does a writer's second account have?
    Account {
        writer: i64,
        key: i64,
    },
}

impl Question {
    fn sql(self) -> String {
        match self {
            Question::Count => "SELECT count(*) FROM batches".to_owned(),
            Question::Rows => "SELECT id FROM batches".to_owned(),
            Question::Sum => "SELECT sum(amount) FROM accounts".to_owned(),
            Question::Join => JOIN.to_owned(),
            Question::Register { key, .. } => format!("SELECT v FROM registers WHERE id = {key}"),
            Question::Account { key, .. } => {
                format!("SELECT amount FROM accounts WHERE id = {key}")
            }
        }
    }
}

pub struct Reader {
    pub session: Session,
    pub ledger: Shared,
    pub owners: Arc<Owners>,
    /// The second account of each writer.
    pub accounts: Vec<i64>,
}

impl Reader {
    /// Reads until it is told to stop.
    pub async fn run(mut self, random: SeededRandom, stop: Arc<AtomicBool>) -> Reader {
        let questions = self.questions();
        while !stop.load(Ordering::Relaxed) {
            let some = if random.coin() { WIDE } else { questions.len() };
            let drawn = random.below(some as u64) as usize;
            self.ask(questions[drawn]).await;
            wait(BETWEEN).await;
        }
        self
    }

    /// Each question, again and again until there is an answer.
    pub async fn everything(&mut self) {
        for question in self.questions() {
            self.at_last(question).await;
        }
    }

    async fn at_last(&mut self, question: Question) {
        for _ in 0..200 {
            if self.ask(question).await {
                return;
            }
            wait(5 * BETWEEN).await;
        }
        panic!("all is well, and {question:?} has no answer: {}", self.session.error_text);
    }

    fn questions(&self) -> Vec<Question> {
        let mut questions = vec![Question::Count, Question::Rows, Question::Sum, Question::Join];
        for (writer, account) in (0..).zip(&self.accounts) {
            questions.push(Question::Account { writer, key: *account });
            questions.extend(registers(writer).map(|key| Question::Register { writer, key }));
        }
        questions
    }

    /// Whether there was an answer.
    async fn ask(&mut self, question: Question) -> bool {
        let before = self.ledger.now();
        let Ok(found) = self.session.ask(&question.sql()).await else { return false };
        let after = self.ledger.now();
        if let Err(wrong) = self.check(question, &before, &after, &found) {
            panic!("{question:?}: {wrong}");
        }
        true
    }

    fn check(
        &self,
        question: Question,
        before: &Ledger,
        after: &Ledger,
        found: &[String],
    ) -> Result<(), String> {
        let numbers: Result<Vec<i64>, _> = found.iter().map(|number| number.parse()).collect();
        let numbers = numbers.map_err(|error| format!("{error}: {found:?}"))?;
        let accounts = 2 * self.accounts.len() as i64;
        let span = match question {
            Question::Rows => return judge(before, after, &self.owners, numbers),
            Question::Count => Span { least: before.rows().least, most: after.rows().most },
            Question::Sum => Span::only(accounts * AMOUNT),
            Question::Join => Span::only(2 * accounts),
            Question::Register { writer, .. } => {
                between(before.rounds.get(&writer), after.rounds.get(&writer))
            }
            Question::Account { writer, .. } => {
                let moved = between(before.moves.get(&writer), after.moves.get(&writer));
                Span { least: AMOUNT + moved.least, most: AMOUNT + moved.most }
            }
        };
        match numbers[..] {
            [number] if span.has(number) => Ok(()),
            _ => Err(format!("{numbers:?} and not {} to {}", span.least, span.most)),
        }
    }
}

/// What may be found between two moments.
fn between(before: Option<&Span>, after: Option<&Span>) -> Span {
    Span { least: before.map_or(0, |span| span.least), most: after.map_or(0, |span| span.most) }
}
