//! Expressions that differ in a cast only.
//!
//! DataFusion leaves casts out of the names of expressions, so that `max(a)` and `max(a::text)`
//! would be two columns of one name. Where one SELECT has such a pair, its casts become calls with
//! names of their own, which do nothing and are gone once the plan is optimised.

use std::collections::HashMap;
use std::ops::ControlFlow;

use crate::walk;
use datafusion::sql::sqlparser::ast::{
    Expr, GroupByExpr, OrderBy, OrderByKind, Query, SelectItem, SetExpr, Value, ValueWithSpan,
    Visit, VisitorMut,
};

use super::build::{call, text};
use super::own_expressions;

/// The name of the function around a cast.
const MARKER: &str = "cast_as_told";

/// Distinguishes the expressions of one query; runs after its columns have got their names.
pub(super) fn tell_apart(query: &mut Query) {
    let Query { body, order_by, .. } = query;
    match body.as_mut() {
        SetExpr::Select(_) => tell_operand_apart(body, order_by.as_mut()),
        body => tell_operand_apart(body, None),
    }
}

fn tell_operand_apart(body: &mut SetExpr, order_by: Option<&mut OrderBy>) {
    let select = match body {
        SetExpr::Select(select) => select,
        SetExpr::SetOperation { left, right, .. } => {
            tell_operand_apart(left, None);
            tell_operand_apart(right, None);
            return;
        }
        _ => return,
    };
    let mut orders = match order_by {
        Some(OrderBy { kind: OrderByKind::Expressions(orders), .. }) => Some(orders),
        _ => None,
    };
    let mut pairs = Pairs::default();
    pairs.note_calls(&select.projection);
    pairs.note_calls(&select.having);
    if let Some(orders) = &orders {
        pairs.note_calls(&**orders);
    }
    if let GroupByExpr::Expressions(keys, _) = &select.group_by {
        keys.iter().for_each(|key| pairs.note(meant(key, &select.projection)));
        pairs.note_calls(keys);
    }
    if !pairs.found {
        return;
    }
    own_expressions::change_inner_first(&mut select.projection, mark);
    own_expressions::change_inner_first(&mut select.having, mark);
    if let GroupByExpr::Expressions(keys, _) = &mut select.group_by {
        own_expressions::change_inner_first(keys, mark);
    }
    if let Some(orders) = orders.as_mut() {
        own_expressions::change_inner_first(&mut **orders, mark);
    }
}

/// The expression of a group key, which may be the position or the name of a result.
fn meant<'a>(key: &'a Expr, results: &'a [SelectItem]) -> &'a Expr {
    let result = match key {
        Expr::Value(ValueWithSpan { value: Value::Number(place, _), .. }) => {
            let place = place.parse::<usize>().ok().and_then(|place| place.checked_sub(1));
            place.and_then(|place| results.get(place))
        }
        Expr::Identifier(name) => results
            .iter()
            .find(|item| matches!(item, SelectItem::ExprWithAlias { alias, .. } if alias == name)),
        _ => None,
    };
    match result {
        Some(SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) => expr,
        _ => key,
    }
}

/// Finds calls, and keys of groups, that are alike but for casts.
#[derive(Default)]
struct Pairs {
    /// The expressions found so far, by their text without casts.
    known: HashMap<String, String>,
    found: bool,
}

impl Pairs {
    fn note(&mut self, expr: &Expr) {
        let mut plain = expr.clone();
        let _ = walk::visit_mut(&mut plain, &mut WithoutCasts);
        let written = expr.to_string();
        let known = self.known.entry(plain.to_string()).or_insert_with(|| written.clone());
        self.found |= *known != written;
    }

    /// Notes the calls in a part of the query.
    fn note_calls(&mut self, part: &impl Visit) {
        let _ = own_expressions::look_at(part, |expr| {
            if matches!(expr, Expr::Function(_)) {
                self.note(expr);
            }
            ControlFlow::Continue(())
        });
    }
}

struct WithoutCasts;

impl VisitorMut for WithoutCasts {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Cast { expr: inner, .. } | Expr::Nested(inner) = expr {
            *expr = inner.as_ref().clone();
        }
        ControlFlow::Continue(())
    }
}

/// Wraps a cast in a call.
fn mark(expr: &mut Expr) {
    if let Expr::Cast { data_type, .. } = &*expr {
        let error_text = text(data_type.to_string());
        *expr = call(MARKER, vec![expr.clone(), error_text]);
    }
}
