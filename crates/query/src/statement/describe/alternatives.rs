//! Types of parameters among values that must have one type: `coalesce($1, 1)`, `$1 IN (1, 2)`, the
//! results of `CASE`, the items of `ARRAY[…]`.
//!
//! DataFusion infers the type of a parameter from comparisons. So the query that it plans has
//! comparisons instead: `coalesce($1, 1)` becomes `CASE WHEN $1 = 1 THEN 1 END`. Such queries are
//! planned and never run.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion::sql::sqlparser::ast::{
    AccessExpr, BinaryOperator, CaseWhen, Expr, Function, FunctionArg, FunctionArgExpr,
    FunctionArguments, Subscript, Value, ValueWithSpan, VisitorMut,
};

use crate::parameters::is_parameter;
use crate::statement::ast_tools;

/// Functions that return one of their arguments.
const CHOOSING: [&str; 4] = ["coalesce", "greatest", "least", "nullif"];

/// The visitor that rewrites such expressions.
pub(super) struct Alternatives;

impl VisitorMut for Alternatives {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Some(asked) = asked(expr) {
            *expr = asked;
        }
        ControlFlow::Continue(())
    }
}

fn asked(expr: &Expr) -> Option<Expr> {
    match expr {
        Expr::Function(function) => Group::of(arguments(function)?)?.value(),
        Expr::Array(array) => {
            let group = Group::of(array.elem.iter().collect())?;
            let mut items = array.clone();
            items.elem = vec![group.common()?];
            Some(chosen(vec![group.compared()?], Some(Expr::Array(items))))
        }
        Expr::InList { expr, list, .. } => {
            Group::of(std::iter::once(expr.as_ref()).chain(list).collect())?.compared()
        }
        Expr::Between { expr, low, high, .. } => Group::of(vec![expr, low, high])?.compared(),
        Expr::AnyOp { left, right, .. } | Expr::AllOp { left, right, .. }
            if is_parameter(left) && !is_parameter(right) =>
        {
            Some(equal(left.as_ref().clone(), item_of(right)?))
        }
        Expr::Case { operand, conditions, else_result, .. } => {
            asked_case(operand.as_deref(), conditions, else_result.as_deref())
        }
        _ => None,
    }
}

fn asked_case(
    operand: Option<&Expr>,
    conditions: &[CaseWhen],
    else_result: Option<&Expr>,
) -> Option<Expr> {
    let tested = operand.and_then(|operand| {
        let conditions = conditions.iter().map(|when| &when.condition);
        Group::of(std::iter::once(operand).chain(conditions).collect())?.compared()
    });
    let results = || conditions.iter().map(|when| &when.result).chain(else_result);
    let compared = Group::of(results().collect()).and_then(|group| group.compared());
    if tested.is_none() && compared.is_none() {
        return None;
    }
    let mut tests: Vec<Expr> = match (operand, tested) {
        (_, Some(tested)) => vec![tested],
        (Some(operand), None) => {
            let equals = |when: &CaseWhen| equal(operand.clone(), when.condition.clone());
            conditions.iter().map(equals).collect()
        }
        (None, None) => conditions.iter().map(|when| when.condition.clone()).collect(),
    };
    tests.extend(compared);
    let others: Vec<Expr> = results().filter(|result| !is_parameter(result)).cloned().collect();
    Some(chosen(tests, any_of(&others)))
}

/// The arguments of a call that are values of one type.
fn arguments(function: &Function) -> Option<Vec<&Expr>> {
    let name = function.name.0.last()?.as_ident()?;
    if !CHOOSING.iter().any(|known| name.value.eq_ignore_ascii_case(known)) {
        return None;
    }
    let FunctionArguments::List(list) = &function.args else { return None };
    let value = |argument| match argument {
        &FunctionArg::Unnamed(FunctionArgExpr::Expr(ref value)) => Some(value),
        _ => None,
    };
    list.args.iter().map(value).collect()
}

/// Values of one type, and the parameters among them.
struct Group {
    parameters: Vec<Expr>,
    known: Vec<Expr>,
}

impl Group {
    /// `None` if there is no type to infer.
    fn of(values: Vec<&Expr>) -> Option<Group> {
        let (parameters, known): (Vec<&Expr>, Vec<&Expr>) =
            values.into_iter().partition(|value| is_parameter(value));
        let says_type = |value: &&Expr| !matches!(value, Expr::Value(value) if is_unknown(value));
        let known: Vec<Expr> = known.into_iter().filter(says_type).cloned().collect();
        let parameters: Vec<Expr> = parameters.into_iter().cloned().collect();
        (!parameters.is_empty() && !known.is_empty()).then_some(Group { parameters, known })
    }

    /// A value of the common type.
    fn common(&self) -> Option<Expr> {
        any_of(&self.known)
    }

    /// Comparisons of all parameters with it.
    fn compared(&self) -> Option<Expr> {
        let common = self.common()?;
        let tests = self.parameters.iter().map(|one| equal(one.clone(), common.clone()));
        tests.reduce(|left, right| binary(left, BinaryOperator::And, right))
    }

    fn value(&self) -> Option<Expr> {
        Some(chosen(vec![self.compared()?], self.common()))
    }
}

/// A value of the common type of all of these.
fn any_of(values: &[Expr]) -> Option<Expr> {
    match values {
        [] => None,
        [one] => Some(one.clone()),
        values => {
            let list = values.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            ast_tools::expression(&format!("coalesce({list})")).ok()
        }
    }
}

/// True for a literal without a type of its own.
fn is_unknown(value: &ValueWithSpan) -> bool {
    matches!(value.value, Value::Null | Value::SingleQuotedString(_))
}

fn binary(left: Expr, op: BinaryOperator, right: Expr) -> Expr {
    Expr::BinaryOp { left: Box::new(left), op, right: Box::new(right) }
}

fn equal(left: Expr, right: Expr) -> Expr {
    let whole = |side: Expr| match side {
        side @ Expr::Value(_) => side,
        side => Expr::Nested(Box::new(side)),
    };
    binary(whole(left), BinaryOperator::Eq, whole(right))
}

/// `CASE WHEN … THEN value WHEN … THEN value END`
fn chosen(tests: Vec<Expr>, value: Option<Expr>) -> Expr {
    let value = value.unwrap_or_else(|| Expr::value(Value::Null));
    let when = |condition| CaseWhen { condition, result: value.clone() };
    let conditions = tests.into_iter().map(when).collect();
    let (case_token, end_token) = (AttachedToken::empty(), AttachedToken::empty());
    Expr::Case { case_token, end_token, operand: None, conditions, else_result: None }
}

/// An item of the array, or of the rows, that a parameter is compared with.
fn item_of(items: &Expr) -> Option<Expr> {
    match items {
        Expr::Subquery(_) => Some(items.clone()),
        Expr::Nested(inner) => item_of(inner),
        items => {
            let one = Expr::value(Value::Number("1".to_owned(), false));
            Some(Expr::CompoundFieldAccess {
                root: Box::new(Expr::Nested(Box::new(items.clone()))),
                access_chain: vec![AccessExpr::Subscript(Subscript::Index { index: one })],
            })
        }
    }
}
