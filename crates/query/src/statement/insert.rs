//! `INSERT`: rows from values or a query, defaults, conflicts, and returned rows.

use arrow::compute::concat_batches;
use arrow::record_batch::RecordBatch;
use datafusion::sql::sqlparser::ast::{
    Expr, Ident, Insert, OnInsert, Query, SelectItem, SetExpr, TableObject, Value, ValueWithSpan,
};
use futures::StreamExt;
use thalweg_dialect::parse::{Overriding, conflict_predicate, overriding};
use thalweg_store::arrow_schema;
use thalweg_types::{Error, Identity, Result, SqlState};

use super::conflict::{self, Conflicts};
use super::returning::returning;
use super::rows::reserve;
use super::{Execution, Shaper, Target, ast_tools, folded, literals, stored_moments};
use crate::loader::Loader;
use crate::outcome::{Outcome, Tag};
use crate::plan;
use crate::privileges;
use crate::sequences::{identity_sequence, number_of_default};
use crate::workers::raise_counters;

pub(super) async fn run(execution: &mut Execution<'_>, insert: &Insert) -> Result<Outcome> {
    let (target, columns) = into(execution, insert)?;
    raise_counters(execution, &target).await?;
    let source = Rows::of(execution, insert, &target, columns)?;
    let source = source.planned(execution).await?;
    reject_given_identity(&target, &source.columns, overriding(insert))?;

    let id = target.id();
    let counters = execution.names.with(|t| Ok(t.state(id)?.identities().clone()))?;
    let shaper = Shaper::new(&execution.state, target.schema(), &source.columns, counters)?;
    let conflicts = match &insert.on {
        None => None,
        Some(OnInsert::OnConflict(on)) => Some(Conflicts::of(&target, on)?),
        Some(_) => return Err(Error::unsupported("ON DUPLICATE KEY UPDATE")),
    };
    check_predicate(execution, insert, &target).await?;
    if conflicts.is_none() && insert.returning.is_none() && !execution.in_block {
        return bulk(execution, &target, source, shaper).await;
    }
    let rows = gather(execution, &target, source, &shaper).await?;
    let alias = insert.table_alias.as_ref().map(|alias| alias.alias.clone());
    let (rows, changed) = match conflicts {
        None => {
            conflict::reject_duplicates(execution, &target, &rows)?;
            if execution.in_block {
                conflict::reject_held_elsewhere(execution, &target, &rows).await?;
            }
            let changed = rows.num_rows();
            execution.names.with(|t| t.append(id, rows.clone()))?;
            (rows, changed)
        }
        Some(conflicts) => conflicts.resolve(execution, &target, rows, alias.as_ref()).await?,
    };
    let tag = Tag::Insert(changed as u64);
    match &insert.returning {
        None => Ok(Outcome::done(tag)),
        Some(items) => returning(execution, &target, alias.as_ref(), rows, items, tag).await,
    }
}

/// Checks the predicate of a conflict target. Every unique index is without a predicate here, and
/// serves for any.
async fn check_predicate(
    execution: &Execution<'_>,
    insert: &Insert,
    target: &Target,
) -> Result<()> {
    let Some(predicate) = conflict_predicate(insert) else { return Ok(()) };
    let schema = target.schema();
    let alias = Ident::with_quote('"', schema.name.as_str());
    let table = ast_tools::table(crate::catalog::DATABASE, &schema.namespace, &schema.name, alias);
    let query = ast_tools::select(
        vec![SelectItem::UnnamedExpr(null())],
        vec![table],
        Some(predicate.clone()),
    );
    execution.translate(plan::query(&execution.state, query).await).map(drop)
}

/// The table that rows go into, and the columns that the statement names.
fn into(execution: &Execution<'_>, insert: &Insert) -> Result<(Target, Vec<usize>)> {
    let TableObject::TableName(name) = &insert.table else {
        return Err(Error::unsupported("INSERT into a function or a query"));
    };
    let target = Target::find(&execution.names.catalog(), name)?;
    target.require(execution, privileges::to_insert(insert, &target.schema().name))?;
    let mut columns = Vec::with_capacity(insert.columns.len());
    for column in &insert.columns {
        let ident = column.0.last().and_then(|part| part.as_ident());
        let ident = ident.ok_or_else(|| Error::unsupported("INSERT into parts of a column"))?;
        columns.push(target.position(&folded(ident))?);
    }
    reject_repeated(&target, &columns)?;
    Ok((target, columns))
}

/// The rows that an `INSERT` adds, before defaults and conflicts.
pub(super) fn found(execution: &Execution<'_>, insert: &Insert) -> Result<(Target, Query)> {
    let (target, columns) = into(execution, insert)?;
    let rows = Rows::of(execution, insert, &target, columns)?;
    let nothing = || ast_tools::select(vec![SelectItem::UnnamedExpr(null())], Vec::new(), None);
    Ok((target, rows.query.unwrap_or_else(nothing)))
}

/// The source of the rows, and the columns that it provides.
struct Rows {
    query: Option<Query>,
    columns: Vec<usize>,
    /// True if the statement lists its columns: then the source provides all of them.
    listed: bool,
}

/// Like [`Rows`], with a planned source.
struct PlannedRows {
    plan: plan::Planned,
    columns: Vec<usize>,
}

impl Rows {
    fn of(
        execution: &Execution<'_>,
        insert: &Insert,
        target: &Target,
        mut columns: Vec<usize>,
    ) -> Result<Rows> {
        let Some(query) = insert.source.as_deref() else {
            // DEFAULT VALUES
            return Ok(Rows { query: None, columns: Vec::new(), listed: true });
        };
        let mut query = query.clone();
        let listed = !columns.is_empty();
        if !listed {
            columns = (0..target.schema().columns.len()).collect();
        }
        if let SetExpr::Values(values) = query.body.as_mut() {
            let width = values.rows.first().map_or(0, |row| row.content.len());
            columns = fit(columns, width, listed)?;
            for row in &mut values.rows {
                if row.content.len() != width {
                    let message = "VALUES lists must all be the same length";
                    return Err(Error::new(SqlState::SYNTAX_ERROR, message));
                }
            }
            drop_default_columns(values, &mut columns);
            for row in &mut values.rows {
                for (value, column) in row.content.iter_mut().zip(&columns) {
                    if is_default(value) {
                        *value = default_of(execution, target, *column)?;
                    }
                }
            }
            literals::unify_literals(values, &columns, target.schema())?;
            if columns.is_empty() {
                // VALUES (DEFAULT): one row without values, or several.
                for row in &mut values.rows {
                    row.content.push(null());
                }
            }
        }
        if let SetExpr::Select(select) = query.body.as_mut() {
            literals::told_items(&mut select.projection, &columns, target.schema())?;
        }
        Ok(Rows { query: Some(query), columns, listed })
    }

    /// Plans the source. If the statement lists no columns, a query provides the first ones.
    async fn planned(self, execution: &Execution<'_>) -> Result<PlannedRows> {
        let Some(query) = self.query else {
            let plan =
                execution.translate(plan::query_text(&execution.state, "SELECT NULL").await)?;
            return Ok(PlannedRows { plan, columns: self.columns });
        };
        let plan = execution.translate(plan::query(&execution.state, query).await)?;
        let columns = match self.columns.is_empty() {
            true => self.columns,
            false => fit(self.columns, plan.names.len(), self.listed)?,
        };
        Ok(PlannedRows { plan, columns })
    }
}

/// The first `width` columns, if the statement did not list them.
fn fit(mut columns: Vec<usize>, width: usize, listed: bool) -> Result<Vec<usize>> {
    if width > columns.len() {
        let message = "INSERT has more expressions than target columns";
        return Err(Error::new(SqlState::SYNTAX_ERROR, message));
    }
    if listed && width < columns.len() {
        let message = "INSERT has more target columns than expressions";
        return Err(Error::new(SqlState::SYNTAX_ERROR, message));
    }
    columns.truncate(width);
    Ok(columns)
}

/// Drops the columns that are `DEFAULT` in every row, as if they were not listed.
fn drop_default_columns(
    values: &mut datafusion::sql::sqlparser::ast::Values,
    columns: &mut Vec<usize>,
) {
    for place in (0..columns.len()).rev() {
        if values.rows.iter().all(|row| is_default(&row.content[place])) {
            columns.remove(place);
            for row in &mut values.rows {
                row.content.remove(place);
            }
        }
    }
}

pub(super) fn is_default(value: &Expr) -> bool {
    matches!(value, Expr::Identifier(ident)
        if ident.quote_style.is_none() && ident.value.eq_ignore_ascii_case("default"))
}

/// The value of `DEFAULT` in one row.
fn default_of(execution: &Execution<'_>, target: &Target, position: usize) -> Result<Expr> {
    let column = &target.schema().columns[position];
    if identity_sequence(column).is_some() {
        if !target.id().is_temporary() {
            execution.names.cluster().definitions.may_number()?;
        }
        let numbers = number_of_default(&execution.state, column)?;
        let numbers = numbers.ok_or_else(|| Error::internal("an identity column has numbers"))?;
        return ast_tools::expression(&numbers.take(1)?.value(0).to_string());
    }
    if column.has_own_counter() {
        execution.names.cluster().definitions.may_number()?;
        let id = target.id();
        let number = execution.names.with(|t| reserve(t.state(id)?.identities(), column, 1))?;
        return ast_tools::expression(&number.to_string());
    }
    match &column.default {
        Some(text) => stored_moments::default_expression(text, &column.data_type),
        None => Ok(null()),
    }
}

fn null() -> Expr {
    Expr::Value(ValueWithSpan::from(Value::Null))
}

fn reject_repeated(target: &Target, columns: &[usize]) -> Result<()> {
    for (place, column) in columns.iter().enumerate() {
        if columns[..place].contains(column) {
            let name = &target.schema().columns[*column].name;
            let message = format!("column \"{name}\" specified more than once");
            return Err(Error::new(SqlState::DUPLICATE_COLUMN, message));
        }
    }
    Ok(())
}

fn reject_given_identity(
    target: &Target,
    columns: &[usize],
    overriding: Option<Overriding>,
) -> Result<()> {
    if overriding == Some(Overriding::System) {
        return Ok(());
    }
    for column in columns.iter().map(|position| &target.schema().columns[*position]) {
        if column.identity.is_some() && overriding.is_some() {
            return Err(Error::unsupported("OVERRIDING USER VALUE with values for the column"));
        }
        if column.identity == Some(Identity::Always) {
            let name = &column.name;
            let message = format!("cannot insert a non-DEFAULT value into column \"{name}\"");
            return Err(Error::new(SqlState::GENERATED_ALWAYS, message)
                .with_detail(format!(
                    "Column \"{name}\" is an identity column defined as GENERATED ALWAYS."
                ))
                .with_hint("Use OVERRIDING SYSTEM VALUE to override."));
        }
    }
    Ok(())
}

/// The common case: rows go directly to the table, in bulk if they are many.
async fn bulk(
    execution: &Execution<'_>,
    target: &Target,
    source: PlannedRows,
    shaper: Shaper,
) -> Result<Outcome> {
    let (_, mut batches) = plan::stream(&execution.state, source.plan, execution.sql).await?;
    let mut loader = Loader::new(execution.database.clone(), target.schema().clone());
    if execution.goes_ahead {
        loader = loader.going_ahead();
    }
    while let Some(batch) = batches.next().await {
        let rows = shaper.shape(&batch?)?;
        loader.push_later(rows).await?;
    }
    let mut loaded = loader.finish();
    let ahead = loaded.ahead.take();
    let rows = execution.names.with(|t| loaded.append_to(t, target.id()))?;
    Ok(Outcome::done(Tag::Insert(rows)).with_ahead(ahead))
}

/// All rows as one batch.
async fn gather(
    execution: &Execution<'_>,
    target: &Target,
    source: PlannedRows,
    shaper: &Shaper,
) -> Result<RecordBatch> {
    let (_, mut batches) = plan::stream(&execution.state, source.plan, execution.sql).await?;
    let mut shaped = Vec::new();
    while let Some(batch) = batches.next().await {
        shaped.push(shaper.shape(&batch?)?);
    }
    concat_batches(&arrow_schema(target.schema()), &shaped)
        .map_err(|error| Error::internal("rows do not fit their table").with_source(error))
}
