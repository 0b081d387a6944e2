//! Canonical texts of `jsonb` values, within the statement's memory.

use arrow::array::{ArrayRef, StringViewArray};
use thalweg_formats::text::jsonb_within;
use thalweg_types::Result;

use crate::bounded_output::{BoundedTexts, allow_together};

/// The canonical text of a JSON text.
///
/// # Errors
/// If the text is not JSON, or if the statement has too little memory.
pub fn jsonb(text: &str) -> Result<String> {
    jsonb_within(text, allow_together)
}

/// The canonical texts of JSON texts.
///
/// # Errors
/// As [`jsonb`].
pub fn jsonb_column(texts: &StringViewArray) -> Result<ArrayRef> {
    let mut made = BoundedTexts::default();
    for text in texts {
        match text {
            Some(text) => {
                let text = jsonb(text)?;
                made.allow(text.len())?;
                made.owned(text);
            }
            None => made.null(),
        }
    }
    Ok(made.finish())
}
