//! What is to be found: filter, keys and aggregates over the columns of one table.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use thalweg_store::ChunkView;

use super::keys::{Kind, Layout, WORDS_MAX};
use super::number::{Lane, Number};
use super::predicate::Predicate;
use super::states::{Seen, State, StateKind};

/// One column of what rows are grouped by.
#[derive(Clone, Debug)]
pub struct Key {
    pub value: KeyValue,
    pub data_type: DataType,
}

/// Where a column of a key comes from. Columns are places among those of the aggregation.
#[derive(Clone, Debug, PartialEq)]
pub enum KeyValue {
    Column(usize),
    /// A whole number.
    Int(Number),
}

/// What is found for each group.
#[derive(Clone, Debug, PartialEq)]
pub enum Measure {
    /// How many rows there are.
    Rows,
    /// In how many of them a column is not NULL.
    Count {
        column: usize,
    },
    /// In how many of them a number is not NULL.
    CountNumber {
        lane: Lane,
        number: Number,
    },
    Sum {
        lane: Lane,
        number: Number,
    },
    Extreme {
        lane: Lane,
        number: Number,
        greatest: bool,
    },
    TextExtreme {
        column: usize,
        greatest: bool,
    },
}

/// What measures are given.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Input {
    Number(Lane, Number),
    Text(usize),
    Nulls(usize),
}

impl Measure {
    fn input(&self) -> Option<Input> {
        Some(match self {
            Measure::Rows => return None,
            Measure::Count { column } => Input::Nulls(*column),
            Measure::CountNumber { lane, number }
            | Measure::Sum { lane, number }
            | Measure::Extreme { lane, number, .. } => Input::Number(*lane, number.clone()),
            Measure::TextExtreme { column, .. } => Input::Text(*column),
        })
    }

    fn kind(&self) -> StateKind {
        match self {
            Measure::Rows | Measure::Count { .. } | Measure::CountNumber { .. } => StateKind::Count,
            Measure::Sum { lane, .. } => StateKind::Sum(*lane),
            Measure::Extreme { lane, greatest, .. } => {
                StateKind::Extreme { lane: *lane, greatest: *greatest }
            }
            Measure::TextExtreme { greatest, .. } => StateKind::TextExtreme { greatest: *greatest },
        }
    }
}

/// Aggregates of the rows of one table that pass a filter, for each group of equal keys.
///
/// Without keys there is one group, also of no rows.
#[derive(Debug)]
pub struct Aggregation {
    /// The places in the table of the columns that are read.
    pub(crate) columns: Vec<usize>,
    pub(crate) filter: Option<Predicate>,
    pub(crate) keys: Vec<Key>,
    pub(crate) kinds: Vec<Kind>,
    pub(crate) measures: Vec<Measure>,
    /// Each thing that some measure is given, once.
    pub(crate) inputs: Vec<Input>,
    /// For each measure, the place of its input.
    pub(crate) input_of: Vec<Option<usize>>,
}

impl Aggregation {
    /// `columns` are the places in the table of what the other parts call columns 0, 1 and so on.
    ///
    /// `None` where the keys are of types, or as many, that they cannot be grouped by.
    #[must_use]
    pub fn new(
        columns: Vec<usize>,
        filter: Option<Predicate>,
        keys: Vec<Key>,
        measures: Vec<Measure>,
    ) -> Option<Aggregation> {
        let kinds: Vec<Kind> =
            keys.iter().map(|key| Kind::of(&key.data_type)).collect::<Option<_>>()?;
        if Layout::new(&kinds).words > WORDS_MAX {
            return None;
        }
        let mut inputs: Vec<Input> = Vec::new();
        let input_of = measures.iter().map(|measure| {
            let input = measure.input()?;
            let known = inputs.iter().position(|known| *known == input);
            Some(known.unwrap_or_else(|| {
                inputs.push(input);
                inputs.len() - 1
            }))
        });
        let input_of = input_of.collect();
        Some(Aggregation { columns, filter, keys, kinds, measures, inputs, input_of })
    }

    /// Whether a chunk may hold rows that pass the filter, by what the chunk says of itself.
    #[must_use]
    pub fn may_concern(&self, chunk: &ChunkView) -> bool {
        let filter = self.filter.as_ref();
        filter.is_none_or(|filter| filter.is_possible(chunk, &self.columns))
    }

    /// The columns of partial results: the keys, then a state for each measure.
    #[must_use]
    pub fn partial_schema(&self) -> SchemaRef {
        let keys = self.keys.iter().map(|key| key.data_type.clone());
        let states = self.states().into_iter().map(|state| state.state_type());
        let fields = keys.chain(states).enumerate();
        let fields: Vec<Field> = fields
            .map(|(place, data_type)| Field::new(format!("c{place}"), data_type, true))
            .collect();
        Arc::new(Schema::new(fields))
    }

    /// States without groups. Only without keys there may be a group that has no rows.
    pub(crate) fn states(&self) -> Vec<State> {
        let seen = || if self.keys.is_empty() { Seen::none() } else { Seen::by_rows() };
        self.measures.iter().map(|measure| State::new(measure.kind(), seen())).collect()
    }

    pub(crate) fn kind_of(&self, measure: usize) -> StateKind {
        self.measures[measure].kind()
    }
}
