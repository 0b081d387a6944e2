//! Operators and casts that DataFusion cannot plan, or reads differently, spelled as functions.

use std::sync::Arc;

use arrow::datatypes::{DataType as ArrowType, Field};
use datafusion::sql::sqlparser::ast::{
    AccessExpr, ArrayElemTypeDef, BinaryOperator, DataType, DuplicateTreatment, ExactNumberInfo,
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentClause, FunctionArguments, Ident,
    ObjectName, Subscript, TimezoneInfo, TypedString, UnaryOperator, Value,
};
use thalweg_formats::text::with_own_digits;
use thalweg_types::{Error, Result, SqlState};

use super::build::{arguments_of, call, cast, negate_if};
use super::names::normalized;
use super::records::ROW_OF_LIST;
use super::sources::has_column;
use super::{distinct_items, intervals, normal_forms};

/// Rewrites `expr` itself; the expressions inside are rewritten separately.
pub(super) fn respell(expr: &mut Expr) -> Result<()> {
    let respelled = match expr {
        Expr::AtTimeZone { timestamp, time_zone } => {
            Some(call("timezone", vec![*time_zone.clone(), *timestamp.clone()]))
        }
        Expr::UnaryOp { op, expr } => unary(*op, expr),
        Expr::BinaryOp { left, op: BinaryOperator::PGStartsWith, right } => {
            Some(call("starts_with", vec![*left.clone(), *right.clone()]))
        }
        Expr::Collate { expr, collation } => Some(collated(expr, collation)?),
        Expr::SimilarTo { negated, expr, pattern, escape_char } => {
            let mut arguments = vec![*expr.clone(), *pattern.clone()];
            arguments.extend(escape_char.clone().map(Expr::Value));
            Some(negate_if(*negated, call("similar_to", arguments)))
        }
        Expr::Cast { expr, data_type, .. } if is_bare_numeric(data_type) => Some(numeric(expr)),
        Expr::Cast { expr, data_type, .. } if is_bare_numeric_array(data_type) => {
            Some(numeric_array(expr, data_type))
        }
        Expr::Cast { expr, data_type: DataType::Timestamp(Some(digits), zone), .. } => {
            Some(rounded(cast(*expr.clone(), DataType::Timestamp(None, *zone)), *digits))
        }
        Expr::Cast { expr, data_type: DataType::Time(Some(digits), zone), .. } => {
            Some(rounded(cast(*expr.clone(), DataType::Time(None, *zone)), *digits))
        }
        Expr::TypedString(typed) if is_bare_numeric(&typed.data_type) => {
            Some(numeric(&Expr::Value(typed.value.clone())))
        }
        Expr::TypedString(typed) => rounded_literal(typed),
        // `substring(text FROM 'pattern')`
        Expr::Substring { expr, substring_from: Some(from), substring_for: None, .. }
            if literal_text(from).is_some() =>
        {
            Some(call("substring_pattern", vec![*expr.clone(), *from.clone()]))
        }
        Expr::Identifier(name) if name.quote_style.is_none() => keyword(&normalized(name)),
        Expr::Function(function) if function.args == FunctionArguments::None => {
            keyword(&function.name.to_string().to_lowercase())
        }
        Expr::IsNormalized { expr, form, negated } => {
            Some(normal_forms::tested(expr, form.as_ref(), *negated))
        }
        Expr::Function(function) => {
            check_nulls(function)?;
            distinct_items::check_order(function)?;
            distinct_array(function)
                .or_else(|| list_aggregate(function))
                .or_else(|| list_of_json(function))
                .or_else(|| text_aggregate(function))
                .or_else(|| object_aggregate(function))
                .or_else(|| interval_parts(function))
                .or_else(|| age_of_today(function))
                .or_else(|| now_rounded(function))
                .map_or_else(|| normal_forms::made(function), |respelled| Ok(Some(respelled)))?
        }
        Expr::Interval(interval) => {
            intervals::check_fields(interval)?;
            None
        }
        Expr::Cast { expr, data_type: DataType::Interval { fields, precision }, .. } => {
            intervals::in_fields(expr, fields.as_ref(), *precision)?
        }
        Expr::CompoundFieldAccess { root, access_chain } => slice(root, access_chain),
        _ => None,
    };
    if let Some(respelled) = respelled {
        *expr = respelled;
    }
    Ok(())
}

/// True if a name is a function that is called without parentheses.
pub(super) fn is_call_without_parentheses(expr: &Expr) -> bool {
    matches!(expr, Expr::Identifier(name)
        if name.quote_style.is_none() && keyword(&normalized(name)).is_some())
}

/// Words that are calls without parentheses.
fn keyword(name: &str) -> Option<Expr> {
    match name {
        // By the clocks of the session's zone.
        "localtimestamp" => {
            Some(cast(call("now", vec![]), DataType::Timestamp(None, TimezoneInfo::None)))
        }
        "current_date" => Some(cast(call("now", vec![]), DataType::Date)),
        "localtime" => {
            Some(cast(keyword("localtimestamp")?, DataType::Time(None, TimezoneInfo::None)))
        }
        "current_role" | "current_schema" => Some(call(name, vec![])),
        _ => None,
    }
}

/// Refuses IGNORE NULLS and RESPECT NULLS for aggregates that gather two lists: both must have as
/// many items.
fn check_nulls(function: &Function) -> Result<()> {
    let name = function.name.0.last().and_then(|part| part.as_ident()).map(normalized);
    let name = name.unwrap_or_default();
    let FunctionArguments::List(list) = &function.args else { return Ok(()) };
    let in_arguments = |clause: &FunctionArgumentClause| {
        matches!(clause, FunctionArgumentClause::IgnoreOrRespectNulls(_))
    };
    if matches!(name.as_str(), "string_agg" | "json_object_agg" | "jsonb_object_agg")
        && (function.null_treatment.is_some() || list.clauses.iter().any(in_arguments))
    {
        return Err(Error::unsupported(format!("IGNORE NULLS or RESPECT NULLS for {name}")));
    }
    Ok(())
}

/// `array_agg(DISTINCT value ORDER BY value)`: an array of distinct values that is sorted later. As
/// an aggregate it would share one order with all others of its query.
fn distinct_array(function: &Function) -> Option<Expr> {
    if normalized(function.name.0.last()?.as_ident()?) != "array_agg" {
        return None;
    }
    let (descending, nulls_first) = distinct_items::written_order_of(function)?;
    let unordered = Expr::Function(distinct_items::without_order(function));
    Some(sorted_items(unordered, descending, nulls_first))
}

fn sorted_items(items: Expr, descending: bool, nulls_first: bool) -> Expr {
    let direction = [descending, nulls_first].map(|is| Expr::value(Value::Boolean(is)));
    call("array_sorted", [items].into_iter().chain(direction).collect())
}

/// `json_agg(value)`: the items of `array_agg(to_json(value))`. An array forgets which of its items
/// are JSON already, so they all are.
fn list_aggregate(function: &Function) -> Option<Expr> {
    let (written, item) = match normalized(function.name.0.last()?.as_ident()?).as_str() {
        "json_agg" => ("json_agg_items", "to_json"),
        "jsonb_agg" => ("jsonb_agg_items", "to_jsonb"),
        _ => return None,
    };
    let FunctionArguments::List(list) = &function.args else { return None };
    let [FunctionArg::Unnamed(FunctionArgExpr::Expr(value))] = list.args.as_slice() else {
        return None;
    };
    let is_row = matches!(value, Expr::Function(row) if row.name.to_string() == ROW_OF_LIST);
    let written = if is_row { "json_agg_rows" } else { written };
    let item = call(item, vec![value.clone()]);
    let items = match distinct_items::order_of(function) {
        Some((descending, nulls_first)) => {
            let unordered = distinct_items::without_order(function);
            let direction = [descending, nulls_first].map(|is| Expr::value(Value::Boolean(is)));
            let gathered = gathered(&unordered, item)?;
            call("json_sorted_items", [gathered].into_iter().chain(direction).collect())
        }
        None => gathered(function, item)?,
    };
    Some(call(written, vec![items]))
}

/// `to_json(array_agg(value))` and `to_json(ARRAY[value, …])`: the items as JSON each, because an
/// array forgets which of its items are JSON already.
fn list_of_json(function: &Function) -> Option<Expr> {
    let (written, item) = match normalized(function.name.0.last()?.as_ident()?).as_str() {
        "to_json" | "array_to_json" => ("json_list_items", "to_json"),
        "to_jsonb" => ("jsonb_list_items", "to_jsonb"),
        _ => return None,
    };
    let arguments = arguments_of(function)?;
    let [list] = arguments.as_slice() else { return None };
    let list = match list {
        Expr::Function(aggregate)
            if normalized(aggregate.name.0.last()?.as_ident()?) == "array_agg" =>
        {
            let [value] = arguments_of(aggregate)?.try_into().ok()?;
            let value: &Expr = value;
            gathered(aggregate, call(item, vec![value.clone()]))?
        }
        Expr::Array(array) if array.elem.iter().all(has_own_type) => {
            let mut array = array.clone();
            for value in &mut array.elem {
                *value = call(item, vec![value.clone()]);
            }
            Expr::Array(array)
        }
        _ => return None,
    };
    Some(call(written, vec![list]))
}

/// True if an expression is a call or a cast, whose type its neighbours do not change.
fn has_own_type(expr: &Expr) -> bool {
    matches!(expr, Expr::Function(_) | Expr::Cast { .. } | Expr::TypedString(_))
}

/// `string_agg(text, separator)`: the joined items of an array, which can have an order of its own.
/// As an aggregate it would share one order with all others of its query, and have no limit.
/// Separators that differ from row to row are in a second array.
fn text_aggregate(function: &Function) -> Option<Expr> {
    if normalized(function.name.0.last()?.as_ident()?) != "string_agg" {
        return None;
    }
    let FunctionArguments::List(list) = &function.args else { return None };
    let [
        FunctionArg::Unnamed(FunctionArgExpr::Expr(value)),
        FunctionArg::Unnamed(FunctionArgExpr::Expr(separator)),
    ] = list.args.as_slice()
    else {
        return None;
    };
    let is_distinct = list.duplicate_treatment == Some(DuplicateTreatment::Distinct);
    let differs = has_column(separator);
    if differs && is_distinct {
        return None;
    }
    let mut known = function.clone();
    let is_known = Expr::IsNotNull(Box::new(Expr::Nested(Box::new(value.clone()))));
    known.filter = Some(Box::new(match known.filter.take() {
        Some(filter) => {
            binary(Expr::Nested(filter), BinaryOperator::And, Expr::Nested(Box::new(is_known)))
        }
        None => is_known,
    }));
    let items = match distinct_items::written_order_of(&known) {
        Some((descending, nulls_first)) => {
            let unordered = distinct_items::without_order(&known);
            sorted_items(gathered(&unordered, value.clone())?, descending, nulls_first)
        }
        None => gathered(&known, value.clone())?,
    };
    Some(match differs {
        true => call("string_agg_pairs", vec![items, gathered(&known, separator.clone())?]),
        false => call("string_agg_items", vec![items, separator.clone()]),
    })
}

/// `json_object_agg(key, value)`: an object of two lists.
fn object_aggregate(function: &Function) -> Option<Expr> {
    let (written, item) = match normalized(function.name.0.last()?.as_ident()?).as_str() {
        "json_object_agg" => ("json_object_items", "to_json"),
        "jsonb_object_agg" => ("jsonb_object_items", "to_jsonb"),
        _ => return None,
    };
    let FunctionArguments::List(list) = &function.args else { return None };
    let [
        FunctionArg::Unnamed(FunctionArgExpr::Expr(key)),
        FunctionArg::Unnamed(FunctionArgExpr::Expr(value)),
    ] = list.args.as_slice()
    else {
        return None;
    };
    let keys = gathered(function, key.clone())?;
    let values = gathered(function, call(item, vec![value.clone()]))?;
    Some(call(written, vec![keys, values]))
}

/// The aggregate as `array_agg` of one value, with the order and the filter that it has.
fn gathered(aggregate: &Function, value: Expr) -> Option<Expr> {
    let mut gathered = aggregate.clone();
    gathered.name = ObjectName::from(vec![Ident::new("array_agg")]);
    let FunctionArguments::List(list) = &mut gathered.args else { return None };
    list.args = vec![FunctionArg::Unnamed(FunctionArgExpr::Expr(value))];
    Some(Expr::Function(gathered))
}

fn unary(op: UnaryOperator, operand: &Expr) -> Option<Expr> {
    let name = match op {
        // DataFusion would put the sign into the text, where it belongs to the first part alone.
        UnaryOperator::Minus if matches!(operand, Expr::Interval(_)) => {
            let expr = Box::new(Expr::Nested(Box::new(operand.clone())));
            return Some(Expr::UnaryOp { op, expr });
        }
        UnaryOperator::BitwiseNot => "bitwise_not",
        UnaryOperator::PGSquareRoot => "sqrt",
        UnaryOperator::PGCubeRoot => "cbrt",
        UnaryOperator::PGAbs => "abs",
        _ => return None,
    };
    Some(call(name, vec![operand.clone()]))
}

/// Text is ordered by its code points. Only collations with this order are accepted.
fn collated(expr: &Expr, collation: &ObjectName) -> Result<Expr> {
    check_collation(collation).map(|()| expr.clone())
}

/// Refuses collations with another order of text.
pub fn check_collation(collation: &ObjectName) -> Result<()> {
    let name = collation.0.last().and_then(|part| part.as_ident()).map(normalized);
    let name = name.unwrap_or_default();
    match name.as_str() {
        "C" | "POSIX" | "default" | "ucs_basic" | "C.UTF-8" | "C.utf8" => Ok(()),
        _ => Err(Error::new(
            SqlState::UNDEFINED_OBJECT,
            format!("collation \"{name}\" for encoding \"UTF8\" does not exist"),
        )),
    }
}

fn is_bare_numeric(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Numeric(ExactNumberInfo::None)
            | DataType::Decimal(ExactNumberInfo::None)
            | DataType::Dec(ExactNumberInfo::None)
    )
}

/// `CAST(expr AS numeric)` keeps the digits of the value.
fn numeric(expr: &Expr) -> Expr {
    let digits = match expr {
        Expr::Value(value) => match &value.value {
            Value::Number(digits, _) => Some(digits.to_string()),
            _ => literal_text(expr).map(|text| text.trim().to_owned()),
        },
        _ => None,
    };
    let scale = digits.as_deref().and_then(fraction_digits);
    match scale {
        Some(scale) => {
            let info = ExactNumberInfo::PrecisionAndScale(38, scale);
            cast(expr.clone(), DataType::Numeric(info))
        }
        None => call("numeric", vec![expr.clone()]),
    }
}

fn is_bare_numeric_array(data_type: &DataType) -> bool {
    match data_type {
        DataType::Array(ArrayElemTypeDef::SquareBracket(item, _)) => {
            is_bare_numeric(item) || is_bare_numeric_array(item)
        }
        _ => false,
    }
}

/// `CAST(expr AS numeric[])` keeps the digits of the items.
fn numeric_array(expr: &Expr, data_type: &DataType) -> Expr {
    match literal_text(expr) {
        // A text that is no array fails as the plain cast.
        Some(text) => {
            let digits = array_digits(text).unwrap_or(ExactNumberInfo::None);
            cast(expr.clone(), with_digits(data_type, digits))
        }
        None => call("numeric_array", vec![expr.clone()]),
    }
}

/// Precision and scale of the numbers in an array's text.
fn array_digits(text: &str) -> Option<ExactNumberInfo> {
    let item = Field::new(Field::LIST_FIELD_DEFAULT_NAME, ArrowType::Decimal128(38, 0), true);
    let list = Field::new("", ArrowType::List(Arc::new(item)), true);
    let own = with_own_digits(&Arc::new(list), text).ok()?;
    let ArrowType::List(item) = own.data_type() else { return None };
    let &ArrowType::Decimal128(precision, scale) = item.data_type() else { return None };
    Some(ExactNumberInfo::PrecisionAndScale(u64::from(precision), i64::from(scale)))
}

fn with_digits(data_type: &DataType, digits: ExactNumberInfo) -> DataType {
    match data_type {
        DataType::Array(ArrayElemTypeDef::SquareBracket(item, size)) => {
            let item = Box::new(with_digits(item, digits));
            DataType::Array(ArrayElemTypeDef::SquareBracket(item, *size))
        }
        _ => DataType::Numeric(digits),
    }
}

/// Number of digits that a plain number has behind the point, if a decimal has room for all its
/// digits.
fn fraction_digits(number: &str) -> Option<i64> {
    let number = number.strip_prefix(['-', '+']).unwrap_or(number);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let is_plain = !number.is_empty()
        && whole.bytes().chain(fraction.bytes()).all(|byte| byte.is_ascii_digit());
    (is_plain && whole.len() + fraction.len() <= 38).then_some(fraction.len() as i64)
}

/// The text of a literal in quotes.
pub(super) fn literal_text(expr: &Expr) -> Option<&str> {
    let Expr::Value(value) = expr else { return None };
    match &value.value {
        Value::SingleQuotedString(text) | Value::EscapedStringLiteral(text) => Some(text),
        Value::DollarQuotedString(quoted) => Some(&quoted.value),
        _ => None,
    }
}

/// `array[from:to]`, of which either end may be open.
fn slice(root: &Expr, chain: &[AccessExpr]) -> Option<Expr> {
    let [AccessExpr::Subscript(Subscript::Slice { lower_bound, upper_bound, stride: None })] =
        chain
    else {
        return None;
    };
    let open = |end: i64| Expr::value(Value::Number(end.to_string(), false));
    let lower = lower_bound.clone().unwrap_or_else(|| open(1));
    let upper = upper_bound.clone().unwrap_or_else(|| open(i64::from(i32::MAX)));
    Some(call("array_part", vec![root.clone(), lower, upper]))
}

/// `make_interval(days => 10)` with every part in its place.
fn interval_parts(function: &Function) -> Option<Expr> {
    const PARTS: [&str; 7] = ["years", "months", "weeks", "days", "hours", "mins", "secs"];
    if !function.name.to_string().eq_ignore_ascii_case("make_interval") {
        return None;
    }
    let FunctionArguments::List(list) = &function.args else { return None };
    if list.args.iter().all(|argument| matches!(argument, FunctionArg::Unnamed(_))) {
        return None;
    }
    let zero = || Expr::value(Value::Number("0".to_owned(), false));
    let mut parts: Vec<Expr> = PARTS.iter().map(|_| zero()).collect();
    for (place, argument) in list.args.iter().enumerate() {
        let (place, value) = match argument {
            FunctionArg::Named { name, arg: FunctionArgExpr::Expr(value), .. } => {
                let name = normalized(name);
                (PARTS.iter().position(|part| *part == name)?, value)
            }
            FunctionArg::Unnamed(FunctionArgExpr::Expr(value)) => (place, value),
            _ => return None,
        };
        *parts.get_mut(place)? = value.clone();
    }
    Some(call("make_interval", parts))
}

/// `age(moment)` counts from the beginning of today.
fn age_of_today(function: &Function) -> Option<Expr> {
    if normalized(function.name.0.last()?.as_ident()?) != "age" {
        return None;
    }
    let arguments = arguments_of(function)?;
    let [moment] = arguments.as_slice() else { return None };
    let today = cast(call("now", vec![]), DataType::Date);
    let today = cast(today, DataType::Timestamp(None, TimezoneInfo::None));
    Some(call("age", vec![today, (*moment).clone()]))
}

/// `current_timestamp(3)` and its like.
fn now_rounded(function: &Function) -> Option<Expr> {
    let now = match normalized(function.name.0.last()?.as_ident()?).as_str() {
        "current_timestamp" => call("now", vec![]),
        name @ ("localtimestamp" | "localtime") => keyword(name)?,
        _ => return None,
    };
    let arguments = arguments_of(function)?;
    let [digits] = arguments.as_slice() else { return None };
    let Expr::Value(digits) = digits else { return None };
    match &digits.value {
        Value::Number(digits, _) => Some(rounded(now, digits.to_string().parse().ok()?)),
        _ => None,
    }
}

/// Rounds a time or moment to so many digits of a second, at most six.
fn rounded(moment: Expr, digits: u64) -> Expr {
    if digits >= 6 {
        return moment;
    }
    let digits = Expr::value(Value::Number(digits.to_string(), false));
    call("round_moment", vec![moment, digits])
}

/// `timestamp(0) '2024-01-01 00:00:00.6'`
fn rounded_literal(typed: &TypedString) -> Option<Expr> {
    let (digits, plain) = match &typed.data_type {
        DataType::Timestamp(Some(digits), zone) => (*digits, DataType::Timestamp(None, *zone)),
        DataType::Time(Some(digits), zone) => (*digits, DataType::Time(None, *zone)),
        _ => return None,
    };
    Some(rounded(cast(Expr::Value(typed.value.clone()), plain), digits))
}

/// `a op b`
pub(super) fn binary(left: Expr, op: BinaryOperator, right: Expr) -> Expr {
    Expr::BinaryOp { left: Box::new(left), op, right: Box::new(right) }
}
