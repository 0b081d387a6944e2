//! Windows that are named: `OVER w`, and `OVER (w ORDER BY …)`, which begins as `w` does.
//!
//! DataFusion knows the former in the columns of a query alone, and ignores the name in the latter.
//! Here windows are written out.

use datafusion::sql::sqlparser::ast::{
    Expr, Ident, NamedWindowDefinition, NamedWindowExpr, OrderBy, OrderByKind, Query, Select,
    SetExpr, VisitMut, WindowSpec, WindowType,
};
use thalweg_types::{Error, Result, SqlState};

use super::names::normalized;
use super::own_expressions;

/// Writes out the windows of one query, not of those inside it.
pub(super) fn write_out(query: &mut Query) -> Result<()> {
    let known = write_out_operands(&mut query.body)?;
    match &mut query.order_by {
        Some(OrderBy { kind: OrderByKind::Expressions(orders), .. }) => {
            write_out_calls(orders, &known)
        }
        _ => Ok(()),
    }
}

/// Returns the windows that a SELECT names, which its ORDER BY may use, too.
fn write_out_operands(body: &mut SetExpr) -> Result<Vec<(String, WindowSpec)>> {
    match body {
        SetExpr::Select(select) => write_out_select(select),
        SetExpr::SetOperation { left, right, .. } => {
            write_out_operands(left)?;
            write_out_operands(right)?;
            Ok(Vec::new())
        }
        _ => Ok(Vec::new()),
    }
}

fn write_out_select(select: &mut Select) -> Result<Vec<(String, WindowSpec)>> {
    let mut known: Vec<(String, WindowSpec)> = Vec::new();
    for NamedWindowDefinition(name, window) in &mut select.named_window {
        let written = match &*window {
            NamedWindowExpr::NamedWindow(other) => found(&known, other)?.clone(),
            NamedWindowExpr::WindowSpec(window) => extended(window, &known)?,
        };
        *window = NamedWindowExpr::WindowSpec(written.clone());
        known.push((normalized(name), written));
    }
    write_out_calls(&mut select.projection, &known)?;
    write_out_calls(&mut select.qualify, &known)?;
    Ok(known)
}

/// Replaces the names of windows in calls by their definitions.
fn write_out_calls(node: &mut impl VisitMut, known: &[(String, WindowSpec)]) -> Result<()> {
    let mut outcome = Ok(());
    own_expressions::change(node, |expr| {
        let Expr::Function(function) = expr else { return };
        let Some(window) = function.over.as_mut().filter(|_| outcome.is_ok()) else { return };
        let written = match &*window {
            WindowType::NamedWindow(name) => found(known, name).cloned(),
            WindowType::WindowSpec(window) => extended(window, known),
        };
        match written {
            Ok(written) => *window = WindowType::WindowSpec(written),
            Err(error) => outcome = Err(error),
        }
    });
    outcome
}

fn found<'k>(known: &'k [(String, WindowSpec)], name: &Ident) -> Result<&'k WindowSpec> {
    let name = normalized(name);
    let window = known.iter().find(|(known, _)| *known == name).map(|(_, window)| window);
    window.ok_or_else(|| {
        Error::new(SqlState::UNDEFINED_OBJECT, format!("window \"{name}\" does not exist"))
    })
}

/// A window with the clauses of the window that it names.
fn extended(window: &WindowSpec, known: &[(String, WindowSpec)]) -> Result<WindowSpec> {
    let Some(name) = &window.window_name else { return Ok(window.clone()) };
    let base = found(known, name)?;
    let refused = |error_text: String| Err(Error::new(SqlState::WINDOWING_ERROR, error_text));
    let name = normalized(name);
    if !window.partition_by.is_empty() {
        return refused(format!("cannot override PARTITION BY clause of window \"{name}\""));
    }
    if !window.order_by.is_empty() && !base.order_by.is_empty() {
        return refused(format!("cannot override ORDER BY clause of window \"{name}\""));
    }
    if base.window_frame.is_some() {
        return refused(format!("cannot copy window \"{name}\" because it has a frame clause"));
    }
    let order = if window.order_by.is_empty() { base } else { window };
    Ok(WindowSpec {
        window_name: None,
        partition_by: base.partition_by.clone(),
        order_by: order.order_by.clone(),
        window_frame: window.window_frame.clone(),
    })
}
