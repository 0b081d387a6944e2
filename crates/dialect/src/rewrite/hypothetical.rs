//! `rank(3) WITHIN GROUP (ORDER BY x)`: the rank that a row would have among those of a group.
//!
//! It follows from two counts: the rows that sort before such a row, and all rows.

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, DataType, DuplicateTreatment, Expr, Function, FunctionArguments, OrderByExpr,
    OrderByOptions, Value,
};
use thalweg_types::{Error, Result, SqlState};

use super::build::{arguments_of, call, cast};
use super::names::normalized;
use super::operators::binary;
use super::sources::has_column;

const FUNCTIONS: [&str; 4] = ["rank", "dense_rank", "percent_rank", "cume_dist"];

/// Rewrites `expr` itself; the expressions inside are rewritten separately.
pub(super) fn respell(expr: &mut Expr) -> Result<()> {
    let Expr::Function(function) = &*expr else { return Ok(()) };
    if let Some(place) = rank_expression(function)? {
        *expr = place;
    }
    Ok(())
}

fn rank_expression(function: &Function) -> Result<Option<Expr>> {
    if function.within_group.is_empty() {
        return Ok(None);
    }
    let name = function.name.0.last().and_then(|part| part.as_ident()).map(normalized);
    let Some(name) = name.filter(|name| FUNCTIONS.contains(&name.as_str())) else {
        return Ok(None);
    };
    if let FunctionArguments::List(list) = &function.args
        && list.duplicate_treatment == Some(DuplicateTreatment::Distinct)
    {
        let error_text = "cannot use DISTINCT with WITHIN GROUP";
        return Err(Error::new(SqlState::SYNTAX_ERROR, error_text));
    }
    if function.over.is_some() {
        let error_text = format!("OVER is not supported for ordered-set aggregate {name}");
        return Err(Error::new(SqlState::FEATURE_NOT_SUPPORTED, error_text));
    }
    let Some(row) = Hypothetical::of(&name, function)? else { return Ok(None) };
    Ok(Some(match name.as_str() {
        "rank" => row.rank(),
        "dense_rank" => row.dense_rank(),
        "percent_rank" => row.percent_rank(),
        _ => row.cume_dist(),
    }))
}

/// A row that does not exist, given by its sort keys.
struct Hypothetical<'f> {
    keys: &'f [OrderByExpr],
    values: Vec<&'f Expr>,
    filter: Option<&'f Expr>,
}

impl<'f> Hypothetical<'f> {
    fn of(name: &str, function: &'f Function) -> Result<Option<Hypothetical<'f>>> {
        let keys = function.within_group.as_slice();
        let Some(values) = arguments_of(function) else { return Ok(None) };
        if values.len() != keys.len() {
            let error_text = format!("function {name} does not exist for the given argument types");
            return Err(Error::new(SqlState::UNDEFINED_FUNCTION, error_text).with_hint(format!(
                "To use the hypothetical-set aggregate {name}, the number of hypothetical direct \
                 arguments (here {}) must match the number of ordering columns (here {}).",
                values.len(),
                keys.len()
            )));
        }
        if values.iter().any(|value| has_column(value)) {
            return Err(Error::unsupported(format!("{name} WITHIN GROUP of a column's value")));
        }
        Ok(Some(Hypothetical { keys, values, filter: function.filter.as_deref() }))
    }

    /// The number of rows before it, plus one.
    fn rank(&self) -> Expr {
        sum(number(1), self.count(Some(self.rows_before())))
    }

    fn dense_rank(&self) -> Expr {
        let keys: Vec<Expr> = self.keys.iter().map(|key| key.expr.clone()).collect();
        let value = match keys.as_slice() {
            // No NULL comes before anything here.
            [key] if !nulls_first(&self.keys[0]) => key.clone(),
            _ => call("row", keys),
        };
        let mut different = self.count_of(value, Some(self.rows_before()));
        if let Expr::Function(Function { args: FunctionArguments::List(list), .. }) = &mut different
        {
            list.duplicate_treatment = Some(DuplicateTreatment::Distinct);
        }
        sum(number(1), different)
    }

    /// The fraction of the rows that come before it; 0 if there are no rows.
    fn percent_rank(&self) -> Expr {
        let all = call("nullif", vec![self.count(None), number(0)]);
        let share =
            binary(float(self.count(Some(self.rows_before()))), BinaryOperator::Divide, all);
        call("coalesce", vec![share, float(number(0))])
    }

    /// The fraction of the rows up to it and its peers, where it counts itself.
    fn cume_dist(&self) -> Expr {
        let same = self.keys.iter().zip(&self.values).map(|(key, value)| equal(key, value));
        let same = same.reduce(|first, next| binary(first, BinaryOperator::And, next));
        let up_to = match same {
            Some(same) => binary(self.rows_before(), BinaryOperator::Or, nested(same)),
            None => self.rows_before(),
        };
        let counted = sum(number(1), self.count(Some(nested(up_to))));
        binary(float(counted), BinaryOperator::Divide, sum(number(1), self.count(None)))
    }

    fn count(&self, condition: Option<Expr>) -> Expr {
        self.count_of(number(1), condition)
    }

    fn count_of(&self, value: Expr, condition: Option<Expr>) -> Expr {
        let filter = match (self.filter, condition) {
            (Some(filter), Some(condition)) => {
                Some(binary(nested(filter.clone()), BinaryOperator::And, condition))
            }
            (filter, condition) => condition.or(filter.cloned()),
        };
        let mut count = call("count", vec![value]);
        if let Expr::Function(function) = &mut count {
            function.filter = filter.map(Box::new);
        }
        count
    }

    /// The condition for a row to come before it.
    fn rows_before(&self) -> Expr {
        let keys: Vec<(&OrderByExpr, &Expr)> =
            self.keys.iter().zip(self.values.iter().copied()).collect();
        before(&keys)
    }
}

/// The condition that a row sorts before another one: NULL is the greatest value. NULL stands for
/// false.
pub(super) fn row_before(row: &[Expr], other: &[Expr]) -> Expr {
    let key = |expr: &Expr| OrderByExpr {
        expr: expr.clone(),
        options: OrderByOptions::default(),
        with_fill: None,
    };
    let keys: Vec<OrderByExpr> = row.iter().map(key).collect();
    before(&keys.iter().zip(other).collect::<Vec<_>>())
}

/// By the first key, or by the others where the first ones are equal.
fn before(keys: &[(&OrderByExpr, &Expr)]) -> Expr {
    let [(key, value), others @ ..] = keys else { return Expr::value(Value::Boolean(false)) };
    let op = if key.options.asc == Some(false) { BinaryOperator::Gt } else { BinaryOperator::Lt };
    let (one, other) = (nested(key.expr.clone()), nested((*value).clone()));
    let is_null = |expr: &Expr| Expr::IsNull(Box::new(expr.clone()));
    let is_known = |expr: &Expr| Expr::IsNotNull(Box::new(expr.clone()));
    let by_null = match nulls_first(key) {
        true => binary(is_null(&one), BinaryOperator::And, is_known(&other)),
        false => binary(is_known(&one), BinaryOperator::And, is_null(&other)),
    };
    let decided = binary(binary(one, op, other), BinaryOperator::Or, nested(by_null));
    if others.is_empty() {
        return nested(decided);
    }
    let then = binary(equal(key, value), BinaryOperator::And, before(others));
    nested(binary(decided, BinaryOperator::Or, nested(then)))
}

/// NULL is the greatest value by default.
fn nulls_first(key: &OrderByExpr) -> bool {
    key.options.nulls_first.unwrap_or(key.options.asc == Some(false))
}

fn equal(key: &OrderByExpr, value: &Expr) -> Expr {
    let (one, other) = (nested(key.expr.clone()), nested(value.clone()));
    nested(Expr::IsNotDistinctFrom(Box::new(one), Box::new(other)))
}

fn nested(expr: Expr) -> Expr {
    Expr::Nested(Box::new(expr))
}

fn number(value: u8) -> Expr {
    Expr::value(Value::Number(value.to_string(), false))
}

fn sum(one: Expr, other: Expr) -> Expr {
    nested(binary(one, BinaryOperator::Plus, other))
}

fn float(expr: Expr) -> Expr {
    cast(expr, DataType::DoublePrecision)
}
