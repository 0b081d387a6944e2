//! Evaluates a block before it is aggregated: which rows are wanted, their keys, and the arguments
//! of the measures.

use arrow::buffer::BooleanBuffer;
use thalweg_types::Result;

use super::aggregation::{Aggregation, FilteredInput, Input, KeyValue};
use super::kernels::{are_small, is_small};
use super::keys::KeyValues;
use super::number::{Block, Lane, Number};
use super::states::{Argument, Ordered};
use super::vector::{Mask, Rows, Values};

/// If fewer than one in this many rows are wanted, they are gathered.
const FEW: usize = 8;

/// The wanted rows of a block: live ones that pass the filter.
pub(crate) enum Wanted {
    None,
    All,
    Some { mask: Mask, count: usize },
}

impl Wanted {
    /// Evaluates the filter on a block. Fails if an expression fails in a row that it has to read.
    pub fn of(
        aggregation: &Aggregation,
        block: &Block<'_>,
        live: Option<&BooleanBuffer>,
    ) -> Result<Wanted> {
        if live.is_none() && aggregation.filter.is_none() {
            return Ok(Wanted::All);
        }
        let mut mask = Mask::live(live, block.start, block.length);
        if let Some(filter) = &aggregation.filter {
            filter.narrow(block, &mut mask)?;
        }
        Ok(match mask.count() {
            0 => Wanted::None,
            rows if rows == block.length => Wanted::All,
            count => Wanted::Some { mask, count },
        })
    }

    /// The offsets of the wanted rows, if they are so few that computing all rows would cost more.
    pub fn few_places(&self) -> Option<Vec<u16>> {
        match self {
            Wanted::Some { mask, count } if *count < mask.0.len() / FEW => Some(mask.places()),
            _ => None,
        }
    }
}

/// True if the arguments of all measures can be computed from the gathered wanted rows alone.
pub(crate) fn gathers(aggregation: &Aggregation) -> bool {
    let is_number = |given: &FilteredInput| match &given.input {
        Input::Number(_, number) => !number.has_choice(),
        Input::Nulls(_) => true,
        Input::Text(_) | Input::Ordered(..) => false,
    };
    aggregation.filters.is_empty() && aggregation.inputs.iter().all(is_number)
}

/// The arguments of the measures for the wanted rows of a block.
pub(crate) struct Evaluated<'a> {
    arguments: Vec<Argument<'a>>,
    /// For each filter that measures have of their own, the offsets of the rows that pass it too.
    passing: Vec<Vec<u16>>,
}

/// The argument of `count(*)`.
const NOTHING: &Argument<'static> = &Argument::Nulls(None);

impl<'a> Evaluated<'a> {
    /// `in_chunk`: the groups belong to this chunk alone.
    pub fn of(
        aggregation: &Aggregation,
        block: &Block<'a>,
        mask: Option<&Mask>,
        in_chunk: bool,
    ) -> Result<Evaluated<'a>> {
        let masks = aggregation.filters.iter().map(|filter| {
            let mut own = mask.map_or_else(|| Mask::all(block.length), |mask| Mask(mask.0.clone()));
            filter.narrow(block, &mut own)?;
            Ok(own)
        });
        let masks: Vec<Mask> = masks.collect::<Result<_>>()?;
        let arguments = aggregation.inputs.iter().map(|FilteredInput { input, filter }| {
            // Rows that fail the measure's own filter cannot raise an error.
            argument(input, block, filter.map(|filter| &masks[filter]).or(mask), in_chunk)
        });
        let arguments = arguments.collect::<Result<_>>()?;
        Ok(Evaluated { arguments, passing: masks.iter().map(Mask::places).collect() })
    }

    /// The argument of a measure, and the rows that it aggregates; without a filter these are
    /// `rows`.
    pub fn of_measure<'b>(
        &'b self,
        aggregation: &Aggregation,
        measure: usize,
        rows: Rows<'b>,
    ) -> (&'b Argument<'a>, Rows<'b>) {
        let argument =
            aggregation.input_of[measure].map_or(NOTHING, |input| &self.arguments[input]);
        let own = aggregation.filter_of[measure].map(|filter| Rows::Some(&self.passing[filter]));
        (argument, own.unwrap_or(rows))
    }
}

pub(crate) fn key_values<'a>(
    aggregation: &Aggregation,
    block: &Block<'a>,
    mask: Option<&Mask>,
) -> Result<Vec<KeyValues<'a>>> {
    let keys = aggregation.keys.iter().map(|key| match &key.value {
        KeyValue::Column(column) => {
            Ok(KeyValues::Stored { column: &block.source.columns[*column], start: block.start })
        }
        KeyValue::Int(number) => Ok(KeyValues::Computed(number.ints(block, mask)?)),
    });
    keys.collect()
}

fn argument<'a>(
    input: &Input,
    block: &Block<'a>,
    mask: Option<&Mask>,
    in_chunk: bool,
) -> Result<Argument<'a>> {
    Ok(match input {
        Input::Number(Lane::Int, number) => {
            let vector = number.ints(block, mask)?;
            let small = in_chunk && are_values_small(number, block, &vector.values);
            Argument::Ints { vector, small }
        }
        Input::Number(Lane::Float, number) => Argument::Floats(number.floats(block, mask)?),
        Input::Number(Lane::Decimal, number) => Argument::Decimals(number.decimals(block, mask)?),
        Input::Text(column) => {
            let nulls = block.nulls(*column);
            Argument::Texts { column: &block.source.columns[*column], start: block.start, nulls }
        }
        Input::Nulls(column) => Argument::Nulls(block.nulls(*column)),
        Input::Ordered(value, order) => Argument::Ordered(Box::new(Ordered {
            value: argument(value, block, mask, false)?,
            numbers: order.numbers(block, mask)?,
            direction: order.direction,
            first_row: block.source.row_id(block.start),
        })),
    })
}

fn are_values_small(number: &Number, block: &Block<'_>, values: &Values<'_, i64>) -> bool {
    if let Number::Column(column) = number
        && let Some((least, greatest)) = block.source.columns[*column].range
    {
        return is_small(least) && is_small(greatest);
    }
    match values {
        Values::Slice(values) => are_small(values),
        Values::Owned(values) => are_small(values),
        Values::Shared(values) => are_small(values),
        Values::Constant(value) => is_small(*value),
    }
}
