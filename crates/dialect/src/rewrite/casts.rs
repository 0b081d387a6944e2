//! Expressions that differ in a cast only.
//!
//! DataFusion leaves casts out of the names of expressions, so that `max(a)` and `max(a::text)`
//! would be two columns of one name. Where one SELECT has such a pair, its casts become calls with
//! names of their own, which do nothing and are gone once the plan is optimised.

use std::collections::HashMap;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, GroupByExpr, OrderBy, OrderByKind, Query, SelectItem, SetExpr, Value, ValueWithSpan,
    Visit, VisitMut, Visitor, VisitorMut,
};

use super::build::{call, text};

/// What stands around a cast.
const MARKER: &str = "cast_as_told";

/// Tells the expressions of one query apart; after its columns have got their names.
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
    let _ = Visit::visit(&select.projection, &mut pairs);
    let _ = Visit::visit(&select.having, &mut pairs);
    if let Some(orders) = &orders {
        let _ = Visit::visit(&**orders, &mut pairs);
    }
    if let GroupByExpr::Expressions(keys, _) = &select.group_by {
        keys.iter().for_each(|key| pairs.note(meant(key, &select.projection)));
        let _ = Visit::visit(keys, &mut pairs);
    }
    if !pairs.found {
        return;
    }
    let mut marks = Marks { depth: 0 };
    let _ = VisitMut::visit(&mut select.projection, &mut marks);
    let _ = VisitMut::visit(&mut select.having, &mut marks);
    if let GroupByExpr::Expressions(keys, _) = &mut select.group_by {
        let _ = VisitMut::visit(keys, &mut marks);
    }
    if let Some(orders) = orders.as_mut() {
        let _ = VisitMut::visit(&mut **orders, &mut marks);
    }
}

/// The expression that a key of groups stands for, which may be given by its place or its name
/// among the results.
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
    depth: usize,
    /// What there is, by its text without casts.
    known: HashMap<String, String>,
    found: bool,
}

impl Pairs {
    fn note(&mut self, expr: &Expr) {
        let mut plain = expr.clone();
        let _ = VisitMut::visit(&mut plain, &mut WithoutCasts);
        let written = expr.to_string();
        let known = self.known.entry(plain.to_string()).or_insert_with(|| written.clone());
        self.found |= *known != written;
    }
}

impl Visitor for Pairs {
    type Break = ();

    fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        if self.depth == 0 && matches!(expr, Expr::Function(_)) {
            self.note(expr);
        }
        ControlFlow::Continue(())
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

/// Puts calls around casts, those of queries inside aside.
struct Marks {
    depth: usize,
}

impl VisitorMut for Marks {
    type Break = ();

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let (0, Expr::Cast { data_type, .. }) = (self.depth, &*expr) {
            let told = text(data_type.to_string());
            *expr = call(MARKER, vec![expr.clone(), told]);
        }
        ControlFlow::Continue(())
    }
}
