//! Types of `WITH RECURSIVE` queries.
//!
//! DataFusion casts each column of the recursive part to the type of the first part, which rounds.
//! PostgreSQL refuses a column whose common type is another one. Aggregates over the query itself
//! are refused, too.

use arrow::datatypes::{DECIMAL128_MAX_PRECISION, DataType as ArrowType, Field};
use datafusion::common::{DFSchema, Result as PlanResult};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, RecursiveQuery};
use thalweg_types::{Error, SqlState};
use thalweg_values::common_type::of_all;
use thalweg_values::errors::external;
use thalweg_values::types::display_name;

use super::unions::mismatch;
use super::unknown::{Family, is_unknown};

/// # Errors
/// If a recursive query has a column whose type is not that of its first part, or aggregates over
/// itself.
pub(super) fn check(query: &RecursiveQuery) -> PlanResult<()> {
    if aggregates_over(&query.recursive_term, &query.name) {
        return Err(external(Error::new(
            SqlState::INVALID_RECURSION,
            "aggregate functions are not allowed in a recursive query's recursive term",
        )));
    }
    let LogicalPlan::Projection(rows) = query.recursive_term.as_ref() else { return Ok(()) };
    let columns = query.static_term.schema().fields();
    for (place, (item, first)) in rows.expr.iter().zip(columns).enumerate() {
        if let Some(written) = written(item, rows.input.schema()) {
            check_column(&query.name, place + 1, first, &written, &query.static_term)?;
        }
    }
    Ok(())
}

/// The field of a column before DataFusion casts it to another type; `None` if it does not, and
/// for a literal without a type of its own.
fn written(item: &Expr, schema: &DFSchema) -> Option<Field> {
    match item {
        Expr::Alias(alias) => written(&alias.expr, schema),
        Expr::Cast(cast) if !is_unknown(&cast.expr) => {
            let (_, field) = cast.expr.to_field(schema).ok()?;
            (!field.data_type().is_null()).then(|| field.as_ref().clone())
        }
        _ => None,
    }
}

fn check_column(
    name: &str,
    place: usize,
    first: &Field,
    written: &Field,
    first_part: &LogicalPlan,
) -> PlanResult<()> {
    let (from, to) = (&signed(written.data_type()), &signed(first.data_type()));
    if !Family::of(to).compares_with(Family::of(from)) {
        return Err(mismatch("UNION", first, written));
    }
    if to.is_null() || Family::of(to) == Family::Text {
        return Ok(());
    }
    let overall = of_all(&[to.clone(), from.clone()]).unwrap_or_else(|| from.clone());
    let is_numeric = |given: &ArrowType| matches!(given, ArrowType::Decimal128(..));
    match (to, from) {
        (ArrowType::Decimal128(digits, own), ArrowType::Decimal128(_, scale)) if scale > own => {
            Err(match *digits == DECIMAL128_MAX_PRECISION || is_computed(first_part, place - 1) {
                true => more_digits(name, place),
                false => differs(name, place, first, "numeric"),
            })
        }
        _ if overall == *to || (is_numeric(&overall) && is_numeric(to)) => Ok(()),
        _ => {
            let overall = display_name(&Field::new("", overall, true));
            Err(differs(name, place, first, overall.split('(').next().unwrap_or_default()))
        }
    }
}

/// The type of a column in SQL, where functions of DataFusion count without a sign.
fn signed(given: &ArrowType) -> ArrowType {
    match given {
        ArrowType::UInt8 | ArrowType::UInt16 | ArrowType::UInt32 | ArrowType::UInt64 => {
            ArrowType::Int64
        }
        other => other.clone(),
    }
}

/// True if a column of the first part is neither a column nor a cast, so that it is a numeric
/// without precision and scale.
fn is_computed(first_part: &LogicalPlan, place: usize) -> bool {
    fn is_plain(item: &Expr) -> bool {
        match item {
            Expr::Alias(alias) => is_plain(&alias.expr),
            Expr::Cast(_) | Expr::Column(_) => true,
            _ => false,
        }
    }
    match first_part {
        LogicalPlan::Projection(rows) => rows.expr.get(place).is_some_and(|item| !is_plain(item)),
        LogicalPlan::SubqueryAlias(alias) => is_computed(&alias.input, place),
        _ => false,
    }
}

fn differs(name: &str, place: usize, first: &Field, overall: &str) -> DataFusionError {
    let first = display_name(first);
    let error_text = format!(
        "recursive query \"{name}\" column {place} has type {first} in non-recursive term but type \
         {overall} overall"
    );
    let error = Error::new(SqlState::DATATYPE_MISMATCH, error_text);
    external(error.with_hint("Cast the output of the non-recursive term to the correct type."))
}

fn more_digits(name: &str, place: usize) -> DataFusionError {
    let feature = format!(
        "a recursive query \"{name}\" whose column {place} gets more digits behind the point"
    );
    let hint = "Cast the column to numeric(p, s) in both terms.";
    external(Error::unsupported(feature).with_hint(hint))
}

/// True if a query aggregates rows of the relation, but not rows of a query in its FROM.
fn aggregates_over(plan: &LogicalPlan, name: &str) -> bool {
    match plan {
        LogicalPlan::Aggregate(aggregate) if !aggregate.aggr_expr.is_empty() => {
            reads(&aggregate.input, name)
        }
        plan => plan.inputs().into_iter().any(|input| aggregates_over(input, name)),
    }
}

fn reads(plan: &LogicalPlan, name: &str) -> bool {
    match plan {
        LogicalPlan::TableScan(scan) => scan.table_name.table() == name,
        LogicalPlan::SubqueryAlias(alias) => {
            matches!(alias.input.as_ref(), LogicalPlan::TableScan(_)) && reads(&alias.input, name)
        }
        plan => plan.inputs().into_iter().any(|input| reads(input, name)),
    }
}
