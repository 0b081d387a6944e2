//! `lag(x, NULL)`, `nth_value(x, 0)`: window functions with an argument that names no row.
//! DataFusion takes NULL for 1, and some numbers for others.

use datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion::sql::sqlparser::ast::{
    CaseWhen, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, UnaryOperator, Value,
};
use thalweg_types::{Error, Result, SqlState};

use super::build::arguments_of;
use super::names::normalized;

/// Rewrites `expr` itself; the expressions inside are rewritten separately.
pub(super) fn respell(expr: &mut Expr) -> Result<()> {
    let Expr::Function(function) = &*expr else { return Ok(()) };
    if function.over.is_none() {
        return Ok(());
    }
    let name = function.name.0.last().and_then(|part| part.as_ident()).map(normalized);
    let name = name.unwrap_or_default();
    let place = match name.as_str() {
        "lag" | "lead" | "nth_value" => 1,
        "ntile" => 0,
        _ => return Ok(()),
    };
    let arguments = arguments_of(function).unwrap_or_default();
    let Some(number) = arguments.get(place) else { return Ok(()) };
    let state = match name.as_str() {
        "nth_value" => Some(SqlState::INVALID_ARGUMENT_FOR_NTH_VALUE),
        "ntile" => Some(SqlState::INVALID_ARGUMENT_FOR_NTILE),
        _ => None,
    };
    if let Some(state) = state.filter(|_| is_no_count(number)) {
        return Err(Error::new(state, format!("argument of {name} must be greater than zero")));
    }
    if is_null(number) {
        let unknown = never(with_number(function, place, 1));
        *expr = unknown;
    }
    Ok(())
}

fn is_null(expr: &Expr) -> bool {
    match expr {
        Expr::Nested(inner) | Expr::Cast { expr: inner, .. } => is_null(inner),
        Expr::Value(value) => value.value == Value::Null,
        _ => false,
    }
}

/// True if a number is written out that is less than 1.
fn is_no_count(expr: &Expr) -> bool {
    let number = |expr: &Expr| match expr {
        Expr::Value(value) => match &value.value {
            Value::Number(digits, _) => digits.to_string().parse::<u64>().ok(),
            _ => None,
        },
        _ => None,
    };
    match expr {
        Expr::Nested(inner) => is_no_count(inner),
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => number(expr).is_some(),
        other => number(other) == Some(0),
    }
}

fn with_number(function: &Function, place: usize, number: u8) -> Expr {
    let mut function = function.clone();
    if let FunctionArguments::List(list) = &mut function.args {
        let number = Expr::value(Value::Number(number.to_string(), false));
        list.args[place] = FunctionArg::Unnamed(FunctionArgExpr::Expr(number));
    }
    Expr::Function(function)
}

/// NULL, of the type of a value.
fn never(value: Expr) -> Expr {
    let condition = Expr::value(Value::Boolean(false));
    Expr::Case {
        case_token: AttachedToken::empty(),
        end_token: AttachedToken::empty(),
        operand: None,
        conditions: vec![CaseWhen { condition, result: value }],
        else_result: None,
    }
}
