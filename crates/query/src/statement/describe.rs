//! Describes a statement without running it: the types of its parameters and the columns of its
//! result.

mod operands;
mod parameter_type;
mod syntactic_types;

use std::sync::Arc;

use arrow::datatypes::{DataType as ArrowType, Field, SchemaRef};
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::execution::FunctionRegistry;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::{Expr as PlanExpr, LogicalPlan};
use datafusion::sql::parser::Statement as Tree;
use datafusion::sql::sqlparser::ast::{
    Assignment, AssignmentTarget, Expr, Ident, Insert, ObjectName, OnConflictAction, OnInsert,
    Query, SelectItem, SetExpr, Statement, TableObject, TableWithJoins, Update,
    UpdateTableFromKind,
};
use thalweg_dialect::walk;
use thalweg_types::{DataType, Error, Result, SqlState};
use thalweg_values::system_types::SystemType;
use thalweg_values::types::{NUMERIC_DEFAULT, arrow_field, from_field};

use self::operands::Operands;
use self::syntactic_types::SyntacticTypes;
use super::delete::target_table;
use super::insert::is_default;
use super::update::target_of;
use super::{Execution, Target, ast_tools, data_modifying_with, explain, folded, settings};
use crate::ctes;
use crate::locks;
use crate::parameters::{bind, bind_in, count, literal, number, placeholder};
use crate::plan;
use crate::privileges;

/// The parameters and the result of a statement.
#[derive(Default)]
pub(crate) struct Description {
    /// Fields, since the names of some types are only in their metadata.
    pub(crate) parameters: Vec<Field>,
    /// `None` for a statement that returns no rows.
    pub(crate) schema: Option<SchemaRef>,
}

/// Describes a statement whose first parameters may have declared types.
///
/// A parameter without a declared type gets the type that it is cast to, stored into or compared
/// with; if there is none, it is text.
pub(crate) async fn describe(
    execution: &Execution<'_>,
    tree: &Tree,
    declared: &[Option<DataType>],
) -> Result<Description> {
    privileges::check_names(execution.names, tree)?;
    if !locks::has_only_calls(tree) {
        locks::check_none(tree)?;
    }
    execution.names.only_describe();
    let declared = declared.iter().map(|known| known.as_ref().map(field_of));
    let mut types: Vec<Option<Field>> = declared.collect();
    types.resize(count(tree, &types)?, None);
    if types.iter().any(Option::is_none) {
        infer(execution, tree, &mut types).await?;
    }
    let text = field_of(&DataType::Text { max_chars: None });
    let parameters: Vec<Field> =
        types.into_iter().map(|found| widened(found.unwrap_or(text.clone()))).collect();
    let schema = result(execution, tree, &parameters).await?;
    Ok(Description { parameters, schema })
}

fn field_of(data_type: &DataType) -> Field {
    arrow_field("", data_type, true)
}

/// The type without its length or precision: a value that is compared with `numeric(5,2)` may have
/// more digits.
fn widened(field: Field) -> Field {
    if SystemType::of(&field).is_some() {
        return field;
    }
    if let ArrowType::List(item) = field.data_type() {
        let item = widened(item.as_ref().clone()).with_name(Field::LIST_FIELD_DEFAULT_NAME);
        return field.with_data_type(ArrowType::List(Arc::new(item)));
    }
    match from_field(&field) {
        Ok(DataType::Text { .. }) => field_of(&DataType::Text { max_chars: None }),
        Ok(DataType::Decimal { .. }) => {
            let (precision, scale) = NUMERIC_DEFAULT;
            field_of(&DataType::Decimal { precision, scale })
        }
        _ => field,
    }
}

/// Rounds in which the types found so far determine those of further parameters.
const ROUNDS_MAX: usize = 4;

async fn infer(execution: &Execution<'_>, tree: &Tree, types: &mut [Option<Field>]) -> Result<()> {
    let Tree::Statement(statement) = tree else { return Ok(()) };
    let _ = walk::visit(statement, &mut SyntacticTypes { types });
    let questions = questions(execution, statement, types)?;
    let state = inferring(&execution.state)?;
    let mut ambiguous = Vec::new();
    for _ in 0..ROUNDS_MAX {
        let known = types.iter().flatten().count();
        ambiguous.clear();
        for question in &questions {
            match question {
                Question::Query(query) => {
                    ambiguous.extend(infer_from(&state, query, types).await?);
                }
                Question::Stored(values) => {
                    values
                        .iter()
                        .for_each(|(value, field)| note(types, value, || Some(field.clone())));
                }
            }
        }
        let found = types.iter().flatten().count();
        if found == types.len() || found == known {
            break;
        }
    }
    let is_open = |number: &usize| types.get(number - 1).is_some_and(Option::is_none);
    match ambiguous.into_iter().find(|(numbers, _)| numbers.iter().any(is_open)) {
        None => Ok(()),
        Some((_, message)) => Err(Error::new(SqlState::AMBIGUOUS_FUNCTION, message)
            .with_hint("You might need to add explicit type casts.")),
    }
}

/// The state that plans queries in which [`parameter_type`] stands for operators.
fn inferring(state: &SessionState) -> Result<SessionState> {
    let mut state = state.clone();
    state.register_udf(Arc::new(parameter_type::udf())).map_err(|error| {
        Error::internal("the function for types of parameters cannot be registered")
            .with_source(error)
    })?;
    Ok(state)
}

/// Records the types of parameters that a query determines. Returns the parameters of operators and
/// functions that are not unique, with messages about them.
async fn infer_from(
    state: &SessionState,
    question: &Query,
    types: &mut [Option<Field>],
) -> Result<Vec<(Vec<usize>, String)>> {
    let mut ambiguous = Vec::new();
    if types.iter().all(Option::is_some) {
        return Ok(ambiguous);
    }
    let mut question = question.clone();
    bind_in(&mut question, &nulls(types)?);
    let mut operands = Operands::default();
    let _ = walk::visit_mut(&mut question, &mut operands);
    let mut asked = vec![question];
    asked.extend(
        operands
            .of_tables
            .into_iter()
            .map(|call| ast_tools::select(vec![SelectItem::UnnamedExpr(call)], Vec::new(), None)),
    );
    for query in asked {
        // A query that cannot be planned without types is planned with texts for all of them; one
        // that is invalid is refused later.
        let planned = match plan::query(state, query.clone()).await {
            Ok(planned) => planned,
            Err(_) => match plan::query(state, with_texts(query, types)?).await {
                Ok(planned) => planned,
                Err(_) => continue,
            },
        };
        let mut found = Vec::new();
        let visited = ctes::visit_materialized(&planned.plan, &mut |plan| {
            let by_operators = parameter_type::parameters_of(plan);
            ambiguous.extend(by_operators.ambiguous);
            found.extend(by_operators.typed);
            found.extend(parameters_of(plan));
        });
        debug_assert!(visited.is_ok(), "the visit itself never fails");
        for (number, found) in found {
            if let Some(place @ None) = types.get_mut(number - 1) {
                *place = Some(found);
            }
        }
    }
    Ok(ambiguous)
}

/// The query with texts for its parameters.
fn with_texts(mut query: Query, types: &[Option<Field>]) -> Result<Query> {
    let text = literal(None, &field_of(&DataType::Text { max_chars: None }))?;
    bind_in(&mut query, &vec![Some(text); types.len()]);
    Ok(query)
}

/// A typed NULL for each parameter whose type is known.
fn nulls(types: &[Option<Field>]) -> Result<Vec<Option<Expr>>> {
    types.iter().map(|known| known.as_ref().map(|known| literal(None, known)).transpose()).collect()
}

/// Records the type of a parameter that has none yet.
fn note(types: &mut [Option<Field>], expr: &Expr, found: impl FnOnce() -> Option<Field>) {
    let expr = match expr {
        Expr::Nested(inner) => inner,
        expr => expr,
    };
    let at = placeholder(expr).and_then(|name| number(name).ok());
    if let Some(place @ None) = at.and_then(|at| types.get_mut(at - 1)) {
        *place = found();
    }
}

/// The parameters of a plan whose types DataFusion found.
fn parameters_of(plan: &LogicalPlan) -> Vec<(usize, Field)> {
    let mut found = Vec::new();
    let visited = plan.apply_with_subqueries(|plan| {
        plan.apply_expressions(|expr| {
            expr.apply(|expr| {
                if let PlanExpr::Placeholder(parameter) = expr
                    && let Some(field) = &parameter.field
                    && let (Ok(number), Some(field)) = (number(&parameter.id), of_parameter(field))
                {
                    found.push((number, field));
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    });
    debug_assert!(visited.is_ok(), "the visit itself never fails");
    found
}

/// The field of a parameter that is compared with a value like this.
fn of_parameter(field: &Field) -> Option<Field> {
    if SystemType::of(field).is_some_and(SystemType::is_plain) {
        return Some(field.clone());
    }
    from_field(field).ok().map(|data_type| field_of(&data_type))
}

/// A part of a statement that determines types of parameters.
enum Question {
    /// A query that contains expressions of the statement.
    Query(Box<Query>),
    /// Values, and the columns into which they are stored.
    Stored(Vec<(Expr, Field)>),
}

impl Question {
    fn of(query: Query) -> Question {
        Question::Query(Box::new(query))
    }
}

/// The parts of a statement, in the order in which PostgreSQL reads them. Parameters that an insert
/// stores into a column unchanged get its type on the way.
fn questions(
    execution: &Execution<'_>,
    statement: &Statement,
    types: &mut [Option<Field>],
) -> Result<Vec<Question>> {
    match statement {
        Statement::Query(query) => {
            let mut found = Vec::new();
            for table in query.with.iter().flat_map(|with| &with.cte_tables) {
                if let SetExpr::Insert(inner) | SetExpr::Update(inner) | SetExpr::Delete(inner) =
                    table.query.body.as_ref()
                {
                    found.extend(questions(execution, inner, types)?);
                }
            }
            match query.body.as_ref() {
                SetExpr::Insert(inner) | SetExpr::Update(inner) | SetExpr::Delete(inner) => {
                    found.extend(questions(execution, inner, types)?);
                }
                _ => found.push(Question::of(query.as_ref().clone())),
            }
            Ok(found)
        }
        Statement::Insert(insert) => of_insert(execution, insert, types),
        Statement::Update(update) => of_update(execution, update),
        Statement::Delete(delete) => {
            let table = target_table(delete)?;
            let mut from = vec![table.clone()];
            from.extend(delete.using.iter().flatten().cloned());
            let mut items = vec![one()?];
            items.extend(delete.returning.iter().flatten().cloned());
            Ok(vec![Question::of(ast_tools::select(items, from, delete.selection.clone()))])
        }
        Statement::Explain { statement, .. } => questions(execution, statement, types),
        Statement::CreateTable(table) => {
            Ok(table.query.as_deref().cloned().map(Question::of).into_iter().collect())
        }
        _ => Ok(Vec::new()),
    }
}

fn one() -> Result<SelectItem> {
    Ok(SelectItem::UnnamedExpr(ast_tools::expression("1")?))
}

fn of_insert(
    execution: &Execution<'_>,
    insert: &Insert,
    types: &mut [Option<Field>],
) -> Result<Vec<Question>> {
    let TableObject::TableName(name) = &insert.table else { return Ok(Vec::new()) };
    let target = Target::find(&execution.names.catalog(), name)?;
    let columns = &target.schema().columns;
    let listed: Vec<_> = insert
        .columns
        .iter()
        .filter_map(|name| name.0.last()?.as_ident())
        .map(|ident| target.position(&folded(ident)))
        .collect::<Result<_>>()?;
    let at =
        |place: usize| if listed.is_empty() { Some(place) } else { listed.get(place).copied() };
    let type_at = |place| Some(field_of(&columns.get(at(place)?)?.data_type));
    let mut found = Vec::new();
    if let Some(source) = &insert.source {
        let mut source = source.as_ref().clone();
        match source.body.as_mut() {
            SetExpr::Values(values) => {
                for row in &mut values.rows {
                    for (place, value) in row.content.iter_mut().enumerate() {
                        note(types, value, || type_at(place));
                        if is_default(value) {
                            *value = ast_tools::expression("NULL")?;
                        }
                    }
                }
            }
            SetExpr::Select(select) => {
                for (place, item) in select.projection.iter().enumerate() {
                    if let SelectItem::UnnamedExpr(value)
                    | SelectItem::ExprWithAlias { expr: value, .. } = item
                    {
                        note(types, value, || type_at(place));
                    }
                }
            }
            _ => {}
        }
        found.push(Question::of(source));
    }
    if let Some(OnInsert::OnConflict(on)) = &insert.on
        && let OnConflictAction::DoUpdate(update) = &on.action
    {
        for (value, field) in stored(&target, &update.assignments) {
            note(types, &value, || Some(field));
        }
        let tables = ["excluded"].map(Ident::new).into_iter().chain([alias_of(insert, &target)]);
        let tables = tables.map(|alias| of_target(&target, alias)).collect();
        let items = assigned(&update.assignments)?;
        found.push(Question::of(ast_tools::select(items, tables, update.selection.clone())));
    }
    if let Some(items) = &insert.returning {
        let table = of_target(&target, alias_of(insert, &target));
        found.push(Question::of(ast_tools::select(items.clone(), vec![table], None)));
    }
    Ok(found)
}

/// The name of an insert's table in its other clauses.
fn alias_of(insert: &Insert, target: &Target) -> Ident {
    let named = || Ident::with_quote('"', target.schema().name.as_str());
    insert.table_alias.as_ref().map_or_else(named, |alias| alias.alias.clone())
}

fn of_target(target: &Target, alias: Ident) -> TableWithJoins {
    let schema = target.schema();
    ast_tools::table(crate::catalog::DATABASE, &schema.namespace, &schema.name, alias)
}

/// The values of assignments as the items of a query.
fn assigned(assignments: &[Assignment]) -> Result<Vec<SelectItem>> {
    let mut items = vec![one()?];
    for assignment in assignments {
        let values = match &assignment.value {
            Expr::Tuple(values) => values.as_slice(),
            value => std::slice::from_ref(value),
        };
        let values = values.iter().filter(|value| !is_default(value));
        items.extend(values.cloned().map(SelectItem::UnnamedExpr));
    }
    Ok(items)
}

fn of_update(execution: &Execution<'_>, update: &Update) -> Result<Vec<Question>> {
    let (target, _) = target_of(&execution.names.catalog(), &update.table)?;
    let mut from: Vec<TableWithJoins> = vec![update.table.clone()];
    if let Some(UpdateTableFromKind::AfterSet(tables) | UpdateTableFromKind::BeforeSet(tables)) =
        &update.from
    {
        from.extend(tables.iter().cloned());
    }
    let mut items = vec![one()?];
    items.extend(update.returning.iter().flatten().cloned());
    Ok(vec![
        Question::of(ast_tools::select(items, from.clone(), update.selection.clone())),
        Question::Stored(stored(&target, &update.assignments)),
        Question::of(ast_tools::select(assigned(&update.assignments)?, from, None)),
    ])
}

/// The values of assignments, with the columns into which they are stored.
fn stored(target: &Target, assignments: &[Assignment]) -> Vec<(Expr, Field)> {
    let column = |name: &ObjectName| {
        let position = target.position(&folded(name.0.last()?.as_ident()?)).ok()?;
        Some(field_of(&target.schema().columns[position].data_type))
    };
    let mut stored = Vec::new();
    for assignment in assignments {
        let (names, values) = match (&assignment.target, &assignment.value) {
            (AssignmentTarget::ColumnName(name), value) => {
                (std::slice::from_ref(name), std::slice::from_ref(value))
            }
            (AssignmentTarget::Tuple(names), Expr::Tuple(values)) => {
                (names.as_slice(), values.as_slice())
            }
            _ => continue,
        };
        let typed = names.iter().zip(values);
        stored.extend(typed.filter_map(|(name, value)| Some((value.clone(), column(name)?))));
    }
    stored
}

/// The columns of a statement's result.
async fn result(
    execution: &Execution<'_>,
    tree: &Tree,
    parameters: &[Field],
) -> Result<Option<SchemaRef>> {
    let mut tree = tree.clone();
    let known: Vec<_> = parameters.iter().cloned().map(Some).collect();
    bind(&mut tree, &nulls(&known)?);
    let Tree::Statement(statement) = &tree else {
        return match &tree {
            Tree::Explain(_) => {
                let change = explain::of_change(execution, &tree)?.map(|explained| explained.tree);
                of_plan(execution, change.unwrap_or(tree)).await.map(Some)
            }
            _ => Ok(None),
        };
    };
    match statement.as_ref() {
        Statement::Query(query) => match query.body.as_ref() {
            SetExpr::Insert(change) | SetExpr::Update(change) | SetExpr::Delete(change) => {
                returned(execution, change).await
            }
            SetExpr::Select(select) if select.into.is_some() => Ok(None),
            _ if data_modifying_with::changes(query) => {
                let query = data_modifying_with::separate_changes(execution, query).await?.query;
                let planned = execution.translate(plan::query(&execution.state, query).await)?;
                execution.translate(plan::schema(&execution.state, &planned).await).map(Some)
            }
            _ => of_plan(execution, tree).await.map(Some),
        },
        Statement::Explain { .. } => of_plan(execution, tree).await.map(Some),
        Statement::ShowVariable { variable } => {
            Ok(Some(settings::show(execution, variable).await?.schema))
        }
        Statement::ShowTables { .. } => Ok(Some(settings::show_tables(execution).await?.schema)),
        change => returned(execution, change).await,
    }
}

async fn of_plan(execution: &Execution<'_>, tree: Tree) -> Result<SchemaRef> {
    let planned = execution.translate(plan::statement(&execution.state, tree).await)?;
    execution.translate(plan::schema(&execution.state, &planned).await)
}

/// The columns of `RETURNING`.
pub(super) async fn returned(
    execution: &Execution<'_>,
    change: &Statement,
) -> Result<Option<SchemaRef>> {
    let catalog = execution.names.catalog();
    let (items, target, alias) = match change {
        Statement::Insert(insert) => {
            let TableObject::TableName(name) = &insert.table else { return Ok(None) };
            let alias = insert.table_alias.as_ref().map(|alias| alias.alias.clone());
            (&insert.returning, Target::find(&catalog, name)?, alias)
        }
        Statement::Update(update) => {
            let (target, alias) = target_of(&catalog, &update.table)?;
            (&update.returning, target, Some(alias))
        }
        Statement::Delete(delete) => {
            let (target, alias) = target_of(&catalog, target_table(delete)?)?;
            (&delete.returning, target, Some(alias))
        }
        _ => return Ok(None),
    };
    let Some(items) = items else { return Ok(None) };
    let alias = alias.unwrap_or_else(|| Ident::with_quote('"', target.schema().name.as_str()));
    let query = ast_tools::select(items.clone(), vec![of_target(&target, alias)], None);
    let planned = execution.translate(plan::query(&execution.state, query).await)?;
    execution.translate(plan::schema(&execution.state, &planned).await).map(Some)
}

#[cfg(test)]
mod tests;
