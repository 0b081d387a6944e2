//! Views and external tables: names whose rows come from somewhere else.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::datatypes::{Field, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{Constraints, TableReference, ToDFSchema};
use datafusion::datasource::{ViewTable, provider_as_source};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::session_state::{SessionState, SessionStateBuilder};
use datafusion::logical_expr::{
    CreateExternalTable, Expr, LogicalPlanBuilder, TableProviderFilterPushDown, TableType, cast,
    ident,
};
use datafusion::physical_plan::ExecutionPlan;
use thalweg_formats::check_parquet_nesting;
use thalweg_txn::{
    BoundRelation, Catalog, ExternalTable, Object, RoleId, Securable, View, ViewBinding,
};
use thalweg_types::{Error, SqlState};
use thalweg_values::errors::external as external_error;
use thalweg_values::types::{self, arrow_type};

use super::derived::Derived;
use super::view_binding::Recorder;
use crate::plan::{self, Planned};

/// Greatest nesting depth of views. Planning each level uses stack.
const NESTED_MAX: usize = 24;

tokio::task_local! {
    /// The views whose queries are being planned around this one, the innermost last.
    static AROUND: Vec<Around>;
}

#[derive(Clone)]
pub(super) struct Around {
    pub(super) name: String,
    pub(super) query: String,
    pub(super) owner: RoleId,
    pub(super) names: Names,
}

/// Meaning of the names of relations in a view's query.
#[derive(Clone)]
pub(super) enum Names {
    /// The objects that have the names now.
    Current,
    Bound(Arc<ViewBinding>),
    /// As `Current`, and the objects are recorded.
    Recorded(Arc<Recorder>),
}

/// Meaning of one name.
pub(super) enum Meaning {
    Current,
    Bound(Box<BoundRelation>),
    /// The view was bound to no object of the name.
    NoObject,
    Recorded(Arc<Recorder>),
}

/// Meaning of a relation's name in the query that is being planned.
pub(super) fn meaning(namespace: &str, name: &str) -> Meaning {
    let meaning = AROUND.try_with(|around| match around.last().map(|view| &view.names) {
        None | Some(Names::Current) => Meaning::Current,
        Some(Names::Recorded(recorder)) => Meaning::Recorded(Arc::clone(recorder)),
        Some(Names::Bound(binding)) => match binding.relation(namespace, name) {
            Some(relation) => Meaning::Bound(Box::new(relation.clone())),
            None => Meaning::NoObject,
        },
    });
    meaning.unwrap_or(Meaning::Current)
}

/// True if a name stands for an object of the namespace in the query that is being planned.
pub(super) fn is_object(catalog: &Catalog, namespace: &str, name: &str) -> bool {
    match meaning(namespace, name) {
        Meaning::Bound(_) => true,
        Meaning::NoObject => false,
        Meaning::Current | Meaning::Recorded(_) => catalog.object(namespace, name).is_some(),
    }
}

/// True while a view's query is planned to be bound, and for the views in it.
pub(super) fn is_recorded() -> bool {
    let is_recorded = |view: &Around| matches!(view.names, Names::Recorded(_));
    AROUND.try_with(|around| around.iter().any(is_recorded)).unwrap_or(false)
}

/// Plans a view's query.
///
/// # Errors
/// Planning errors, and if views are nested too deeply.
pub(super) async fn plan_around(state: &SessionState, view: Around) -> Result<Planned> {
    let around = AROUND.try_with(Clone::clone).unwrap_or_default();
    let inside = |other: &Around| other.name == view.name && other.query == view.query;
    if around.iter().any(inside) || around.len() == NESTED_MAX {
        let message = format!("infinite recursion detected in view \"{}\"", view.name);
        let error = Error::new(SqlState::STATEMENT_TOO_COMPLEX, message);
        return Err(DataFusionError::External(Box::new(error)));
    }
    let query = view.query.clone();
    let around = [around, vec![view]].concat();
    AROUND.scope(around, plan::query_text(state, &query)).await
}

/// The owner of the view whose query is being planned. The view reads with the owner's rights.
pub(super) fn owner_around() -> Option<RoleId> {
    AROUND.try_with(|around| around.last().map(|view| view.owner)).ok().flatten()
}

/// The view's query, planned against the current catalog with the names that it was bound to.
pub(super) async fn plan(
    state: &SessionState,
    name: &str,
    view: &View,
    owner: RoleId,
) -> Result<Arc<dyn TableProvider>> {
    let names = view.binding.clone().map_or(Names::Current, Names::Bound);
    let around = Around { name: name.to_owned(), query: view.query.clone(), owner, names };
    let planned = plan_around(state, around).await?;
    let names: Vec<String> = planned.names.clone();
    let given = view.columns.iter().map(String::as_str);
    let wished: Vec<&str> =
        given.chain(names.iter().skip(view.columns.len()).map(String::as_str)).collect();
    let plan = plan::rename_columns(planned.plan, &wished)?;
    let plan = LogicalPlanBuilder::from(plan).alias(TableReference::bare(name))?.build()?;
    Ok(Arc::new(ViewTable::new(plan, Some(view.query.clone()))))
}

/// `SELECT … FROM 'flights.parquet'`: a name that is a file's is the file.
pub(super) fn file_named(name: &str) -> Option<ExternalTable> {
    let (_, extension) = name.rsplit_once('.')?;
    let format = match extension.to_ascii_lowercase().as_str() {
        "parquet" => "PARQUET",
        "csv" => "CSV",
        "json" | "jsonl" | "ndjson" => "JSON",
        "arrow" => "ARROW",
        _ => return None,
    };
    let mut options = BTreeMap::new();
    if format == "CSV" {
        options.insert("format.has_header".to_owned(), "true".to_owned());
    }
    let (location, columns) = (name.to_owned(), Vec::new());
    Some(ExternalTable { location, format: format.to_owned(), options, columns })
}

/// Opens the files of an external table.
pub(super) async fn external(
    state: &SessionState,
    table: &ExternalTable,
) -> Result<Arc<dyn TableProvider>> {
    if table.format.eq_ignore_ascii_case("parquet") {
        check_parquet_nesting(&table.location).map_err(external_error)?;
    }
    let schema = plan::schema_of_columns(&table.columns)?;
    let command = CreateExternalTable::builder(
        TableReference::bare("external"),
        &table.location,
        &table.format,
        schema.to_dfschema_ref()?,
    )
    .with_options(table.options.clone().into_iter().collect())
    .with_constraints(Constraints::default())
    .build();
    let factory = state.table_factories().get(&table.format.to_uppercase()).ok_or_else(|| {
        DataFusionError::NotImplemented(format!("external tables of the format {}", table.format))
    })?;
    let provider = factory.create(state, &command).await?;
    let is_parquet = table.format.eq_ignore_ascii_case("parquet");
    let provider = match is_parquet && has_floats(&provider.schema()) {
        true => {
            let state = without_statistics(state);
            let inner = factory.create(&state, &command).await?;
            Arc::new(FileWithFloats { inner, state }) as Arc<dyn TableProvider>
        }
        false => provider,
    };
    in_own_types(provider)
}

fn has_floats(schema: &Schema) -> bool {
    schema.fields().iter().any(|field| field.data_type().is_floating())
}

/// Statistics of Parquet files leave NaN out, which is the greatest of all numbers: neither an
/// extreme nor a filter may rely on them.
fn without_statistics(state: &SessionState) -> SessionState {
    let mut config = state.config().clone();
    let options = config.options_mut();
    options.execution.collect_statistics = false;
    options.execution.parquet.pruning = false;
    options.execution.parquet.enable_page_index = false;
    let mut builder = SessionStateBuilder::new_from_existing(state.clone()).with_config(config);
    if let Some(tables) = builder.table_options() {
        tables.parquet.global.pruning = false;
        tables.parquet.global.enable_page_index = false;
    }
    builder.build()
}

/// A file that is planned and read without statistics, whatever the session's settings are.
#[derive(Debug)]
struct FileWithFloats {
    inner: Arc<dyn TableProvider>,
    state: SessionState,
}

#[async_trait]
impl TableProvider for FileWithFloats {
    fn schema(&self) -> SchemaRef {
        self.inner.schema()
    }

    fn table_type(&self) -> TableType {
        self.inner.table_type()
    }

    async fn scan(
        &self,
        _session: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.inner.scan(&self.state, projection, filters, limit).await
    }

    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> Result<Vec<TableProviderFilterPushDown>> {
        self.inner.supports_filters_pushdown(filters)
    }
}

/// The rows of a file or program with the types that SQL has: integers without a sign as wider
/// ones with a sign, `real` for half floats, microseconds for all moments. Arithmetic and
/// aggregates know no others.
pub(super) fn in_own_types(provider: Arc<dyn TableProvider>) -> Result<Arc<dyn TableProvider>> {
    let schema = provider.schema();
    let own_type = |field: &Field| {
        let own = arrow_type(&types::from_field(field).ok()?);
        let are_texts = own.is_string() && field.data_type().is_string();
        (own != *field.data_type() && !are_texts).then_some(own)
    };
    if !schema.fields().iter().any(|field| own_type(field).is_some()) {
        return Ok(provider);
    }
    let plan = LogicalPlanBuilder::scan("external", provider_as_source(provider), None)?;
    let columns = schema.fields().iter().map(|field| {
        let column = ident(field.name());
        match own_type(field) {
            Some(own) => cast(column, own).alias(field.name()),
            None => column,
        }
    });
    let plan = plan.project(columns.collect::<Vec<_>>())?.build()?;
    Ok(Arc::new(ViewTable::new(plan, None)))
}

/// Namespace, name and columns of every view and external table that can be planned.
pub(super) async fn columns_of_views(state: &SessionState, catalog: &Catalog) -> Vec<Derived> {
    let mut found = Vec::new();
    for namespace in catalog.namespaces() {
        for (name, object) in catalog.objects(namespace) {
            let provider = match object {
                Object::View(view) => {
                    let owner = catalog.access(&Securable::relation(namespace, name)).owner;
                    Box::pin(plan(state, name, view, owner)).await
                }
                Object::External(table) => external(state, table).await,
                Object::Table(_) | Object::Sequence(_) => continue,
            };
            // A view over a dropped object has no columns to show.
            if let Ok(provider) = provider {
                let (namespace, name) = (namespace.to_owned(), name.to_owned());
                found.push(Derived { namespace, name, schema: provider.schema() });
            }
        }
    }
    found
}
