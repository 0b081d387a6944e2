//! Steps that follow from a seed and from what the database holds.

use thalweg_env::{Random, SeededRandom};
use thalweg_types::TableId;

use super::model::{Row, add_number, schema};
use super::session::{Outcome, Session, check};
use super::world::{End, World};
use crate::{Durability, RowLock};

const KEYS: u64 = 40;
const TAGS: u64 = 12;
const TABLES: usize = 3;

pub struct Steps {
    pub random: SeededRandom,
    /// Transactions that are open for more than one step.
    open: Vec<Session>,
    /// Whether the engine is ended on the way.
    pub restarts: bool,
}

impl Steps {
    pub fn new(seed: u64) -> Steps {
        let random = SeededRandom::new(seed ^ 0x5EED);
        Steps { random, open: Vec::new(), restarts: true }
    }

    pub fn step(&mut self, world: &mut World) -> Outcome {
        match self.random.below(100) {
            0..45 => {
                let session = self.session(world)?;
                if self.random.below(8) == 0 {
                    return world.check_visible();
                }
                world.commit(session, self.durability())
            }
            45..55 => {
                let pair = vec![self.session(world)?, self.session(world)?];
                world.commit_all(pair, self.durability())
            }
            55..68 => self.long_transaction(world),
            68..74 => {
                let count = 2 + self.random.below(6);
                let sessions = (0..count).map(|_| self.session(world)).collect::<Outcome<_>>()?;
                world.commit_all(sessions, self.durability())
            }
            74..80 => world.checkpoint(),
            80..84 => self.hold(world),
            84..92 => {
                world.compact();
                Ok(())
            }
            _ if !self.restarts => world.check_held(),
            92..95 => self.restart(world, End::Close),
            95..97 => self.restart(world, End::Kill),
            _ => self.restart(world, End::Crash),
        }
    }

    pub fn restart(&mut self, world: &mut World, end: End) -> Outcome {
        // A transaction ends with its engine.
        self.open.clear();
        world.restart(end)
    }

    fn hold(&mut self, world: &mut World) -> Outcome {
        if world.held.len() > 3 {
            world.check_held()?;
            world.held.remove(self.random.below(4) as usize);
        }
        world.hold_snapshot()
    }

    fn long_transaction(&mut self, world: &mut World) -> Outcome {
        if self.open.len() < 3 && self.random.coin() {
            let session = self.session(world)?;
            self.open.push(session);
            return Ok(());
        }
        let Some(place) = self.random.below(3).checked_rem(self.open.len() as u64) else {
            return Ok(());
        };
        let mut session = self.open.swap_remove(place as usize);
        self.change(world, &mut session)?;
        world.commit(session, self.durability())
    }

    fn durability(&self) -> Durability {
        match self.random.below(8) {
            0 => Durability::Write,
            1 => Durability::None,
            _ => Durability::Fsync,
        }
    }

    /// A transaction with a few changes.
    fn session(&mut self, world: &mut World) -> Outcome<Session> {
        let mut session = world.begin();
        for _ in 0..1 + self.random.below(5) {
            self.change(world, &mut session)?;
        }
        if self.random.below(4) == 0 {
            session.check()?;
        }
        if self.random.below(6) == 0 {
            self.roll_back_some(world, &mut session)?;
        }
        Ok(session)
    }

    fn roll_back_some(&mut self, world: &mut World, session: &mut Session) -> Outcome {
        let savepoint = session.transaction.savepoint();
        let mut later = session.clone();
        self.change(world, &mut later)?;
        self.change(world, &mut later)?;
        later.check()?;
        later.transaction.roll_back_to(&savepoint);
        session.transaction = later.transaction;
        session.check()
    }

    fn change(&mut self, world: &mut World, session: &mut Session) -> Outcome {
        let count = session.view.tables.len();
        if count == 0 || (count < TABLES && self.random.below(24) == 0) {
            return self.create(world, session);
        }
        let place = self.random.below(count as u64) as usize;
        let id = *session.view.tables.keys().nth(place).expect("a place below the count");
        let stamp = world.stamp();
        match self.random.below(100) {
            0..35 => self.insert(session, id, stamp),
            35..40 => {
                if let Some(key) = self.some_key(session, id) {
                    let lock = if self.random.coin() { RowLock::Share } else { RowLock::Update };
                    session.lock(id, key, lock)?;
                }
            }
            40..60 => {
                if let Some(key) = self.some_key(session, id) {
                    session.remove(id, key)?;
                    let row = self.row(session, id);
                    session.insert(id, key, row, stamp);
                }
            }
            60..75 => {
                if let Some(key) = self.some_key(session, id) {
                    session.remove(id, key)?;
                }
            }
            75..87 => self.bulk(world, session, id),
            87..90 => session.truncate(id),
            90..95 if !session.has_written_to(id) => self.alter(session, id, stamp),
            97..99 => session.rely_on(id),
            95..97 if count > 1 => session.drop_table(id, stamp),
            _ => session.check()?,
        }
        Ok(())
    }

    fn create(&mut self, world: &mut World, session: &mut Session) -> Outcome {
        let taken = |name: &str| session.view.tables.values().any(|t| t.schema.name == name);
        let name = ["a", "b", "c", "d"].into_iter().find(|name| !taken(name));
        let name = name.ok_or("there are more tables than names")?;
        let id = world.engine().allocate_table_id();
        check(!world.committed.tables.contains_key(&id), || format!("{id:?} is in use"))?;
        session.create(schema(id, name), world.stamp());
        Ok(())
    }

    fn insert(&mut self, session: &mut Session, id: TableId, stamp: u64) {
        let key = self.random.below(KEYS) as i64;
        if !session.view.tables[&id].rows.contains_key(&key) {
            let row = self.row(session, id);
            session.insert(id, key, row, stamp);
        }
    }

    fn bulk(&mut self, world: &mut World, session: &mut Session, id: TableId) {
        let count = 8 + self.random.below(50) as i64;
        let version = world.stamp();
        // Keys of bulk rows never meet.
        let first = version as i64 * 1000;
        let numbers = session.view.tables[&id].schema.columns.len() - 2;
        let row = |key| Row { tag: None, numbers: vec![Some(key * 3); numbers] };
        let rows: Vec<_> = (first..first + count).map(|key| (key, row(key))).collect();
        session.bulk(world.engine(), id, &rows, version);
    }

    fn alter(&mut self, session: &mut Session, id: TableId, stamp: u64) {
        let mut schema = session.view.tables[&id].schema.clone();
        if schema.columns.len() > 4 {
            schema.columns.pop();
            session.alter(schema, None, stamp);
        } else {
            add_number(&mut schema);
            session.alter(schema, self.random.coin().then_some(stamp as i64), stamp);
        }
    }

    fn some_key(&self, session: &Session, id: TableId) -> Option<i64> {
        let rows = &session.view.tables[&id].rows;
        let place = self.random.next_u64().checked_rem(rows.len() as u64)?;
        rows.keys().nth(place as usize).copied()
    }

    fn row(&self, session: &Session, id: TableId) -> Row {
        let table = &session.view.tables[&id];
        let tag = format!("tag {}", self.random.below(TAGS));
        let tag = (self.random.coin() && !table.has_tag(&tag)).then_some(tag);
        let number = |_| self.random.coin().then(|| self.random.next_u64() as i64 >> 40);
        Row { tag, numbers: (2..table.schema.columns.len()).map(number).collect() }
    }
}
