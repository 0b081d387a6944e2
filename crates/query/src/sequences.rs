//! Sequences as sessions use them: the functions `nextval`, `currval`, `setval` and `lastval`, and
//! the numbers that a session took last.
//!
//! Numbers belong to no transaction: a rollback does not return them. A sequence is found in the
//! newest catalog, or in that of a transaction that defined something itself.

mod functions;
mod outside_sessions;

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use thalweg_txn::{
    Catalog, Object, Position, Privilege, Privileges, RoleId, Securable, Sequence, SequenceCounter,
    no_table,
};
use thalweg_types::{Column, Error, Result, SqlState, TableId, TableSchema};

use crate::catalog::{SearchPath, name_parts};
use crate::database::DatabaseShared;
use crate::privileges::Rights;
use crate::temporary_objects::{ALIAS, TemporaryObjects};

pub(crate) use functions::{DefaultNumbers, functions, number_of_default};
pub(crate) use outside_sessions::OutsideSessions;

/// Ids of sequences and tables are numbered from here for clients.
pub(crate) const OIDS: i64 = 16_384;

/// Maximum of numbers that a session takes ahead, whatever `CACHE` says: they are in memory.
const CACHE_MAX: usize = 4_096;

/// The numbers that a session took.
#[derive(Default)]
pub(crate) struct SessionSequences(Mutex<Taken>);

#[derive(Default)]
struct Taken {
    of: HashMap<TableId, OfSequence>,
    /// The sequence that `nextval` was called for last.
    latest: Option<TableId>,
}

struct OfSequence {
    last: i64,
    /// Numbers that the session took ahead (`CACHE`), the next one last.
    cached: Vec<i64>,
    /// The counter that the cached numbers come from.
    counter: Weak<SequenceCounter>,
}

impl SessionSequences {
    /// Forgets everything, as `DISCARD SEQUENCES` does.
    pub(crate) fn discard(&self) {
        *self.0.lock() = Taken::default();
    }

    /// Takes cached numbers of a sequence.
    fn cached(&self, sequence: &Sequence, count: usize) -> Vec<i64> {
        let mut taken = self.0.lock();
        let Some(of) = taken.of.get_mut(&sequence.id) else { return Vec::new() };
        if of.counter.as_ptr() != Arc::as_ptr(&sequence.counter) {
            return Vec::new();
        }
        let rest = of.cached.len().saturating_sub(count);
        of.cached.drain(rest..).rev().collect()
    }

    fn took(&self, sequence: &Sequence, last: i64, cached: Option<Vec<i64>>) {
        let mut taken = self.0.lock();
        taken.latest = Some(sequence.id);
        let counter = Arc::downgrade(&sequence.counter);
        let of = taken.of.entry(sequence.id).or_insert_with(|| OfSequence {
            last,
            cached: Vec::new(),
            counter: Weak::new(),
        });
        of.last = last;
        of.counter = counter;
        if let Some(cached) = cached {
            of.cached = cached;
        }
    }

    /// `setval` ends the session's cached numbers; with a called position it sets `currval`.
    fn was_set(&self, sequence: &Sequence, position: Position) {
        let mut taken = self.0.lock();
        if let Some(of) = taken.of.get_mut(&sequence.id) {
            of.cached.clear();
        }
        if position.is_called {
            let counter = Arc::downgrade(&sequence.counter);
            let of = OfSequence { last: position.last, cached: Vec::new(), counter };
            taken.of.insert(sequence.id, of);
        }
    }
}

/// A session's way to its sequences, for one statement.
pub(crate) struct SequenceAccess {
    /// Weak, since plans and prepared rows hold it, and the database holds some of them.
    pub(crate) database: Weak<DatabaseShared>,
    pub(crate) session: Arc<SessionSequences>,
    pub(crate) temporary: Arc<TemporaryObjects>,
    pub(crate) role: RoleId,
    pub(crate) is_read_only: bool,
    pub(crate) search_path: Arc<SearchPath>,
    /// The catalog of a transaction that changed definitions.
    pub(crate) own_catalog: Option<Arc<Catalog>>,
}

impl SequenceAccess {
    fn database(&self) -> Result<Arc<DatabaseShared>> {
        let closed = || Error::new(SqlState::SHUTTING_DOWN, "the database is closed");
        self.database.upgrade().ok_or_else(closed)
    }

    fn catalog(&self, database: &DatabaseShared) -> Arc<Catalog> {
        let newest = || Arc::clone(self.temporary.snapshot(database).catalog());
        self.own_catalog.clone().unwrap_or_else(newest)
    }

    /// The sequence of a name as `nextval` takes it: unquoted letters fold.
    fn named(&self, text: &str) -> Result<TableId> {
        let database = self.database()?;
        let catalog = self.catalog(&database);
        sequence_named(&catalog, &self.search_path, text).map(|sequence| sequence.id)
    }

    /// Works with a sequence, after a check that the role has one of the privileges, if there are
    /// any.
    fn with<T>(
        &self,
        id: TableId,
        any_of: Privileges,
        work: impl FnOnce(&DatabaseShared, &str, &Sequence) -> Result<T>,
    ) -> Result<T> {
        let database = self.database()?;
        let catalog = self.catalog(&database);
        let Some((namespace, name, sequence)) = catalog.sequence(id) else {
            return Err(match catalog.table(id) {
                Some(entry) => not_a_sequence(&entry.schema.name),
                None => {
                    let oid = OIDS + i64::from(id.0);
                    let message = format!("could not open relation with OID {oid}");
                    Error::new(SqlState::UNDEFINED_TABLE, message)
                }
            });
        };
        let object = Securable::relation(namespace, name);
        if !any_of.is_empty() {
            let rights = Rights::new(Arc::clone(&catalog), self.role);
            let held = || catalog.privileges(self.role, &object);
            if !rights.superuser() && held().common(any_of).is_empty() {
                return Err(rights.denied(&object));
            }
        }
        work(&database, name, sequence)
    }

    fn check_writes(&self, database: &DatabaseShared, id: TableId, function: &str) -> Result<()> {
        if id.is_temporary() {
            return Ok(());
        }
        if self.is_read_only {
            let message = format!("cannot execute {function}() in a read-only transaction");
            return Err(Error::new(SqlState::READ_ONLY_TRANSACTION, message));
        }
        database.cluster().definitions.may_number()
    }

    /// The next numbers of a sequence, for a role that may take them.
    ///
    /// # Errors
    /// As [`take`](Self::take); 42501 if the role lacks the privilege.
    fn next(&self, id: TableId, count: usize, follows: bool) -> Result<Vec<i64>> {
        let any_of = Privileges::from(Privilege::Usage).and(Privilege::Update.into());
        self.take(id, any_of, count, follows)
    }

    /// The next numbers of a sequence. With `follows`, the rows that they number are committed by
    /// the caller, so their record need not be durable before.
    ///
    /// # Errors
    /// 2200H if there are not so many numbers; the log's errors.
    fn take(
        &self,
        id: TableId,
        any_of: Privileges,
        count: usize,
        follows: bool,
    ) -> Result<Vec<i64>> {
        self.with(id, any_of, |database, name, sequence| {
            self.check_writes(database, id, "nextval")?;
            let mut numbers = self.session.cached(sequence, count);
            let missing = count - numbers.len();
            let cache = usize::try_from(sequence.options.cache).unwrap_or(CACHE_MAX);
            let cache = cache.min(CACHE_MAX);
            let wanted = missing.div_ceil(cache).saturating_mul(cache).min(missing + cache);
            // Rows on workers are in other logs than the numbers.
            let follows = follows && !database.cluster().is_present();
            let engine = database.engine_of(id);
            let mut new = match (wanted, follows) {
                (0, _) => Vec::new(),
                (_, true) => engine.take_numbers_ahead(sequence, wanted),
                (_, false) => engine.take_numbers(sequence, wanted)?,
            };
            let cached = (wanted > 0).then(|| {
                let mut cached = new.split_off(missing.min(new.len()));
                cached.reverse();
                cached
            });
            numbers.append(&mut new);
            if let Some(last) = numbers.last() {
                self.session.took(sequence, *last, cached);
            }
            match numbers.len() < count {
                true => Err(sequence.options.exhausted(name)),
                false => Ok(numbers),
            }
        })
    }

    fn current(&self, id: TableId) -> Result<i64> {
        let any_of = Privileges::from(Privilege::Usage).and(Privilege::Select.into());
        self.with(id, any_of, |_, name, sequence| {
            let taken = self.session.0.lock();
            taken.of.get(&sequence.id).map(|of| of.last).ok_or_else(|| {
                let message =
                    format!("currval of sequence \"{name}\" is not yet defined in this session");
                Error::new(SqlState::OBJECT_NOT_IN_STATE, message)
            })
        })
    }

    fn latest(&self) -> Result<i64> {
        let latest = self.session.0.lock().latest;
        let undefined = || {
            let message = "lastval is not yet defined in this session";
            Error::new(SqlState::OBJECT_NOT_IN_STATE, message)
        };
        let latest = latest.ok_or_else(undefined)?;
        let database = self.database()?;
        self.catalog(&database).sequence(latest).ok_or_else(undefined)?;
        self.current(latest)
    }

    fn set(&self, id: TableId, position: Position) -> Result<i64> {
        self.with(id, Privilege::Update.into(), |database, name, sequence| {
            self.check_writes(database, id, "setval")?;
            let (min, max, value) = (sequence.options.min, sequence.options.max, position.last);
            if !(min..=max).contains(&value) {
                let message = format!(
                    "setval: value {value} is out of bounds for sequence \"{name}\" ({min}..{max})"
                );
                return Err(Error::new(SqlState::NUMERIC_OUT_OF_RANGE, message));
            }
            database.engine_of(id).set_position(sequence, position)?;
            self.session.was_set(sequence, position);
            Ok(value)
        })
    }
}

/// The sequence of a name in PostgreSQL's notation: `s`, `"S"`, `schema.s`. A name without a schema
/// is looked up on the path.
///
/// # Errors
/// 42P01 if there is none; 42809 if the relation is not a sequence.
pub(crate) fn sequence_named<'a>(
    catalog: &'a Catalog,
    path: &SearchPath,
    text: &str,
) -> Result<&'a Sequence> {
    let parts = name_parts(text).unwrap_or_default();
    let (namespace, name) = match parts.as_slice() {
        [name] => {
            let holder = path.holder(catalog, name);
            let holder = holder.or_else(|| {
                path.named().iter().map(String::as_str).find(|at| is_of_column(catalog, at, name))
            });
            (holder.ok_or_else(|| no_table(text))?, name.as_str())
        }
        [.., namespace, name] => {
            let own = catalog.temporary().filter(|_| namespace == ALIAS);
            (own.unwrap_or(namespace), name.as_str())
        }
        [] => {
            let message = "invalid name syntax";
            return Err(Error::new(SqlState::INVALID_NAME, message));
        }
    };
    match catalog.object(namespace, name) {
        Some(Object::Sequence(sequence)) => Ok(sequence),
        Some(_) => Err(not_a_sequence(name)),
        None if is_of_column(catalog, namespace, name) => {
            Err(Error::unsupported("a function on a column's counter from an older version")
                .with_hint("Drop the column's identity and add it again."))
        }
        None => Err(no_table(text)),
    }
}

/// True if clients see a sequence of this name, because a column numbers its rows.
fn is_of_column(catalog: &Catalog, namespace: &str, name: &str) -> bool {
    numbered_column(catalog, namespace, name).is_some()
}

/// The column whose counter clients see as a sequence of this name.
pub(crate) fn numbered_column<'a>(
    catalog: &'a Catalog,
    namespace: &str,
    name: &str,
) -> Option<(&'a Arc<TableSchema>, &'a Column)> {
    let stem = name.strip_suffix("_seq")?;
    catalog.tables().map(|entry| &entry.schema).find_map(|table| {
        let column = stem.strip_prefix(table.name.as_str())?.strip_prefix('_')?;
        let (_, column) = table.column_named(column)?;
        let is_it = table.namespace == namespace && column.has_own_counter();
        is_it.then_some((table, column))
    })
}

/// The default of a column that takes the next number of a sequence.
pub(crate) fn default_of_sequence(id: TableId) -> String {
    format!("nextval({})", OIDS + i64::from(id.0))
}

/// The sequence of a default that is nothing but its next number.
pub(crate) fn sequence_of_default(text: &str) -> Option<TableId> {
    let number = text.strip_prefix("nextval(")?.strip_suffix(')')?.parse::<i64>().ok()?;
    u32::try_from(number - OIDS).ok().map(TableId)
}

/// True if a stored default calls a function on a temporary sequence.
pub(crate) fn names_temporary(default: &str) -> bool {
    let first = OIDS + i64::from(TableId::FIRST_TEMPORARY.0);
    default.split("val(").skip(1).any(|call| {
        let digits = call.find(|c: char| !c.is_ascii_digit()).unwrap_or(call.len());
        call[..digits].parse::<i64>().is_ok_and(|oid| oid >= first)
    })
}

/// The sequence of an identity column.
pub(crate) fn identity_sequence(column: &Column) -> Option<TableId> {
    column.identity?;
    sequence_of_default(column.default.as_deref()?)
}

/// True if rows without a value for the column take numbers.
pub(crate) fn takes_number(column: &Column) -> bool {
    let calls = |text: &String| text.contains("nextval(");
    column.has_own_counter() || column.default.as_ref().is_some_and(calls)
}

/// `"t" is not a sequence`
pub(crate) fn not_a_sequence(name: &str) -> Error {
    Error::new(SqlState::WRONG_OBJECT_TYPE, format!("\"{name}\" is not a sequence"))
}
