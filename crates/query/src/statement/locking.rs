//! `SELECT … FOR UPDATE` and `FOR SHARE`.
//!
//! At READ COMMITTED the session locks the rows that the statement recorded in its transaction.
//!
//! At REPEATABLE READ the rows must be unchanged when their transaction commits. Such transactions
//! do not wait for each other: a commit fails if another transaction has changed or locked the rows
//! (`40001`). So `NOWAIT` and `SKIP LOCKED` have no meaning there, and are refused. One case is an
//! exception: if a statement changes the same table that it locks, two transactions cannot change
//! the same row anyhow, and the clause may contain them.

use std::ops::ControlFlow;

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::UInt64Type;
use datafusion::sql::parser::Statement as Tree;
use datafusion::sql::sqlparser::ast::{
    FromTable, GroupByExpr, Ident, JoinConstraint, JoinOperator, LockClause, LockType, NonBlock,
    ObjectName, Query, Select, SetExpr, Statement, TableFactor, TableWithJoins, Visitor,
};
use thalweg_dialect::walk;
use thalweg_execution::scan::ROW_ID;
use thalweg_txn::{LockWait, Privilege, RowLock};
use thalweg_types::{Error, Result, RowId, SqlState};

use super::update::with_row_ids;
use super::{Execution, Target, ast_tools, folded};
use crate::outcome::{Outcome, Tag};
use crate::plan;

/// Prefix of the columns with the row ids of locked rows.
const LOCKED: &str = "__thalweg_locked_";

/// A table of the query, and the lock on its rows.
struct Locked {
    target: Target,
    alias: Ident,
    lock: RowLock,
}

/// Runs a query that ends in `FOR UPDATE` or `FOR SHARE`.
pub(super) async fn run(execution: &Execution<'_>, query: &Query) -> Result<Outcome> {
    let mut query = query.clone();
    let clauses = std::mem::take(&mut query.locks);
    let is_gateway = execution.names.cluster().is_present();
    let has_one_snapshot = execution.in_block && !execution.settings.modes().is_read_committed();
    if let Some(clause) = clauses.iter().find(|clause| clause.nonblock.is_some())
        && (is_gateway || has_one_snapshot)
    {
        return Err(no_locks_to_see(clause));
    }
    let SetExpr::Select(select) = query.body.as_mut() else {
        return Err(not_allowed("UNION/INTERSECT/EXCEPT"));
    };
    check_shape(select)?;
    let with = query.with.iter().flat_map(|with| &with.cte_tables);
    let mut tables = Tables {
        execution,
        named: with.map(|table| folded(&table.alias.name)).collect(),
        clauses: &clauses,
        locked: Vec::new(),
    };
    let plain = select.clone();
    select.from.iter_mut().try_for_each(|from| tables.joined(from))?;
    let locked = tables.into_locked()?;
    if !execution.in_block {
        // The transaction ends with the statement, so nothing can happen in between.
        *query.body = SetExpr::Select(plain);
        let planned = execution.translate(plan::query(&execution.state, query).await)?;
        let (schema, rows) = plan::stream(&execution.state, planned, execution.sql).await?;
        return Ok(Outcome::rows(schema, rows, Tag::Select));
    }
    for (number, table) in locked.iter().enumerate() {
        let place = ast_tools::column(&table.alias, ROW_ID);
        select.projection.push(ast_tools::named(place, &format!("{LOCKED}{number}")));
    }
    let planned = execution.translate(plan::query(&execution.state, query).await)?;
    let (schema, batches) = plan::collect(&execution.state, planned, execution.sql).await?;
    for (number, table) in locked.iter().enumerate() {
        let (place, _) = schema
            .column_with_name(&format!("{LOCKED}{number}"))
            .ok_or_else(|| Error::internal("the places of locked rows are missing"))?;
        let rows: Vec<RowId> = batches.iter().flat_map(|batch| places(batch, place)).collect();
        execution.names.with(|t| t.lock(table.target.id(), &rows, table.lock))?;
    }
    let names = schema.fields().iter().map(|field| field.name().as_str()).enumerate();
    let shown = names.filter(|(_, name)| *name != ROW_ID && !name.starts_with(LOCKED));
    let shown: Vec<usize> = shown.map(|(place, _)| place).collect();
    let project = |batch: &RecordBatch| batch.project(&shown);
    let batches = batches.iter().map(project).collect::<Result<_, _>>();
    let schema = schema.project(&shown);
    match (schema, batches) {
        (Ok(schema), Ok(batches)) => Ok(Outcome::batches(schema.into(), batches, Tag::Select)),
        (Err(error), _) | (_, Err(error)) => {
            Err(Error::internal("locked rows cannot be shown").with_source(error))
        }
    }
}

/// The row ids in a column. In an outer join some rows have none.
fn places(batch: &RecordBatch, column: usize) -> Vec<RowId> {
    let column = batch.column(column).as_primitive::<UInt64Type>();
    column.iter().flatten().map(RowId).collect()
}

/// Refuses queries whose result rows are not rows of a table.
fn check_shape(select: &Select) -> Result<()> {
    if select.distinct.is_some() {
        return Err(not_allowed("DISTINCT clause"));
    }
    let grouped = match &select.group_by {
        GroupByExpr::All(_) => true,
        GroupByExpr::Expressions(by, modifiers) => !by.is_empty() || !modifiers.is_empty(),
    };
    if grouped {
        return Err(not_allowed("GROUP BY clause"));
    }
    if select.having.is_some() {
        return Err(not_allowed("HAVING clause"));
    }
    Ok(())
}

/// Finds the tables of `FROM` whose rows are locked, and adds their row ids to the result.
struct Tables<'a> {
    execution: &'a Execution<'a>,
    /// The names that `WITH` defines: these are not tables.
    named: Vec<String>,
    clauses: &'a [LockClause],
    locked: Vec<Locked>,
}

impl Tables<'_> {
    fn joined(&mut self, tables: &mut TableWithJoins) -> Result<()> {
        self.factor(&mut tables.relation)?;
        for join in &mut tables.joins {
            if is_natural(&join.join_operator) {
                return Err(Error::unsupported("FOR UPDATE or FOR SHARE with NATURAL JOIN"));
            }
            self.factor(&mut join.relation)?;
        }
        Ok(())
    }

    fn factor(&mut self, factor: &mut TableFactor) -> Result<()> {
        match factor {
            TableFactor::NestedJoin { table_with_joins, .. } => self.joined(table_with_joins),
            TableFactor::Table { name, alias, args: None, .. } => {
                let own = name.0.last().and_then(|part| part.as_ident());
                let own = own.ok_or_else(|| Error::unsupported("such a name of a table"))?;
                let called = alias.as_ref().map_or(own, |alias| &alias.name).clone();
                let Some(lock) = self.lock_on(&called) else { return Ok(()) };
                if name.0.len() == 1 && self.named.contains(&folded(own)) {
                    return Ok(());
                }
                let catalog = self.execution.names.catalog();
                let target = match Target::find(&catalog, name) {
                    Ok(target) => target,
                    Err(error) if error.state() == SqlState::WRONG_OBJECT_TYPE => {
                        return Err(Error::unsupported("FOR UPDATE or FOR SHARE of a view"));
                    }
                    // Planning reports errors; system tables have nothing to lock.
                    Err(_) => return Ok(()),
                };
                target.require(self.execution, Privilege::Select)?;
                target.require(self.execution, Privilege::Update)?;
                if alias.as_ref().is_some_and(|alias| !alias.columns.is_empty()) {
                    return Err(Error::unsupported("FOR UPDATE or FOR SHARE of renamed columns"));
                }
                *factor = with_row_ids(&target, &called).relation;
                self.locked.push(Locked { target, alias: called, lock });
                Ok(())
            }
            TableFactor::Derived { alias, .. } => {
                let called = alias.as_ref().map(|alias| alias.name.clone());
                match called.and_then(|called| self.lock_on(&called)) {
                    Some(_) => Err(Error::unsupported("FOR UPDATE or FOR SHARE of a subquery")),
                    None => Ok(()),
                }
            }
            _ => Ok(()),
        }
    }

    /// The strongest lock that the clauses require on a table, by its name or alias.
    fn lock_on(&self, called: &Ident) -> Option<RowLock> {
        let is_meant = |clause: &&LockClause| clause.of.as_ref().is_none_or(|of| names(of, called));
        let locks = self.clauses.iter().filter(is_meant).map(|clause| match clause.lock_type {
            LockType::Share => RowLock::Share,
            LockType::Update => RowLock::Update,
        });
        locks.max_by_key(|lock| *lock == RowLock::Update)
    }

    fn into_locked(self) -> Result<Vec<Locked>> {
        for clause in self.clauses {
            let Some(of) = &clause.of else { continue };
            if !self.locked.iter().any(|table| names(of, &table.alias)) {
                let kind = clause.lock_type;
                let message =
                    format!("relation \"{of}\" in FOR {kind} clause not found in FROM clause");
                return Err(Error::new(SqlState::UNDEFINED_TABLE, message));
            }
        }
        Ok(self.locked)
    }
}

fn names(of: &ObjectName, called: &Ident) -> bool {
    let last = of.0.last().and_then(|part| part.as_ident());
    last.is_some_and(|last| folded(last) == folded(called))
}

fn is_natural(operator: &JoinOperator) -> bool {
    use JoinOperator::{FullOuter, Inner, Join, Left, LeftOuter, Right, RightOuter};
    match operator {
        Join(on) | Inner(on) | Left(on) | LeftOuter(on) | Right(on) | RightOuter(on)
        | FullOuter(on) => matches!(on, JoinConstraint::Natural),
        _ => false,
    }
}

/// True if a statement has a `FOR UPDATE` or `FOR SHARE` clause.
pub(crate) fn has_clause(tree: &Tree) -> bool {
    let Tree::Statement(statement) = tree else { return false };
    let mut clauses = Clauses::default();
    let _ = walk::visit(statement, &mut clauses);
    clauses.count > 0
}

/// The reaction of a statement to locked rows.
///
/// # Errors
/// If its clauses want different reactions.
pub(crate) fn lock_wait(tree: &Tree) -> Result<LockWait> {
    let Tree::Statement(statement) = tree else { return Ok(LockWait::Wait) };
    let mut clauses = Clauses::default();
    match walk::visit(statement, &mut clauses) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(clauses.wait.unwrap_or(LockWait::Wait)),
    }
}

/// The locking clauses of a statement.
#[derive(Default)]
struct Clauses {
    count: usize,
    wait: Option<LockWait>,
}

impl Visitor for Clauses {
    type Break = Error;

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<Error> {
        for clause in &query.locks {
            let wait = match clause.nonblock {
                None => LockWait::Wait,
                Some(NonBlock::Nowait) => LockWait::NoWait,
                Some(NonBlock::SkipLocked) => LockWait::Skip,
            };
            self.count += 1;
            if self.wait.replace(wait).is_some_and(|earlier| earlier != wait) {
                let what = "locking clauses with and without NOWAIT or SKIP LOCKED together";
                return ControlFlow::Break(Error::unsupported(what));
            }
        }
        ControlFlow::Continue(())
    }
}

/// Refuses locks in subqueries, which would have no effect, except on the table whose rows the
/// statement changes.
pub(crate) fn check_subqueries(tree: &Tree) -> Result<()> {
    let Tree::Statement(statement) = tree else { return Ok(()) };
    let at_the_end = matches!(statement.as_ref(), Statement::Query(_));
    let mut subqueries = Subqueries {
        changed: changed_by(statement),
        // The statement's own query is checked when it runs.
        depth: if at_the_end { 0 } else { 1 },
    };
    match walk::visit(statement, &mut subqueries) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(()),
    }
}

struct Subqueries<'a> {
    changed: Option<&'a ObjectName>,
    depth: usize,
}

impl Visitor for Subqueries<'_> {
    type Break = Error;

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<Error> {
        self.depth += 1;
        let Some(clause) = query.locks.first() else { return ControlFlow::Continue(()) };
        let changed = self.changed.map(ToString::to_string);
        let other = walk::visit_relations(query, |name| match Some(name.to_string()) == changed {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        });
        if self.depth == 1 || other.is_continue() {
            return ControlFlow::Continue(());
        }
        ControlFlow::Break(Error::unsupported(format!("{clause} in a subquery")))
    }

    fn post_visit_query(&mut self, _: &Query) -> ControlFlow<Error> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }
}

/// The table whose rows a statement updates or deletes.
fn changed_by(statement: &Statement) -> Option<&ObjectName> {
    let table = match statement {
        Statement::Query(query) => match query.body.as_ref() {
            SetExpr::Update(change) | SetExpr::Delete(change) => return changed_by(change),
            _ => return None,
        },
        Statement::Update(update) => &update.table,
        Statement::Delete(delete) => match &delete.from {
            FromTable::WithFromKeyword(tables) | FromTable::WithoutKeyword(tables) => {
                tables.first()?
            }
        },
        _ => return None,
    };
    match &table.relation {
        TableFactor::Table { name, .. } => Some(name),
        _ => None,
    }
}

fn not_allowed(with: &str) -> Error {
    let message = format!("FOR UPDATE and FOR SHARE are not allowed with {with}");
    Error::new(SqlState::FEATURE_NOT_SUPPORTED, message)
}

fn no_locks_to_see(clause: &LockClause) -> Error {
    Error::unsupported(clause).with_hint(
        "Transactions at REPEATABLE READ, and on a gateway, do not wait for each other's rows. Use \
         READ COMMITTED, or change the row in the statement that finds it, as in UPDATE ... WHERE \
         id = (SELECT id ... LIMIT 1) RETURNING.",
    )
}
