//! Builders for pieces of statements.

use datafusion::sql::sqlparser::ast::{
    CastKind, DataType, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList,
    FunctionArguments, Ident, ObjectName, UnaryOperator, Value,
};

use super::figure::quoted;

/// `name(arguments)`
pub(crate) fn call(name: &str, arguments: Vec<Expr>) -> Expr {
    let args = arguments
        .into_iter()
        .map(|argument| FunctionArg::Unnamed(FunctionArgExpr::Expr(argument)))
        .collect();
    Expr::Function(Function {
        name: ObjectName::from(vec![Ident::new(name)]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(FunctionArgumentList {
            duplicate_treatment: None,
            args,
            clauses: vec![],
        }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: vec![],
    })
}

/// `relation.column`
pub(super) fn column_of(relation: &Ident, column: &str) -> Expr {
    Expr::CompoundIdentifier(vec![relation.clone(), quoted(column)])
}

/// `'text'`
pub(super) fn text(value: impl Into<String>) -> Expr {
    Expr::value(Value::SingleQuotedString(value.into()))
}

/// `CAST(expr AS data_type)`
pub(super) fn cast(expr: Expr, data_type: DataType) -> Expr {
    Expr::Cast { kind: CastKind::Cast, expr: Box::new(expr), data_type, array: false, format: None }
}

/// `NOT expr`, if `negated`.
pub(super) fn negate_if(negated: bool, expr: Expr) -> Expr {
    if !negated {
        return expr;
    }
    Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(expr) }
}

/// The arguments of a call, if they are plain values.
pub(super) fn arguments_of(function: &Function) -> Option<Vec<&Expr>> {
    let FunctionArguments::List(list) = &function.args else { return None };
    list.args
        .iter()
        .map(|argument| match argument {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr),
            _ => None,
        })
        .collect()
}
