//! Recognizes queries for a short range: all conditions are on the first columns of an index.

use std::ops::Bound;
use std::sync::Arc;

use arrow::datatypes::{DataType as ArrowType, SchemaRef};
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, LimitClause, OrderBy, OrderByKind, Query, SetExpr,
};
use thalweg_execution::scan::direction;
use thalweg_types::{DataType, Index, TableSchema, ValueOrder};
use thalweg_values::types::arrow_type;

use super::{Recognized, Shape, columns_of, table_name};
use crate::point::Action;
use crate::point::range::Range;
use crate::statement::{Target, folded};

/// The contents of a condition: columns and operands.
#[derive(Default)]
struct RangeConditions {
    equal: Vec<(usize, usize)>,
    from: Option<(usize, Bound<usize>)>,
    to: Option<(usize, Bound<usize>)>,
}

impl Shape<'_> {
    /// `SELECT … FROM t WHERE a = $1 AND b >= $2 ORDER BY b LIMIT 10` if an index begins with these
    /// columns.
    pub(super) fn range(&mut self, query: &Query, schema: &SchemaRef) -> Option<Recognized> {
        let SetExpr::Select(select) = query.body.as_ref() else { return None };
        let [from] = select.from.as_slice() else { return None };
        let target = Target::find(&self.execution.names.catalog(), table_name(from)?).ok()?;
        let items: Vec<String> = select.projection.iter().map(ToString::to_string).collect();
        let mut written = format!("SELECT {} FROM {from}", items.join(", "));
        let mut conditions = RangeConditions::default();
        if let Some(condition) = &select.selection {
            self.add_condition(&target, condition, &mut conditions)?;
            written.push_str(&format!(" WHERE {condition}"));
        }
        let mut order = Vec::new();
        if let Some(by) = &query.order_by {
            order = order_of(&target, by)?;
            written.push_str(&format!(" {by}"));
        }
        let mut limit = None;
        if let Some(clause) = &query.limit_clause {
            limit = Some(self.limit(clause)?);
            written.push_str(&clause.to_string());
        }
        // A query for all rows is no short range unless it has an order and a limit.
        let is_long = select.selection.is_none() && (order.is_empty() || limit.is_none());
        if is_long || query.to_string() != written {
            return None;
        }
        let columns = columns_of(&target, &select.projection, schema)?;
        let table = target.schema();
        let (index, backward) = conditions.index(table, &order)?;
        let range = conditions.range_of(index, table, backward, limit, (columns, schema))?;
        let action = Action::Range(Box::new(range));
        Some((Arc::clone(table), index.key.clone(), action))
    }

    /// Adds a condition; returns `None` if a range cannot express it.
    fn add_condition(
        &mut self,
        target: &Target,
        condition: &Expr,
        conditions: &mut RangeConditions,
    ) -> Option<()> {
        match condition {
            Expr::Nested(inner) => self.add_condition(target, inner, conditions),
            Expr::BinaryOp { left, op: BinaryOperator::And, right } => {
                self.add_condition(target, left, conditions)?;
                self.add_condition(target, right, conditions)
            }
            Expr::Between { expr, negated: false, low, high } => {
                let (column, low) = self.compared(target, expr, low)?;
                conditions.add_from(column, Bound::Included(low))?;
                let (column, high) = self.compared(target, expr, high)?;
                conditions.add_to(column, Bound::Included(high))
            }
            Expr::BinaryOp { left, op, right } => {
                let (column, operand) = self.compared(target, left, right)?;
                match op {
                    BinaryOperator::Eq => conditions.add_equal(column, operand),
                    BinaryOperator::Gt => conditions.add_from(column, Bound::Excluded(operand)),
                    BinaryOperator::GtEq => conditions.add_from(column, Bound::Included(operand)),
                    BinaryOperator::Lt => conditions.add_to(column, Bound::Excluded(operand)),
                    BinaryOperator::LtEq => conditions.add_to(column, Bound::Included(operand)),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    /// A column and the operand that it is compared with, if the comparison means the same for the
    /// index as for the planner.
    fn compared(&mut self, target: &Target, left: &Expr, right: &Expr) -> Option<(usize, usize)> {
        let Expr::Identifier(name) = left else { return None };
        let column = target.position(&folded(name)).ok()?;
        let data_type = &target.schema().columns[column].data_type;
        let operand = self.operand(right, data_type)?;
        self.is_usable(operand, data_type).then_some((column, operand))
    }

    fn is_usable(&self, operand: usize, column: &DataType) -> bool {
        use DataType::{Array, Decimal, Int2, Int4, Int8, Interval, Json, Jsonb, Uuid};
        // Constants have their column's type.
        let known = self.types.get(operand);
        // A field with metadata has a type beyond Arrow's, which is none of these.
        let is_plain = known.is_none_or(|known| known.metadata().is_empty());
        is_plain
            && match column {
                Int2 | Int4 | Int8 => known.is_none_or(|known| is_whole(known.data_type())),
                // Types that are stored as texts, and types without an index order.
                Uuid | Json | Jsonb | Interval | Array(_) => false,
                // Each numeric has its own digits.
                Decimal { .. } => known.is_none_or(|known| {
                    let types = (known.data_type(), arrow_type(column));
                    matches!(types, (ArrowType::Decimal128(..), ArrowType::Decimal128(..)))
                }),
                _ => self.has_type(operand, column),
            }
    }

    /// The operand of `LIMIT 10`; `None` if the clause has more in it.
    fn limit(&mut self, clause: &LimitClause) -> Option<usize> {
        let LimitClause::LimitOffset { limit: Some(limit), offset: None, limit_by } = clause else {
            return None;
        };
        if !limit_by.is_empty() {
            return None;
        }
        let operand = self.operand(limit, &DataType::Int8)?;
        let is_number = self.types.get(operand).is_none_or(|known| is_whole(known.data_type()));
        is_number.then_some(operand)
    }
}

fn is_whole(data_type: &ArrowType) -> bool {
    matches!(data_type, ArrowType::Int16 | ArrowType::Int32 | ArrowType::Int64)
}

/// The columns of `ORDER BY a, b DESC`.
fn order_of(target: &Target, by: &OrderBy) -> Option<Vec<(usize, ValueOrder)>> {
    let OrderByKind::Expressions(expressions) = &by.kind else { return None };
    if by.interpolate.is_some() {
        return None;
    }
    let columns = expressions.iter().map(|by| {
        let Expr::Identifier(name) = &by.expr else { return None };
        let descending = by.options.asc == Some(false);
        let nulls_first = by.options.nulls_first.unwrap_or(descending);
        let column = target.position(&folded(name)).ok()?;
        by.with_fill.is_none().then_some((column, ValueOrder { descending, nulls_first }))
    });
    columns.collect()
}

impl RangeConditions {
    fn add_equal(&mut self, column: usize, operand: usize) -> Option<()> {
        let is_new = self.equal.iter().all(|(known, _)| *known != column);
        is_new.then(|| self.equal.push((column, operand)))
    }

    fn add_from(&mut self, column: usize, bound: Bound<usize>) -> Option<()> {
        self.from.is_none().then(|| self.from = Some((column, bound)))
    }

    fn add_to(&mut self, column: usize, bound: Bound<usize>) -> Option<()> {
        self.to.is_none().then(|| self.to = Some((column, bound)))
    }

    /// An index in which the rows are one range, and, if an order is asked for, whether they come
    /// backward.
    fn index<'a>(
        &self,
        table: &'a TableSchema,
        order: &[(usize, ValueOrder)],
    ) -> Option<(&'a Index, Option<bool>)> {
        let is_constant = |column: usize| self.equal.iter().any(|(equal, _)| *equal == column);
        table.indexes.iter().find_map(|index| {
            self.prefix(&table.key_positions(&index.key))?;
            if order.iter().all(|(column, _)| is_constant(*column)) {
                return Some((index, None));
            }
            let backward = direction(table, index, is_constant, order)?;
            Some((index, Some(backward)))
        })
    }

    /// The operands of the first columns of an index, if exactly these columns have a value and the
    /// other conditions are on the next column.
    fn prefix(&self, positions: &[usize]) -> Option<Vec<usize>> {
        let operand = |at: &usize| {
            let equal = self.equal.iter().find(|(column, _)| column == at);
            equal.map(|(_, operand)| *operand)
        };
        let equal: Vec<usize> = positions.iter().map_while(operand).collect();
        let next = positions.get(equal.len());
        let fits = |bound: &Option<(usize, Bound<usize>)>| {
            bound.as_ref().is_none_or(|(column, _)| Some(column) == next)
        };
        let is_all = equal.len() == self.equal.len() && fits(&self.from) && fits(&self.to);
        is_all.then_some(equal)
    }

    fn range_of(
        &self,
        index: &Index,
        table: &TableSchema,
        order: Option<bool>,
        limit: Option<usize>,
        (columns, schema): (Vec<usize>, &SchemaRef),
    ) -> Option<Range> {
        let positions = table.key_positions(&index.key);
        let types = positions.iter().map(|at| arrow_type(&table.columns[*at].data_type));
        let bound = |bound: &Option<(usize, Bound<usize>)>| match bound {
            Some((_, bound)) => *bound,
            None => Bound::Unbounded,
        };
        Some(Range {
            types: types.collect(),
            equal: self.prefix(&positions)?,
            from: bound(&self.from),
            to: bound(&self.to),
            positions,
            index: index.clone(),
            order,
            limit,
            columns,
            schema: Arc::clone(schema),
        })
    }
}
