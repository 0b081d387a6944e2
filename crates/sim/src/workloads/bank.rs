//! Money that moves between accounts in two tables, with a ledger in a third: every reader sees the
//! same sum, and balances that agree with the ledger.

use std::collections::BTreeMap;

use thalweg_txn::Put;
use thalweg_types::TableId;

use super::{DOUBTS_MAX, Told};
use crate::World;
use crate::client::{Client, Failure, RowChange, View};
use crate::history::{Notes, Operation, Outcome};
use crate::tables::TABLES;

const ACCOUNTS: i64 = 6;
/// Balance of an account without a row.
const BALANCE: i64 = 100;
const LEDGER: TableId = TABLES[2];

/// A transfer of an amount between two accounts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Transfer {
    from: i64,
    to: i64,
    amount: i64,
}

/// An operation of a client: a transfer with its number, or a read of all balances.
#[derive(Clone, Debug, Hash)]
pub enum Action {
    Transfer(i64, Transfer),
    Look,
}

/// The balances of all accounts and the ledger, from one read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Books {
    balances: Vec<i64>,
    ledger: BTreeMap<i64, Transfer>,
}

type History = Vec<Operation<Action, Books>>;

/// # Errors
/// The inconsistency that was found in the books.
pub fn play(world: &mut World) -> Result<Told, String> {
    let plan = *world.plan();
    let mut history: History = Vec::new();
    for _ in 0..plan.eras {
        let notes = world.era(move |client| Work::new(client).run(plan.operations))?;
        let end = world.restart()?;
        history.extend(notes.into_iter().flat_map(|notes| notes.close(end)));
        let mut between = Notes::new(plan.clients, world.moments());
        let begun = between.begin();
        between.end(begun, [(Action::Look, Outcome::Done(Books::of(&world.view())))]);
        history.extend(between.close(begun));
    }
    check(&history)?;
    Ok(Told::of(&history))
}

fn table(account: i64) -> TableId {
    TABLES[(account % 2) as usize]
}

impl Transfer {
    fn text(self, number: i64) -> String {
        format!("{number} {} {} {}", self.from, self.to, self.amount)
    }

    fn parse(text: &str) -> Transfer {
        let parts: Vec<i64> =
            text.split(' ').map(|part| part.parse().expect("clients write numbers")).collect();
        Transfer { from: parts[1], to: parts[2], amount: parts[3] }
    }
}

impl Books {
    fn of(view: &View) -> Books {
        let balance = |account| {
            let found = view.find(table(account), account);
            found.map_or(BALANCE, |(text, _)| text.parse().expect("clients write numbers"))
        };
        let balances = (0..ACCOUNTS).map(balance).collect();
        let ledger = view.scan(LEDGER);
        Books {
            balances,
            ledger: ledger.iter().map(|(number, text)| (*number, Transfer::parse(text))).collect(),
        }
    }

    fn seen_by(look: &Operation<Action, Books>) -> Option<&Books> {
        match look.action {
            Action::Look => look.result(),
            Action::Transfer(..) => None,
        }
    }

    /// Checks that the balances follow from the ledger.
    fn check(&self) -> Result<(), String> {
        let sum: i64 = self.balances.iter().sum();
        if sum != ACCOUNTS * BALANCE {
            return Err(format!("the sum is {sum}: {self:?}"));
        }
        let mut expected = vec![BALANCE; ACCOUNTS as usize];
        for transfer in self.ledger.values() {
            expected[transfer.from as usize] -= transfer.amount;
            expected[transfer.to as usize] += transfer.amount;
        }
        match expected == self.balances {
            true => Ok(()),
            false => Err(format!("the ledger makes {expected:?} of {self:?}")),
        }
    }
}

/// Judges a history.
fn check(history: &History) -> Result<(), String> {
    let mut transfers: BTreeMap<i64, (&Transfer, u64)> = BTreeMap::new();
    // The moment at which each transfer was first known to have taken place.
    let mut known: BTreeMap<i64, u64> = BTreeMap::new();
    for operation in history {
        if let Action::Transfer(number, transfer) = &operation.action {
            transfers.insert(*number, (transfer, operation.invoked));
            if !operation.is_in_doubt() {
                known.insert(*number, operation.completed);
            }
        }
    }
    let books = |look| Some((look, Books::seen_by(look)?));
    let looks = || history.iter().filter_map(books);
    for (look, books) in looks() {
        books.check()?;
        for (number, entry) in &books.ledger {
            match transfers.get(number) {
                Some((transfer, begun)) if *transfer == entry && *begun < look.completed => {}
                told => return Err(format!("{number}, {entry:?} was seen: it is {told:?}")),
            }
            let first = known.entry(*number).or_insert(look.completed);
            *first = (*first).min(look.completed);
        }
    }
    for (look, books) in looks() {
        let before = known.iter().filter(|(_, since)| **since < look.invoked);
        for (number, since) in before {
            if !books.ledger.contains_key(number) {
                let when = (look.invoked, look.completed);
                return Err(format!("transfer {number} is known since {since}, gone in {when:?}"));
            }
        }
    }
    Ok(())
}

struct Work {
    client: Client,
    notes: Notes<Action, Books>,
    /// A snapshot that it keeps for a while, and the books in it at first.
    held: Option<(View, Books)>,
    doubts: u32,
}

impl Work {
    fn new(client: Client) -> Work {
        let notes = Notes::new(client.number, &client.moments);
        Work { client, notes, held: None, doubts: 0 }
    }

    fn run(mut self, operations: usize) -> Notes<Action, Books> {
        for _ in 0..operations {
            self.client.pause();
            let begun = self.notes.begin();
            if self.client.random.below(3) == 0 {
                let books = self.look();
                self.notes.end(begun, [(Action::Look, Outcome::Done(books))]);
                continue;
            }
            let (number, transfer) = self.transfer();
            let told = match self.client.random.coin() {
                true => self.in_transaction(number, transfer),
                false => self.in_group(number, transfer),
            };
            let outcome = match told {
                Ok(()) => Some(Outcome::Done(Books::default())),
                Err(Failure::Refused(_)) => None,
                Err(Failure::InDoubt) => {
                    self.doubts += 1;
                    Some(Outcome::InDoubt)
                }
            };
            let action = Action::Transfer(number, transfer);
            self.notes.end(begun, outcome.map(|outcome| (action, outcome)));
            if self.doubts >= DOUBTS_MAX {
                break;
            }
        }
        self.notes
    }

    /// Reads the books, and now and then reads those of an earlier snapshot again.
    fn look(&mut self) -> Books {
        if let Some((view, before)) = &self.held {
            assert_eq!(Books::of(view), *before, "a snapshot changed");
        }
        let view = self.client.view();
        let books = Books::of(&view);
        if self.client.random.below(4) == 0 {
            self.held = Some((view, books.clone()));
        }
        books
    }

    fn transfer(&self) -> (i64, Transfer) {
        let random = &self.client.random;
        let from = random.below(ACCOUNTS as u64) as i64;
        let to = (from + 1 + random.below(ACCOUNTS as u64 - 1) as i64) % ACCOUNTS;
        let amount = 1 + random.below(20) as i64;
        (self.client.moments.next() as i64, Transfer { from, to, amount })
    }

    fn in_transaction(&self, number: i64, transfer: Transfer) -> Result<(), Failure> {
        let mut session = self.client.begin();
        for (account, change) in [(transfer.from, -transfer.amount), (transfer.to, transfer.amount)]
        {
            let balance = session.find(table(account), account);
            let balance =
                balance.map_or(BALANCE, |text| text.parse().expect("clients write numbers"));
            session.put(table(account), account, &(balance + change).to_string());
        }
        session.put(LEDGER, number, &transfer.text(number));
        session.commit()
    }

    fn in_group(&self, number: i64, transfer: Transfer) -> Result<(), Failure> {
        let view = self.client.view();
        let mut changes = Vec::new();
        for (account, change) in [(transfer.from, -transfer.amount), (transfer.to, transfer.amount)]
        {
            let (balance, version) = match view.find(table(account), account) {
                Some((text, version)) => (text.parse().expect("clients write numbers"), version),
                None => (BALANCE, 0),
            };
            let put = Some((Put::Upsert, (balance + change).to_string()));
            let (table, expected) = (table(account), Some(version));
            changes.push(RowChange { table, key: account, put, expected });
        }
        let put = Some((Put::Create, transfer.text(number)));
        changes.push(RowChange { table: LEDGER, key: number, put, expected: None });
        self.client.write_whole(&changes)
    }
}
