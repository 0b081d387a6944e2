//! Windows whose frames lose rows, and windows in the order of floating point numbers.
//!
//! DataFusion's `bool_and` and `bool_or` cannot remove a value that leaves their frame, but its
//! `min` and `max` can. Its sorts distinguish both zeros, which are equal in SQL.

use arrow::datatypes::DataType as ArrowType;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result as PlanResult};
use datafusion::functions_aggregate::min_max::{max_udaf, min_udaf};
use datafusion::logical_expr::expr::WindowFunction;
use datafusion::logical_expr::{
    Expr, ExprSchemable, LogicalPlan, WindowFrameUnits, WindowFunctionDefinition, cast,
};
use thalweg_types::{Error, SqlState};
use thalweg_values::cast::is_text;
use thalweg_values::common_type;

use super::float_equality::with_one_zero;
use super::rewrite_expressions;
use thalweg_values::errors::external;
use thalweg_values::types::display_name;

/// Rewrites the windows of a plan node that has some. `schema` holds the columns that they may
/// name.
///
/// # Errors
/// If the plan cannot be put together again.
pub(super) fn rewritten(
    plan: LogicalPlan,
    schema: &DFSchema,
) -> PlanResult<Transformed<LogicalPlan>> {
    let LogicalPlan::Window(windows) = &plan else { return Ok(Transformed::no(plan)) };
    // All windows of a plan have the same keys, and the rewrite keeps it so.
    let ask_for_peers = windows.window_expr.iter().any(asks_for_peers);
    rewrite_expressions(plan, |expr| {
        let rewritten = match &expr {
            Expr::WindowFunction(call) => {
                check_default(call, schema)?;
                window(call, ask_for_peers, schema)
            }
            _ => None,
        };
        Ok(rewritten.map_or_else(|| Transformed::no(expr), Transformed::yes))
    })
}

/// True if a window depends on which rows have equal keys. Other windows take such rows in any
/// order.
fn asks_for_peers(expr: &Expr) -> bool {
    match expr {
        Expr::Alias(alias) => asks_for_peers(&alias.expr),
        Expr::WindowFunction(call) => match &call.fun {
            WindowFunctionDefinition::AggregateUDF(_) => {
                call.params.window_frame.units != WindowFrameUnits::Rows
            }
            WindowFunctionDefinition::WindowUDF(function) => {
                !matches!(function.name(), "row_number" | "lag" | "lead" | "ntile")
            }
        },
        _ => false,
    }
}

/// The arguments of `lag(value, offset, default)` where the default is a number of another type
/// than the value: both become their common type, where DataFusion casts the default.
fn of_one_type(arguments: &[Expr], schema: &DFSchema) -> Option<Vec<Expr>> {
    let [value, offset, default] = arguments else { return None };
    let default = match default {
        Expr::Literal(default, _) => default.clone(),
        Expr::Cast(cast) => cast.expr.as_literal()?.cast_to(cast.field.data_type()).ok()?,
        _ => return None,
    };
    let from = value.get_type(schema).ok()?;
    let common = common_type::of_numbers(&[from.clone(), default.data_type()])?;
    let value = match from == common {
        true => value.clone(),
        false => cast(value.clone(), common.clone()),
    };
    let default = Expr::Literal(default.cast_to(&common).ok()?, None);
    Some(vec![value, offset.clone(), default])
}

/// Refuses `lag(value, offset, default)` of two values without a common type, such as a text and a
/// number. DataFusion would convert the default.
fn check_default(call: &WindowFunction, schema: &DFSchema) -> PlanResult<()> {
    let WindowFunctionDefinition::WindowUDF(function) = &call.fun else { return Ok(()) };
    let ("lag" | "lead", [value, _, default]) = (function.name(), call.params.args.as_slice())
    else {
        return Ok(());
    };
    let (_, field) = value.to_field(schema)?;
    let Ok((_, default_field)) = default.to_field(schema) else { return Ok(()) };
    let kinds = (kind(field.data_type()), kind(default_field.data_type()));
    // A text that is written out takes the type of the value.
    let takes_any_type = matches!(default, Expr::Literal(..)) && kinds.1 == Some(Kind::Text);
    let (Some(one), Some(other)) = kinds else { return Ok(()) };
    if one == other || takes_any_type && one != Kind::Boolean {
        return Ok(());
    }
    let message = format!(
        "function {}({}, integer, {}) does not exist",
        function.name(),
        display_name(&field),
        display_name(&default_field),
    );
    Err(external(Error::new(SqlState::UNDEFINED_FUNCTION, message)))
}

/// Types with conversions among each other.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Boolean,
    Number,
    Text,
    Moment,
    Interval,
}

/// `None` for other types, and for NULL.
fn kind(data_type: &ArrowType) -> Option<Kind> {
    match data_type {
        ArrowType::Boolean => Some(Kind::Boolean),
        ArrowType::Date32 | ArrowType::Timestamp(..) => Some(Kind::Moment),
        ArrowType::Interval(_) => Some(Kind::Interval),
        number if number.is_numeric() => Some(Kind::Number),
        text if is_text(text) => Some(Kind::Text),
        _ => None,
    }
}

fn window(call: &WindowFunction, ask_for_peers: bool, schema: &DFSchema) -> Option<Expr> {
    let mut call = call.clone();
    let mut changed = false;
    if let WindowFunctionDefinition::AggregateUDF(function) = &call.fun {
        let extreme = match function.name() {
            "bool_and" => Some(min_udaf()),
            "bool_or" => Some(max_udaf()),
            _ => None,
        };
        if let Some(extreme) = extreme {
            (call.fun, changed) = (WindowFunctionDefinition::AggregateUDF(extreme), true);
        }
    }
    if let WindowFunctionDefinition::WindowUDF(function) = &call.fun
        && matches!(function.name(), "lag" | "lead")
        && let Some(arguments) = of_one_type(&call.params.args, schema)
    {
        (call.params.args, changed) = (arguments, true);
    }
    let orders = match ask_for_peers {
        true => call.params.order_by.len(),
        false => call.params.order_by.len().saturating_sub(1),
    };
    let ordered = call.params.order_by.iter_mut().take(orders).map(|order| &mut order.expr);
    for key in call.params.partition_by.iter_mut().chain(ordered) {
        if let Some(alike) = with_one_zero(key, schema) {
            (*key, changed) = (alike, true);
        }
    }
    changed.then(|| Expr::WindowFunction(Box::new(call)))
}
