//! The literals of a statement that may become parameters.
//!
//! A parameter has the type that its place asks for, as a string literal does. So a literal may
//! become one where its value changes neither the type nor the name of anything: beside a column in
//! a condition, as a value of an `INSERT`, and as a new value in an `UPDATE`. Beside an operator a
//! parameter has the type of the other operand, and a literal its own: see [`suits`](super::suits).

use std::ops::ControlFlow;

use datafusion::sql::parser::Statement as Tree;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Insert, JoinConstraint, JoinOperator, Query, Select, SetExpr, Statement,
    UnaryOperator, Update, Value, ValueWithSpan, Visitor,
};
use datafusion::sql::sqlparser::tokenizer::Location;
use thalweg_dialect::walk;

/// A literal that may become a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// Its position in the text.
    pub(crate) start: Location,
    /// True if a minus before it belongs to its value. The operand of a minus alone would be taken
    /// for a `double precision`.
    pub(crate) is_negated: bool,
    /// True if it is added to a column or subtracted from one.
    pub(crate) is_operand: bool,
}

/// The literals that may become parameters, in the order of the text.
pub(crate) fn places(tree: &Tree) -> Vec<Place> {
    let Tree::Statement(statement) = tree else { return Vec::new() };
    let mut places = Places(Vec::new());
    match statement.as_ref() {
        Statement::Insert(Insert { source: Some(source), .. }) => places.add_row(source),
        Statement::Update(Update { assignments, selection, .. }) => {
            assignments.iter().for_each(|assignment| places.add_new_value(&assignment.value));
            selection.iter().for_each(|condition| places.add_condition(condition));
        }
        Statement::Delete(delete) => {
            delete.selection.iter().for_each(|condition| places.add_condition(condition));
        }
        _ => {}
    }
    let _ = walk::visit(statement, &mut places);
    let Places(mut places) = places;
    places.sort_unstable_by_key(|place| (place.start.line, place.start.column));
    places.dedup();
    places
}

struct Places(Vec<Place>);

impl Visitor for Places {
    type Break = ();

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<()> {
        select.selection.iter().for_each(|condition| self.add_condition(condition));
        for join in select.from.iter().flat_map(|from| &from.joins) {
            if let JoinOperator::Join(constraint)
            | JoinOperator::Inner(constraint)
            | JoinOperator::Left(constraint)
            | JoinOperator::LeftOuter(constraint)
            | JoinOperator::Right(constraint)
            | JoinOperator::RightOuter(constraint)
            | JoinOperator::FullOuter(constraint) = &join.join_operator
                && let JoinConstraint::On(condition) = constraint
            {
                self.add_condition(condition);
            }
        }
        ControlFlow::Continue(())
    }
}

impl Places {
    /// Adds the values of an `INSERT` of one row. The types of several rows follow from each other.
    fn add_row(&mut self, source: &Query) {
        if let SetExpr::Values(values) = source.body.as_ref()
            && let [row] = values.rows.as_slice()
        {
            row.iter().for_each(|value| self.add_literal(value));
        }
    }

    /// Adds the literal in `SET a = literal`, and in `SET a = b + literal`.
    fn add_new_value(&mut self, value: &Expr) {
        match value {
            Expr::BinaryOp { left, op: BinaryOperator::Plus | BinaryOperator::Minus, right }
                if is_column(left) && !is_string(right) =>
            {
                let first = self.0.len();
                self.add_literal(right);
                self.0[first..].iter_mut().for_each(|place| place.is_operand = true);
            }
            value => self.add_literal(value),
        }
    }

    fn add_condition(&mut self, condition: &Expr) {
        use BinaryOperator::{And, Eq, Gt, GtEq, Lt, LtEq, NotEq, Or};
        match condition {
            Expr::Nested(inner) | Expr::UnaryOp { op: UnaryOperator::Not, expr: inner } => {
                self.add_condition(inner);
            }
            Expr::BinaryOp { left, op: And | Or, right } => {
                self.add_condition(left);
                self.add_condition(right);
            }
            Expr::BinaryOp { left, op: Eq | NotEq | Lt | LtEq | Gt | GtEq, right } => {
                match (is_column(left), is_column(right)) {
                    (true, false) => self.add_literal(right),
                    (false, true) => self.add_literal(left),
                    _ => {}
                }
            }
            Expr::Between { expr, low, high, .. } if is_column(expr) => {
                self.add_literal(low);
                self.add_literal(high);
            }
            _ => {}
        }
    }

    fn add_literal(&mut self, expr: &Expr) {
        let (literal, is_negated) = match expr {
            Expr::UnaryOp { op: UnaryOperator::Minus, expr } if !is_string(expr) => {
                (expr.as_ref(), true)
            }
            expr => (expr, false),
        };
        if let Expr::Value(ValueWithSpan {
            value: Value::Number(..) | Value::SingleQuotedString(_),
            span,
        }) = literal
        {
            self.0.push(Place { start: span.start, is_negated, is_operand: false });
        }
    }
}

fn is_column(expr: &Expr) -> bool {
    matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_))
}

fn is_string(expr: &Expr) -> bool {
    matches!(expr, Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(_), .. }))
}

#[cfg(test)]
mod tests {
    use thalweg_dialect::parse::parse;
    use thalweg_values::sql_text::SourcePositions;

    use super::*;

    #[test]
    fn literals_beside_columns_and_new_values_may_become_parameters() {
        for (sql, expected) in [
            ("SELECT 1, 'a' FROM t WHERE a = 2 AND 'b' < c LIMIT 3", "2 'b"),
            ("SELECT a FROM t WHERE NOT (a = 2 OR b BETWEEN 'c' AND -4)", "2 'c -4"),
            ("SELECT a = 1 FROM t GROUP BY a = 1 HAVING a = 1 ORDER BY a = 1", ""),
            ("SELECT a FROM t WHERE a + 1 = 2 AND a IN (3, 4) AND b LIKE 'c'", ""),
            ("SELECT a FROM t WHERE a = - 'x' AND a = DATE '2024-01-01' AND a = '1'::text", ""),
            (
                "SELECT a FROM t JOIN u ON t.a = u.a AND u.b = 7 WHERE EXISTS \
              (SELECT 1 FROM v WHERE v.c = 8)",
                "7 8",
            ),
            ("INSERT INTO t VALUES (1, 'a', -2, 1 + 3, NULL, now())", "1 'a -2"),
            ("INSERT INTO t VALUES (1), (2)", ""),
            ("INSERT INTO t SELECT 1 FROM u WHERE b = 2", "2"),
            ("UPDATE t SET a = 1, b = b + 2, c = c || 'x', d = d - '1 day' WHERE e = 3", "1 2 3"),
            ("UPDATE t SET a = a + -5, b = 2 * b WHERE c = 1 + 1", "-5"),
            ("SELECT a FROM t WHERE a = - -5 AND a = -(5)", ""),
            ("DELETE FROM t WHERE a >= 1 AND b <> 'x'", "1 'x"),
            ("EXPLAIN SELECT a FROM t WHERE a = 1", ""),
        ] {
            let parsed = parse(sql).unwrap().remove(0);
            let mut positions = SourcePositions::new(sql);
            let found = places(&parsed.statement).into_iter().map(|place| {
                let rest = &sql[positions.offset(place.start)..];
                let end = rest[1..].find(|next: char| !next.is_ascii_alphanumeric());
                let minus = if place.is_negated { "-" } else { "" };
                format!("{minus}{}", &rest[..end.map_or(rest.len(), |end| end + 1)])
            });
            assert_eq!(found.collect::<Vec<_>>().join(" "), expected, "{sql}");
        }
    }
}
