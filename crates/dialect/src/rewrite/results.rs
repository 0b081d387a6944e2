//! Functions whose results have another type in PostgreSQL than DataFusion gives them.

use datafusion::sql::sqlparser::ast::{
    ArrayElemTypeDef, DataType, ExactNumberInfo, Expr, Function,
};

use super::build::{arguments_of, cast};
use super::names::normalized;
use super::operators::literal_text;

/// Puts a cast around such a call; to be called after everything inside `expr` was visited.
pub(super) fn retype(expr: &mut Expr) {
    let Expr::Function(function) = &*expr else { return };
    let Some(name) = function.name.0.last().and_then(|part| part.as_ident()).map(normalized) else {
        return;
    };
    let data_type = match name.as_str() {
        "row_number" | "rank" | "dense_rank" if function.over.is_some() => DataType::BigInt(None),
        "ntile" if function.over.is_some() => DataType::Integer(None),
        "array_position" | "regexp_count" | "regexp_instr" => DataType::Integer(None),
        "array_positions" => {
            let item = Box::new(DataType::Integer(None));
            DataType::Array(ArrayElemTypeDef::SquareBracket(item, None))
        }
        "gen_random_uuid" => DataType::Uuid,
        "to_number" => match numeric_of_pattern(function) {
            Some(data_type) => data_type,
            None => return,
        },
        _ => return,
    };
    *expr = cast(expr.clone(), data_type);
}

/// `to_number(text, '999.99')` has as many digits behind the point as its pattern.
fn numeric_of_pattern(function: &Function) -> Option<DataType> {
    let arguments = arguments_of(function)?;
    let pattern = literal_text(arguments.get(1)?)?.to_ascii_uppercase();
    let fraction = pattern.split_once(['.', 'D']).map_or("", |(_, fraction)| fraction);
    let digits = fraction.bytes().filter(|byte| matches!(byte, b'9' | b'0')).count();
    let info = ExactNumberInfo::PrecisionAndScale(38, digits.min(30) as i64);
    Some(DataType::Numeric(info))
}
