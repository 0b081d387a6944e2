//! Types of parameters that follow from the text itself: casts, conditions, `LIMIT` and `OFFSET`,
//! and the arguments of functions with one type of argument.

use std::ops::ControlFlow;

use arrow::datatypes::Field;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, LimitClause, ObjectName,
    Query, Select, TableFactor, UnaryOperator, Value, Visitor,
};
use thalweg_types::DataType;
use thalweg_values::types::{NUMERIC_DEFAULT, parameter_field};

use super::{field_of, note};
use crate::locks;
use crate::statement::folded;

/// The type of an argument.
#[derive(Clone, Copy)]
enum Takes {
    Text,
    Integer,
    Bigint,
    Double,
    Numeric,
}

use Takes::{Bigint, Double, Integer, Numeric, Text};

/// Functions by name and number of arguments, as PostgreSQL resolves overloads when it knows no
/// argument's type.
const ARGUMENTS: [(&str, &[Takes]); 24] = [
    ("abs", &[Double]),
    ("ceil", &[Double]),
    ("chr", &[Integer]),
    ("exp", &[Double]),
    ("floor", &[Double]),
    ("left", &[Text, Integer]),
    ("ln", &[Double]),
    ("lpad", &[Text, Integer]),
    ("lpad", &[Text, Integer, Text]),
    ("make_date", &[Integer, Integer, Integer]),
    ("pg_sleep", &[Double]),
    ("power", &[Double, Double]),
    ("repeat", &[Text, Integer]),
    ("right", &[Text, Integer]),
    ("round", &[Double]),
    ("round", &[Numeric, Integer]),
    ("rpad", &[Text, Integer]),
    ("rpad", &[Text, Integer, Text]),
    ("sign", &[Double]),
    ("split_part", &[Text, Text, Integer]),
    ("sqrt", &[Double]),
    ("to_timestamp", &[Double]),
    ("trunc", &[Double]),
    ("trunc", &[Numeric, Integer]),
];

/// The argument types of a function with this many arguments, if it has only one such signature.
fn arguments_of(name: &str, count: usize) -> &'static [Takes] {
    if locks::takes_keys(name) {
        return if count == 1 { &[Bigint] } else { &[Integer, Integer] };
    }
    let mut known = ARGUMENTS.into_iter();
    match known.find(|(known, takes)| *known == name && takes.len() == count) {
        Some((_, takes)) => takes,
        None => &[],
    }
}

/// The visitor that records such types.
pub(super) struct SyntacticTypes<'a> {
    pub(super) types: &'a mut [Option<Field>],
}

impl SyntacticTypes<'_> {
    fn is(&mut self, expr: &Expr, data_type: &DataType) {
        note(self.types, expr, || Some(field_of(data_type)));
    }

    fn call(&mut self, name: &ObjectName, arguments: &[FunctionArg]) {
        let Some(name) = name.0.last().and_then(|part| part.as_ident()).map(folded) else { return };
        let value = |argument| match argument {
            &FunctionArg::Unnamed(FunctionArgExpr::Expr(ref value)) => Some(value),
            _ => None,
        };
        let Some(values) = arguments.iter().map(value).collect::<Option<Vec<&Expr>>>() else {
            return;
        };
        if name == "generate_series" && values.iter().any(|value| is_integer(value)) {
            values.iter().for_each(|value| self.is(value, &DataType::Int4));
        }
        for (value, takes) in values.iter().zip(arguments_of(&name, values.len())) {
            self.is(value, &takes.data_type());
        }
    }
}

impl Takes {
    fn data_type(self) -> DataType {
        match self {
            Text => DataType::Text { max_chars: None },
            Integer => DataType::Int4,
            Bigint => DataType::Int8,
            Double => DataType::Float8,
            Numeric => {
                let (precision, scale) = NUMERIC_DEFAULT;
                DataType::Decimal { precision, scale }
            }
        }
    }
}

/// True if an expression is an integer literal.
fn is_integer(expr: &Expr) -> bool {
    match expr {
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => is_integer(expr),
        Expr::Value(value) => match &value.value {
            Value::Number(digits, _) => digits.to_string().parse::<i32>().is_ok(),
            _ => false,
        },
        _ => false,
    }
}

impl Visitor for SyntacticTypes<'_> {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        match expr {
            Expr::Cast { expr, data_type, .. } => {
                note(self.types, expr, || parameter_field(data_type));
            }
            Expr::Case { operand: None, conditions, .. } => {
                conditions.iter().for_each(|when| self.is(&when.condition, &DataType::Boolean));
            }
            Expr::UnaryOp { op: UnaryOperator::Not, expr } => self.is(expr, &DataType::Boolean),
            Expr::BinaryOp { left, op: BinaryOperator::And | BinaryOperator::Or, right } => {
                self.is(left, &DataType::Boolean);
                self.is(right, &DataType::Boolean);
            }
            Expr::Substring { shorthand: true, substring_from, substring_for, .. } => {
                let counts = substring_from.iter().chain(substring_for);
                counts.for_each(|count| self.is(count, &DataType::Int4));
            }
            Expr::Function(function) => {
                if let FunctionArguments::List(list) = &function.args {
                    self.call(&function.name, &list.args);
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<()> {
        for condition in select.selection.iter().chain(&select.having) {
            self.is(condition, &DataType::Boolean);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        match factor {
            TableFactor::Table { name, args: Some(arguments), .. } => {
                self.call(name, &arguments.args);
            }
            TableFactor::Function { name, args, .. } => self.call(name, args),
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        if let Some(LimitClause::LimitOffset { limit, offset, .. }) = &query.limit_clause {
            for count in limit.iter().chain(offset.iter().map(|offset| &offset.value)) {
                self.is(count, &DataType::Int8);
            }
        }
        if let Some(quantity) = query.fetch.as_ref().and_then(|fetch| fetch.quantity.as_ref()) {
            self.is(quantity, &DataType::Int8);
        }
        ControlFlow::Continue(())
    }
}
