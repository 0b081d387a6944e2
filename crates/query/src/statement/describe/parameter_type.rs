//! The function that stands for an operator, a call or a choice among values while the types of
//! parameters are inferred.
//!
//! Its first arguments say what it stands for and which operands are parameters; the others are the
//! operands that are none. Once the query is planned, their types determine those of the parameters
//! by PostgreSQL's rules.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result, ScalarValue, exec_err, plan_err};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    BinaryExpr, ColumnarValue, Expr as PlanExpr, ExprSchemable, LogicalPlan,
    Operator as PlanOperator, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, Volatility,
};
use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Value,
};
use thalweg_formats::postgres::field_of_oid;
use thalweg_values::system_types::type_oid;
use thalweg_values::types::display_name;

use super::super::ast_tools;
use crate::catalog::overloads::{
    Overload, UNKNOWN, array_of, common_type, function, is_ambiguous_function,
    is_ambiguous_operator, item_of, operator,
};
use crate::parameters::{number, placeholder};

const NAME: &str = "thalweg_parameter_type";

/// Arguments ahead of the operands: rule, name, and the numbers of parameters.
const LEADING: usize = 3;

/// The way from the types of operands to those of parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    Operator,
    /// The first operand is compared with each of the others.
    EachWith,
    /// `x IN (…)` with several items.
    Listed,
    /// `x op ANY (array)`
    Quantified,
    /// All operands have one type, which is that of the result.
    Common,
    /// `nullif`: an operator between two operands; the result has the type of the first one.
    First,
    Function,
    /// The argument of a function at this place, and not the function's result.
    Argument(usize),
}

use Rule::{Argument, Common, EachWith, First, Function, Listed, Operator, Quantified};

impl Rule {
    fn text(self) -> String {
        match self {
            Operator => "operator".to_owned(),
            EachWith => "each".to_owned(),
            Listed => "listed".to_owned(),
            Quantified => "quantified".to_owned(),
            Common => "common".to_owned(),
            First => "first".to_owned(),
            Function => "function".to_owned(),
            Argument(at) => at.to_string(),
        }
    }

    fn from_text(text: &str) -> Option<Rule> {
        let plain = [Operator, EachWith, Listed, Quantified, Common, First, Function];
        let known = plain.into_iter().find(|rule| rule.text() == text);
        known.or_else(|| text.parse().ok().map(Argument))
    }

    /// The types of all operands, and that of the result.
    fn applied(self, name: &str, given: &[i64]) -> Option<Overload> {
        const BOOLEAN: i64 = 16;
        match (self, given) {
            (Operator, &[left, right]) => operator(name, left, right),
            (First, &[left, right]) => {
                let found = operator(name, left, right)?;
                Some(Overload { result: found.arguments[0], ..found })
            }
            (EachWith, &[first, ref others @ ..]) => {
                let known = others.iter().find(|other| **other != UNKNOWN).copied();
                let mut arguments =
                    vec![operator(name, first, known.unwrap_or(first))?.arguments[0]];
                for other in others {
                    arguments.push(operator(name, first, *other)?.arguments[1]);
                }
                Some(Overload { arguments, result: BOOLEAN })
            }
            (Listed | Common, given) => {
                let common = common_type(given)?;
                let result = if self == Common { common } else { BOOLEAN };
                Some(Overload { arguments: vec![common; given.len()], result })
            }
            (Quantified, &[left, right]) => {
                let item = if right == UNKNOWN { UNKNOWN } else { item_of(right)? };
                let found = operator(name, left, item)?;
                let arguments = vec![found.arguments[0], array_of(found.arguments[1])?];
                Some(Overload { arguments, result: BOOLEAN })
            }
            (Function, given) => function(name, given),
            (Argument(at), given) => {
                let found = function(name, given)?;
                Some(Overload { result: *found.arguments.get(at)?, ..found })
            }
            _ => None,
        }
    }
}

/// The call that stands for `name` between the operands.
pub(super) fn call(rule: Rule, name: &str, operands: &[&Expr]) -> Option<Expr> {
    let numbers: Vec<String> =
        operands.iter().map(|operand| number_of(operand).unwrap_or(0).to_string()).collect();
    let text = format!("{NAME}('', '', '{}')", numbers.join(" "));
    let mut call = ast_tools::expression(&text).ok()?;
    let Expr::Function(function) = &mut call else { return None };
    let FunctionArguments::List(list) = &mut function.args else { return None };
    for (at, text) in [rule.text(), name.to_owned()].into_iter().enumerate() {
        let text = Expr::value(Value::SingleQuotedString(text));
        list.args[at] = FunctionArg::Unnamed(FunctionArgExpr::Expr(text));
    }
    let others = operands.iter().filter(|operand| number_of(operand).is_none());
    let others = others.map(|other| FunctionArg::Unnamed(FunctionArgExpr::Expr((*other).clone())));
    list.args.extend(others);
    Some(call)
}

fn number_of(expr: &Expr) -> Option<usize> {
    match expr {
        Expr::Nested(inner) => number_of(inner),
        expr => number(placeholder(expr)?).ok(),
    }
}

/// The parameters that a plan determines, in the order of its nodes.
#[derive(Default)]
pub(super) struct Found {
    pub(super) typed: Typed,
    /// Parameters of operators and functions that are not unique, and the messages about them.
    pub(super) ambiguous: Vec<(Vec<usize>, String)>,
}

/// The types of the parameters in a plan.
pub(super) fn parameters_of(plan: &LogicalPlan) -> Found {
    let mut found = Found::default();
    let visited = plan.apply_with_subqueries(|plan| {
        let schema = merge_schema(&plan.inputs());
        plan.apply_expressions(|expr| {
            expr.apply(|expr| {
                if let PlanExpr::ScalarFunction(ScalarFunction { func, args }) = expr
                    && func.inner().is::<ParameterType>()
                {
                    let (leading, operands) = args.split_at(LEADING.min(args.len()));
                    let types = operands.iter().map(|operand| type_of_operand(operand, &schema));
                    let leading: Vec<Option<&str>> = leading.iter().map(text).collect();
                    let types = types.collect::<Option<Vec<_>>>();
                    if let Some(call) = types.and_then(|types| Call::of(&leading, types)) {
                        match call.inferred() {
                            Some((typed, _)) => found.typed.extend(typed),
                            None => found.ambiguous.extend(call.ambiguity()),
                        }
                    }
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    });
    debug_assert!(visited.is_ok(), "the visit itself never fails");
    found
}

/// The type of an operand as PostgreSQL has it.
fn type_of_operand(expr: &PlanExpr, schema: &DFSchema) -> Option<i64> {
    match expr {
        PlanExpr::Alias(alias) => type_of_operand(&alias.expr, schema),
        // DataFusion takes bytes beside a literal in quotes for a text.
        PlanExpr::BinaryExpr(BinaryExpr { left, op: PlanOperator::StringConcat, right }) => {
            let (left, right) = (type_of_operand(left, schema)?, type_of_operand(right, schema)?);
            Some(operator("||", left, right)?.result)
        }
        // DataFusion drops the metadata of the items.
        PlanExpr::AggregateFunction(call) if call.func.name() == "array_agg" => {
            let item = type_of_operand(call.params.args.first()?, schema)?;
            // The items of arrays of arrays have one type with those of the arrays.
            Some(if item_of(item).is_some() { item } else { array_of(item)? })
        }
        expr => Some(type_of(field_of_operand(expr, schema)?.as_ref(), literal(expr))),
    }
}

/// The field of an operand. DataFusion drops the metadata of subqueries, and gives casts that of
/// their argument.
fn field_of_operand(expr: &PlanExpr, schema: &DFSchema) -> Option<FieldRef> {
    match expr {
        PlanExpr::ScalarSubquery(subquery) => {
            Some(Arc::clone(subquery.subquery.schema().fields().first()?))
        }
        PlanExpr::Cast(cast) => Some(Arc::clone(&cast.field)),
        expr => Some(expr.to_field(schema).ok()?.1),
    }
}

fn literal(expr: &PlanExpr) -> Option<&ScalarValue> {
    match expr {
        PlanExpr::Literal(value, _) => Some(value),
        _ => None,
    }
}

fn text(expr: &PlanExpr) -> Option<&str> {
    literal(expr).and_then(text_of)
}

fn text_of(value: &ScalarValue) -> Option<&str> {
    value.try_as_str().flatten()
}

/// Parameters by their numbers, with their types.
type Typed = Vec<(usize, Field)>;

/// A call in place of an operator or a function.
struct Call<'c> {
    rule: Rule,
    name: &'c str,
    /// The parameters among the operands; 0 for other operands.
    numbers: Vec<usize>,
    /// The types of the operands.
    given: Vec<i64>,
}

impl<'c> Call<'c> {
    /// The leading arguments are texts, the types those of operands that are no parameters.
    fn of(leading: &[Option<&'c str>], known: Vec<i64>) -> Option<Call<'c>> {
        let &[Some(rule), Some(name), Some(numbered)] = leading else { return None };
        let rule = Rule::from_text(rule)?;
        let mut known = known.into_iter();
        let (mut numbers, mut given) = (Vec::new(), Vec::new());
        for number in numbered.split(' ') {
            let number: usize = number.parse().ok()?;
            given.push(if number == 0 { known.next()? } else { UNKNOWN });
            numbers.push(number);
        }
        Some(Call { rule, name, numbers, given })
    }

    /// The types of the parameters, and that of the result.
    fn inferred(&self) -> Option<(Typed, Option<Field>)> {
        let found = self.rule.applied(self.name, &self.given)?;
        let typed = self.numbers.iter().zip(&found.arguments).filter(|(number, _)| **number != 0);
        let typed = typed.filter_map(|(number, oid)| Some((*number, field_of(*oid)?))).collect();
        Some((typed, field_of(found.result)))
    }

    /// The parameters whose types stay open, and PostgreSQL's message, if several operators or
    /// functions are as good.
    fn ambiguity(&self) -> Option<(Vec<usize>, String)> {
        let shown =
            |oid: &i64| field_of(*oid).map_or_else(|| "unknown".to_owned(), |it| display_name(&it));
        let (name, types) = (self.name, self.given.iter().map(shown).collect::<Vec<_>>());
        let message = match (self.rule, types.as_slice()) {
            (Operator, [operand]) => format!("operator is not unique: {name} {operand}"),
            (Operator | First, [left, right])
                if is_ambiguous_operator(name, self.given[0], self.given[1]) =>
            {
                format!("operator is not unique: {left} {name} {right}")
            }
            (Function | Argument(_), types) if is_ambiguous_function(name, &self.given) => {
                format!("function {name}({}) is not unique", types.join(", "))
            }
            _ => return None,
        };
        let numbers = self.numbers.iter().copied().filter(|number| *number != 0).collect();
        Some((numbers, message))
    }
}

/// The type of an operand. A literal in quotes has none, and neither has NULL.
fn type_of(field: &Field, literal: Option<&ScalarValue>) -> i64 {
    let is_literal = literal.is_some() && field.data_type() == &DataType::Utf8;
    match is_literal || field.data_type().is_null() {
        true => UNKNOWN,
        false => i64::from(type_oid(field)),
    }
}

fn field_of(oid: i64) -> Option<Field> {
    let field = field_of_oid(u32::try_from(oid).ok()?)?;
    Some(field.as_ref().clone().with_name(""))
}

/// The function, for the states in which such queries are planned.
pub(super) fn udf() -> ScalarUDF {
    ScalarUDF::from(ParameterType { signature: Signature::variadic_any(Volatility::Immutable) })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct ParameterType {
    signature: Signature,
}

impl ScalarUDFImpl for ParameterType {
    fn name(&self) -> &str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        plan_err!("{NAME} has a type only where its arguments are known")
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let leading: Vec<Option<&str>> =
            args.scalar_arguments.iter().take(LEADING).map(|it| it.and_then(text_of)).collect();
        let operands = args.arg_fields.iter().zip(args.scalar_arguments).skip(LEADING);
        let types = operands.map(|(field, literal)| type_of(field, *literal)).collect();
        let found = Call::of(&leading, types).and_then(|call| call.inferred());
        let result = found.and_then(|found| found.1);
        let field = result.unwrap_or_else(|| Field::new("", DataType::Utf8View, true));
        Ok(Arc::new(field.with_name(NAME).with_nullable(true)))
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        exec_err!("{NAME} is never called")
    }
}
