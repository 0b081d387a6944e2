//! `UPDATE`: a query finds the rows and their new values; the old ones die and the new ones are
//! added.

use std::collections::HashSet;

use arrow::array::{AsArray, BooleanArray};
use arrow::compute::{concat_batches, filter_record_batch};
use arrow::datatypes::UInt64Type;
use arrow::record_batch::RecordBatch;
use datafusion::sql::sqlparser::ast::{
    Assignment, AssignmentTarget, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Ident,
    Query, SelectItem, SetExpr, TableFactor, TableWithJoins, Update, UpdateTableFromKind, With,
};
use thalweg_store::arrow_schema;
use thalweg_types::{Error, Identity, Result, RowId, SqlState, TableSchema};

use super::returning::returning;
use super::{Execution, Shaper, Target, ast_tools, conflict, folded};
use crate::catalog::WITH_ROW_IDS;
use crate::outcome::{Outcome, Tag};
use crate::plan;
use crate::privileges;
use crate::scan::ROW_ID;

pub(super) async fn run(
    execution: &mut Execution<'_>,
    update: &Update,
    with: Option<&With>,
) -> Result<Outcome> {
    let Found { target, alias, mut query } = found(execution, update)?;
    query.with = with.cloned();
    let planned = execution.told(plan::query(&execution.state, query).await)?;
    let (_, batches) = plan::collect(&execution.state, planned, execution.sql).await?;
    let rows = replace(execution, &target, &batches).await?;
    let tag = Tag::Update(rows.num_rows() as u64);
    match &update.returning {
        None => Ok(Outcome::done(tag)),
        Some(items) => returning(execution, &target, Some(&alias), rows, items, tag).await,
    }
}

/// How a statement finds the rows that it changes.
pub(super) struct Found {
    pub(super) target: Target,
    /// What the statement calls it.
    pub(super) alias: Ident,
    pub(super) query: Query,
}

/// The rows that an `UPDATE` changes, with their new values.
pub(super) fn found(execution: &Execution<'_>, update: &Update) -> Result<Found> {
    if update.limit.is_some() || !update.order_by.is_empty() {
        return Err(Error::unsupported("UPDATE with ORDER BY or LIMIT"));
    }
    let catalog = execution.names.catalog();
    let (target, alias) = target_of(&catalog, &update.table)?;
    target.require(execution, privileges::to_update(update, &alias))?;
    let assignments = Assignments::of(&target, &update.assignments)?;
    assignments.stay_in_place(execution, &target)?;
    let mut from = vec![with_row_ids(&target, &alias)];
    match &update.from {
        Some(UpdateTableFromKind::AfterSet(tables) | UpdateTableFromKind::BeforeSet(tables)) => {
            from.extend(tables.iter().cloned());
        }
        None => {}
    }
    let projection = assignments.projection(&target, &alias);
    let query = ast_tools::select(projection, from, update.selection.clone());
    Ok(Found { target, alias, query })
}

/// The table that a statement changes, and the name that it goes by in the statement.
pub(super) fn target_of(
    catalog: &thalweg_txn::Catalog,
    table: &TableWithJoins,
) -> Result<(Target, Ident)> {
    let TableFactor::Table { name, alias, .. } = &table.relation else {
        return Err(Error::unsupported("changing something that is not a table"));
    };
    if !table.joins.is_empty() {
        return Err(Error::unsupported("changing a join"));
    }
    let target = Target::find(catalog, name)?;
    let own = || Ident::with_quote('"', target.schema().name.as_str());
    let alias = alias.as_ref().map_or_else(own, |alias| alias.name.clone());
    Ok((target, alias))
}

pub(super) fn with_row_ids(target: &Target, alias: &Ident) -> TableWithJoins {
    let schema = target.schema();
    ast_tools::table(WITH_ROW_IDS, &schema.namespace, &schema.name, alias.clone())
}

/// What `SET` says: a value for some columns.
pub(super) struct Assignments {
    values: Vec<Option<Expr>>,
}

impl Assignments {
    pub(super) fn of(target: &Target, assignments: &[Assignment]) -> Result<Assignments> {
        let mut values = vec![None; target.schema().columns.len()];
        for assignment in assignments {
            for (name, value) in pairs(assignment)? {
                let position = target.position(&name)?;
                let value = value_for(target, position, value)?;
                if values[position].replace(value).is_some() {
                    let message = format!("multiple assignments to same column \"{name}\"");
                    return Err(Error::new(SqlState::SYNTAX_ERROR, message));
                }
            }
        }
        Ok(Assignments { values })
    }

    /// # Errors
    /// Where rows would have to move from one worker to another.
    pub(super) fn stay_in_place(&self, execution: &Execution<'_>, target: &Target) -> Result<()> {
        let schema = target.schema();
        let key = schema.shard_key.and_then(|column| schema.position(column));
        let moves = key.is_some_and(|key| self.values[key].is_some());
        if moves && execution.names.workers().is_some() {
            return Err(Error::unsupported("changing the shard key of rows in a cluster")
                .with_hint("Delete the rows and insert them anew."));
        }
        Ok(())
    }

    /// One column's new value.
    pub(super) fn one(target: &Target, column: &str, value: Expr) -> Result<Assignments> {
        let mut values = vec![None; target.schema().columns.len()];
        values[target.position(column)?] = Some(value);
        Ok(Assignments { values })
    }

    /// The row id, then every column of the table: assigned or as it was.
    pub(super) fn projection(&self, target: &Target, alias: &Ident) -> Vec<SelectItem> {
        let row_id = ast_tools::named(ast_tools::column(alias, ROW_ID), ROW_ID);
        let columns = target.schema().columns.iter().zip(&self.values).map(|(column, value)| {
            let value = value.clone();
            let value = value.unwrap_or_else(|| ast_tools::column(alias, &column.name));
            ast_tools::named(value, &column.name)
        });
        std::iter::once(row_id).chain(columns).collect()
    }
}

/// The columns of one assignment with their values: `a = 1` or `(a, b) = (1, 2)`.
fn pairs(assignment: &Assignment) -> Result<Vec<(String, Expr)>> {
    let unsupported = || Error::unsupported(format!("the assignment {assignment}"));
    let last = |name: &datafusion::sql::sqlparser::ast::ObjectName| {
        name.0.last().and_then(|part| part.as_ident()).map(folded).ok_or_else(unsupported)
    };
    match (&assignment.target, &assignment.value) {
        (AssignmentTarget::ColumnName(name), value) => Ok(vec![(last(name)?, value.clone())]),
        (AssignmentTarget::Tuple(names), Expr::Tuple(values)) if names.len() == values.len() => {
            names.iter().zip(values).map(|(name, value)| Ok((last(name)?, value.clone()))).collect()
        }
        (AssignmentTarget::Tuple(names), Expr::Nested(value)) if names.len() == 1 => {
            Ok(vec![(last(&names[0])?, value.as_ref().clone())])
        }
        (AssignmentTarget::Tuple(names), Expr::Subquery(query)) => {
            let values = (0..names.len()).map(|place| one_column(query, place, names.len()));
            let names = names.iter().map(last);
            names.zip(values).map(|(name, value)| Ok((name?, value?))).collect()
        }
        (AssignmentTarget::Tuple(names), value) => {
            let values = row_of(value).ok_or_else(unsupported)?;
            if values.len() != names.len() {
                return Err(wrong_width());
            }
            names.iter().zip(values).map(|(name, value)| Ok((last(name)?, value))).collect()
        }
    }
}

fn wrong_width() -> Error {
    Error::new(SqlState::SYNTAX_ERROR, "number of columns does not match number of values")
}

/// The members of `ROW(…)`.
fn row_of(value: &Expr) -> Option<Vec<Expr>> {
    let Expr::Function(function) = value else { return None };
    if !function.name.to_string().eq_ignore_ascii_case("row") {
        return None;
    }
    let FunctionArguments::List(list) = &function.args else { return None };
    let members = list.args.iter().map(|argument| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(member)) => Some(member.clone()),
        _ => None,
    });
    members.collect()
}

/// One column of a subquery's row, as a subquery of its own.
fn one_column(query: &Query, place: usize, width: usize) -> Result<Expr> {
    let mut query = query.clone();
    if let SetExpr::Select(select) = query.body.as_mut() {
        let is_wildcard = |item: &SelectItem| {
            matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..))
        };
        let is_listed = !select.projection.iter().any(is_wildcard);
        if is_listed && select.projection.len() != width {
            return Err(wrong_width());
        }
        // Without an order or DISTINCT, the other columns decide nothing.
        if is_listed && query.order_by.is_none() && select.distinct.is_none() {
            select.projection = vec![select.projection.swap_remove(place)];
            return Ok(Expr::Subquery(Box::new(query)));
        }
    }
    let names: Vec<String> = (0..width).map(|place| format!("\"__{place}\"")).collect();
    let columns = names.join(", ");
    let text = format!("SELECT {} FROM (SELECT 1) AS \"__row\"({columns})", names[place]);
    let mut outer = ast_tools::query(&text)?;
    if let SetExpr::Select(select) = outer.body.as_mut()
        && let TableFactor::Derived { subquery, .. } = &mut select.from[0].relation
    {
        **subquery = query;
    }
    Ok(Expr::Subquery(Box::new(outer)))
}

fn value_for(target: &Target, position: usize, value: Expr) -> Result<Expr> {
    let column = &target.schema().columns[position];
    let default = matches!(&value, Expr::Identifier(ident)
        if ident.quote_style.is_none() && ident.value.eq_ignore_ascii_case("default"));
    if !default && column.identity == Some(Identity::Always) {
        let message = format!("column \"{}\" can only be updated to DEFAULT", column.name);
        return Err(Error::new(SqlState::GENERATED_ALWAYS, message));
    }
    match (&column.default, default) {
        (_, false) => Ok(value),
        (Some(text), true) => ast_tools::expression(text),
        (None, true) => ast_tools::expression("NULL"),
    }
}

/// Puts new rows in the place of old ones. Each batch holds the old row's id, then all columns.
/// Returns the new rows. Many are shaped on the caller's thread, which gives way meanwhile.
pub(super) async fn replace(
    execution: &Execution<'_>,
    target: &Target,
    batches: &[RecordBatch],
) -> Result<RecordBatch> {
    let id = target.id();
    let schema = target.schema();
    let all: Vec<usize> = (0..schema.columns.len()).collect();
    let counters = execution.names.with(|t| Ok(t.state(id)?.identities().clone()))?;
    let shaper = Shaper::new(&execution.state, schema, &all, counters)?;
    let mut seen = HashSet::new();
    let (mut old, mut new) = (Vec::new(), Vec::new());
    for (place, batch) in batches.iter().enumerate() {
        if place > 0 {
            tokio::task::yield_now().await;
        }
        // A row that several rows of FROM match is updated once, by the first of them.
        let batch = first_of_each(batch, &mut seen, &mut old)?;
        let values: Vec<usize> = (1..batch.num_columns()).collect();
        let values = batch.project(&values).map_err(misfit)?;
        new.push(shaper.shape(&values)?);
    }
    let rows = concat(schema, &new)?;
    execution.names.with(|t| t.kill(id, &old))?;
    if execution.in_block {
        conflict::reject_duplicates(execution, target, &rows)?;
    }
    execution.names.with(|t| t.append(id, rows.clone()))?;
    Ok(rows)
}

/// The rows of a batch whose ids, in its first column, were not seen before.
pub(super) fn first_of_each(
    batch: &RecordBatch,
    seen: &mut HashSet<u64>,
    ids: &mut Vec<RowId>,
) -> Result<RecordBatch> {
    let column = batch.column(0).as_primitive::<UInt64Type>();
    let first: Vec<bool> = column.values().iter().map(|id| seen.insert(*id)).collect();
    let fresh = column.values().iter().zip(&first).filter(|(_, first)| **first);
    ids.extend(fresh.map(|(id, _)| RowId(*id)));
    if first.iter().all(|first| *first) {
        return Ok(batch.clone());
    }
    filter_record_batch(batch, &BooleanArray::from(first)).map_err(misfit)
}

/// All rows as one batch of their table.
pub(super) fn concat(schema: &TableSchema, batches: &[RecordBatch]) -> Result<RecordBatch> {
    concat_batches(&arrow_schema(schema), batches).map_err(misfit)
}

fn misfit(error: arrow::error::ArrowError) -> Error {
    Error::internal("rows do not fit their table").with_source(error)
}
