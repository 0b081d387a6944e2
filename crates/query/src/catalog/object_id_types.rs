//! Numbers that are shown as names: `regclass` and its relatives, and the two vector types.
//!
//! While a query runs, their values are numbers and lists, like the columns that they are compared
//! with. Two passes convert them to text: [`ObjectIdNames`] where a query casts them to `text`,
//! and [`written`] in its result.

use std::sync::Arc;

use arrow::datatypes::{DataType as ArrowType, Field};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, ScalarUDF};
use datafusion::optimizer::AnalyzerRule;
use thalweg_values::system_types::SystemType;
use thalweg_values::types::TYPE_KEY;

use super::field_metadata::restore_field_metadata;
use super::functions::SHOWN;

/// The pass that rewrites casts of such numbers to text as calls that return names.
#[derive(Debug)]
pub(super) struct ObjectIdNames {
    shown: Arc<ScalarUDF>,
}

impl AnalyzerRule for ObjectIdNames {
    fn name(&self) -> &str {
        "registered_names"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        plan.transform_up_with_subqueries(|plan| self.rewrite_plan(plan))
            .map(|transformed| transformed.data)
    }
}

impl ObjectIdNames {
    /// `shown` is the function that writes the name.
    pub(super) fn new(shown: Arc<ScalarUDF>) -> ObjectIdNames {
        ObjectIdNames { shown }
    }

    fn rewrite_plan(&self, plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
        let schema = merge_schema(&plan.inputs());
        let names = NamePreserver::new(&plan);
        plan.map_expressions(|expr| {
            let name = names.save(&expr);
            let rewritten = expr.transform_up(|expr| Ok(self.rewrite(expr, &schema)))?;
            match rewritten.transformed {
                true => Ok(rewritten.update_data(|expr| name.restore(expr))),
                false => Ok(rewritten),
            }
        })
    }

    fn rewrite(&self, expr: Expr, schema: &DFSchema) -> Transformed<Expr> {
        if let Expr::Cast(cast) = &expr
            && is_text(cast.field.data_type())
            && let Some(system) = registered(&cast.expr, schema)
        {
            let text = name_of(&self.shown, (*cast.expr).clone(), system);
            return Transformed::yes(match cast.field.data_type() {
                ArrowType::Utf8View => text,
                other => {
                    Expr::Cast(datafusion::logical_expr::Cast::new(Box::new(text), other.clone()))
                }
            });
        }
        Transformed::no(expr)
    }
}

fn is_text(data_type: &ArrowType) -> bool {
    matches!(data_type, ArrowType::Utf8 | ArrowType::LargeUtf8 | ArrowType::Utf8View)
}

fn registered(expr: &Expr, schema: &DFSchema) -> Option<SystemType> {
    let (_, field) = expr.to_field(schema).ok()?;
    let is_number = field.data_type() == &ArrowType::Int64;
    SystemType::of(&field).filter(|system| is_number && matches!(system, SystemType::Registered(_)))
}

fn name_of(shown: &Arc<ScalarUDF>, number: Expr, system: SystemType) -> Expr {
    let kind = ScalarValue::Utf8View(Some(system.name().to_owned()));
    shown.call(vec![number, Expr::Literal(kind, None)])
}

/// Adds a projection to a query's plan that converts such columns to text for the client.
pub(crate) fn written(plan: LogicalPlan, state: &SessionState) -> Result<LogicalPlan> {
    let plan = restore_field_metadata(plan)?;
    let needs_writing = |field: &Field| match SystemType::of(field) {
        Some(SystemType::Registered(_)) => field.data_type() == &ArrowType::Int64,
        Some(system) => system.is_vector() && matches!(field.data_type(), ArrowType::List(_)),
        None => false,
    };
    let is_query = !matches!(
        plan,
        LogicalPlan::Explain(_)
            | LogicalPlan::Analyze(_)
            | LogicalPlan::Statement(_)
            | LogicalPlan::Ddl(_)
            | LogicalPlan::Dml(_)
            | LogicalPlan::Copy(_)
            | LogicalPlan::DescribeTable(_)
    );
    if !is_query || !plan.schema().fields().iter().any(|field| needs_writing(field)) {
        return Ok(plan);
    }
    let shown = state.scalar_functions().get(SHOWN).cloned();
    let columns = plan.schema().iter().map(|(qualifier, field)| {
        let column = Expr::Column((qualifier, field).into());
        let Some(system) = SystemType::of(field).filter(|_| needs_writing(field)) else {
            return column;
        };
        let text = match &shown {
            Some(shown) if !system.is_vector() => name_of(shown, column, system),
            // The cast of vectors to text is the dialect's own.
            _ => datafusion::logical_expr::cast(column, ArrowType::Utf8View),
        };
        let named = [(TYPE_KEY.to_owned(), system.name().to_owned())];
        let named = std::collections::BTreeMap::from(named).into();
        text.alias_qualified_with_metadata(qualifier.cloned(), field.name(), Some(named))
    });
    let columns: Vec<Expr> = columns.collect();
    LogicalPlanBuilder::from(plan).project(columns)?.build()
}
