//! Maps an arithmetic operator to a function, by the types of its operands.
//!
//! DataFusion fixes the type of an expression when it is planned. So operators whose results have
//! another type in PostgreSQL are replaced then, and not by a later pass.

use arrow::datatypes::{DataType as ArrowType, TimeUnit};
use datafusion::common::{DFSchema, Result as PlanResult, ScalarValue};
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, Operator, cast};
use datafusion::sql::sqlparser::ast::BinaryOperator;
use thalweg_types::DataType;

use super::{numeric, temporal};
use crate::common_type;
use crate::types::arrow_type;
use crate::zone::is_utc;

/// The part of an operand's type that decides about the operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Integer,
    Decimal,
    Float,
    Date,
    Time,
    Moment,
    Interval,
    /// A literal in quotes, which takes its type from the other operand.
    Unknown,
    Other,
}

impl Kind {
    fn of(expr: &Expr, data_type: &ArrowType) -> Kind {
        if matches!(expr, Expr::Literal(ScalarValue::Utf8(Some(_)), None)) {
            return Kind::Unknown;
        }
        match data_type {
            integer if integer.is_integer() => Kind::Integer,
            ArrowType::Decimal128(_, _) => Kind::Decimal,
            ArrowType::Float32 | ArrowType::Float64 => Kind::Float,
            ArrowType::Date32 => Kind::Date,
            ArrowType::Time64(TimeUnit::Microsecond) => Kind::Time,
            ArrowType::Timestamp(_, _) => Kind::Moment,
            ArrowType::Interval(_) | ArrowType::Duration(_) => Kind::Interval,
            _ => Kind::Other,
        }
    }

    fn is_number(self) -> bool {
        matches!(self, Kind::Integer | Kind::Decimal | Kind::Float)
    }

    fn is_temporal(self) -> bool {
        matches!(self, Kind::Date | Kind::Time | Kind::Moment | Kind::Interval)
    }
}

/// Plans arithmetic on dates, times and intervals, and division of numerics.
#[derive(Debug)]
pub struct TypedOperators;

impl ExprPlanner for TypedOperators {
    fn plan_binary_op(
        &self,
        raw: RawBinaryExpr,
        schema: &DFSchema,
    ) -> PlanResult<PlannerResult<RawBinaryExpr>> {
        if let Some(compared) = compared_interval(&raw, schema) {
            return Ok(PlannerResult::Original(compared));
        }
        let raw = in_double_precision(raw, schema);
        let operator = match raw.op {
            BinaryOperator::Plus => Operator::Plus,
            BinaryOperator::Minus => Operator::Minus,
            BinaryOperator::Multiply => Operator::Multiply,
            BinaryOperator::Divide => Operator::Divide,
            BinaryOperator::Modulo => Operator::Modulo,
            _ => return Ok(PlannerResult::Original(raw)),
        };
        let (Ok(left), Ok(right)) = (raw.left.get_type(schema), raw.right.get_type(schema)) else {
            return Ok(PlannerResult::Original(raw));
        };
        let by_local_clocks = !is_utc()
            && [&left, &right]
                .iter()
                .any(|given| matches!(given, ArrowType::Timestamp(_, Some(_))));
        let operands = typed(operator, (raw.left, left), (raw.right, right));
        let (Operand { expr: left, kind: first }, Operand { expr: right, kind: second }) = operands;
        let planned = match by_local_clocks {
            true => moved(operator, left, first, right, second),
            false => Err(Box::new((left, right))),
        };
        let planned = planned.or_else(|operands| {
            let (left, right) = *operands;
            planned_in_utc(operator, left, first, right, second)
        });
        Ok(match planned {
            Ok(planned) => PlannerResult::Planned(planned),
            Err(operands) => {
                let (left, right) = *operands;
                PlannerResult::Original(RawBinaryExpr { op: raw.op, left, right })
            }
        })
    }
}

/// `interval > '1 day'`, which DataFusion refuses before any pass could give the literal its type.
fn compared_interval(raw: &RawBinaryExpr, schema: &DFSchema) -> Option<RawBinaryExpr> {
    use BinaryOperator::{Eq, Gt, GtEq, Lt, LtEq, NotEq};
    if !matches!(raw.op, Eq | NotEq | Lt | LtEq | Gt | GtEq) {
        return None;
    }
    let is_interval = |expr: &Expr| {
        expr.get_type(schema).is_ok_and(|given| matches!(given, ArrowType::Interval(_)))
    };
    let is_unknown = |expr: &Expr| Kind::of(expr, &ArrowType::Utf8) == Kind::Unknown;
    let interval = || arrow_type(&DataType::Interval);
    let (left, right) = match (&raw.left, &raw.right) {
        (left, right) if is_unknown(right) && is_interval(left) => {
            (left.clone(), cast(right.clone(), interval()))
        }
        (left, right) if is_unknown(left) && is_interval(right) => {
            (cast(left.clone(), interval()), right.clone())
        }
        _ => return None,
    };
    Some(RawBinaryExpr { op: raw.op.clone(), left, right })
}

/// Numbers of several kinds with a floating point number among them. Both operands become
/// `double precision`. This also works for expressions that are never analyzed, such as a check's.
fn in_double_precision(raw: RawBinaryExpr, schema: &DFSchema) -> RawBinaryExpr {
    use BinaryOperator::{Divide, Eq, Gt, GtEq, Lt, LtEq, Minus, Multiply, NotEq, Plus};
    let takes_numbers =
        matches!(raw.op, Eq | NotEq | Lt | LtEq | Gt | GtEq | Plus | Minus | Multiply | Divide);
    let (Ok(left), Ok(right)) = (raw.left.get_type(schema), raw.right.get_type(schema)) else {
        return raw;
    };
    let Some(target) = common_type::compared(&[left.clone(), right.clone()]) else { return raw };
    if !takes_numbers {
        return raw;
    }
    let double = |operand, given: ArrowType| match given == target {
        true => operand,
        false => cast(operand, target.clone()),
    };
    let (left, right) = (double(raw.left, left), double(raw.right, right));
    RawBinaryExpr { op: raw.op, left, right }
}

struct Operand {
    expr: Expr,
    kind: Kind,
}

/// The operands, with a literal in quotes converted to the type that the operator expects.
fn typed(
    operator: Operator,
    (left, left_type): (Expr, ArrowType),
    (right, right_type): (Expr, ArrowType),
) -> (Operand, Operand) {
    let (first, second) = (Kind::of(&left, &left_type), Kind::of(&right, &right_type));
    let plain = |expr, kind| Operand { expr, kind };
    match (first, second) {
        (known, Kind::Unknown) if known.is_temporal() => {
            let (kind, target) = match (operator, known) {
                (Operator::Plus, Kind::Date | Kind::Time | Kind::Moment) => {
                    (Kind::Interval, arrow_type(&DataType::Interval))
                }
                _ => (known, left_type),
            };
            (plain(left, first), plain(cast(right, target), kind))
        }
        (known, Kind::Unknown) if known.is_number() => {
            let own = type_of_literal(&right, &left_type);
            (plain(left, first), plain(cast(right, own), known))
        }
        (Kind::Unknown, known) if known.is_temporal() && operator == Operator::Minus => {
            (plain(cast(left, right_type), known), plain(right, second))
        }
        (Kind::Unknown, known) if known.is_number() => {
            let own = type_of_literal(&left, &right_type);
            (plain(cast(left, own), known), plain(right, second))
        }
        _ => (plain(left, first), plain(right, second)),
    }
}

/// A moment with an interval added or subtracted by the clocks of the session's zone; returns the
/// operands of other operators.
fn moved(
    operator: Operator,
    left: Expr,
    first: Kind,
    right: Expr,
    second: Kind,
) -> Result<Expr, Box<(Expr, Expr)>> {
    let arguments = match (operator, first, second) {
        (Operator::Plus, Kind::Moment, Kind::Interval) => vec![left, right],
        (Operator::Plus, Kind::Interval, Kind::Moment) => vec![right, left],
        (Operator::Minus, Kind::Moment, Kind::Interval) => {
            vec![left, Expr::Negative(Box::new(right))]
        }
        _ => return Err(Box::new((left, right))),
    };
    Ok(temporal::later_moment().call(arguments))
}

/// The type of a literal in quotes beside a number: see [`common_type::of_literal`].
fn type_of_literal(literal: &Expr, beside: &ArrowType) -> ArrowType {
    match literal {
        Expr::Literal(ScalarValue::Utf8(Some(text)), _) => common_type::of_literal(text, beside),
        _ => beside.clone(),
    }
}

/// The operator on operands of these kinds; returns the operands if DataFusion's own operator is
/// right. Moments are in UTC.
fn planned_in_utc(
    operator: Operator,
    left: Expr,
    first: Kind,
    right: Expr,
    second: Kind,
) -> Result<Expr, Box<(Expr, Expr)>> {
    use Kind::{Date, Decimal, Integer, Interval, Moment, Time};
    use Operator::{Divide, Minus, Multiply, Plus};
    Ok(match (operator, first, second) {
        (Divide, Decimal, Decimal | Integer) | (Divide, Integer, Decimal) => {
            numeric::division().call(vec![left, right])
        }
        (Minus, Moment, Moment | Date) | (Minus, Date, Moment) => {
            temporal::moment_difference().call(vec![left, right])
        }
        (Minus, Date, Date) => temporal::date_difference().call(vec![left, right]),
        (Minus, Time, Time) => temporal::time_difference().call(vec![left, right]),
        (Plus, Date, Integer) => temporal::later_date().call(vec![left, right]),
        (Plus, Integer, Date) => temporal::later_date().call(vec![right, left]),
        (Minus, Date, Integer) => {
            temporal::later_date().call(vec![left, Expr::Negative(Box::new(right))])
        }
        (Plus, Date, Time) => temporal::date_at_time().call(vec![left, right]),
        (Plus, Time, Date) => temporal::date_at_time().call(vec![right, left]),
        (Plus | Minus, Date, Interval) => binary(midnight(left), operator, right),
        (Plus, Interval, Date) => binary(midnight(right), Plus, left),
        (Plus, Interval, Moment) => binary(right, Plus, left),
        (Plus, Time, Interval) => temporal::later_time().call(vec![left, right]),
        (Plus, Interval, Time) => temporal::later_time().call(vec![right, left]),
        (Minus, Time, Interval) => {
            temporal::later_time().call(vec![left, Expr::Negative(Box::new(right))])
        }
        (Multiply, Interval, number) if number.is_number() => {
            temporal::interval_product().call(vec![left, right])
        }
        (Multiply, number, Interval) if number.is_number() => {
            temporal::interval_product().call(vec![right, left])
        }
        (Divide, Interval, number) if number.is_number() => {
            temporal::interval_quotient().call(vec![left, right])
        }
        (Plus | Minus, Moment | Interval, Interval) => binary(left, operator, right),
        _ => return Err(Box::new((left, right))),
    })
}

fn binary(left: Expr, operator: Operator, right: Expr) -> Expr {
    Expr::BinaryExpr(BinaryExpr::new(Box::new(left), operator, Box::new(right)))
}

fn midnight(date: Expr) -> Expr {
    cast(date, arrow_type(&DataType::Timestamp))
}
