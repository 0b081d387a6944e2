//! Functions in FROM: the names of their columns, and arguments that come from other tables.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList, FunctionArguments, Ident,
    ObjectName, Select, SelectItem, TableAlias, TableAliasColumnDef, TableFactor, Visit, Visitor,
};
use thalweg_types::{Error, Result};

use super::figure::quoted;
use super::names::normalized;
use super::rows::parse_query;

/// Gives a function in FROM the column names that PostgreSQL gives it, and makes it a lateral
/// subquery where its arguments are columns.
pub(super) fn name_function(factor: &mut TableFactor) -> Result<()> {
    match factor {
        TableFactor::Table { args: Some(_), with_ordinality: true, .. }
        | TableFactor::Function { with_ordinality: true, .. } => {
            // DataFusion would leave the numbers out without a word.
            return Err(Error::unsupported("WITH ORDINALITY"));
        }
        TableFactor::Table { name, alias, args: Some(arguments), .. } => {
            let Some(function) = series_name(name) else { return Ok(()) };
            let arguments = arguments.args.clone();
            *factor = series(&function, &arguments, alias.take(), factor.clone())?;
        }
        TableFactor::Function { name, alias, args, .. } => {
            let Some(function) = series_name(name) else { return Ok(()) };
            let arguments = args.clone();
            *factor = series(&function, &arguments, alias.take(), factor.clone())?;
        }
        TableFactor::UNNEST { alias, array_exprs, with_ordinality: false, .. } => {
            let arrays = array_exprs.clone();
            let named = named_columns(alias.take(), "unnest", arrays.len());
            if arrays.iter().any(has_column) {
                let calls =
                    arrays.iter().map(|array| format!("unnest({array})")).collect::<Vec<_>>();
                *factor = lateral(&calls.join(", "), named)?;
            } else if let TableFactor::UNNEST { alias, .. } = factor {
                *alias = Some(named);
            }
        }
        _ => {}
    }
    Ok(())
}

/// `SELECT generate_series(1, 3)` gives three rows, not one array.
pub(super) fn expand_series(select: &mut Select) {
    for item in &mut select.projection {
        let (SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) = item else {
            continue;
        };
        if let Expr::Function(function) = expr
            && function.over.is_none()
            && series_name(&function.name).is_some()
        {
            let argument = FunctionArg::Unnamed(FunctionArgExpr::Expr(expr.clone()));
            let Expr::Function(series) = &*expr else { continue };
            let list = FunctionArgumentList {
                duplicate_treatment: None,
                args: vec![argument],
                clauses: vec![],
            };
            *expr = Expr::Function(Function {
                name: ObjectName::from(vec![Ident::new("unnest")]),
                args: FunctionArguments::List(list),
                ..series.clone()
            });
        }
    }
}

fn series_name(name: &ObjectName) -> Option<String> {
    let name = normalized(name.0.last()?.as_ident()?);
    (name == "generate_series").then_some(name)
}

fn series(
    function: &str,
    arguments: &[FunctionArg],
    alias: Option<TableAlias>,
    mut original: TableFactor,
) -> Result<TableFactor> {
    let named = named_columns(alias, function, 1);
    let depends = arguments.iter().any(|argument| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => has_column(expr),
        _ => false,
    });
    if depends {
        let list = arguments.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        return lateral(&format!("unnest({function}({list}))"), named);
    }
    if let TableFactor::Table { alias, .. } | TableFactor::Function { alias, .. } = &mut original {
        *alias = Some(named);
    }
    Ok(original)
}

/// `LATERAL (SELECT calls) AS alias`.
fn lateral(calls: &str, alias: TableAlias) -> Result<TableFactor> {
    let subquery = Box::new(parse_query(&format!("SELECT {calls}"))?);
    Ok(TableFactor::Derived { lateral: true, subquery, alias: Some(alias), sample: None })
}

/// A function with one column calls that column as it calls itself.
fn named_columns(alias: Option<TableAlias>, function: &str, width: usize) -> TableAlias {
    let mut alias = alias.unwrap_or_else(|| TableAlias {
        explicit: true,
        name: quoted(function),
        columns: vec![],
        at: None,
    });
    if alias.columns.is_empty() && width == 1 {
        alias.columns.push(column(alias.name.clone()));
    }
    alias
}

fn column(name: Ident) -> TableAliasColumnDef {
    TableAliasColumnDef { name, data_type: None }
}

/// Whether `expr` names a column of some other table.
fn has_column(expr: &Expr) -> bool {
    struct Columns;
    impl Visitor for Columns {
        type Break = ();
        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            match expr {
                Expr::Identifier(_) | Expr::CompoundIdentifier(_) => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            }
        }
    }
    expr.visit(&mut Columns).is_break()
}
