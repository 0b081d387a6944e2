//! Long sums, products and conditions as trees that are wide and not deep.
//!
//! The parser makes a tree of `1 + 1 + 1 …` that is as deep as the chain is long. All later passes
//! walk it by recursion, in time that grows much faster than the chain. Here `a + b - c - d`
//! becomes `(a + b) - (c + d)`. Short chains stay as they are: their sums of floating point numbers
//! are rounded in the order that was written.

use std::ops::ControlFlow;

use crate::walk;
use datafusion::sql::parser::Statement as Tree;
use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, VisitorMut};
use thalweg_values::sql_text::depth::UNBALANCED_MAX;

/// Balances every long chain of a statement.
pub(super) fn balance(tree: &mut Tree) {
    match tree {
        Tree::Statement(statement) => {
            let _ = walk::visit_mut(statement, &mut Balance);
        }
        Tree::Explain(explain) => balance(&mut explain.statement),
        _ => {}
    }
}

struct Balance;

impl VisitorMut for Balance {
    type Break = ();

    /// The visitor meets a chain at its end, before any recursion into it.
    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::BinaryOp { op, .. } = expr
            && let Some(kind) = Kind::of(op)
            && is_long(expr, kind)
        {
            let chain = std::mem::replace(expr, Expr::Tuple(Vec::new()));
            *expr = Chain::taken_apart(chain, kind).tree();
        }
        ControlFlow::Continue(())
    }
}

/// Operators whose chains may be reassociated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Sum,
    Product,
    All,
    Any,
}

impl Kind {
    fn of(op: &BinaryOperator) -> Option<Kind> {
        match op {
            BinaryOperator::Plus | BinaryOperator::Minus => Some(Kind::Sum),
            BinaryOperator::Multiply => Some(Kind::Product),
            BinaryOperator::And => Some(Kind::All),
            BinaryOperator::Or => Some(Kind::Any),
            _ => None,
        }
    }
}

fn is_long(mut expr: &Expr, kind: Kind) -> bool {
    let mut operators = 0;
    while let Expr::BinaryOp { left, op, .. } = expr
        && Kind::of(op) == Some(kind)
    {
        operators += 1;
        expr = left;
    }
    operators > UNBALANCED_MAX
}

/// Operands, each with the operator before it; that of the first one has no meaning.
struct Chain {
    links: Vec<(BinaryOperator, Option<Expr>)>,
}

impl Chain {
    /// Without recursion: the chain may be as deep as it is long.
    fn taken_apart(mut expr: Expr, kind: Kind) -> Chain {
        let mut links = Vec::new();
        loop {
            match expr {
                Expr::BinaryOp { left, op, right } if Kind::of(&op) == Some(kind) => {
                    links.push((op, Some(*right)));
                    expr = *left;
                }
                first => {
                    links.push((BinaryOperator::Plus, Some(first)));
                    links.reverse();
                    return Chain { links };
                }
            }
        }
    }

    fn tree(mut self) -> Expr {
        let all = self.links.len();
        self.part(0, all, false)
    }

    /// The links from one place to before another. Behind a minus, signs are inverted.
    fn part(&mut self, from: usize, to: usize, turned: bool) -> Expr {
        if to - from == 1 {
            return self.links[from].1.take().expect("each operand is taken once");
        }
        let middle = from + (to - from) / 2;
        let op = match (&self.links[middle].0, turned) {
            (BinaryOperator::Plus, true) => BinaryOperator::Minus,
            (BinaryOperator::Minus, true) => BinaryOperator::Plus,
            (op, _) => op.clone(),
        };
        let left = self.part(from, middle, turned);
        let behind_minus = self.links[middle].0 == BinaryOperator::Minus;
        let right = self.part(middle, to, behind_minus);
        let right = match &right {
            Expr::BinaryOp { .. } => Expr::Nested(Box::new(right)),
            _ => right,
        };
        Expr::BinaryOp { left: Box::new(left), op, right: Box::new(right) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The value of a sum or a product of numbers.
    fn value(expr: &Expr) -> i64 {
        match expr {
            Expr::Nested(inner) => value(inner),
            Expr::BinaryOp { left, op, right } => {
                let (left, right) = (value(left), value(right));
                match op {
                    BinaryOperator::Plus => left + right,
                    BinaryOperator::Minus => left - right,
                    BinaryOperator::Multiply => left * right,
                    BinaryOperator::And => left & right,
                    BinaryOperator::Or => left | right,
                    other => panic!("{other}"),
                }
            }
            number => number.to_string().parse().unwrap(),
        }
    }

    fn depth(expr: &Expr) -> usize {
        match expr {
            Expr::Nested(inner) => depth(inner),
            Expr::BinaryOp { left, right, .. } => 1 + depth(left).max(depth(right)),
            _ => 0,
        }
    }

    fn parsed(text: &str) -> Expr {
        use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
        use datafusion::sql::sqlparser::parser::Parser;
        let mut parser = Parser::new(&PostgreSqlDialect {}).try_with_sql(text).unwrap();
        parser.parse_expr().unwrap()
    }

    #[test]
    fn signs_stay_with_their_numbers() {
        for seed in 0..200_u64 {
            let mut text = "7".to_owned();
            let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
            for _ in 0..seed + 2 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let sign = if state >> 63 == 0 { "+" } else { "-" };
                text.push_str(&format!(" {sign} {}", (state >> 40) % 100));
            }
            let chain = parsed(&text);
            let expected = value(&chain);
            let balanced = Chain::taken_apart(chain, Kind::Sum).tree();
            assert_eq!(value(&balanced), expected, "{text}");
            // Its text parses to the same value again.
            assert_eq!(value(&parsed(&balanced.to_string())), expected, "{balanced}");
        }
    }

    #[test]
    fn a_long_chain_is_shallow() {
        let balanced = Chain::taken_apart(parsed(&vec!["1"; 1000].join("+")), Kind::Sum).tree();
        assert_eq!((value(&balanced), depth(&balanced)), (1000, 10));
        let balanced = Chain::taken_apart(parsed(&vec!["1"; 500].join("*")), Kind::Product).tree();
        assert_eq!((value(&balanced), depth(&balanced)), (1, 9));
        let any: Vec<String> = (0..300).map(|bit| format!("({} AND 6)", 1 << (bit % 3))).collect();
        let balanced = Chain::taken_apart(parsed(&any.join(" OR ")), Kind::Any).tree();
        assert_eq!((value(&balanced), depth(&balanced)), (6, 10));
    }
}
