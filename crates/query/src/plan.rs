//! Plans queries and runs them.

use std::sync::Arc;

use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::record_batch::{RecordBatch, RecordBatchOptions};
use datafusion::common::{DFSchemaRef, TableReference};
use datafusion::error::Result as PlanResult;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::sql::parser::Statement as Parsed;
use datafusion::sql::sqlparser::ast;
use futures::StreamExt;
use thalweg_dialect::complete_types::complete_columns;
use thalweg_dialect::guards::guarded;
use thalweg_dialect::parse::parse_single;
use thalweg_dialect::rewrite::{Tables, check_columns, rewrite_statement, tables_of};
use thalweg_execution::cancellable_rules::check_cancelled;
use thalweg_execution::executor::Executor;
use thalweg_execution::optimization::optimize;
use thalweg_execution::plan_depth;
use thalweg_execution::planning::limits::{self, check_grouping_sets, check_size};
use thalweg_types::Result;
use thalweg_values::column_marks::output_name;
use thalweg_values::errors::{external, from_datafusion};
use thalweg_values::sql_parts::parse_type;
use thalweg_values::system_types::SystemType;
use thalweg_values::types::{TYPE_KEY, arrow_field, column_type};

use crate::catalog::{primary_key, settings_in_order, written};
use crate::ctes;
use crate::outcome::BatchStream;
use crate::statement::folded;

/// A query's plan, and the names of its columns for users.
pub(crate) struct Planned {
    pub(crate) plan: LogicalPlan,
    pub(crate) names: Vec<String>,
    /// The columns with their complete types.
    complete: DFSchemaRef,
}

/// Plans a query with the current meaning of its names.
pub(crate) async fn query(state: &SessionState, query: ast::Query) -> PlanResult<Planned> {
    statement(state, Parsed::Statement(Box::new(ast::Statement::Query(Box::new(query))))).await
}

/// Plans any statement that DataFusion knows.
pub(crate) async fn statement(state: &SessionState, statement: Parsed) -> PlanResult<Planned> {
    limits::timed(translated(state, statement)).await
}

async fn translated(state: &SessionState, statement: Parsed) -> PlanResult<Planned> {
    let mut statement = statement;
    let tables = tables(state, &statement).await;
    rewrite(&mut statement, &tables).map_err(external)?;
    check_cancelled()?;
    let executor = Executor::of(state.config());
    let plan = executor.counted(state, state.statement_to_plan(statement)).await?;
    check_cancelled()?;
    plan_depth::check(&plan).map_err(external)?;
    check_size(&plan)?;
    let plan = written(settings_in_order(plan, state)?, state)?;
    let complete = complete_columns(&plan)?;
    let fields = plan.schema().fields();
    check_columns(fields.len()).map_err(external)?;
    let names = fields.iter().map(|field| output_name(field.name()).to_owned()).collect();
    Ok(Planned { plan, names, complete })
}

/// Rewrites a statement into the form that DataFusion's planner accepts.
fn rewrite(statement: &mut Parsed, tables: &Tables) -> Result<()> {
    match statement {
        Parsed::Statement(statement) => {
            check_grouping_sets(statement)?;
            rewrite_statement(statement, tables)?;
            ctes::mark(statement);
            Ok(())
        }
        Parsed::Explain(explain) => rewrite(&mut explain.statement, tables),
        _ => Ok(()),
    }
}

/// The columns that rewriting needs. Errors of a table are reported later, when it is planned.
async fn tables(state: &SessionState, statement: &Parsed) -> Tables {
    let mut tables = Tables::default();
    let mut inner = statement;
    while let Parsed::Explain(explain) = inner {
        inner = &explain.statement;
    }
    let Parsed::Statement(inner) = inner else { return tables };
    for name in tables_of(inner) {
        let parts = name.0.iter().map(|part| Some(folded(part.as_ident()?)));
        let reference = match parts.collect::<Option<Vec<String>>>().as_deref() {
            Some([table]) => TableReference::bare(table.as_str()),
            Some([schema, table]) => TableReference::partial(schema.as_str(), table.as_str()),
            Some([catalog, schema, table]) => {
                TableReference::full(catalog.as_str(), schema.as_str(), table.as_str())
            }
            _ => continue,
        };
        let Ok(schema) = state.schema_for_ref(reference.clone()) else { continue };
        if let Ok(Some(table)) = schema.table(reference.table()).await {
            tables.add(&name, &table.schema());
            primary_key(table.as_ref()).into_iter().for_each(|key| tables.add_key(&name, key));
        }
    }
    tables
}

/// Plans a query from its text.
pub(crate) async fn query_text(state: &SessionState, text: &str) -> PlanResult<Planned> {
    let parsed = parse_single(text).map_err(external)?;
    statement(state, parsed.statement).await
}

/// Renames the columns of a plan.
pub(crate) fn rename_columns(plan: LogicalPlan, names: &[&str]) -> PlanResult<LogicalPlan> {
    let columns: Vec<Expr> = plan
        .schema()
        .columns()
        .into_iter()
        .zip(names)
        .map(|(column, name)| Expr::Column(column).alias(*name))
        .collect();
    LogicalPlanBuilder::from(plan).project(columns)?.build()
}

/// Optimises a plan and makes it executable.
pub(crate) async fn physical(
    state: &SessionState,
    plan: &LogicalPlan,
) -> PlanResult<Arc<dyn ExecutionPlan>> {
    let planning = async {
        let optimized = guarded(optimize(state, plan)?)?;
        check_cancelled()?;
        state.query_planner().create_physical_plan(&optimized, state).await
    };
    let executor = Executor::of(state.config());
    limits::timed(executor.counted(state, planning)).await
}

/// The columns of a plan's rows.
pub(crate) async fn schema(state: &SessionState, planned: &Planned) -> PlanResult<SchemaRef> {
    let physical = physical(state, &planned.plan).await?;
    Ok(renamed(&physical.schema(), planned))
}

/// Runs a plan and returns its rows as a stream.
pub(crate) async fn stream(
    state: &SessionState,
    planned: Planned,
    sql: &str,
) -> Result<(SchemaRef, BatchStream)> {
    let complete = |error| from_datafusion(error, sql);
    let physical = physical(state, &planned.plan).await.map_err(complete)?;
    let schema = renamed(&physical.schema(), &planned);
    let rows = start(state, physical, &schema, sql);
    Ok((schema, rows))
}

/// Runs an executable plan, whose rows are returned with this schema.
pub(crate) fn start(
    state: &SessionState,
    physical: Arc<dyn ExecutionPlan>,
    schema: &SchemaRef,
    sql: &str,
) -> BatchStream {
    let rows = Executor::of(state.config()).run(physical, state);
    let sql = sql.to_owned();
    let output = Arc::clone(schema);
    Box::pin(rows.map(move |batch| {
        batch.and_then(|batch| shown(&batch, &output)).map_err(|error| from_datafusion(error, &sql))
    }))
}

/// The rows with the schema that clients see. In a batch, the nullability of columns and the item
/// fields of lists may differ from it.
///
/// # Errors
/// If a column does not match the schema.
pub fn shown(batch: &RecordBatch, schema: &SchemaRef) -> PlanResult<RecordBatch> {
    let columns = batch.columns().iter().zip(schema.fields());
    let columns = columns.map(|(column, field)| match column.data_type() == field.data_type() {
        true => Ok(Arc::clone(column)),
        false => cast(column, field.data_type()),
    });
    let columns = columns.collect::<Result<Vec<_>, ArrowError>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)?)
}

/// Runs a plan and gathers its rows.
pub(crate) async fn collect(
    state: &SessionState,
    planned: Planned,
    sql: &str,
) -> Result<(SchemaRef, Vec<RecordBatch>)> {
    let (schema, mut rows) = stream(state, planned, sql).await?;
    let mut batches = Vec::new();
    while let Some(batch) = rows.next().await {
        batches.push(batch?);
    }
    Ok((schema, batches))
}

/// The columns under the names that users see. DataFusion loses the metadata of some fields on the
/// way to the executable plan; this restores it.
pub(crate) fn renamed(schema: &Schema, planned: &Planned) -> SchemaRef {
    let fields = schema.fields().iter().zip(planned.complete.fields()).zip(&planned.names);
    let fields: Vec<_> = fields
        .map(|((field, complete), name)| {
            let field = rightly_named(field).with_name(name).with_nullable(true);
            match forgets(&field, complete) {
                true => field
                    .with_data_type(complete.data_type().clone())
                    .with_metadata(complete.metadata().clone()),
                false => field,
            }
        })
        .collect();
    Arc::new(Schema::new(fields))
}

/// The field without the name of a type that its values cannot have: DataFusion gives the text of a
/// number the metadata of the number.
fn rightly_named(field: &Field) -> Field {
    let is_text = matches!(field.data_type(), DataType::Utf8 | DataType::Utf8View);
    let is_shown =
        |system: SystemType| matches!(system, SystemType::Registered(_)) || system.is_vector();
    let is_misnamed = |system: SystemType| {
        !is_shown(system) && is_text && system.arrow_type() != DataType::Utf8View
    };
    let mut field = field.clone();
    if SystemType::of(&field).is_some_and(is_misnamed) {
        field.metadata_mut().remove(TYPE_KEY);
    }
    field
}

/// True if a field has lost metadata that `complete`, with the same type, has.
fn forgets(field: &Field, complete: &Field) -> bool {
    let says_nothing = field.metadata().is_empty();
    match (field.data_type(), complete.data_type()) {
        (DataType::List(item), DataType::List(complete)) => says_nothing && forgets(item, complete),
        (data_type, complete) => says_nothing && data_type == complete,
    }
}

/// The Arrow schema of columns that were declared as `name type`.
pub(crate) fn schema_of_columns(columns: &[(String, String)]) -> PlanResult<Schema> {
    let mut fields = Vec::with_capacity(columns.len());
    for (name, type_text) in columns {
        let parsed = parse_type(type_text).map_err(external)?;
        let data_type = column_type(&parsed).map_err(external)?;
        fields.push(arrow_field(name, &data_type, true));
    }
    Ok(Schema::new(fields))
}
