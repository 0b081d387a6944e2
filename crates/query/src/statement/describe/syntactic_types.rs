//! Types of parameters that follow from the text itself: casts, conditions, `LIMIT`, `OFFSET`,
//! subscripts, frames of windows, and keys of advisory locks.

use std::ops::ControlFlow;

use arrow::datatypes::Field;
use datafusion::sql::sqlparser::ast::{
    AccessExpr, BinaryOperator, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, LimitClause,
    ObjectName, Query, Select, Subscript, TableFactor, UnaryOperator, Visitor, WindowFrame,
    WindowFrameBound, WindowFrameUnits, WindowType,
};
use thalweg_types::DataType;
use thalweg_values::types::parameter_field;

use super::{field_of, note};
use crate::locks;
use crate::statement::folded;

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
        if locks::takes_keys(&name) {
            let key = if arguments.len() == 1 { DataType::Int8 } else { DataType::Int4 };
            for argument in arguments {
                if let FunctionArg::Unnamed(FunctionArgExpr::Expr(value)) = argument {
                    self.is(value, &key);
                }
            }
        }
        if name == "make_interval" {
            self.interval_parts(arguments);
        }
    }

    /// The named arguments of `make_interval(days => $1)`.
    fn interval_parts(&mut self, arguments: &[FunctionArg]) {
        for argument in arguments {
            if let FunctionArg::Named { name, arg: FunctionArgExpr::Expr(value), .. } = argument {
                let is_float = folded(name) == "secs";
                self.is(value, if is_float { &DataType::Float8 } else { &DataType::Int4 });
            }
        }
    }

    fn subscript(&mut self, access: &AccessExpr) {
        let AccessExpr::Subscript(subscript) = access else { return };
        let bounds = match subscript {
            Subscript::Index { index } => [Some(index), None],
            Subscript::Slice { lower_bound, upper_bound, .. } => {
                [lower_bound.as_ref(), upper_bound.as_ref()]
            }
        };
        bounds.into_iter().flatten().for_each(|bound| self.is(bound, &DataType::Int4));
    }

    /// The distances of a window's frame.
    fn frame(&mut self, frame: &WindowFrame) {
        if frame.units == WindowFrameUnits::Range {
            return;
        }
        for bound in std::iter::once(&frame.start_bound).chain(&frame.end_bound) {
            if let WindowFrameBound::Preceding(Some(rows))
            | WindowFrameBound::Following(Some(rows)) = bound
            {
                self.is(rows, &DataType::Int8);
            }
        }
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
            Expr::IsTrue(expr)
            | Expr::IsNotTrue(expr)
            | Expr::IsFalse(expr)
            | Expr::IsNotFalse(expr)
            | Expr::IsUnknown(expr)
            | Expr::IsNotUnknown(expr) => self.is(expr, &DataType::Boolean),
            Expr::CompoundFieldAccess { access_chain, .. } => {
                for access in access_chain {
                    self.subscript(access);
                }
            }
            Expr::Function(function) => {
                if let FunctionArguments::List(list) = &function.args {
                    self.call(&function.name, &list.args);
                }
                if let Some(condition) = &function.filter {
                    self.is(condition, &DataType::Boolean);
                }
                if let Some(WindowType::WindowSpec(window)) = &function.over {
                    window.window_frame.iter().for_each(|frame| self.frame(frame));
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
