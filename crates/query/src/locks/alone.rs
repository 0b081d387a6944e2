//! Statements that do nothing but take locks and give them back.

use std::ops::ControlFlow;

use datafusion::sql::parser::Statement as Tree;
use datafusion::sql::sqlparser::ast::{
    Expr, Query, SelectItem, SetExpr, Statement, Visit, Visitor,
};

use super::functions::is_named;
use crate::statement::folded;

/// Whether a statement is about locks and nothing else: it looks at no rows.
pub(crate) fn are_all_of(tree: &Tree) -> bool {
    let Tree::Statement(statement) = tree else { return false };
    let Statement::Query(query) = statement.as_ref() else { return false };
    let SetExpr::Select(select) = query.body.as_ref() else { return false };
    select.from.is_empty()
        && select.projection.iter().all(is_call)
        && statement.visit(&mut OneQuery { is_begun: false }).is_continue()
}

fn is_call(item: &SelectItem) -> bool {
    let (SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) = item else {
        return false;
    };
    let Expr::Function(call) = expr else { return false };
    let name = call.name.0.last().and_then(|part| part.as_ident());
    name.is_some_and(|name| is_named(&folded(name)))
}

/// Breaks off where there is a query within the query.
struct OneQuery {
    is_begun: bool,
}

impl Visitor for OneQuery {
    type Break = ();

    fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        match std::mem::replace(&mut self.is_begun, true) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }
}
