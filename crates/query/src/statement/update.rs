//! `UPDATE`: a query finds the rows and their new values. The old rows are deleted and the new ones
//! are added.

use datafusion::sql::sqlparser::ast::{
    Assignment, AssignmentTarget, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Ident,
    Query, SelectItem, SetExpr, TableFactor, TableWithJoins, Update, UpdateTableFromKind, With,
};
use thalweg_execution::scan::ROW_ID;
use thalweg_types::{Error, Identity, Result, SqlState};

use super::found_rows::{concat, replace};
use super::returning::returning;
use super::{Execution, Target, ast_tools, folded, literals, stored_moments};
use crate::catalog::WITH_ROW_IDS;
use crate::outcome::{Outcome, Tag};
use crate::plan;
use crate::privileges;

pub(super) async fn run(
    execution: &mut Execution<'_>,
    update: &Update,
    with: Option<&With>,
) -> Result<Outcome> {
    let Finding { target, alias, mut query } = found(execution, update)?;
    query.with = with.cloned();
    let planned = execution.translate(plan::query(&execution.state, query).await)?;
    let (_, batches) = plan::collect(&execution.state, planned, execution.sql).await?;
    let rows = replace(execution, &target, batches).await?;
    let tag = Tag::Update(rows.iter().map(|rows| rows.num_rows() as u64).sum());
    let Some(items) = &update.returning else { return Ok(Outcome::done(tag)) };
    let rows = concat(target.schema(), &rows)?;
    returning(execution, &target, Some(&alias), rows, items, tag).await
}

/// The query that finds the rows to change.
pub(super) struct Finding {
    pub(super) target: Target,
    /// The table's name or alias in the statement.
    pub(super) alias: Ident,
    pub(super) query: Query,
}

/// The rows that an `UPDATE` changes, with their new values.
pub(super) fn found(execution: &Execution<'_>, update: &Update) -> Result<Finding> {
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
    Ok(Finding { target, alias, query })
}

/// The table that a statement changes, and its name or alias in the statement.
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

/// The contents of `SET`: new values for some columns.
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
    /// If rows would have to move from one worker to another.
    pub(super) fn stay_in_place(&self, execution: &Execution<'_>, target: &Target) -> Result<()> {
        let schema = target.schema();
        let key = schema.shard_key.and_then(|column| schema.position(column));
        let moves = key.is_some_and(|key| self.values[key].is_some());
        let moves = moves && !schema.id.is_temporary();
        match moves {
            true => execution.names.cluster().only_without(
                "changing the shard key of rows in a cluster",
                "Delete the rows and insert them anew.",
            ),
            false => Ok(()),
        }
    }

    /// One column's new value.
    pub(super) fn one(target: &Target, column: &str, value: Expr) -> Result<Assignments> {
        let mut values = vec![None; target.schema().columns.len()];
        values[target.position(column)?] = Some(value);
        Ok(Assignments { values })
    }

    /// The row id, then every column of the table with its new or old value.
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
        // Without an order or DISTINCT, the other columns do not affect the result.
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
        let detail = format!(
            "Column \"{}\" is an identity column defined as GENERATED ALWAYS.",
            column.name
        );
        return Err(Error::new(SqlState::GENERATED_ALWAYS, message).with_detail(detail));
    }
    match (&column.default, default) {
        (_, false) => literals::typed_literal(value, &column.data_type),
        (Some(text), true) => stored_moments::default_expression(text, &column.data_type),
        (None, true) => ast_tools::expression("NULL"),
    }
}
