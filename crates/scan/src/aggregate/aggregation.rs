//! An aggregation: filter, keys and aggregates over the columns of one table.

use std::sync::Arc;

use arrow::datatypes::DataType;
use thalweg_store::ChunkView;

use super::key_set::KeySet;
use super::keys::{Kind, Layout, WORDS_MAX};
use super::number::{Lane, Number};
use super::order::Order;
use super::predicate::Predicate;
use super::states::{BitOperator, Seen, Spread, State, StateKind};

/// One GROUP BY column.
#[derive(Clone, Debug, PartialEq)]
pub struct Key {
    pub value: KeyValue,
    pub data_type: DataType,
}

/// The source of a key column. Columns are positions among those of the aggregation.
#[derive(Clone, Debug, PartialEq)]
pub enum KeyValue {
    Column(usize),
    /// An integer expression.
    Int(Number),
}

/// An aggregate of each group.
#[derive(Clone, Debug, PartialEq)]
pub enum Measure {
    /// Number of rows, as `count(*)`.
    Rows,
    /// Number of rows in which a column is not NULL.
    Count {
        column: usize,
    },
    /// Number of rows in which a number is not NULL.
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
    /// Number of distinct values of an integer or a float.
    CountDistinct {
        lane: Lane,
        number: Number,
    },
    /// Number of distinct values of a text.
    TextCountDistinct {
        column: usize,
    },
    /// Variance or standard deviation of floats.
    Spread {
        number: Number,
        spread: Spread,
    },
    /// Bitwise aggregate of integers.
    Bits {
        number: Number,
        operator: BitOperator,
    },
    /// A value of the row that comes first in an order.
    First {
        value: Picked,
        order: Order,
        /// True if rows with a NULL value are skipped.
        skips_nulls: bool,
    },
    /// Aggregate of the rows that satisfy a predicate, as `FILTER (WHERE …)`. The inner measure is
    /// not filtered itself.
    Filtered {
        filter: Predicate,
        measure: Box<Measure>,
    },
}

/// The value that [`Measure::First`] takes from its row.
#[derive(Clone, Debug, PartialEq)]
pub enum Picked {
    Number { lane: Lane, number: Number },
    Text { column: usize },
}

/// The argument of a measure.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Input {
    Number(Lane, Number),
    Text(usize),
    Nulls(usize),
    /// Numbers or texts, with the sort order of their rows.
    Ordered(Box<Input>, Order),
}

/// An input, with the filter of the rows for which it is needed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FilteredInput {
    pub input: Input,
    pub filter: Option<usize>,
}

impl Measure {
    fn input(&self) -> Option<Input> {
        Some(match self {
            Measure::Rows => return None,
            Measure::Count { column } => Input::Nulls(*column),
            Measure::CountNumber { lane, number }
            | Measure::Sum { lane, number }
            | Measure::CountDistinct { lane, number }
            | Measure::Extreme { lane, number, .. } => Input::Number(*lane, number.clone()),
            Measure::Spread { number, .. } => Input::Number(Lane::Float, number.clone()),
            Measure::Bits { number, .. } => Input::Number(Lane::Int, number.clone()),
            Measure::TextExtreme { column, .. } | Measure::TextCountDistinct { column } => {
                Input::Text(*column)
            }
            Measure::First { value, order, .. } => {
                Input::Ordered(Box::new(value.input()), order.clone())
            }
            Measure::Filtered { measure, .. } => return measure.input(),
        })
    }

    fn filter(&self) -> Option<&Predicate> {
        match self {
            Measure::Filtered { filter, .. } => Some(filter),
            _ => None,
        }
    }

    fn kind(&self) -> StateKind {
        match self {
            Measure::CountDistinct { .. } => StateKind::Distinct { texts: false },
            Measure::TextCountDistinct { .. } => StateKind::Distinct { texts: true },
            Measure::Spread { spread, .. } => StateKind::Spread(*spread),
            Measure::Bits { operator, .. } => StateKind::Bits(*operator),
            Measure::First { value, skips_nulls, .. } => {
                StateKind::First { lane: value.lane(), skips_nulls: *skips_nulls }
            }
            Measure::Filtered { measure, .. } => measure.kind(),
            Measure::Rows | Measure::Count { .. } | Measure::CountNumber { .. } => StateKind::Count,
            Measure::Sum { lane, .. } => StateKind::Sum(*lane),
            Measure::Extreme { lane, greatest, .. } => {
                StateKind::Extreme { lane: *lane, greatest: *greatest }
            }
            Measure::TextExtreme { greatest, .. } => StateKind::TextExtreme { greatest: *greatest },
        }
    }
}

impl Picked {
    fn input(&self) -> Input {
        match self {
            Picked::Number { lane, number } => Input::Number(*lane, number.clone()),
            Picked::Text { column } => Input::Text(*column),
        }
    }

    fn lane(&self) -> Option<Lane> {
        match self {
            Picked::Number { lane, .. } => Some(*lane),
            Picked::Text { .. } => None,
        }
    }
}

/// Aggregates over the rows of one table that pass a filter, for each group of equal keys.
///
/// Without keys there is exactly one group, even if there are no rows.
#[derive(Clone, Debug)]
pub struct Aggregation {
    /// Positions in the table of the columns that are read.
    pub(crate) columns: Vec<usize>,
    pub(crate) filter: Option<Predicate>,
    pub(crate) keys: Vec<Key>,
    pub(crate) kinds: Vec<Kind>,
    pub(crate) measures: Vec<Measure>,
    /// The distinct inputs of all measures.
    pub(crate) inputs: Vec<FilteredInput>,
    /// For each measure, the position of its input; `None` if it has none.
    pub(crate) input_of: Vec<Option<usize>>,
    /// The distinct filters of all measures.
    pub(crate) filters: Vec<Predicate>,
    /// For each measure, the position of its filter.
    pub(crate) filter_of: Vec<Option<usize>>,
}

/// The position of an element in a list; appends it if it is missing.
fn place_in<T: PartialEq>(list: &mut Vec<T>, element: T) -> usize {
    list.iter().position(|known| *known == element).unwrap_or_else(|| {
        list.push(element);
        list.len() - 1
    })
}

impl Aggregation {
    /// `columns` are the table's columns that the other parts call columns 0, 1 and so on.
    ///
    /// Returns `None` if a key's type is not supported or the keys are too wide.
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
        let (mut inputs, mut filters) = (Vec::new(), Vec::new());
        let (mut input_of, mut filter_of) = (Vec::new(), Vec::new());
        for measure in &measures {
            let filter = measure.filter().map(|filter| place_in(&mut filters, filter.clone()));
            let given = measure.input().map(|input| FilteredInput { input, filter });
            input_of.push(given.map(|given| place_in(&mut inputs, given)));
            filter_of.push(filter);
        }
        Some(Aggregation {
            columns,
            filter,
            keys,
            kinds,
            measures,
            inputs,
            input_of,
            filters,
            filter_of,
        })
    }

    /// Restricts the aggregation to groups whose key has one of these numbers in the column at
    /// `place` of the key; `None` if that is no integer column.
    #[must_use]
    pub fn among(&self, place: usize, keys: &Arc<KeySet>) -> Option<Aggregation> {
        let number = self.whole_key(place)?;
        let mut parts = vec![Predicate::AmongKeys { number, keys: Arc::clone(keys) }];
        parts.extend(self.filter.clone());
        Some(Aggregation { filter: Some(Predicate::And(parts)), ..self.clone() })
    }

    /// True if [`Aggregation::among`] supports that column of the key.
    #[must_use]
    pub fn has_whole_key(&self, place: usize) -> bool {
        self.whole_key(place).is_some()
    }

    fn whole_key(&self, place: usize) -> Option<Number> {
        let key = self.keys.get(place)?;
        let is_whole = matches!(key.data_type, DataType::Int16 | DataType::Int32 | DataType::Int64);
        match &key.value {
            _ if !is_whole => None,
            KeyValue::Column(column) => Some(Number::Column(*column)),
            KeyValue::Int(number) => Some(number.clone()),
        }
    }

    /// True if there are GROUP BY columns.
    #[must_use]
    pub fn has_keys(&self) -> bool {
        !self.keys.is_empty()
    }

    /// True if there is a filter.
    #[must_use]
    pub fn is_filtered(&self) -> bool {
        self.filter.is_some()
    }

    /// False if the chunk's zones prove that none of its rows passes the filter.
    #[must_use]
    pub fn may_concern(&self, chunk: &ChunkView) -> bool {
        let filter = self.filter.as_ref();
        filter.is_none_or(|filter| filter.is_possible(chunk, &self.columns))
    }

    /// New states without groups. A group without rows is possible only without keys, or for a
    /// measure with a filter of its own.
    pub(crate) fn states(&self) -> Vec<State> {
        let states = self.measures.iter().map(|measure| {
            let all_have_rows = !self.keys.is_empty() && measure.filter().is_none();
            let seen = if all_have_rows { Seen::by_rows() } else { Seen::none() };
            State::new(measure.kind(), seen)
        });
        states.collect()
    }

    pub(crate) fn kind_of(&self, measure: usize) -> StateKind {
        self.measures[measure].kind()
    }
}
