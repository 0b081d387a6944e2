//! The expressions of one query, without those of the queries inside it.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{Expr, Query, Visit, VisitMut, Visitor, VisitorMut};

/// Looks at the expressions, each ahead of those inside it, until it is told to end.
pub(super) fn look_at(
    node: &impl Visit,
    look: impl FnMut(&Expr) -> ControlFlow<()>,
) -> ControlFlow<()> {
    Visit::visit(node, &mut Looking { depth: 0, look })
}

/// Changes the expressions, each ahead of those inside it.
pub(super) fn change(node: &mut impl VisitMut, change: impl FnMut(&mut Expr)) {
    let _ = VisitMut::visit(node, &mut Changing { depth: 0, is_inner_first: false, change });
}

/// Changes the expressions, each behind those inside it.
pub(super) fn change_inner_first(node: &mut impl VisitMut, change: impl FnMut(&mut Expr)) {
    let _ = VisitMut::visit(node, &mut Changing { depth: 0, is_inner_first: true, change });
}

struct Looking<L> {
    /// How many queries are around what is being visited.
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
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if self.depth == 0 && self.is_inner_first {
            (self.change)(expr);
        }
        ControlFlow::Continue(())
    }
}
