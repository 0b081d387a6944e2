//! The expressions of one query, without those of the queries inside it.

use std::ops::ControlFlow;

use crate::walk;
use datafusion::sql::sqlparser::ast::{
    AccessExpr, Expr, Ident, Query, Value, Visit, VisitMut, Visitor, VisitorMut,
};

/// Visits the expressions, each ahead of those inside it, until `look` breaks.
pub(super) fn look_at(
    node: &impl Visit,
    look: impl FnMut(&Expr) -> ControlFlow<()>,
) -> ControlFlow<()> {
    walk::visit(node, &mut Looking { depth: 0, look })
}

/// Changes the expressions, each ahead of those inside it.
pub(super) fn change(node: &mut impl VisitMut, change: impl FnMut(&mut Expr)) {
    let _ = walk::visit_mut(node, &mut Changing::new(false, change));
}

/// Changes the expressions, each behind those inside it.
pub(super) fn change_inner_first(node: &mut impl VisitMut, change: impl FnMut(&mut Expr)) {
    let _ = walk::visit_mut(node, &mut Changing::new(true, change));
}

struct Looking<L> {
    /// Number of queries around the expression that is being visited.
    depth: usize,
    look: L,
}

impl<L: FnMut(&Expr) -> ControlFlow<()>> Visitor for Looking<L> {
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
        match self.depth {
            0 => (self.look)(expr),
            _ => ControlFlow::Continue(()),
        }
    }
}

struct Changing<C> {
    depth: usize,
    is_inner_first: bool,
    change: C,
    /// The names of fields in what is being visited, which are no expressions.
    fields: Vec<Ident>,
}

impl<C> Changing<C> {
    fn new(is_inner_first: bool, change: C) -> Changing<C> {
        Changing { depth: 0, is_inner_first, change, fields: Vec::new() }
    }

    /// Takes out the names of `row.field`; to be followed by [`show_fields`](Self::show_fields).
    fn hide_fields(&mut self, expr: &mut Expr) {
        let Expr::CompoundFieldAccess { access_chain, .. } = expr else { return };
        for access in access_chain {
            if let AccessExpr::Dot(field) = access
                && let Expr::Identifier(name) = field
            {
                self.fields.push(name.clone());
                *field = Expr::value(Value::Null);
            }
        }
    }

    fn show_fields(&mut self, expr: &mut Expr) {
        let Expr::CompoundFieldAccess { access_chain, .. } = expr else { return };
        for access in access_chain.iter_mut().rev() {
            if let AccessExpr::Dot(field) = access
                && matches!(field, Expr::Value(value) if value.value == Value::Null)
                && let Some(name) = self.fields.pop()
            {
                *field = Expr::Identifier(name);
            }
        }
    }
}

impl<C: FnMut(&mut Expr)> VisitorMut for Changing<C> {
    type Break = ();

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if self.depth == 0 && !self.is_inner_first {
            (self.change)(expr);
        }
        self.hide_fields(expr);
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        self.show_fields(expr);
        if self.depth == 0 && self.is_inner_first {
            (self.change)(expr);
        }
        ControlFlow::Continue(())
    }
}
