//! Tests on texts. In a dictionary each entry is tested once; otherwise views are compared, and the
//! bytes behind them are read only if the view does not decide.

use std::collections::HashSet;
use std::ops::Range;

use arrow::array::{Array, StringViewArray, make_view};

use super::number::Block;
use super::pattern::Pattern;
use super::predicate::Comparison;
use super::source::Data;
use super::vector::Mask;
use crate::simd::widest;

/// The longest text that lies within its view.
pub(crate) const INLINE_BYTES_MAX: usize = 12;

/// Lists of up to this many texts are compared one by one.
const SHORT_LIST: usize = 8;

/// A test on a text. Texts compare by their bytes.
#[derive(Clone, Debug, PartialEq)]
pub enum TextTest {
    Compare(Comparison, String),
    Among {
        list: HashSet<String>,
        inside: bool,
    },
    /// Tests if the text matches the pattern, or, unless `matches`, that it does not.
    Like {
        pattern: Pattern,
        matches: bool,
    },
}

impl TextTest {
    pub(crate) fn passes(&self, text: &str) -> bool {
        match self {
            TextTest::Compare(comparison, constant) => comparison.holds(text, constant.as_str()),
            TextTest::Among { list, inside } => list.contains(text) == *inside,
            TextTest::Like { pattern, matches } => pattern.matches(text) == *matches,
        }
    }

    pub(crate) fn is_possible(&self, least: &str, greatest: &str) -> bool {
        match self {
            TextTest::Compare(comparison, constant) => {
                comparison.is_possible(least, greatest, constant.as_str())
            }
            TextTest::Among { list, inside: true } => {
                list.iter().any(|text| least <= text.as_str() && text.as_str() <= greatest)
            }
            TextTest::Like { pattern, matches: true } => pattern.is_possible(least, greatest),
            TextTest::Among { .. } | TextTest::Like { .. } => true,
        }
    }

    /// The views of short texts that the text must equal (true) or must not equal (false).
    fn short_list(&self) -> Option<(Vec<u128>, bool)> {
        let view = |text: &String| {
            (text.len() <= INLINE_BYTES_MAX).then(|| make_view(text.as_bytes(), 0, 0))
        };
        match self {
            TextTest::Compare(Comparison::Equal, text) => Some((vec![view(text)?], true)),
            TextTest::Compare(Comparison::NotEqual, text) => Some((vec![view(text)?], false)),
            TextTest::Among { list, inside } if list.len() <= SHORT_LIST => {
                Some((list.iter().map(view).collect::<Option<_>>()?, *inside))
            }
            _ => None,
        }
    }

    /// Removes the rows from the mask whose text fails the test.
    pub(crate) fn narrow(&self, block: &Block<'_>, column: usize, mask: &mut Mask) {
        let places = block.start..block.start + block.length;
        match &block.source.columns[column].data {
            Data::Dictionary(dictionary) => {
                let passes = block.source.once(self, || {
                    dictionary
                        .values
                        .iter()
                        .flatten()
                        .map(|text| self.passes(text).into())
                        .collect()
                });
                for (kept, row) in mask.0.iter_mut().zip(places) {
                    *kept &= passes[dictionary.codes.get(row)];
                }
            }
            Data::Text(texts) => self.narrow_views(texts, places, mask),
            _ => unreachable!("the column holds texts"),
        }
        mask.keep_nulls(block.nulls(column).as_ref(), false);
    }

    fn narrow_views(&self, texts: &StringViewArray, places: Range<usize>, mask: &mut Mask) {
        if let Some((list, inside)) = self.short_list() {
            // A long text has another view than any of the short ones.
            let rows = mask.0.iter_mut().zip(&texts.views()[places]);
            return widest(|| {
                rows.for_each(|(kept, view)| {
                    let found = list.iter().fold(false, |found, one| found | (one == view));
                    *kept &= u8::from(found == inside);
                });
            });
        }
        for (kept, row) in mask.0.iter_mut().zip(places) {
            if *kept == 1 && texts.is_valid(row) {
                *kept = u8::from(self.passes(texts.value(row)));
            }
        }
    }
}
