//! Marks that make the names of output columns unique within a statement.
//!
//! PostgreSQL allows two columns of one name; DataFusion does not. The rewrite of names in
//! `thalweg-dialect` appends a mark and a number to a name. Code that shows names to people removes
//! them here.

/// Stands between a name and the number that makes it unique. No identifier holds it in practice.
pub const MARK: char = '\u{1f}';

/// The name of an output column without its mark.
#[must_use]
pub fn output_name(field: &str) -> &str {
    field.split_once(MARK).map_or(field, |(name, _)| name)
}

/// A text that may contain names, such as a plan, without the marks of the names.
#[must_use]
pub fn without_marks(text: &str) -> String {
    let mut parts = text.split(MARK);
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        plain.push_str(part.trim_start_matches(|digit: char| digit.is_ascii_digit()));
    }
    plain
}
