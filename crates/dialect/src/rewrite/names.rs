//! Names of output columns: PostgreSQL's for those without an alias, and no name twice.
//!
//! DataFusion requires the names of a relation's columns to differ, and calls a column without an
//! alias by the text of its expression. Here every such column gets an alias: the name that
//! PostgreSQL would give it, followed by a mark and a number if that alone could collide. A mark
//! travels through `*`, views and set operations, and
//! [`output_name`](thalweg_values::column_marks::output_name) removes it where clients read the
//! name.

use std::collections::HashSet;
use std::ops::ControlFlow;

use crate::walk;
use datafusion::sql::sqlparser::ast::{
    Distinct, Expr, GroupByExpr, Ident, OrderBy, OrderByExpr, OrderByKind, Query, Select,
    SelectItem, SetExpr, TableWithJoins, Visitor,
};
use thalweg_types::{Error, Result, SqlState};
use thalweg_values::column_marks::MARK;

use super::figure::column_name;
use super::operators::is_call_without_parentheses;
use super::relations::{Relations, label, repeats};
use super::{items, records, using};

/// The schema of relations that are named without one. Error messages show none.
pub(super) fn outer_schema() -> Ident {
    Ident::with_quote('"', MARK.to_string())
}

/// Counts the marks of a statement. Marked names of different queries can meet through `*`, so the
/// numbers are unique in the statement.
#[derive(Default)]
pub(super) struct Marks {
    given: usize,
}

impl Marks {
    pub(super) fn mark(&mut self, name: &str) -> Ident {
        self.given += 1;
        Ident::with_quote('"', format!("{name}{MARK}{}", self.given))
    }

    /// Names the output columns of one query, not of those inside it. A duplicate name can't be
    /// referred to: inside another query none of the columns keeps it.
    pub(super) fn name_columns(
        &mut self,
        query: &mut Query,
        is_nested: bool,
        relations: &Relations,
    ) -> Result<()> {
        let Query { body, order_by, .. } = query;
        match body.as_mut() {
            SetExpr::Select(select) => {
                let orders = order_by_expressions(order_by);
                check_outputs(select, orders)?;
                items::name_columns(select, orders, relations);
                records::name_rows(select, orders, relations)?;
                using::resolve_names(select, orders, relations);
                self.spell_repeated(select, relations);
                if is_nested {
                    self.mark_doubled(select);
                }
                // An outer query knows the columns of an inner one by their names.
                if !is_nested {
                    self.tell_columns_from_outputs(select, orders);
                }
                let shown = shown_by_wildcards(select, relations);
                SelectNames::new(select, orders, shown, self).name(select, orders);
                Ok(())
            }
            other => self.name_operands(other, relations),
        }
    }

    /// `SELECT *, *`: the columns that were shown before, under names of their own.
    fn spell_repeated(&mut self, select: &mut Select, relations: &Relations) {
        let items = std::mem::take(&mut select.projection);
        for place in 0..items.len() {
            let item = &items[place];
            let shown = match repeats(item, &items[..place]) {
                true => relations.shown_by(select, item),
                false => None,
            };
            match shown {
                Some(shown) => select.projection.extend(shown.into_iter().map(|(name, expr)| {
                    SelectItem::ExprWithAlias { expr, alias: self.mark(&name) }
                })),
                None => select.projection.push(item.clone()),
            }
        }
    }

    /// `SELECT -v AS v … ORDER BY v + 1`: a name alone means the output column, and a name within
    /// an expression a column of the input, for which DataFusion takes the output column as well.
    /// So does a name with that of its relation, which DataFusion calls ambiguous.
    fn tell_columns_from_outputs(&mut self, select: &mut Select, orders: &mut [OrderByExpr]) {
        let within = names_within(orders);
        if within.is_empty() {
            return;
        }
        for item in &mut select.projection {
            let Some((expr, name)) = output_of(item) else { continue };
            if !is_named_within(expr, &name, &within) {
                continue;
            }
            let marked = self.mark(&name);
            for order in orders.iter_mut() {
                if matches!(&order.expr, Expr::Identifier(own) if normalized(own) == name) {
                    order.expr = Expr::Identifier(marked.clone());
                }
            }
            *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias: marked };
        }
    }

    fn mark_doubled(&mut self, select: &mut Select) {
        let names: Vec<String> =
            select.projection.iter().filter_map(output_of).map(|(_, name)| name).collect();
        for item in &mut select.projection {
            let Some((expr, name)) = output_of(item) else { continue };
            if names.iter().filter(|other| **other == name).count() > 1 {
                *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias: self.mark(&name) };
            }
        }
    }

    /// Names the columns of the SELECTs that a set operation is made of.
    fn name_operands(&mut self, operation: &mut SetExpr, relations: &Relations) -> Result<()> {
        match operation {
            SetExpr::Select(select) => {
                items::name_columns(select, &mut [], relations);
                records::name_rows(select, &mut [], relations)?;
                using::resolve_names(select, &mut [], relations);
                self.spell_repeated(select, relations);
                let shown = shown_by_wildcards(select, relations);
                SelectNames::new(select, &[], shown, self).name(select, &mut []);
            }
            SetExpr::SetOperation { left, right, .. } => {
                self.name_operands(left, relations)?;
                self.name_operands(right, relations)?;
            }
            // Queries in parentheses are visited separately; other operands have names already.
            _ => {}
        }
        Ok(())
    }
}

/// The names of columns in keys of an order that are more than a name.
pub(super) fn names_within(orders: &[OrderByExpr]) -> HashSet<String> {
    let mut within = Identifiers { with_qualified: true, ..Identifiers::default() };
    for order in orders.iter().filter(|order| !matches!(order.expr, Expr::Identifier(_))) {
        let _ = walk::visit(&order.expr, &mut within);
    }
    within.names
}

/// True if an output has the name of a column in `within`, and is not that column.
pub(super) fn is_named_within(expr: &Expr, name: &str, within: &HashSet<String>) -> bool {
    within.contains(name) && column_of(expr).is_none_or(|own| own != name)
}

/// The expression and the name of an output that has a name of its own or from its expression.
pub(super) fn output_of(item: &SelectItem) -> Option<(&Expr, String)> {
    match item {
        SelectItem::ExprWithAlias { expr, alias } => Some((expr, normalized(alias))),
        SelectItem::UnnamedExpr(expr) => Some((expr, column_name(expr)?)),
        _ => None,
    }
}

/// `ORDER BY a` where `a` is the name of two outputs with different values.
fn check_outputs(select: &Select, orders: &[OrderByExpr]) -> Result<()> {
    for order in orders {
        let Expr::Identifier(key) = &order.expr else { continue };
        let name = normalized(key);
        let outputs = select.projection.iter().filter_map(output_of);
        let mut named = outputs.filter(|(_, output)| *output == name).map(|(expr, _)| expr);
        let first = named.next();
        if named.any(|other| first.is_some_and(|first| differ(first, other))) {
            let error_text = format!("ORDER BY \"{name}\" is ambiguous");
            return Err(Error::new(SqlState::AMBIGUOUS_COLUMN, error_text));
        }
    }
    Ok(())
}

/// False for `id` and `t.id`, which may be one column.
///
/// A cast may be to the type that its operand has, which is unknown here.
fn differ(one: &Expr, other: &Expr) -> bool {
    let (one, other) = (without_casts(one), without_casts(other));
    let may_be_one = match (one, other) {
        (Expr::Identifier(_), Expr::CompoundIdentifier(_))
        | (Expr::CompoundIdentifier(_), Expr::Identifier(_)) => column_of(one) == column_of(other),
        _ => one == other,
    };
    !may_be_one
}

fn without_casts(expr: &Expr) -> &Expr {
    match expr {
        Expr::Cast { expr, .. } | Expr::Nested(expr) => without_casts(expr),
        expr => expr,
    }
}

/// The name of the column, if an expression is a column.
fn column_of(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Identifier(name) => Some(normalized(name)),
        Expr::CompoundIdentifier(parts) => parts.last().map(normalized),
        _ => None,
    }
}

fn order_by_expressions(order_by: &mut Option<OrderBy>) -> &mut [OrderByExpr] {
    match order_by {
        Some(OrderBy { kind: OrderByKind::Expressions(expressions), .. }) => expressions,
        _ => &mut [],
    }
}

/// The names given out in one SELECT.
struct SelectNames<'a> {
    taken: HashSet<String>,
    /// Identifiers that other clauses use: an alias must not change what they mean.
    used: HashSet<String>,
    /// The columns that `*` shows; `None` if some are not known.
    shown: Option<HashSet<String>>,
    /// The names of the relations of FROM; `None` if some are not known.
    labels: Option<HashSet<String>>,
    marks: &'a mut Marks,
}

/// The names of the columns that `*` and `t.*` show; `None` if some are not known.
fn shown_by_wildcards(select: &Select, relations: &Relations) -> Option<HashSet<String>> {
    let wildcard = |item: &&SelectItem| {
        matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..))
    };
    let mut names = HashSet::new();
    for item in select.projection.iter().filter(wildcard) {
        names.extend(relations.shown_by(select, item)?.into_iter().map(|(name, _)| name));
    }
    Some(names)
}

/// The names of the relations of FROM; `None` if one has no name or is in parentheses.
fn labels(select: &Select) -> Option<HashSet<String>> {
    let joined = |from: &TableWithJoins| {
        let joined = from.joins.iter().map(|join| label(&join.relation));
        std::iter::once(label(&from.relation)).chain(joined).collect::<Vec<_>>()
    };
    let labels = select.from.iter().flat_map(joined);
    labels.map(|label| Some(normalized(&label?))).collect()
}

impl<'a> SelectNames<'a> {
    fn new(
        select: &Select,
        orders: &[OrderByExpr],
        shown: Option<HashSet<String>>,
        marks: &'a mut Marks,
    ) -> SelectNames<'a> {
        let mut identifiers = Identifiers::default();
        let _ = walk::visit(&select.having, &mut identifiers);
        let _ = walk::visit(&select.qualify, &mut identifiers);
        if let GroupByExpr::Expressions(expressions, _) = &select.group_by {
            let _ = walk::visit(expressions, &mut identifiers);
        }
        if let Some(Distinct::On(expressions)) = &select.distinct {
            let _ = walk::visit(expressions, &mut identifiers);
        }
        for order in orders {
            // A name alone means the output column, in PostgreSQL as well.
            if !matches!(order.expr, Expr::Identifier(_)) {
                let _ = walk::visit(&order.expr, &mut identifiers);
            }
        }
        let labels = labels(select);
        SelectNames { taken: HashSet::new(), used: identifiers.names, shown, labels, marks }
    }

    fn name(mut self, select: &mut Select, orders: &mut [OrderByExpr]) {
        // Names that the query gives come first: they must stay.
        for item in &mut select.projection {
            if let SelectItem::ExprWithAlias { alias, .. } = item {
                let name = normalized(alias);
                if !self.taken.insert(name.clone()) {
                    *alias = self.marks.mark(&name);
                }
            }
        }
        if let Some(Distinct::Distinct) = select.distinct {
            order_by_names(select, orders);
        }
        for item in &mut select.projection {
            let SelectItem::UnnamedExpr(expr) = item else { continue };
            let Some(alias) = self.alias(expr) else { continue };
            // A number there is a position, and not the value of an item.
            let is_position = matches!(expr, Expr::Value(_));
            let same = |order: &&mut OrderByExpr| !is_position && order.expr == *expr;
            for order in orders.iter_mut().filter(same) {
                order.expr = Expr::Identifier(alias.clone());
            }
            *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
        }
    }

    /// The alias that `expr` needs, if any.
    fn alias(&mut self, expr: &Expr) -> Option<Ident> {
        let name = column_name(expr);
        let is_column = matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_))
            && !is_call_without_parentheses(expr);
        let Some(name) = name else { return Some(self.marks.mark("?column?")) };
        // Next to `*` there may be a column of this name.
        let is_new = self.shown.as_ref().is_some_and(|shown| !shown.contains(&name));
        let keeps_name = is_column && !self.is_of_outer_query(expr);
        let is_safe = is_new && (keeps_name || !self.used.contains(&name));
        if is_safe && self.taken.insert(name.clone()) {
            return (!keeps_name).then(|| Ident::with_quote('"', name));
        }
        Some(self.marks.mark(&name))
    }

    /// True if an item is a column of an outer query, which DataFusion calls `outer_ref(…)`.
    fn is_of_outer_query(&self, column: &Expr) -> bool {
        let Some(labels) = &self.labels else { return false };
        match column {
            Expr::CompoundIdentifier(parts) if parts.len() == 2 => {
                !labels.contains(&normalized(&parts[0]))
            }
            Expr::Identifier(_) => labels.is_empty(),
            _ => false,
        }
    }
}

/// `SELECT DISTINCT a % 2 AS p … ORDER BY a % 2` orders by `p`: DataFusion takes only names there.
fn order_by_names(select: &Select, orders: &mut [OrderByExpr]) {
    for item in &select.projection {
        let SelectItem::ExprWithAlias { expr, alias } = item else { continue };
        let is_plain = matches!(expr, Expr::Value(_) | Expr::Identifier(_));
        for order in orders.iter_mut().filter(|order| !is_plain && order.expr == *expr) {
            order.expr = Expr::Identifier(alias.clone());
        }
    }
}

/// The identifier after folding to lower case.
pub(super) fn normalized(identifier: &Ident) -> String {
    match identifier.quote_style {
        Some(_) => identifier.value.clone(),
        None => identifier.value.to_lowercase(),
    }
}

/// Collects the identifiers that stand alone in expressions, or the names of all columns.
#[derive(Default)]
struct Identifiers {
    names: HashSet<String>,
    /// True if columns with the name of a relation before them count, too.
    with_qualified: bool,
}

impl Visitor for Identifiers {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        match expr {
            Expr::Identifier(identifier) => self.names.insert(normalized(identifier)),
            Expr::CompoundIdentifier(_) if self.with_qualified => {
                self.names.extend(column_of(expr));
                true
            }
            _ => false,
        };
        ControlFlow::Continue(())
    }
}
