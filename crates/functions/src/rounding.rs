//! `round`, `trunc`, `ceil` and `floor`: numerics get the remaining scale, floats stay floats.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Decimal128Array, Float64Array};
use arrow::compute::cast;
use arrow::datatypes::{
    DataType as ArrowType, Decimal128Type, Field, FieldRef, Float64Type, Int64Type,
};
use datafusion::common::{Result as PlanResult, ScalarValue};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    TypeSignature, Volatility,
};
use thalweg_types::{Error, Result, SqlState};
use thalweg_values::arithmetic::numeric::{decimal_of, scaled_down};
use thalweg_values::errors::external;
use thalweg_values::scalar_function::Arguments;
use thalweg_values::types::display_name;

const PRECISION_MAX: i16 = 38;

pub(super) fn functions() -> Vec<Arc<ScalarUDF>> {
    [Manner::Round, Manner::Truncate, Manner::Ceiling, Manner::Floor]
        .map(|manner| Arc::new(ScalarUDF::from(Rounding::new(manner))))
        .into()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Manner {
    Round,
    Truncate,
    Ceiling,
    Floor,
}

impl Manner {
    fn float(self, value: f64) -> f64 {
        match self {
            Manner::Round => value.round_ties_even(),
            Manner::Truncate => value.trunc(),
            Manner::Ceiling => value.ceil(),
            Manner::Floor => value.floor(),
        }
    }

    /// Removes the last `digits` digits.
    fn decimal(self, value: i128, digits: u32) -> i128 {
        let Some(unit) = 10_i128.checked_pow(digits) else { return 0 };
        match self {
            Manner::Round => scaled_down(value, digits),
            Manner::Truncate => value / unit,
            Manner::Ceiling => -(-value).div_euclid(unit),
            Manner::Floor => value.div_euclid(unit),
        }
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Rounding {
    manner: Manner,
    signature: Signature,
    aliases: Vec<String>,
}

impl Rounding {
    fn new(manner: Manner) -> Rounding {
        let with_places = matches!(manner, Manner::Round | Manner::Truncate);
        let signature = match with_places {
            true => TypeSignature::OneOf(vec![TypeSignature::Any(1), TypeSignature::Any(2)]),
            false => TypeSignature::Any(1),
        };
        let aliases = if manner == Manner::Ceiling { vec!["ceiling".to_owned()] } else { vec![] };
        Rounding { manner, signature: Signature::new(signature, Volatility::Immutable), aliases }
    }

    /// The type of the result, with the places kept where they are known.
    fn returned(&self, arguments: &[&ArrowType], places: Option<i64>) -> Result<ArrowType> {
        let [given, rest @ ..] = arguments else { return Err(self.undefined(arguments)) };
        if matches!(given, ArrowType::Float16 | ArrowType::Float32 | ArrowType::Float64)
            || **given == ArrowType::Null
            || (given.is_integer() && rest.is_empty())
        {
            return Ok(ArrowType::Float64);
        }
        let (precision, scale) = decimal_of(given).ok_or_else(|| self.undefined(arguments))?;
        let kept = match (rest, places) {
            ([], _) => 0,
            (_, Some(places)) => places.clamp(0, 30) as i16,
            (_, None) => i16::from(scale),
        };
        // Rounding up may need one more digit.
        let whole = i16::from(precision) - i16::from(scale) + 1;
        let precision = (whole + kept).clamp(1, PRECISION_MAX);
        Ok(ArrowType::Decimal128(precision as u8, kept as i8))
    }

    fn undefined(&self, arguments: &[&ArrowType]) -> Error {
        let name =
            |data_type: &&ArrowType| display_name(&Field::new("", (*data_type).clone(), true));
        let names = arguments.iter().map(name).collect::<Vec<_>>().join(", ");
        let error_text = format!("function {}({names}) does not exist", self.name());
        Error::new(SqlState::UNDEFINED_FUNCTION, error_text)
            .with_hint("You might need to add explicit type casts.")
    }

    fn compute(&self, columns: &[ArrayRef], target: &ArrowType) -> Result<ArrayRef> {
        let error_text = |error| thalweg_values::errors::from_arrow_error(&error);
        let places = match columns.get(1) {
            Some(places) => Some(cast(places, &ArrowType::Int64).map_err(error_text)?),
            None => None,
        };
        let places = |row: usize| match &places {
            Some(places) => {
                places.is_valid(row).then(|| places.as_primitive::<Int64Type>().value(row))
            }
            None => Some(0),
        };
        let ArrowType::Decimal128(_, kept) = target else {
            let floats = cast(&columns[0], &ArrowType::Float64).map_err(error_text)?;
            let floats = floats.as_primitive::<Float64Type>().iter().enumerate();
            let rounded = floats.map(|(row, value)| {
                let (value, places) = (value?, places(row)?);
                let unit = 10_f64.powi(places.clamp(-308, 308) as i32);
                Some(if places == 0 {
                    self.manner.float(value)
                } else {
                    self.manner.float(value * unit) / unit
                })
            });
            return Ok(Arc::new(rounded.collect::<Float64Array>()));
        };
        let (precision, scale) = decimal_of(columns[0].data_type()).unwrap_or((38, 0));
        let values =
            cast(&columns[0], &ArrowType::Decimal128(precision, scale)).map_err(error_text)?;
        let values = values.as_primitive::<Decimal128Type>().iter().enumerate();
        let rounded = values.map(|(row, value)| {
            let (Some(value), Some(places)) = (value, places(row)) else { return Ok(None) };
            let (scale, kept) = (i64::from(scale), i64::from(*kept));
            let places = places.clamp(-40, kept);
            let dropped = u32::try_from(scale - places).unwrap_or(0);
            let rounded = self.manner.decimal(value, dropped);
            let added = u32::try_from(kept - (scale - i64::from(dropped))).unwrap_or(0);
            let unit = 10_i128.checked_pow(added);
            let scaled = match rounded {
                0 => Some(0),
                rounded => unit.and_then(|unit| rounded.checked_mul(unit)),
            };
            scaled.map(Some).ok_or_else(|| {
                Error::new(SqlState::NUMERIC_OUT_OF_RANGE, "value overflows numeric format")
            })
        });
        let rounded = rounded.collect::<Result<Decimal128Array>>()?;
        Ok(Arc::new(rounded.with_data_type(target.clone())))
    }
}

impl ScalarUDFImpl for Rounding {
    fn name(&self) -> &str {
        match self.manner {
            Manner::Round => "round",
            Manner::Truncate => "trunc",
            Manner::Ceiling => "ceil",
            Manner::Floor => "floor",
        }
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arg_types: &[ArrowType]) -> PlanResult<ArrowType> {
        let arguments: Vec<&ArrowType> = arg_types.iter().collect();
        self.returned(&arguments, None).map_err(external)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> PlanResult<FieldRef> {
        let arguments: Vec<&ArrowType> =
            args.arg_fields.iter().map(|field| field.data_type()).collect();
        let places = args.scalar_arguments.get(1).copied().flatten();
        let places = places.and_then(|places| match places.cast_to(&ArrowType::Int64) {
            Ok(ScalarValue::Int64(places)) => places,
            _ => None,
        });
        let data_type = self.returned(&arguments, places).map_err(external)?;
        Ok(Arc::new(Field::new(self.name(), data_type, true)))
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> PlanResult<ColumnarValue> {
        let target = args.return_field.data_type().clone();
        let arguments = Arguments::of(args.args, args.number_rows)?;
        arguments.result(self.compute(&arguments.columns, &target).map_err(external)?)
    }
}
