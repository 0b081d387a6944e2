//! Serialized expressions.
//!
//! The format is our own, and covers less than DataFusion's expressions. The writer gives up at the
//! first part that it cannot express, and the operator stays at the gateway. Functions are
//! serialized by name, and only those that are the same on both sides and depend on nothing but
//! their arguments. Types and values are sent beside the expressions, as a schema and a row in
//! Arrow's format.

use std::sync::{Arc, LazyLock};

use arrow::datatypes::{Field, FieldRef, Schema};
use arrow::record_batch::RecordBatch;
use datafusion::common::metadata::FieldMetadata;
use datafusion::common::{DataFusionError, Result as PlanResult, ScalarValue, plan_err};
use datafusion::execution::session_state::{SessionState, SessionStateBuilder};
use datafusion::logical_expr::{AggregateUDF, Operator, Volatility};
use datafusion::physical_expr::expressions::{
    BinaryExpr, CaseExpr, CastExpr, Column, InListExpr, IsNotNullExpr, IsNullExpr, LikeExpr,
    Literal, NegativeExpr, NotExpr, TryCastExpr,
};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use thalweg_execution::parameter_values::value_of_run;
use thalweg_formats::text::style;
use thalweg_protocol::cluster as wire;
use thalweg_protocol::cluster::expression::Kind;
use thalweg_protocol::cluster::unary::Operator as UnaryOperator;
use thalweg_types::{Error, Result};

use crate::rows;

/// Functions that every node has, independent of its catalog.
static KNOWN: LazyLock<SessionState> =
    LazyLock::new(|| thalweg_dialect::configure(SessionStateBuilder::new()).build());

/// The operators that can be serialized, by their names in SQL.
const OPERATORS: [Operator; 25] = [
    Operator::Eq,
    Operator::NotEq,
    Operator::Lt,
    Operator::LtEq,
    Operator::Gt,
    Operator::GtEq,
    Operator::Plus,
    Operator::Minus,
    Operator::Multiply,
    Operator::Divide,
    Operator::Modulo,
    Operator::And,
    Operator::Or,
    Operator::IsDistinctFrom,
    Operator::IsNotDistinctFrom,
    Operator::RegexMatch,
    Operator::RegexIMatch,
    Operator::RegexNotMatch,
    Operator::RegexNotIMatch,
    Operator::BitwiseAnd,
    Operator::BitwiseOr,
    Operator::BitwiseXor,
    Operator::BitwiseShiftRight,
    Operator::BitwiseShiftLeft,
    Operator::StringConcat,
];

/// Writes expressions, and collects the types and values that they refer to.
#[derive(Clone, Default)]
pub(crate) struct Writer {
    fields: Vec<FieldRef>,
    literals: Vec<(FieldRef, ScalarValue)>,
    /// Parameters, which have other values in each run of a cached plan.
    values: Vec<(FieldRef, Known)>,
    /// Depth of the expression that is being written.
    depth: usize,
}

/// Longest IN list that is serialized: each member is an expression of its own.
const LIST_MAX: usize = 4_096;

/// Decoders of protocol messages give up at a nesting of 100, and each expression nests two
/// messages.
const DEPTH_MAX: usize = 40;

type Known = Arc<dyn PhysicalExpr>;

impl Writer {
    /// Writes an expression over columns of a schema; `None` if it has no serialized form.
    pub(crate) fn expression(&mut self, from: &Known, over: &Schema) -> Option<wire::Expression> {
        if self.depth == DEPTH_MAX {
            return None;
        }
        self.depth += 1;
        let kind = self.kind(from, over);
        self.depth -= 1;
        kind.map(|kind| wire::Expression { kind: Some(kind) })
    }

    pub(crate) fn expressions<'a>(
        &mut self,
        from: impl IntoIterator<Item = &'a Known>,
        over: &Schema,
    ) -> Option<Vec<wire::Expression>> {
        from.into_iter().map(|from| self.expression(from, over)).collect()
    }

    fn boxed(&mut self, from: &Known, over: &Schema) -> Option<Option<Box<wire::Expression>>> {
        self.expression(from, over).map(|expression| Some(Box::new(expression)))
    }

    fn kind(&mut self, from: &Known, over: &Schema) -> Option<Kind> {
        if value_of_run(from).is_some() {
            return self.value(from.return_field(over).ok()?, from);
        }
        if let Some(column) = from.downcast_ref::<Column>() {
            return Some(Kind::Column(u32::try_from(column.index()).ok()?));
        }
        if let Some(literal) = from.downcast_ref::<Literal>() {
            return self.literal(from.return_field(over).ok()?, literal.value().clone());
        }
        if let Some(binary) = from.downcast_ref::<BinaryExpr>() {
            return self.binary(binary, over);
        }
        if let Some(call) = from.downcast_ref::<ScalarFunctionExpr>() {
            return self.call(call, over, from);
        }
        if let Some(list) = from.downcast_ref::<InListExpr>() {
            if list.len() > LIST_MAX {
                return None;
            }
            let value = self.boxed(list.expr(), over)?;
            let members = self.expressions(list.list(), over)?;
            let negated = list.negated();
            return Some(Kind::InList(Box::new(wire::InList { value, list: members, negated })));
        }
        if let Some(like) = from.downcast_ref::<LikeExpr>() {
            return Some(Kind::Like(Box::new(wire::Like {
                value: self.boxed(like.expr(), over)?,
                pattern: self.boxed(like.pattern(), over)?,
                negated: like.negated(),
                ignores_case: like.case_insensitive(),
            })));
        }
        if let Some(case) = from.downcast_ref::<CaseExpr>() {
            return self.case(case, over);
        }
        self.cast(from, over).or_else(|| self.unary(from, over))
    }

    fn binary(&mut self, binary: &BinaryExpr, over: &Schema) -> Option<Kind> {
        if !OPERATORS.contains(binary.op()) {
            return None;
        }
        let plain =
            BinaryExpr::new(Arc::clone(binary.left()), *binary.op(), Arc::clone(binary.right()));
        Some(Kind::Binary(Box::new(wire::Binary {
            operator: binary.op().to_string(),
            left: self.boxed(binary.left(), over)?,
            right: self.boxed(binary.right(), over)?,
            fails_on_overflow: *binary != plain,
        })))
    }

    fn call(&mut self, call: &ScalarFunctionExpr, over: &Schema, from: &Known) -> Option<Kind> {
        if !is_known_call(call) {
            return None;
        }
        let field = self.field(&from.return_field(over).ok()?)?;
        let arguments = self.expressions(call.args(), over)?;
        Some(Kind::Call(wire::Call { function: call.fun().name().to_owned(), arguments, field }))
    }

    fn case(&mut self, case: &CaseExpr, over: &Schema) -> Option<Kind> {
        let value = match case.expr() {
            Some(value) => self.boxed(value, over)?,
            None => None,
        };
        let (when, then): (Vec<_>, Vec<_>) = case.when_then_expr().iter().cloned().unzip();
        let otherwise = match case.else_expr() {
            Some(otherwise) => self.boxed(otherwise, over)?,
            None => None,
        };
        Some(Kind::Case(Box::new(wire::Case {
            value,
            conditions: self.expressions(&when, over)?,
            results: self.expressions(&then, over)?,
            otherwise,
        })))
    }

    fn cast(&mut self, from: &Known, over: &Schema) -> Option<Kind> {
        let (value, field, tries) = if let Some(cast) = from.downcast_ref::<CastExpr>() {
            let plain = CastExpr::new(Arc::clone(cast.expr()), cast.cast_type().clone(), None);
            if *cast != plain {
                return None;
            }
            (cast.expr(), cast.cast_type(), false)
        } else {
            let cast = from.downcast_ref::<TryCastExpr>()?;
            let plain = TryCastExpr::new(Arc::clone(cast.expr()), cast.cast_type().clone());
            if *cast != plain {
                return None;
            }
            (cast.expr(), cast.cast_type(), true)
        };
        let field = self.field(&Arc::new(Field::new("", field.clone(), true)))?;
        let value = self.boxed(value, over)?;
        Some(Kind::Cast(Box::new(wire::Cast { value, field, tries })))
    }

    fn unary(&mut self, from: &Known, over: &Schema) -> Option<Kind> {
        let (operator, operand) = if let Some(not) = from.downcast_ref::<NotExpr>() {
            (UnaryOperator::Not, not.arg())
        } else if let Some(is_null) = from.downcast_ref::<IsNullExpr>() {
            (UnaryOperator::IsNull, is_null.arg())
        } else if let Some(is_not_null) = from.downcast_ref::<IsNotNullExpr>() {
            (UnaryOperator::IsNotNull, is_not_null.arg())
        } else {
            (UnaryOperator::Negative, from.downcast_ref::<NegativeExpr>()?.arg())
        };
        let operand = self.boxed(operand, over)?;
        Some(Kind::Unary(Box::new(wire::Unary { operator: operator as i32, operand })))
    }

    fn literal(&mut self, field: FieldRef, value: ScalarValue) -> Option<Kind> {
        let place = u32::try_from(self.literals.len()).ok()?;
        self.literals.push((field, value));
        Some(Kind::Literal(place))
    }

    fn value(&mut self, field: FieldRef, from: &Known) -> Option<Kind> {
        let place = u32::try_from(self.values.len()).ok()?;
        self.values.push((field, Arc::clone(from)));
        Some(Kind::Value(place))
    }

    fn field(&mut self, field: &FieldRef) -> Option<u32> {
        let place = u32::try_from(self.fields.len()).ok()?;
        self.fields.push(Arc::clone(field));
        Some(place)
    }

    /// The types that expressions refer to, followed by those of parameters, for which plans are
    /// made.
    pub(crate) fn fields(&self) -> Result<bytes::Bytes> {
        let values = self.values.iter().map(|(field, _)| field);
        let fields: Vec<FieldRef> = self.fields.iter().chain(values).cloned().collect();
        rows::encode(&Schema::new(fields), &[])
    }

    /// The literals that expressions refer to.
    pub(crate) fn literals(&self) -> Result<bytes::Bytes> {
        row_of(self.literals.iter().map(|(field, value)| (field, value.clone())))
    }

    /// The parameter values of this run. Returns `None` if one of them is unknown; the expressions
    /// with it have to be written anew.
    pub(crate) fn values(&self) -> Result<Option<bytes::Bytes>> {
        let values = self.values.iter().map(|(field, from)| Some((field, value_of_run(from)?)));
        let values: Option<Vec<_>> = values.collect();
        values.map(|values| row_of(values.into_iter())).transpose()
    }
}

/// Encodes values as a batch of one row; empty if there are no values.
fn row_of<'a>(
    values: impl ExactSizeIterator<Item = (&'a FieldRef, ScalarValue)>,
) -> Result<bytes::Bytes> {
    if values.len() == 0 {
        return Ok(bytes::Bytes::new());
    }
    let mut fields = Vec::with_capacity(values.len());
    let mut columns = Vec::with_capacity(values.len());
    for (field, value) in values {
        let column = value.to_array_of_size(1).map_err(unfit)?;
        let named = Field::new("", column.data_type().clone(), true);
        fields.push(named.with_metadata(field.metadata().clone()));
        columns.push(column);
    }
    let schema = Arc::new(Schema::new(fields));
    let row = RecordBatch::try_new(Arc::clone(&schema), columns)
        .map_err(|error| Error::internal("literals do not fit").with_source(error))?;
    rows::encode(&schema, &[row])
}

/// Decodes the values of a row, as expressions.
///
/// # Errors
/// If they are damaged.
pub(crate) fn values(row: &[u8]) -> Result<Vec<Known>> {
    let mut values = Vec::new();
    if row.is_empty() {
        return Ok(values);
    }
    let (schema, batches) = rows::decode(row)?;
    for batch in batches.iter().filter(|batch| batch.num_rows() == 1) {
        for (column, field) in batch.columns().iter().zip(schema.fields()) {
            let value = ScalarValue::try_from_array(column, 0).map_err(unfit)?;
            let metadata = FieldMetadata::from(field.as_ref());
            let literal = match metadata.is_empty() {
                true => Literal::new(value),
                false => Literal::new_with_metadata(value, Some(metadata)),
            };
            values.push(Arc::new(literal) as Known);
        }
    }
    Ok(values)
}

fn unfit(error: DataFusionError) -> Error {
    Error::internal("a literal cannot travel").with_source(error)
}

/// Prefixes of the names of arithmetic functions, on which a session's style has no effect.
const ARITHMETIC_PREFIXES: [&str; 2] = ["float_", "integer_"];

/// True if a function is the same on all nodes, and depends on nothing but its arguments. Workers
/// read and write values in the default style, so the gateway evaluates all other functions of a
/// session with another style.
pub(crate) fn is_known_call(call: &ScalarFunctionExpr) -> bool {
    let name = call.fun().name();
    let is_arithmetic = || ARITHMETIC_PREFIXES.iter().any(|prefix| name.starts_with(prefix));
    if style::current().is_some() && !is_arithmetic() {
        return false;
    }
    let known = KNOWN.scalar_functions().get(name);
    known.is_some_and(|known| known.as_ref() == call.fun())
        && call.fun().signature().volatility == Volatility::Immutable
}

/// True if an aggregate function is the same on all nodes. Aggregates of JSON write values as text,
/// so the gateway evaluates them in sessions with another style than the default one.
pub(crate) fn is_known_aggregate(function: &AggregateUDF) -> bool {
    if style::current().is_some() && function.name().contains("json") {
        return false;
    }
    KNOWN.aggregate_functions().get(function.name()).is_some_and(|known| known.as_ref() == function)
}

/// Decodes the expressions of a [`Writer`].
pub(crate) struct Reader {
    fields: Vec<FieldRef>,
    literals: Vec<Known>,
    values: Vec<Known>,
}

impl Reader {
    /// A reader with the parameter values of a run.
    ///
    /// # Errors
    /// If the literals are damaged.
    pub(crate) fn new(fields: &Schema, literals: &[u8], run: Vec<Known>) -> Result<Reader> {
        let fields = fields.fields().iter().cloned().collect();
        Ok(Reader { fields, literals: values(literals)?, values: run })
    }

    /// Decodes an expression over columns of a schema.
    ///
    /// # Errors
    /// If it is malformed.
    pub(crate) fn expression(
        &self,
        from: Option<&wire::Expression>,
        over: &Schema,
    ) -> PlanResult<Known> {
        let Some(kind) = from.and_then(|from| from.kind.as_ref()) else {
            return plan_err!("an expression of a fragment is missing");
        };
        Ok(match kind {
            Kind::Column(place) => {
                let place = *place as usize;
                let Some(field) = over.fields().get(place) else {
                    return plan_err!("a fragment has no column {place}");
                };
                Arc::new(Column::new(field.name(), place))
            }
            Kind::Literal(place) => match self.literals.get(*place as usize) {
                Some(literal) => Arc::clone(literal),
                None => return plan_err!("a fragment has no literal {place}"),
            },
            Kind::Value(place) => match self.values.get(*place as usize) {
                Some(value) => Arc::clone(value),
                None => return plan_err!("a run has no value {place}"),
            },
            Kind::Binary(binary) => {
                let operator = OPERATORS.iter().find(|one| one.to_string() == binary.operator);
                let Some(operator) = operator else {
                    return plan_err!("nobody knows the operator {}", binary.operator);
                };
                let left = self.expression(binary.left.as_deref(), over)?;
                let right = self.expression(binary.right.as_deref(), over)?;
                let made = BinaryExpr::new(left, *operator, right);
                Arc::new(made.with_fail_on_overflow(binary.fails_on_overflow))
            }
            Kind::Unary(unary) => {
                let operand = self.expression(unary.operand.as_deref(), over)?;
                match UnaryOperator::try_from(unary.operator) {
                    Ok(UnaryOperator::Not) => Arc::new(NotExpr::new(operand)),
                    Ok(UnaryOperator::IsNull) => Arc::new(IsNullExpr::new(operand)),
                    Ok(UnaryOperator::IsNotNull) => Arc::new(IsNotNullExpr::new(operand)),
                    Ok(UnaryOperator::Negative) => Arc::new(NegativeExpr::new(operand)),
                    Err(_) => return plan_err!("nobody knows the operator {}", unary.operator),
                }
            }
            Kind::InList(list) => {
                let value = self.expression(list.value.as_deref(), over)?;
                let members = self.expressions(&list.list, over)?;
                Arc::new(InListExpr::try_new(value, members, list.negated, over)?)
            }
            Kind::Like(like) => Arc::new(LikeExpr::new(
                like.negated,
                like.ignores_case,
                self.expression(like.value.as_deref(), over)?,
                self.expression(like.pattern.as_deref(), over)?,
            )),
            Kind::Case(case) => self.case(case, over)?,
            Kind::Cast(cast) => {
                let value = self.expression(cast.value.as_deref(), over)?;
                let data_type = self.field(cast.field)?.data_type().clone();
                match cast.tries {
                    true => Arc::new(TryCastExpr::new(value, data_type)),
                    false => Arc::new(CastExpr::new(value, data_type, None)),
                }
            }
            Kind::Call(call) => self.call(call, over)?,
        })
    }

    pub(crate) fn expressions(
        &self,
        from: &[wire::Expression],
        over: &Schema,
    ) -> PlanResult<Vec<Known>> {
        from.iter().map(|from| self.expression(Some(from), over)).collect()
    }

    fn case(&self, case: &wire::Case, over: &Schema) -> PlanResult<Known> {
        let optional = |from: Option<&wire::Expression>| match from {
            Some(_) => self.expression(from, over).map(Some),
            None => Ok(None),
        };
        let conditions = self.expressions(&case.conditions, over)?;
        let results = self.expressions(&case.results, over)?;
        let branches = conditions.into_iter().zip(results).collect();
        let value = optional(case.value.as_deref())?;
        let otherwise = optional(case.otherwise.as_deref())?;
        Ok(Arc::new(CaseExpr::try_new(value, branches, otherwise)?))
    }

    fn call(&self, call: &wire::Call, over: &Schema) -> PlanResult<Known> {
        let Some(function) = KNOWN.scalar_functions().get(&call.function) else {
            return plan_err!("nobody knows the function {}", call.function);
        };
        let arguments = self.expressions(&call.arguments, over)?;
        let field = Arc::clone(self.field(call.field)?);
        let options = Arc::clone(KNOWN.config_options());
        let function = Arc::clone(function);
        let call = ScalarFunctionExpr::new(&call.function, function, arguments, field, options);
        Ok(Arc::new(call))
    }

    fn field(&self, place: u32) -> PlanResult<&FieldRef> {
        match self.fields.get(place as usize) {
            Some(field) => Ok(field),
            None => plan_err!("a fragment has no field {place}"),
        }
    }

    /// Finds an aggregate function.
    ///
    /// # Errors
    /// If it is unknown.
    pub(crate) fn aggregate(name: &str) -> PlanResult<Arc<AggregateUDF>> {
        match KNOWN.aggregate_functions().get(name) {
            Some(function) => Ok(Arc::clone(function)),
            None => plan_err!("nobody knows the aggregate {name}"),
        }
    }
}
