//! Translates DataFusion's conditions to predicates of the fused aggregate.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{
    BinaryExpr, InListExpr, IsNotNullExpr, IsNullExpr, LikeExpr, NotExpr,
};
use thalweg_scan::{Comparison, Lane, Number, Pattern, Predicate, TextTest};

use super::expression::{Columns, Form, Value};
use crate::semi_join_filters::KeyMembership;

impl Columns {
    /// Selects the rows in which a condition is `wanted` (true or false), and not NULL. `None` if
    /// the condition cannot be translated.
    pub fn predicate(&self, condition: &Arc<dyn PhysicalExpr>, wanted: bool) -> Option<Predicate> {
        if let Some(not) = condition.downcast_ref::<NotExpr>() {
            return self.predicate(not.arg(), !wanted);
        }
        if let Some(is_null) = condition.downcast_ref::<IsNullExpr>() {
            return self.is_null(is_null.arg(), wanted);
        }
        if let Some(is_not_null) = condition.downcast_ref::<IsNotNullExpr>() {
            return self.is_null(is_not_null.arg(), !wanted);
        }
        if let Some(list) = condition.downcast_ref::<InListExpr>() {
            return self.among(list, wanted);
        }
        if let Some(like) = condition.downcast_ref::<LikeExpr>() {
            return self.like(like, wanted);
        }
        if let Some(among) = condition.downcast_ref::<KeyMembership>() {
            return self.among_keys(among).filter(|_| wanted);
        }
        if let Some(binary) = condition.downcast_ref::<BinaryExpr>() {
            return self.binary(binary, wanted);
        }
        self.truth(&self.translate(condition)?, wanted)
    }

    fn binary(&self, binary: &BinaryExpr, wanted: bool) -> Option<Predicate> {
        let both = || {
            let left = self.predicate(binary.left(), wanted)?;
            Some(vec![left, self.predicate(binary.right(), wanted)?])
        };
        // By De Morgan's laws: an `AND` is false if one of its sides is false, and an `OR` if both
        // are.
        let comparison = match (binary.op(), wanted) {
            (Operator::And, true) | (Operator::Or, false) => return Some(Predicate::And(both()?)),
            (Operator::Or, true) | (Operator::And, false) => return Some(Predicate::Or(both()?)),
            (Operator::Eq, _) => Comparison::Equal,
            (Operator::NotEq, _) => Comparison::NotEqual,
            (Operator::Lt, _) => Comparison::Less,
            (Operator::LtEq, _) => Comparison::LessOrEqual,
            (Operator::Gt, _) => Comparison::Greater,
            (Operator::GtEq, _) => Comparison::GreaterOrEqual,
            (Operator::IsNotDistinctFrom, _) => return self.equal_rows(binary, wanted),
            (Operator::IsDistinctFrom, _) => return self.equal_rows(binary, !wanted),
            _ => return None,
        };
        let (left, right) = (self.translate(binary.left())?, self.translate(binary.right())?);
        compare(if wanted { comparison } else { comparison.negated() }, &left, &right)
    }

    /// `IS NOT DISTINCT FROM`, or its negation if `wanted` is false: NULL equals NULL.
    fn equal_rows(&self, binary: &BinaryExpr, wanted: bool) -> Option<Predicate> {
        let (left, right) = (self.translate(binary.left())?, self.translate(binary.right())?);
        let both = vec![null(&left)?, null(&right)?];
        let same =
            Predicate::Or(vec![compare(Comparison::Equal, &left, &right)?, Predicate::And(both)]);
        Some(if wanted { same } else { other_than(same) })
    }

    fn like(&self, like: &LikeExpr, wanted: bool) -> Option<Predicate> {
        let (text, pattern) = (self.translate(like.expr())?, self.translate(like.pattern())?);
        let (Form::Column(column), Form::Literal(literal)) = (&text.form, &pattern.form) else {
            return None;
        };
        if like.case_insensitive() || !is_text(&text.data_type) {
            return None;
        }
        if literal.is_null() {
            return Some(Predicate::Always(false));
        }
        let pattern = Pattern::like(literal.try_as_str()??)?;
        let test = TextTest::Like { pattern, matches: like.negated() != wanted };
        Some(Predicate::Text { column: *column, test })
    }

    fn is_null(&self, operand: &Arc<dyn PhysicalExpr>, wanted: bool) -> Option<Predicate> {
        let operand = self.translate(operand)?;
        if wanted { null(&operand) } else { non_null_rows(&operand) }
    }

    fn among(&self, list: &InListExpr, wanted: bool) -> Option<Predicate> {
        let inside = list.negated() != wanted;
        let operand = self.translate(list.expr())?;
        let mut values = Vec::with_capacity(list.len());
        for item in list.list() {
            let item = self.translate(item)?;
            let Form::Literal(literal) = item.form else { return None };
            match literal.is_null() {
                // `NOT IN` a list with a NULL is never true.
                true if !inside => return Some(Predicate::Always(false)),
                true => {}
                false if item.data_type == operand.data_type => values.push(literal),
                false => return None,
            }
        }
        match (&operand.form, operand.lane()) {
            (Form::Column(column), None) => {
                let list = values.iter().map(text).collect::<Option<HashSet<String>>>()?;
                is_text(&operand.data_type).then_some(Predicate::Text {
                    column: *column,
                    test: TextTest::Among { list, inside },
                })
            }
            (_, Some(Lane::Int)) => {
                let int = |literal: ScalarValue| {
                    let data_type = literal.data_type();
                    match (Value { form: Form::Literal(literal), data_type }).to_number()? {
                        Number::Int(value) => Some(value),
                        _ => None,
                    }
                };
                let mut list = values.into_iter().map(int).collect::<Option<Vec<i64>>>()?;
                list.sort_unstable();
                Some(Predicate::Among { number: operand.to_number()?, list, inside })
            }
            _ => None,
        }
    }

    fn among_keys(&self, among: &KeyMembership) -> Option<Predicate> {
        let operand = self.translate(among.value())?;
        let number = operand.to_number().filter(|_| operand.lane() == Some(Lane::Int))?;
        Some(Predicate::AmongKeys { number, keys: Arc::clone(among.keys()) })
    }

    /// Selects the rows in which a Boolean value is `wanted`.
    fn truth(&self, value: &Value, wanted: bool) -> Option<Predicate> {
        match (&value.data_type, &value.form) {
            (_, Form::Literal(literal)) if literal.is_null() => Some(Predicate::Always(false)),
            (_, Form::Literal(ScalarValue::Boolean(Some(answer)))) => {
                Some(Predicate::Always(*answer == wanted))
            }
            (DataType::Boolean, _) => {
                Some(is_equal(value.to_number()?, Number::Int(wanted.into())))
            }
            _ => None,
        }
    }
}

fn is_text(data_type: &DataType) -> bool {
    data_type == &DataType::Utf8View
}

fn text(literal: &ScalarValue) -> Option<String> {
    literal.try_as_str().flatten().map(str::to_owned)
}

fn is_equal(left: Number, right: Number) -> Predicate {
    let operands = Box::new((left, right));
    Predicate::Compare { lane: Lane::Int, comparison: Comparison::Equal, operands }
}

/// Selects the rows in which a predicate is not true.
fn other_than(predicate: Predicate) -> Predicate {
    let cases = vec![(predicate, Some(Number::Int(1)))];
    let otherwise = Some(Box::new(Number::Int(0)));
    is_equal(Number::Choice { cases, otherwise }, Number::Int(0))
}

/// Selects the rows in which a value is NULL.
fn null(value: &Value) -> Option<Predicate> {
    match &value.form {
        Form::Column(column) => Some(Predicate::IsNull { column: *column, null: true }),
        _ => non_null_rows(value).map(other_than),
    }
}

/// Selects the rows in which a value is not NULL.
fn non_null_rows(value: &Value) -> Option<Predicate> {
    match &value.form {
        Form::Column(column) => Some(Predicate::IsNull { column: *column, null: false }),
        Form::Literal(literal) => Some(Predicate::Always(!literal.is_null())),
        // A value that is not NULL equals itself, even NaN.
        Form::Number(_) => compare(Comparison::Equal, value, value),
    }
}

pub(super) fn compare(comparison: Comparison, left: &Value, right: &Value) -> Option<Predicate> {
    if left.is_null() || right.is_null() {
        return Some(Predicate::Always(false));
    }
    let texts = |column: usize, comparison: Comparison, literal: &ScalarValue| {
        let test = TextTest::Compare(comparison, text(literal)?);
        Some(Predicate::Text { column, test })
    };
    match (&left.form, &right.form) {
        (Form::Column(column), Form::Literal(literal)) if is_text(&left.data_type) => {
            return texts(*column, comparison, literal);
        }
        (Form::Literal(literal), Form::Column(column)) if is_text(&right.data_type) => {
            return texts(*column, comparison.turned(), literal);
        }
        _ => {}
    }
    // The planner has already given decimals the same scale.
    if left.data_type != right.data_type {
        return None;
    }
    let lane = left.lane()?;
    let operands = Box::new((left.to_number()?, right.to_number()?));
    Some(Predicate::Compare { lane, comparison, operands })
}
