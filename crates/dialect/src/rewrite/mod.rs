//! SQL that PostgreSQL answers and DataFusion alone does not.
//!
//! Two kinds of pass. [`rewrite_statement`] works on the parsed statement, before planning: names
//! of output columns, and spellings that the planner refuses. [`analyzer_rules`] work on the plan:
//! subqueries that DataFusion can't decorrelate, and what it answers wrongly.
//!
//! ```text
//! parse ──► rewrite_statement ──► planner ──► analyzer, then analyzer_rules ──► optimizer
//! ```
//!
//! Code that shows the columns of a result to people calls
//! [`output_name`](thalweg_values::column_marks::output_name) for each.

mod aggregates;
mod arrays;
mod build;
mod case_results;
mod casts;
mod catalog;
mod copies;
mod distinct_items;
mod figure;
mod grouped_aliases;
mod grouped_keys;
mod hypothetical;
mod integers;
mod intervals;
mod items;
mod limits;
mod multiset;
mod names;
mod nested_orders;
mod normal_forms;
mod operators;
mod own_expressions;
mod populate;
mod qualifiers;
mod quantified;
mod records;
mod recursion;
mod relations;
mod results;
mod rows;
mod sources;
mod spelling;
mod system_columns;
#[cfg(test)]
mod tests;
mod unnest;
mod using;
mod values;
mod variadic;
mod window_offsets;
mod windows;

use std::ops::ControlFlow;

use crate::walk;
use datafusion::sql::sqlparser::ast::{
    Expr, Query, Select, SetExpr, Statement, TableFactor, VisitorMut,
};
use thalweg_types::{Error, Result};

pub use aggregates::is_aggregate;
pub(crate) use build::call;
pub(crate) use case_results::CaseResults;
pub use copies::is_volatile;
pub(crate) use integers::IntegerLiterals;
pub use limits::check_columns;
pub(crate) use multiset::CountSetOperations;
pub use operators::check_collation;
use relations::Relations;
pub use relations::{Tables, tables_of};
pub(crate) use unnest::UnnestSubqueries;
pub(crate) use variadic::marked as variadic_argument;

/// Rewrites a statement and every query inside it into a form that DataFusion's planner accepts.
///
/// `tables` holds the columns of the existing tables among those that [`tables_of`] returns.
///
/// # Errors
///
/// If the statement has an error that only this pass detects, or uses an unsupported feature.
pub fn rewrite_statement(statement: &mut Statement, tables: &Tables) -> Result<()> {
    let relations = Relations::new(tables);
    let (marks, qualifiers) = (names::Marks::default(), qualifiers::Qualifiers::default());
    let budget = copies::Budget::of(statement);
    match walk::visit_mut(
        statement,
        &mut Rewrite { marks, depth: 0, relations, qualifiers, budget },
    ) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

struct Rewrite<'t> {
    marks: names::Marks,
    /// Number of queries around the one that is being visited.
    depth: usize,
    relations: Relations<'t>,
    qualifiers: qualifiers::Qualifiers,
    budget: copies::Budget,
}

impl VisitorMut for Rewrite<'_> {
    type Break = Error;

    fn pre_visit_statement(&mut self, statement: &mut Statement) -> ControlFlow<Error> {
        self.relations.enter_statement(statement);
        self.qualifiers.enter_statement(statement);
        let condition = match statement {
            Statement::Update(update) => update.selection.as_mut(),
            Statement::Delete(delete) => delete.selection.as_mut(),
            _ => None,
        };
        flow(condition.map_or(Ok(()), rows::find_rows))
    }

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Error> {
        if let Err(error) = limits::check_lists(query) {
            return ControlFlow::Break(error);
        }
        let wrapped = match self.depth {
            0 => Ok(()),
            _ => nested_orders::wrap(query, &mut self.marks),
        };
        let respelled = wrapped
            .and_then(|()| spelling::respell(query))
            .and_then(|()| recursion::mark(query))
            .and_then(|()| windows::write_out(query));
        if let SetExpr::Values(rows) = query.body.as_mut() {
            values::agree(rows);
        }
        // Names come from the expressions as written, so this runs before anything inside changes.
        self.relations.enter(query);
        grouped_keys::complete_query(query, &self.relations);
        let named = self.marks.name_columns(query, self.depth > 0, &self.relations);
        casts::tell_apart(query);
        self.depth += 1;
        flow(respelled.and(named))
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<Error> {
        integers::unmark_query(query);
        self.relations.leave();
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Error> {
        self.relations.enter_select(select);
        self.qualifiers.enter_select(select);
        spelling::expand_sets(select);
        spelling::group_once(select);
        grouped_keys::complete(select, &[], &self.relations);
        grouped_aliases::tell_apart(select, &self.relations);
        system_columns::number_tables(select);
        using::expand(select, &self.relations);
        if let Err(error) = sources::expand_series(select) {
            return ControlFlow::Break(error);
        }
        catalog::expand_sets(select);
        let found = select.selection.as_mut().map_or(Ok(()), rows::find_rows);
        flow(found.and_then(|()| spelling::check_windows(select)))
    }

    fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<Error> {
        integers::unmark_select(select);
        self.relations.leave_select();
        self.qualifiers.complete_stars(select);
        self.qualifiers.leave_select();
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Error> {
        flow(
            self.budget
                .count()
                .and_then(|()| variadic::respell(expr))
                .and_then(|()| catalog::respell(expr))
                .and_then(|()| arrays::respell(expr))
                .and_then(|()| rows::compare_rows(expr))
                .and_then(|()| hypothetical::respell(expr))
                .and_then(|()| window_offsets::respell(expr))
                .and_then(|()| operators::respell(expr))
                .and_then(|()| quantified::respell(expr)),
        )
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Error> {
        match &mut *expr {
            Expr::Function(function) => integers::unmark_function(function),
            expr => integers::mark(expr),
        }
        case_results::mark(expr);
        results::retype(expr);
        self.qualifiers.respell(expr);
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<Error> {
        self.relations.enter_source(factor);
        self.relations.complete_names(factor);
        catalog::respell_source(factor);
        flow(
            populate::list_columns(factor, &self.relations)
                .and_then(|()| sources::name_function(factor)),
        )
    }

    fn post_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<Error> {
        integers::unmark_table(factor);
        self.relations.leave_source();
        ControlFlow::Continue(())
    }
}

fn flow(result: Result<()>) -> ControlFlow<Error> {
    match result {
        Ok(()) => ControlFlow::Continue(()),
        Err(error) => ControlFlow::Break(error),
    }
}
