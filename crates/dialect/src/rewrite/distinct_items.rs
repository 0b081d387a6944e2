//! Aggregates of distinct values and their order: `array_agg(DISTINCT a ORDER BY a DESC)`.

use datafusion::sql::sqlparser::ast::{
    DuplicateTreatment, Expr, Function, FunctionArgumentClause, FunctionArgumentList,
    FunctionArguments, Ident, OrderByExpr,
};
use thalweg_types::{Error, Result, SqlState};

use super::build::arguments_of;
use super::names::normalized;
use super::own_expressions;

/// The arguments of an aggregate with DISTINCT.
fn distinct(function: &Function) -> Option<&FunctionArgumentList> {
    match &function.args {
        FunctionArguments::List(list)
            if list.duplicate_treatment == Some(DuplicateTreatment::Distinct) =>
        {
            Some(list)
        }
        _ => None,
    }
}

fn orders(list: &FunctionArgumentList) -> impl Iterator<Item = &OrderByExpr> {
    list.clauses.iter().flat_map(|clause| match clause {
        FunctionArgumentClause::OrderBy(orders) => orders.as_slice(),
        _ => &[],
    })
}

/// Refuses an order by anything but the arguments, of which each distinct value has one.
pub(super) fn check_order(function: &Function) -> Result<()> {
    let (Some(list), Some(arguments)) = (distinct(function), arguments_of(function)) else {
        return Ok(());
    };
    let arguments: Vec<Expr> = arguments.into_iter().map(unqualified).collect();
    if orders(list).all(|order| arguments.contains(&unqualified(&order.expr))) {
        return Ok(());
    }
    Err(Error::new(
        SqlState::INVALID_COLUMN_REFERENCE,
        "in an aggregate with DISTINCT, ORDER BY expressions must appear in argument list",
    ))
}

/// An expression whose columns stand without their relations, which may be left out.
fn unqualified(expr: &Expr) -> Expr {
    let mut plain = expr.clone();
    own_expressions::change_inner_first(&mut plain, |part| match part {
        Expr::CompoundIdentifier(parts) => {
            if let Some(name) = parts.last() {
                *part = Expr::Identifier(Ident::new(normalized(name)));
            }
        }
        Expr::Identifier(name) => *part = Expr::Identifier(Ident::new(normalized(name))),
        Expr::Nested(inner) => *part = inner.as_ref().clone(),
        _ => {}
    });
    plain
}

/// The order that an aggregate of distinct values is written with, as in [`order_of`].
pub(super) fn written_order_of(function: &Function) -> Option<(bool, bool)> {
    orders(distinct(function)?).next()?;
    order_of(function)
}

/// The order of an aggregate's distinct values: true if it is descending, and true if NULL comes
/// first.
pub(super) fn order_of(function: &Function) -> Option<(bool, bool)> {
    let options = orders(distinct(function)?).next().map(|order| &order.options);
    let descending = options.is_some_and(|options| options.asc == Some(false));
    let nulls_first = options.and_then(|options| options.nulls_first).unwrap_or(descending);
    Some((descending, nulls_first))
}

/// The aggregate of the values in any order.
pub(super) fn without_order(function: &Function) -> Function {
    let mut function = function.clone();
    if let FunctionArguments::List(list) = &mut function.args {
        list.clauses.retain(|clause| !matches!(clause, FunctionArgumentClause::OrderBy(_)));
    }
    function
}
